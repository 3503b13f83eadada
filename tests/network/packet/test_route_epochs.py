"""Tables of routes that follow the links that are up: the engine against the reference, and against graphs."""

from __future__ import annotations

import pickle
import re
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.core.engine import Engine
from pyxsim.errors import InputError, StuckError
from pyxsim.library import load_all
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.reference.backend import ReferenceNetwork
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from tests.core.test_oracle import same_launches
from tests.examples import part_of
from tests.reference.recording import RecordingEngine
from tests.reference.test_attribution import same as same_parts

EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
Messages = list[tuple[int, int, int, int]]  # source, destination, bytes, cycle

few = settings(max_examples=part_of(120), deadline=None, suppress_health_check=EVERYWHERE)
GIVES_UP = 8  # cycles: RC, VA, and the last credit
many = settings(few, max_examples=part_of(2000))

NETWORKS: list[dict[str, Any]] = [
    {"topology": "folded-clos", "options": {"children": [2, 2, 2], "parents": [2, 2]}},
    {"topology": "folded-clos", "options": {"children": [2, 3], "parents": [2], "parallel": [2]}},
    {
        "topology": "folded-clos",
        "options": {"children": [2, 2], "parents": [2]},
        "router": {"routing": "adaptive-nearest-common-ancestor"},
    },
    {"topology": "torus", "shape": [3, 3]},
    {"topology": "torus", "shape": [4, 2], "router": {"routing": "minimal-adaptive", "vcs": 6}},
    {"topology": "torus", "shape": [3, 3], "router": {"routing": "valiant", "vcs": 4}},
    {"topology": "mesh", "shape": [2, 3]},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}, "router": {"routing": "ugal", "vcs": 6}},
    {"topology": "random-regular", "options": {"p": 1, "routers": 6, "degree": 3}},
    {
        "topology": "random-regular",
        "options": {"p": 1, "routers": 6, "degree": 3},
        "router": {"routing": "minimal-adaptive"},
    },
]


def network(number: int, **more: Any) -> dict[str, Any]:
    base = {"latency": "20 ns", "bandwidth": "64 GB/s", "flit": "64 B", "packet": "256 B"}
    chosen = NETWORKS[number]
    router = {"buffer": 8, **chosen.get("router", {})}
    return {**base, **chosen, "router": router, "reroute": {"reaction": "60 ns"}, **more}


class Recorded(ReferenceNetwork):
    """The reference with a record of all launches."""

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        return cast(
            Engine, RecordingEngine(self.topology.routers, config.links, config.routes, config.options, every=10**9)
        )


def experiment(number: int, faults: list[dict[str, Any]], seed: int = 0, **more: Any) -> Any:
    message = [{"src": 0, "dst": 1, "size": "1 B"}]
    tables = {"network": network(number, **more), "message": message, "faults": faults, "output": {"seed": seed}}
    return load_experiment(tables, ())


def both(number: int, faults: list[dict[str, Any]], seed: int = 0, **more: Any) -> tuple[PacketNetwork, Recorded]:
    loaded = experiment(number, faults, seed, **more)
    topology = network_of(loaded.network)
    options: Any = {"skip": False, "faulty": loaded, "seed": seed}
    return (
        PacketNetwork(topology, loaded.network, trace=True, attribution=2, **options),
        Recorded(topology, loaded.network, **options),
    )


def run_out(machine: PacketNetwork, messages: Messages) -> tuple[list[tuple[int, int]], str]:
    """Send all messages (src, dst, bytes, cycle), and run until nothing moves.

    Return the deliveries, and why it ended.
    """
    npus = machine.topology.npus
    plane = machine.topology.queues[0][0].plane
    for number, (src, dst, nbytes, at) in enumerate(messages):
        if src % npus != dst % npus:
            machine.send(src % npus, dst % npus, nbytes, plane=plane, at=at, tag=number % 3)
    delivered: list[tuple[int, int]] = []
    try:
        while True:
            arrived, cycles = machine.advance(None)
            delivered += zip(arrived.tolist(), cycles.tolist(), strict=True)
            if not len(arrived):
                return sorted(delivered), "end"
    except StuckError as error:
        return sorted(delivered), str(error)


