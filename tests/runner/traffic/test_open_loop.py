"""The method on queues whose answer is known, then on networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import PreparedTraffic
from pyxsim.runner.traffic.feed import Feed
from pyxsim.runner.traffic.observe import Observer
from pyxsim.runner.traffic.open_loop import Study
from pyxsim.runner.traffic.record import record
from pyxsim.runner.traffic.steady import Method, Rules, created, latency
from pyxsim.settings.traffic import MessageClass, Traffic
from pyxsim.traffic import PatternContext, Source
from tests.runner.queues import QueueNetwork

ALL = [MessageClass("all", 0, 0)]


def queue(rules: Rules | None = None, *, npus: int = 16, seed: int = 1, wire: int = 10, **settings: Any) -> Method:
    """Nodes that share one server, which takes a cycle for each flit."""
    rules = rules or Rules()
    traffic = Traffic(**settings)
    classes, messages = traffic.resolved, len(traffic.message_classes())
    load = traffic.offered or 0.0
    grid = rules.grid(load * npus / classes[0].mean_flits, wire + 1 if wire < 1000 else None)
    observer = Observer(grid, npus, messages, messages - len(classes))
    source = Source(classes, PatternContext(npus, (npus,), seed=seed))
    return Method(Feed(QueueNetwork(npus, wire), source, classes, observer, load), rules)


def waiting(load: float, npus: int) -> float:
    """Mean wait at one server for packets of one flit from `npus` nodes, each by trials.

    Karol, Hluchyj and Morgan, "Input versus output queueing on a space-division packet switch", IEEE Transactions on
    Communications 35(12), 1987, equation 6; with many nodes it is the M/D/1 queue's load / (2 (1 - load)).
    """
    return (npus - 1) / npus * load / (2 * (1 - load))


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.9])
def test_a_queue_waits_as_theory_says(load: float) -> None:
    method = queue(Rules(precision=0.01, max_cycles=4_000_000), load=load / 16)
    outcome = method.run()
    assert outcome.steady
    assert not outcome.saturated
    assert outcome.why == "precision"
    found = latency(method.observer, outcome.first, outcome.end)
    assert found.relative <= 0.01
    # Twice the interval: wrong in one of 10 000 cases.
    assert abs(found.mean - 11 - waiting(load, 16)) < 2 * found.half


def test_packets_of_the_measured_time_are_all_there() -> None:
    method = queue(load=0.5 / 16, packet_flits=3)
    outcome = method.run()
    seen, part = method.observer, slice(outcome.first, outcome.end)
    assert np.array_equal(seen.created.upto(outcome.end)[:, part], seen.arrived.upto(outcome.end)[:, part])
    told = record(seen, outcome, ALL, offered=0.5 / 16)
    assert told.packets.sum() == told.summary["measured_packets"] == seen.created.upto(outcome.end)[0, part].sum()
    mean = float((told.packets.sum(axis=0) * told.latency).sum() / told.packets.sum())
    assert told.summary["packet_latency"] == pytest.approx(mean, rel=1e-12)
    assert told.summary["packet_latency_max"] == told.latency[-1]
    assert told.summary["network_latency"] == pytest.approx(13)  # three flits, ten cycles on the wire
    assert told.summary["hops"] == 1
    assert told.accepted.sum() == pytest.approx(told.summary["accepted_load"] * 16)


@pytest.mark.parametrize("load", [1.1, 1.5, 5.0])
def test_a_queue_that_grows_is_saturated(load: float) -> None:
    method = queue(load=load / 16)
    outcome = method.run()
    assert outcome.saturated
    assert not outcome.steady
    assert outcome.why == "saturated"
    assert method.feed.cycle < 30_000, "it is clear soon"
    told = record(method.observer, outcome, ALL, offered=load / 16)
    # The server is busy in every cycle.
    assert told.summary["accepted_load"] == pytest.approx(1 / 16, rel=1e-3)
    assert told.summary["generated_load"] == pytest.approx(load / 16, rel=0.1)
    assert any("no steady value" in note for note in told.notes)


def test_a_limit_of_the_latency() -> None:
    # At load 0.9 a packet takes 11 + 4.2 cycles.
    assert queue(Rules(latency_limit=30), load=0.9 / 16).run().saturated is False
    outcome = queue(Rules(latency_limit=13), load=0.9 / 16).run()
    assert outcome.saturated
    assert "the mean packet latency is 1" in outcome.reason


def test_a_limit_of_the_time() -> None:
    method = queue(Rules(precision=0.0001, max_cycles=20_000), load=0.9 / 16)
    outcome = method.run()
    assert (outcome.why, outcome.steady, outcome.saturated) == ("limit", False, False)
    assert 19_000 <= method.feed.cycle <= 20_000


def test_fixed_times() -> None:
    method = queue(Rules(warmup=1000, measure=3001), load=0.8 / 16)
    outcome = method.run()
    grid = method.observer.grid
    assert (outcome.why, outcome.steady) == ("measured", True)
    assert (grid.start(outcome.first), grid.start(outcome.end)) == (1000, 4001)
    # The packets are those of the source, created in these cycles.
    source = Source(Traffic(load=0.8 / 16).resolved, PatternContext(16, (16,)))
    cycles = source.until(5000).cycle
    assert method.observer.created.upto(outcome.end).sum() == ((cycles >= 1000) & (cycles < 4001)).sum()


@pytest.mark.parametrize("fixed", [{"warmup": 500}, {"measure": 3000}])
def test_half_fixed_times(fixed: dict[str, int]) -> None:
    method = queue(Rules(**fixed), load=0.5 / 16)
    outcome = method.run()
    grid = method.observer.grid
    assert outcome.steady
    if "warmup" in fixed:
        assert grid.start(outcome.first) == 500
    else:
        assert grid.start(outcome.end) - grid.start(outcome.first) == 3000


def test_a_fixed_time_of_a_network_that_is_saturated() -> None:
    outcome = queue(Rules(warmup=1000, measure=3000), load=2 / 16).run()
    assert outcome.saturated
    assert not outcome.steady
    assert outcome.end < 60, "not all of it has arrived"


def test_a_transient_is_left_out() -> None:
    # A wire of 2000 cycles: the backlog grows for so long, though the latency is the same from the first packet on.
    method = queue(load=0.5 / 16, wire=2000)
    grid = method.observer.grid
    outcome = method.run()
    assert outcome.steady
    assert grid.length == 100
    assert outcome.first * grid.length >= 1500


def test_little_holds() -> None:
    # Little: packets under way, on average, are packets per cycle times cycles of each.
    method = queue(Rules(precision=0.003, max_cycles=400_000), load=0.7 / 16)
    outcome = method.run()
    under_way = method.observer.backlog(outcome.end)[0][outcome.first :].mean()
    rate = created(method.observer, outcome.first, outcome.end) * 16
    mean = latency(method.observer, outcome.first, outcome.end).mean
    assert under_way == pytest.approx(rate * mean, rel=0.02)


def test_requests_and_replies() -> None:
    replies = {"read_request": 1, "read_reply": 2, "write_request": 1, "write_reply": 2, "delay": 7}
    method = queue(Rules(max_cycles=100_000), load=0.3 / 16, replies=replies | {"virtual_network": 0})
    outcome = method.run()
    seen = method.observer
    requests, answers, trips = (latency(seen, outcome.first, outcome.end, row).mean for row in range(3))
    # A round trip is a request, the wait, and a reply.
    assert trips == pytest.approx(requests + 7 + answers, rel=0.01)
    assert seen.created.upto(outcome.end)[0].sum() > 0
    counts = seen.arrived.upto(outcome.end)[:, outcome.first :].sum(axis=1)
    assert counts[0] == counts[2]
    assert abs(counts[1] - counts[0]) < 0.05 * counts[0]


# -- networks --

TORUS: dict[str, Any] = {
    "topology": "torus",
    "shape": [4, 4],
    "bandwidth": "256 GB/s",
    "latency": "2 cycles",
    "flit": "256 B",
    "packet": "1280 B",
    "router": {"vcs": 4, "buffer": 8},
}


def simulate(network: dict[str, Any] | None = None, seed: int = 1, **traffic: Any) -> Result:
    source = {"network": {**TORUS, **(network or {})}, "traffic": traffic, "output": {"seed": seed}}
    return run(source)


def told(**options: Any) -> dict[str, Any]:
    result = simulate(**options)
    assert result.traffic is not None
    return result.traffic.summary


def test_a_torus() -> None:
    found = told(load=0.2, packet_flits=5)
    assert found["steady"]
    assert found["stopped"] == "precision"
    # H = 3 routers on average: 7 + (H - 1) * (4 + D) + 4 body flits (docs/router.md), and little waiting.
    assert found["zero_load_latency"] == pytest.approx(7 + 2 * 6 + 4)
    assert found["zero_load_latency"] < found["network_latency"] < found["packet_latency"] < 27
    assert found["hops"] == pytest.approx(3, rel=0.02)
    assert found["accepted_load"] == pytest.approx(found["generated_load"], rel=0.01)
    assert found["packet_latency_p50"] <= found["packet_latency_p99"] <= found["packet_latency_max"]


def test_zero_load_latency_is_what_a_lonely_packet_takes() -> None:
    found = told(load=0.0005, packet_flits=4, pattern="tornado", max_cycles=1_000_000, precision=0.05)
    assert found["packet_latency_p50"] == found["zero_load_latency"] == 7 + 2 * 6 + 3


def test_same_seed_same_result_to_the_bit() -> None:
    one, same, other = (simulate(seed=seed, load=0.3, packet_flits=[1, 5]) for seed in (1, 1, 2))
    assert one.traffic is not None
    assert same.traffic is not None
    assert other.traffic is not None
    assert one.traffic.summary == same.traffic.summary
    assert np.array_equal(one.traffic.packets, same.traffic.packets)
    assert np.array_equal(one.totals["flits"], same.totals["flits"])
    assert one.traffic.summary != other.traffic.summary


def test_the_traffic_does_not_depend_on_the_network() -> None:
    torus, mesh = (told(network={"topology": name}, load=0.1, warmup=500, measure=2000) for name in ("torus", "mesh"))
    assert torus["measured_packets"] == mesh["measured_packets"]
    assert torus["generated_load"] == mesh["generated_load"]
    assert torus["packet_latency"] < mesh["packet_latency"]


@pytest.mark.parametrize("npus", [8, 16])
def test_many_sources_and_one_queue(npus: int, tmp_path: Any) -> None:
    # Everybody but NPU 0 sends to NPU 0 over a switch: the packets wait for one link. Its buffers hold them, and its
    # VCs are granted one a cycle, so it is the queue of `waiting`.
    hot = np.zeros((npus, npus))
    hot[1:, 0] = 1
    np.save(tmp_path / "hot.npy", hot)
    network = {"topology": "switch", "shape": [npus], "latency": "1 cycle", "packet": "256 B"}
    load = 0.6
    found = told(
        network=network,
        load=load / npus,
        pattern="matrix",
        pattern_options={"file": str(tmp_path / "hot.npy")},
        precision=0.003,
        max_cycles=1_000_000,
    )
    wait = found["packet_latency"] - found["zero_load_latency"]
    assert abs(wait - waiting(load, npus - 1)) < 1.5 * found["packet_latency_interval"]


def test_classes_are_told_apart() -> None:
    result = simulate(
        network={"router": {"vcs": 4, "buffer": 8, "virtual_networks": [2, 2]}},
        classes=[
            {"name": "small", "load": 0.05, "packet_flits": 1, "priority": 1},
            {"name": "large", "load": 0.15, "packet_flits": 8, "pattern": "neighbor", "virtual_network": 1},
        ],
    )
    assert result.traffic is not None
    classes = result.traffic.classes
    assert classes["name"] == ["small", "large"]
    assert classes["generated_load"] == pytest.approx([0.05, 0.15], rel=0.1)
    assert classes["hops"][1] == pytest.approx(3)
    assert classes["packet_latency"][0] < classes["packet_latency"][1]
    assert sum(classes["measured_packets"]) == result.traffic.summary["measured_packets"]
    assert [each["name"] for each in result.traffic.summary["classes"]] == ["small", "large"]


def test_round_trips_on_a_network() -> None:
    found = told(
        network={"router": {"vcs": 4, "buffer": 8, "virtual_networks": [2, 2]}},
        load=0.1,
        replies={"delay": 20},
    )
    assert found["round_trip"] == pytest.approx(2 * found["packet_latency"] + 20, rel=0.02)


def test_the_links_carry_what_is_accepted() -> None:
    result = simulate(load=0.3, pattern="neighbor")
    assert result.traffic is not None
    # Neighbours on 4x4 are two links away, over 64 links.
    share = 0.3 * 2 * 16 / 64
    assert result.link_utilization.mean() == pytest.approx(share, rel=0.03)


def test_a_measured_time_as_short_as_a_flight_is_not_taken_for_saturation() -> None:
    net = {"topology": "dragonfly", "shape": None, "options": {"p": 1, "a": 2, "h": 1}, "latency": "300 ns"}
    found = told(network={**net, "router": {"vcs": 3}}, seed=3, load=0.05, warmup=200, measure=500)
    assert not found["saturated"]
    assert found["measured_packets"] > 100  # none where what is still on its way counts as backlog


def test_a_load_above_what_a_node_can_send() -> None:
    result = simulate(load=8, packet_flits=5, max_cycles=5000)
    assert (
        "traffic.load: 8 flits per node and cycle are more than a packet of 5 flits in every cycle" in result.warnings
    )
    assert result.traffic is not None
    assert result.traffic.summary["saturated"]


@pytest.mark.parametrize("times", [{"max_cycles": 20_000}, {"warmup": 0, "measure": 5000}, {"measure": 5000}])
def test_a_load_without_packets_in_a_given_time(times: dict[str, Any]) -> None:
    """Who says how long gets what there is: nothing."""
    result = simulate(load=1e-9, **times)
    assert result.traffic is not None
    assert result.traffic.summary["measured_packets"] == 0


def test_the_least_load_that_is_allowed_is_told() -> None:
    """Just above it the run begins, just below it does not."""
    from pyxsim.settings import load_experiment

    with pytest.raises(InputError, match="allowed: from ") as fault:
        simulate(load=1e-12, packet_flits=5)
    assert isinstance(fault.value.allowed, str)
    least = float(fault.value.allowed.removeprefix("from ").partition(",")[0])
    # 1200 packets of 5 flits in 10^11 trials.
    assert least == pytest.approx(1200 * 5 / 1e11)
    with pytest.raises(InputError, match="too low"):
        simulate(load=0.9 * least, packet_flits=5)
    prepare(load_experiment({"network": TORUS, "traffic": {"load": 1.1 * least, "packet_flits": 5}}))


FAULTS: list[tuple[dict[str, Any], str]] = [
    (
        {"load": 0.1, "pattern": "hotspot"},
        "traffic.pattern_options.nodes: is missing; the pattern 'hotspot' requires it",
    ),
    ({"load": 1e-9}, "traffic.load: 1e-09 is too low for an automatic measurement; allowed: from 1."),
    ({"load": 1e-300, "warmup": 100}, "traffic.load: 1e-300 is too low for"),
    ({"trace": "no.csv"}, "traffic.trace: no.csv: no such file"),
]


@pytest.mark.parametrize(("traffic", "text"), FAULTS)
def test_faults_come_before_the_run(traffic: dict[str, Any], text: str) -> None:
    from pyxsim.settings import load_experiment

    experiment = load_experiment({"network": TORUS, "traffic": traffic})
    with pytest.raises(InputError) as caught:
        prepare(experiment)
    assert str(caught.value).startswith(text)


def test_an_interruption_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyxsim.runner.lifecycle import simulate as simulate_prepared
    from pyxsim.settings import load_experiment

    calls = 0

    def tick() -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt

    experiment = load_experiment({"network": TORUS, "traffic": {"load": 0.3, "precision": 1e-4}})
    prepared = prepare(experiment)
    prepared.network.tick = tick
    result = simulate_prepared(prepared)
    assert not result.complete
    assert result.traffic is not None
    assert result.traffic.summary["stopped"] == "interrupted"
    assert result.traffic.summary["packet_latency"] > 0


def test_a_study_says_what_it_will_do() -> None:
    from pyxsim.settings import load_experiment

    experiment = load_experiment({"network": TORUS, "traffic": {"load": 0.2, "packet_flits": 5, "measure": 1000}})
    prepared = prepare(experiment)
    assert isinstance(prepared, PreparedTraffic)
    rules = Study(prepared).rules
    assert (rules.warmup, rules.measure) == (None, 1000)
    assert rules.latency_limit == pytest.approx(15 * 23)