def compare(number: int, faults: list[dict[str, Any]], more: dict[str, Any], messages: Messages, seed: int) -> None:
    engine, oracle = both(number, faults, seed, **more)
    found, why = run_out(engine, messages)
    expected, other = run_out(oracle, messages)
    recorded = cast(RecordingEngine, oracle.engine)
    same_launches(engine.engine, recorded)
    assert found == expected
    # The engine gives up as soon as nothing is awake, the reference when nothing has changed for longer than RC and VA.
    (reason, ended), (expected_reason, expected_end) = map(reason_and_cycle, (why, other))
    assert reason == expected_reason
    assert abs(ended - expected_end) <= GIVES_UP
    assert engine.engine.totals() == oracle.engine.totals()
    assert engine.engine.lost_messages().tolist() == oracle.engine.lost_messages().tolist()
    same_parts(engine.engine, recorded)
    engine.engine.check()
    sent = sum(machine_flits(engine))
    totals = engine.engine.totals()
    # Injected = delivered + lost + in flight, and what never left its NPU.
    waiting = sent - totals["flits"] - totals["flits_lost"] - engine.engine.flits_in_flight
    assert waiting >= 0
    assert engine.faults is not None
    assert engine.faults.epochs is not None
    assert oracle.faults is not None
    assert oracle.faults.epochs is not None
    # An empty network ends at the last timer in the engine, at the last arrival in the reference: what links do in
    # between changes nothing.
    end = min(engine.engine.now, oracle.engine.now) if why == "end" else engine.engine.now
    assert epochs_until(engine, end) == epochs_until(oracle, end)


def reason_and_cycle(why: str) -> tuple[str, int]:
    """Split off the cycle in which a run ended; 0: it has none."""
    found = re.search(r"nothing moves after cycle (\d+)", why)
    return re.sub(r"after cycle \d+", "", why), int(found[1]) if found else 0


def epochs_until(machine: PacketNetwork, end: int) -> dict[str, list[Any]]:
    """Return the table of epochs without those used only from cycle `end` on."""
    assert machine.faults is not None
    assert machine.faults.epochs is not None
    columns = machine.faults.epochs.table(machine.engine).columns
    used = columns["used"] < end
    return {name: values[used].tolist() for name, values in columns.items()}


def machine_flits(machine: PacketNetwork) -> list[int]:
    return [(p - 1) * f + last for p, f, last in map(machine.cut, machine._bytes)]


def link_names(number: int) -> list[str]:
    return list(network_of(experiment(number, []).network).counted_link_name)


load_all()
NAMES = [link_names(number) for number in range(len(NETWORKS))]


SELECTIONS = [{}, {"select": "weighted"}, {"select": "weighted", "weights": "messages"}, {"select": "two"}]
if find_spec("scipy") is None:
    SELECTIONS.remove({"select": "weighted", "weights": "messages"})


@st.composite
def schedules(draw: st.DrawFn) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    number = draw(st.integers(0, len(NETWORKS) - 1))
    reaction = draw(st.sampled_from(["0 ns", "60 ns", "500 ns", "5 us"]))
    more: dict[str, Any] = {"reroute": {"reaction": reaction, **draw(st.sampled_from(SELECTIONS))}}
    more |= draw(st.sampled_from([{}, {"retry": {}}]))
    more |= draw(st.sampled_from([{}, {"credits": {"size": "8 B", "batch": 2, "timeout": "50 ns"}}]))
    modes = ["drain"] if "retry" in more else ["drain", "lose"]
    faults = []
    for _ in range(draw(st.integers(1, 5))):
        fault: dict[str, Any] = {"link": draw(st.sampled_from(NAMES[number])), "down": True}
        fault["at"] = f"{draw(st.integers(0, 700))} ns"
        fault["in_flight"] = draw(st.sampled_from(modes))
        fault["both_directions"] = draw(st.booleans())
        length = draw(st.sampled_from([None, 1, 20, 100, 400]))
        if length is not None:
            fault["for"] = f"{length} ns"
            if draw(st.booleans()):
                fault[draw(st.sampled_from(["up", "mttf"]))] = f"{draw(st.integers(1, 300))} ns"
                fault["until"] = "3 us"
        faults.append(fault)
    return number, faults, more


messages_of = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(1, 6000), st.integers(0, 600)),
    min_size=1,
    max_size=14,
)


@few
@given(schedules(), messages_of, st.integers(0, 99))
def test_random_schedules_agree(case: Any, messages: Messages, seed: int) -> None:
    compare(*case, messages, seed)


@pytest.mark.slow
@many
@given(schedules(), messages_of, st.integers(0, 99))
def test_many_schedules_agree(case: Any, messages: Messages, seed: int) -> None:
    compare(*case, messages, seed)


# --- the whole program ------------------------------------------------------------------------------------------------

TREE: dict[str, Any] = {
    "topology": "folded-clos",
    "options": {"children": [2, 2, 2], "parents": [2, 2]},
    "latency": "50 ns",
    "bandwidth": "100 GB/s",
    "reroute": {"reaction": "1 us"},
}
ACROSS = [{"src": npu, "dst": npu + 4, "size": "1 MiB"} for npu in range(4)]
CABLE = "level1:(0)->(4)"


def tree(*faults: dict[str, Any], message: Any = ACROSS, overrides: Any = (), **network: Any) -> Any:
    tables = {"network": {**TREE, **network}, "message": message, "faults": list(faults)}
    return pyxsim.run(tables, overrides=overrides)


def column(result: Any, name: str) -> list[Any]:
    values: list[Any] = result.backend_tables["route_epochs"].columns[name].tolist()
    return values


def test_packets_go_around_a_link_that_is_down_after_the_reaction() -> None:
    result = tree({"link": CABLE, "at": "2 us", "down": True})
    assert column(result, "changed") == [0, 2000]
    assert column(result, "used") == [0, 3000]
    assert column(result, "transition") == ["start", "at once"]
    assert column(result, "packets_lost") == [0, 0]
    link = list(result.links.name).index(CABLE)
    # What holds a VC of the link passes it at 3 us: at most a packet for each VC.
    windows = result.windows.counts["flits"][:, link]
    starts = np.arange(len(windows)) * result.windows.length
    assert windows[starts > 3_500].sum() == 0


def test_a_link_that_comes_up_is_used_again_after_the_reaction() -> None:
    result = tree({"link": CABLE, "at": "2 us", "for": "3 us", "down": True})
    assert column(result, "used") == [0, 3000, 6000]
    link = list(result.links.name).index(CABLE)
    windows = result.windows.counts["flits"][:, link]
    assert windows[7:].sum() > 0
    assert windows[4:6].sum() == 0


def test_a_fault_after_the_end_changes_nothing() -> None:
    plain = pyxsim.run({"network": {**TREE, "reroute": None}, "message": ACROSS})
    late = tree({"link": CABLE, "at": "1 ms", "down": True})
    assert late.time_cycles == plain.time_cycles
    for name, values in plain.totals.items():
        assert late.totals[name].tolist() == values.tolist(), name
    for name, values in plain.windows.counts.items():
        assert late.windows.counts[name].tolist() == values.tolist(), name


@pytest.mark.parametrize("mode", ["drain", "lose"])
def test_threads_change_nothing(mode: str) -> None:
    faults = [
        {"link": CABLE, "at": "2 us", "for": "3 us", "down": True, "in_flight": mode},
        {"link": "level2:*", "count": 2, "at": "1 us", "down": True, "in_flight": mode},
    ]
    found = []
    for threads in (1, 2):
        try:
            result = tree(*faults, overrides=[f"run.threads={threads}"])
        except StuckError as error:
            result = error.result
        assert result.counts["threads"] == threads
        found.append((result.time_cycles, {name: values.tolist() for name, values in result.totals.items()}))
        found[-1][1].update({name: column(result, name) for name in ("used", "packets_rerouted", "packets_lost")})
    assert found[0] == found[1]


def test_all_links_of_a_router_down_are_named() -> None:
    with pytest.raises(
        StuckError, match=r"no route for .* pairs of NPUs: NPUs 0, 1 are cut off from the others"
    ) as caught:
        tree({"router": "(0)", "at": "1 us", "down": True})
    lines = caught.value.waits
    assert "all links of router (0) are down" in lines
    assert any("message 0, NPU 0 to 4" in line for line in lines)
    result = caught.value.result
    assert not result.complete
    # The other half of the messages arrives: 2 of 4.
    assert result.counts["messages"] == 2
    # NPUs 0 and 1 have lost each other and the 6 others, in both directions.
    assert column(result, "unreachable_pairs") == [0, 2 + 2 * 2 * 6]


def test_messages_to_an_npu_without_a_way_do_not_keep_others_back() -> None:
    # NPU 1 sends to NPU 4, which is cut off, and then to NPU 6.
    message = [{"src": 1, "dst": 4, "size": "64 KiB"}, {"src": 1, "dst": 6, "size": "64 KiB"}]
    with pytest.raises(StuckError, match=r"no route for 14 pairs of NPUs: NPU 4 is cut off from the others") as caught:
        tree({"npu": "4", "at": "0 ns", "down": True}, message=message)
    assert caught.value.result.counts["messages"] == 1
    assert "message 0, NPU 1 to 4, lost 16 packets" in caught.value.waits


@pytest.mark.parametrize("mode", ["drain", "lose"])
def test_an_npu_that_is_cut_off_within_a_packet_holds_nobody_up(mode: str) -> None:
    # The packets of all three share the only VC of the link to NPU 4.
    message = [{"src": npu, "dst": 4, "size": "64 KiB"} for npu in range(3)]
    fault = {"link": "host:NPU 0->(0)", "at": "150 ns", "down": True, "both_directions": False, "in_flight": mode}
    with pytest.raises(StuckError, match=r"no route for 7 pairs of NPUs: NPU 0 is cut off from the others") as caught:
        tree(fault, message=message, router={"vcs": 1})
    assert "link host:NPU 0->(0) is down: message 0, NPU 0 to 4" in caught.value.waits
    counts = caught.value.result.counts
    assert counts["messages"] == 2
    assert counts["flits_in_flight"] == 0


@pytest.mark.parametrize("select", ["least", "weighted"])
@pytest.mark.parametrize("fault", [{"router": "(2)"}, {"link": "level1:*->(2)"}])
def test_packets_leave_a_spine_that_is_shut_down(fault: dict[str, Any], select: str) -> None:
    spines = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}, "latency": "100 ns"}
    network = {**spines, "bandwidth": "50 GB/s", "reroute": {"reaction": "500 ns", "select": select}}
    tables = {
        "network": network,
        "message": [{"src": npu, "dst": npu + 4, "size": "64 KiB"} for npu in range(3)],
        "faults": [{**fault, "at": "1 us", "down": True}],
    }
    results = [pyxsim.run(tables, backend=backend) for backend in ("packet", "reference")]
    assert [result.counts["messages"] for result in results] == [3, 3]
    assert results[0].time_cycles == results[1].time_cycles
    assert results[0].counts["flits_in_flight"] == 0


def test_attribution_names_the_drops_of_routers() -> None:
    fault = {"link": "host:NPU 0->(0)", "at": "150 ns", "down": True, "in_flight": "lose"}
    message = [{"src": npu, "dst": 4, "size": "64 KiB"} for npu in range(3)]
    with pytest.raises(StuckError) as caught:
        pyxsim.run({"network": TREE, "message": message, "faults": [fault], "output": {"attribution": "links"}})
    attribution = caught.value.result.attribution
    assert attribution.link_names[-1].startswith("drops of (")
    assert attribution.of_messages["hops"] > 0


def test_a_network_that_drains_waits_for_a_change_that_routers_do_not_know() -> None:
    # The first fault drains the network from 5.5 us on; what then waits for the second one waits until 10.4 us.
    faults: list[dict[str, Any]] = [
        {"link": "d0+:(0,0)->(1,0)", "at": "500 ns", "down": True},
        {"link": "d0+:(1,0)->(2,0)", "at": "5400 ns", "down": True, "both_directions": False},
    ]
    engine, oracle = both(4, faults, reroute={"reaction": "5 us"})
    looks = count_looks(engine)
    sends = [(1, 2, 20_000, 0), (1, 2, 20_000, 5_350), (5, 2, 9_000, 5_390)]
    found, why = run_out(engine, sends)
    assert (found, why) == run_out(oracle, sends)
    assert why == "end"
    assert len(found) == len(sends)
    assert engine.faults is not None
    assert engine.faults.epochs is not None
    table = engine.faults.epochs.table(engine.engine).columns
    assert table["transition"].tolist()[:2] == ["start", "overtaken"]
    assert table["used"][-1] >= 10_400
    assert len(looks) < 200  # in about 5000 cycles


def count_looks(machine: PacketNetwork) -> list[int]:
    """Record the cycles in which routes, or what is to be done before, may change."""
    assert machine.faults is not None
    epochs, looks = machine.faults.epochs, []
    assert epochs is not None
    apply = epochs.apply

    def counted(engine: Engine) -> None:
        looks.append(engine.now)
        apply(engine)

    epochs.apply = counted  # type: ignore[method-assign]
    return looks


def test_what_is_injected_arrives_or_is_lost() -> None:
    faults = [{"link": "level1:*", "count": 2, "seed": 5, "at": "1 us", "down": True, "in_flight": "lose"}]
    with pytest.raises(StuckError) as caught:
        tree(*faults)
    counts = caught.value.result.counts
    sent = sum(column(caught.value.result, "packets_lost"))
    assert counts["packets_lost"] == sent > 0
    assert counts["flits_in_flight"] == 0
    result = caught.value.result
    from_npus = [number for number, name in enumerate(result.links.name) if name.startswith("host:NPU")]
    injected = int(result.totals["flits"][from_npus].sum())
    assert injected == counts["flits"] + counts["flits_lost"] + counts["flits_in_flight"]


def test_a_checkpoint_in_an_epoch_continues_alike() -> None:
    loaded = experiment(3, [{"link": "d0+:(0,0)->(1,0)", "at": "100 ns", "for": "300 ns", "down": True}])
    topology = network_of(loaded.network)
    sends = [(src, (src + 4) % 9, 4000, 0) for src in range(9)]
    whole = PacketNetwork(topology, loaded.network, skip=False, faulty=loaded)
    expected, _ = run_out(whole, sends)
    parted = PacketNetwork(topology, loaded.network, skip=False, faulty=loaded)
    for src, dst, nbytes, at in sends:
        parted.send(src, dst, nbytes, plane=topology.queues[0][0].plane, at=at)
    delivered: list[tuple[int, int]] = []
    for until in range(150, 280, 17):  # before, while and after the network drains
        arrived, cycles = parted.advance(until)
        delivered += zip(arrived.tolist(), cycles.tolist(), strict=True)
        again = pickle.loads(pickle.dumps(parted))
        assert sorted([*delivered, *run_out(again, [])[0]]) == expected
        assert again.engine.now == whole.engine.now
    assert whole.faults is not None
    assert whole.faults.epochs is not None
    assert "after draining" in whole.faults.epochs.table(whole.engine).columns["transition"].tolist()


def test_other_routes_exclude_mpi() -> None:
    tables = {"network": TREE, "message": ACROSS, "faults": [{"link": CABLE, "down": True}], "run": {"mpi": True}}
    with pytest.raises(InputError, match=r"cannot be combined with run\.mpi"):
        prepare(load_experiment(tables, ()))


@pytest.mark.parametrize("backend", ["analytical", "flow", "ethernet"])
def test_other_backends_refuse(backend: str) -> None:
    with pytest.raises(InputError, match=f"backend '{backend}' does not recompute routes"):
        pyxsim.run({"network": TREE, "message": ACROSS}, backend=backend)


def test_a_check_lists_the_epochs() -> None:
    faults = [{"link": CABLE, "at": "2 us", "for": "3 us", "up": "5 us", "down": True}]
    report = pyxsim.check({"network": TREE, "message": ACROSS, "faults": faults})
    rows = report["rerouting"]
    assert [row["cycle"] for row in rows[:4]] == [0, 3000, 6000, 11000]
    assert {row["transition"] for row in rows[1:]} == {"at once"}
    assert len(rows) == 16


def test_a_slowed_link_is_busy_longer_beside_sinks_of_packets_without_a_route() -> None:
    """NPU 3 is cut off, so that routers have sinks; the other host link of the message runs at half its speed."""
    tree = {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}, "reroute": {}}
    network = {**tree, "bandwidth": "64 GB/s", "latency": "20 ns", "flit": "64 B"}
    slow = {"link": "host:NPU 0->(0)", "both_directions": False, "bandwidth": "32 GB/s"}
    message = {"src": 0, "dst": 2, "size": "16 KiB"}
    result = pyxsim.run({"network": network, "message": [message], "faults": [slow, {"npu": 3, "down": True}]})
    busy = dict(zip(result.links.name, result.busy_total.tolist(), strict=True))
    assert (busy["host:NPU 0->(0)"], busy["host:(1)->NPU 2"]) == (512, 256)
