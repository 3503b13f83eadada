"""[[faults]] and [network.retry] through the whole program, against derived times and closed forms."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import count
from math import ceil, expm1, log1p, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError, StuckError
from pyxsim.results.attribution import PARTS
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from tests.examples import part_of
from tests.runner.test_fast_forward import changed, compare, datasets

LINE: dict[str, Any] = {
    "network": {
        "topology": "mesh",
        "shape": [2],
        "bandwidth": "128 GB/s",  # a flit in two cycles
        "lane_bandwidth": "256 GB/s",  # so the link always has a flit to send
        "latency": "100 ns",
        "flit": "256 B",
        "packet": "4 KiB",
    },
    "message": [{"src": 0, "dst": 1, "size": "1 MiB"}],  # 4096 flits
}
ATTRIBUTED = {**LINE, "output": {"attribution": "links"}}
FLITS = 4096
LINK = "d0+:(0)->(1)"


def run(*faults: dict[str, Any], experiment: dict[str, Any] = LINE, **network: Any) -> Any:
    tables = {**experiment, "network": {**experiment["network"], **network}, "faults": list(faults)}
    return pyxsim.run(tables)


@pytest.fixture(scope="module")
def sound() -> int:
    return int(run().time_cycles)


def test_a_link_that_is_down_for_a_time_delays_its_flits_by_that_time(sound: int) -> None:
    assert run({"link": LINK, "at": "1 us", "for": "500 ns", "down": True}).time_cycles == sound + 500


def test_half_the_bandwidth_for_a_time_costs_half_of_it(sound: int) -> None:
    # In 1000 cycles the link starts 250 flits instead of 500.
    half = run({"link": LINK, "at": "1 us", "for": "1 us", "bandwidth": "64 GB/s"})
    assert half.time_cycles == sound + 500


@pytest.mark.parametrize("times", [{}, {"at": "1 us", "for": "1 us"}, {"every": "3 us", "for": "500 ns"}], ids=str)
def test_a_slow_link_is_busy_for_as_long_as_its_flits_take(tmp_path: Path, times: dict[str, Any]) -> None:
    """A link that always has a flit to send is busy in every cycle, in every window, also in a skipped one."""
    result = run({"link": LINK, "bandwidth": "32 GB/s", **times})
    assert result.busy_total.tolist() == result.busy.sum(axis=0).tolist()
    assert result.time_cycles - 110 <= result.busy_total[0] <= result.time_cycles  # all but the latency of one flit
    assert (result.utilization[1:-2, 0] == 1).all()
    assert result.busy_total[1] == 0
    result.save(tmp_path / "r.h5")
    loaded = pyxsim.load(tmp_path / "r.h5")
    assert loaded.busy.tolist() == result.busy.tolist()
    again = pyxsim.run({**LINE, "faults": [{"link": LINK, "bandwidth": "32 GB/s", **times}], "run": {"skip": False}})
    assert again.busy.tolist() == result.busy.tolist()


def test_a_longer_latency_counts_once(sound: int) -> None:
    # The link holds more flits then; with buffers for the round trip of 100 ns, credits are short.
    assert run({"link": LINK, "latency": "140 ns"}, router={"buffer": 4096}).time_cycles == sound + 40


def test_a_shorter_latency_again_pauses_the_link() -> None:
    # Nothing overtakes: the flits launched after the fault arrive right behind those before.
    slow = run({"link": LINK, "at": "0 ns", "for": "1 us", "latency": "140 ns"}, router={"buffer": 4096})
    assert slow.time_cycles == run(router={"buffer": 4096}).time_cycles + 40


def test_flapping_counts_every_period(sound: int) -> None:
    # Down for 100 of every 400 cycles from 1000 on.
    flapping = run({"link": LINK, "at": "1 us", "for": "100 ns", "up": "300 ns", "down": True})
    extra = flapping.time_cycles - sound
    assert extra % 100 == 0
    begin = 1000
    periods = extra // 100
    last = sound - 110 + extra  # the last flit starts some 110 cycles before the end
    assert abs(periods - ceil((last - begin) / 400)) <= 1


def test_until_ends_the_flapping(sound: int) -> None:
    fault = {"link": LINK, "at": "1 us", "for": "100 ns", "every": "400 ns", "until": "1.9 us", "down": True}
    assert run(fault).time_cycles == sound + 300


def test_a_link_that_stays_down_is_named_with_what_waits() -> None:
    with pytest.raises(StuckError, match=r"link d0\+:\(0\)->\(1\) is down: message 0, NPU 0 to 1") as caught:
        run({"link": LINK, "at": "1 us", "down": True})
    result = caught.value.result
    assert not result.complete
    assert 0 < result.totals["flits"][0] < FLITS


def test_a_flapping_link_elsewhere_does_not_keep_a_run_alive() -> None:
    ring = {"network": {**LINE["network"], "shape": [3]}, "message": LINE["message"]}
    faults = [
        {"link": LINK, "at": "1 us", "down": True},
        {"link": "d0+:(1)->(2)", "for": "1 us", "up": "1 us", "down": True},
    ]
    with pytest.raises(StuckError, match="is down"):
        run(*faults, experiment=ring)


def test_a_link_that_loses_every_flit_as_it_flaps_ends_the_run() -> None:
    # Up for 20 of 70 cycles, and a flit takes more than 100: no flit ever arrives.
    flapping = {"link": LINK, "at": "1 us", "for": "50 ns", "up": "20 ns", "down": True, "in_flight": "lose"}
    with pytest.raises(StuckError, match="faults keep work from ending"):
        run(flapping, retry={})


def test_open_traffic_names_what_waits_for_a_link_that_stays_down(tree: Path) -> None:
    down = 'faults=[{link="*", count=1, at="2 us", down=true}]'
    with pytest.raises(StuckError, match="is down: message"):
        pyxsim.run(tree / "inputs" / "torus_uniform.toml", overrides=["network.shape=[4, 4]", down])


def test_lost_flits_are_counted_and_their_message_named() -> None:
    with pytest.raises(StuckError, match="message 0, NPU 0 to 1, lost") as caught:
        run({"link": LINK, "at": "1 us", "for": "500 ns", "down": True, "in_flight": "lose"})
    result = caught.value.result
    lost = result.counts["flits_lost"]
    # 100 cycles of latency and three of serialisation and pipeline hold 51 or 52 flits, of 4 or 5 packets of 16.
    assert lost in (4 * 16, 5 * 16)
    assert result.counts["packets_lost"] * 16 == lost
    assert result.counts["flits"] + lost + result.counts["flits_in_flight"] == FLITS
    assert int(result.backend_tables["link_faults"].columns["flits_lost"].sum()) in (51, 52)


def test_retry_sends_lost_flits_again(sound: int) -> None:
    fault = {"link": LINK, "at": "1 us", "for": "500 ns", "down": True, "in_flight": "lose"}
    result = run(fault, retry={})
    lost = int(result.backend_tables["link_faults"].columns["flits_lost"].sum())
    assert lost in (51, 52)
    # They are sent again from the cycle after the link comes up, two cycles each.
    assert result.time_cycles - (sound + 500 + 2 * lost) in (0, 1, 2)
    assert result.counts["flits"] == FLITS


def test_a_fault_after_the_end_changes_no_dataset(tmp_path: Path) -> None:
    late = {"link": "*", "at": "1 ms", "down": True, "in_flight": "lose"}
    plain, other = run(), run(late)
    ours = {name: v for name, v in datasets(other, tmp_path / "b.h5").items() if not name.startswith("link_fault")}
    wanted = datasets(plain, tmp_path / "a.h5")
    assert list(ours) == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(ours[name], values, err_msg=name)


def test_retry_without_errors_is_no_retry_to_the_bit(tmp_path: Path) -> None:
    torus = {
        "network": {"topology": "torus", "shape": [3, 3], "bandwidth": "100 GB/s", "latency": "40 ns"},
        "collective": {"kind": "all-to-all", "size": "64 KiB"},
    }
    wanted = datasets(run(experiment=torus), tmp_path / "a.h5")
    found = datasets(run(experiment=torus, retry={}), tmp_path / "b.h5")
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("preset", ["uec", "ualink", "pcie"])
def test_the_overhead_of_a_preset_is_its_efficiency(preset: str) -> None:
    share = {"uec": Fraction(1), "ualink": Fraction(628, 640), "pcie": Fraction(236, 256)}[preset]
    result = run(retry={"preset": preset})
    wire = result.links
    assert Fraction(int(wire.s_num[0]), int(wire.s_den[0])) == 2 / share


def rate_of(errors: float, *, buffer: int | str = "auto", size: str = "16 MiB", seed: int = 1) -> tuple[float, Any]:
    """Cycles per flit of a link with a bit error rate, and the result."""
    tables = {**LINE, "message": [{"src": 0, "dst": 1, "size": size}], "output": {"seed": seed}}
    result = run(
        {"link": LINK, "both_directions": False, "bit_error_rate": errors}, experiment=tables, retry={"buffer": buffer}
    )
    return result.time_cycles / result.counts["flits"], result


@pytest.mark.parametrize("errors", [1e-8, 1e-7, 1e-6, 1e-5, 1e-4])
def test_goodput_is_that_of_the_closed_form(errors: float) -> None:
    flits, bits = 2**16, 8 * 256
    p = -expm1(bits * log1p(-errors))
    # s = 2; delay: latency 100, and ST of a router: 1 cycle; credits: 1 + 100. See docs/router.md.
    trip = 2 + 101 + 101
    _, result = rate_of(errors)
    table = result.backend_tables["link_faults"].columns
    expected = flits * (2 + trip * p / (1 - p))
    deviation = trip * sqrt(flits * p) / (1 - p)  # of a sum of geometric numbers of errors
    edges = 2 * trip + 20
    assert abs(result.time_cycles - expected) <= 4 * deviation + edges
    found = int(table["errors"].sum())
    assert abs(found - flits * p / (1 - p)) <= 4 * sqrt(flits * p) / (1 - p) + 1
    assert int(table["resent"].sum()) <= found * trip


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ({"flit_error_rate": 0.02}, 0.02),
        ({"bit_error_rate": 1e-4, "lanes": 0.25}, -expm1(2048 / 4 * log1p(-1e-4))),
    ],
)
def test_errors_of_flits_and_of_lanes(fault: dict[str, Any], wrong: float) -> None:
    result = run({"link": LINK, "both_directions": False, **fault}, retry={})
    errors = int(result.backend_tables["link_faults"].columns["errors"].sum())
    flits = result.counts["flits"]
    assert abs(errors - flits * wrong / (1 - wrong)) <= 4 * sqrt(flits * wrong) / (1 - wrong) + 1


def test_an_error_costs_whole_flits() -> None:
    """The sender goes back when the flit that it is transmitting has ended: here after two flits, not 278 cycles."""
    slow = {
        "bandwidth": "16 GB/s",
        "flit": "4 KiB",
        "packet": "1 MiB",
        "latency": "10 ns",
        "clock": "1 GHz",
    }
    tables = {**LINE, "message": [{"src": 0, "dst": 1, "size": "4 MiB"}]}
    plain = run(experiment=tables, retry={}, **slow)
    wrong = {"link": LINK, "both_directions": False, "flit_error_rate": 0.2}
    result = run(wrong, experiment=tables, retry={}, **slow)
    errors = int(result.backend_tables["link_faults"].columns["errors"].sum())
    assert errors > 100
    assert result.time_cycles - plain.time_cycles == pytest.approx(512 * errors, abs=256)


def test_random_outages_cost_their_time_each(sound: int) -> None:
    mean, length, seeds = sound / 20, 300, range(10)
    fault = {"link": LINK, "down": True, "for": f"{length} ns", "mttf": f"{mean} ns"}
    late = [run({**fault, "seed": seed}).time_cycles - sound for seed in seeds]
    assert len(set(late)) > 1
    outages = len(seeds) * sound / mean  # expected: a Poisson process while the link is up
    assert abs(sum(late) - outages * length) < 3.3 * outages**0.5 * length
    assert run({**fault, "seed": 3}).time_cycles - sound == late[3]


def test_a_small_replay_buffer_limits_the_rate_to_its_flits_per_round_trip() -> None:
    cycles, result = rate_of(1e-12, buffer=50, size="1 MiB")
    assert cycles == pytest.approx((2 + 101 + 101) / 50, rel=0.03)
    assert int(result.backend_tables["link_faults"].columns["stall_replay"].sum()) > 0
    assert int(result.backend_tables["link_faults"].columns["replay_max"].max()) == 50


def test_the_reference_waits_for_acknowledgements_as_the_engine_does() -> None:
    # With one slot the link is silent until each acknowledgement arrives, which is no deadlock.
    tables = {**LINE, "message": [{"src": 0, "dst": 1, "size": "2 KiB"}], "faults": []}
    tables["network"] = {**LINE["network"], "retry": {"buffer": 1}}
    cycles = [pyxsim.run(tables, backend=backend).time_cycles for backend in ("packet", "reference")]
    assert cycles[0] == cycles[1] > 8 * (2 + 101 + 101) - 204


def test_a_lost_nack_costs_the_timeout() -> None:
    errors = {"link": LINK, "both_directions": False, "bit_error_rate": 1e-5}
    tables = {**LINE, "message": [{"src": 0, "dst": 1, "size": "4 MiB"}]}
    sure = run(errors, experiment=tables, retry={})
    unsure = run(errors, experiment=tables, retry={"nack_bits": 100_000, "timeout": "2 us"})
    timeouts = int(unsure.backend_tables["link_faults"].columns["timeouts"].sum())
    assert timeouts > 0
    assert unsure.time_cycles > sure.time_cycles + 1000 * timeouts


# --- adaptive routing -------------------------------------------------------------------------------------------------

TREE: dict[str, Any] = {
    "network": {
        "topology": "folded-clos",
        "options": {"children": [2, 2], "parents": [2]},
        "latency": "50 ns",
        "router": {"routing": "adaptive-nearest-common-ancestor"},
    },
    "message": [{"src": 0, "dst": 2, "size": "64 KiB"}, {"src": 1, "dst": 3, "size": "64 KiB"}],
}


def up_link(result: Any) -> str:
    """A link from the first leaf to a switch above it."""
    names = list(result.links.name)
    return str(names[int(np.flatnonzero((result.links.src == 0) & (result.links.dst > 1))[0])])


def test_adaptive_routes_avoid_a_link_that_is_down() -> None:
    sound = run(experiment=TREE)
    link = up_link(sound)
    number = list(sound.links.name).index(link)
    assert sound.totals["flits"][number] > 0
    faulty = run({"link": link, "both_directions": False, "down": True}, experiment=TREE)
    assert faulty.complete
    assert faulty.totals["flits"][number] == 0
    assert faulty.counts["flits"] == sound.counts["flits"]
    assert faulty.time_cycles > sound.time_cycles


def test_random_routes_wait_for_a_link_that_is_down() -> None:
    network = {**TREE["network"], "router": {"routing": "nearest-common-ancestor"}}
    link = up_link(run(experiment=TREE))
    with pytest.raises(StuckError, match="is down"):
        run({"link": link, "both_directions": False, "down": True}, experiment={**TREE, "network": network})


# --- any faults: all ways of running agree ---------------------------------------------------------------------------

NETWORKS = (
    {"topology": "torus", "shape": [4]},
    {"topology": "torus", "shape": [2, 3]},
    {"topology": "folded-clos", "options": {"children": [2, 2], "parents": [2]}},
    {"dims": [{"block": "ring", "npus": 3}, {"block": "switch", "npus": 2}]},
)
ns = st.integers(0, 3000).map("{} ns".format)
positive = st.integers(1, 900).map("{} ns".format)


@st.composite
def some_fault(draw: st.DrawFn, *, loses: bool) -> dict[str, Any]:
    fault: dict[str, Any] = {"link": "*", "count": draw(st.integers(1, 3)), "seed": draw(st.integers(0, 99))}
    fault |= {"at": draw(ns), "for": draw(positive), "both_directions": draw(st.booleans())}
    key = draw(st.sampled_from(["", "up", "mttf"]))
    if key:
        fault[key] = draw(positive)
    effect = draw(st.sampled_from(["down", "bandwidth", "latency", *(["lose", "errors", "lane"] if loses else [])]))
    effects: dict[str, dict[str, Any]] = {
        "down": {"down": True},
        "bandwidth": {"bandwidth": draw(st.sampled_from(["32 GB/s", "10 GB/s"]))},
        "latency": {"latency": "90 ns"},
        "lose": {"down": True, "in_flight": "lose"},
        "errors": draw(st.sampled_from([{"bit_error_rate": 1e-5}, {"flit_error_rate": 0.05}])),
        "lane": {"bit_error_rate": 1e-4, "lanes": 0.25},
    }
    return fault | effects[effect]


@st.composite
def faulty_experiments(draw: st.DrawFn) -> dict[str, Any]:
    retry = draw(st.booleans())
    network: dict[str, Any] = dict(draw(st.sampled_from(NETWORKS)))
    network |= {"bandwidth": draw(st.sampled_from(["64 GB/s", "50 GB/s"])), "latency": "30 ns", "flit": "64 B"}
    network |= {"packet": "256 B"}
    if retry:
        network["retry"] = {"buffer": draw(st.sampled_from(["auto", 5])), "nack_bits": draw(st.sampled_from([0, 9000]))}
    return {
        "network": network,
        "collective": {"kind": draw(st.sampled_from(["all-reduce", "all-to-all"])), "size": "4 KiB"},
        "system": {"chunks": draw(st.integers(1, 2))},
        "faults": draw(st.lists(some_fault(loses=retry), min_size=1, max_size=3)),
        "output": {"window": "200 ns"},
    }


def outcome(experiment: dict[str, Any], folder: Path, *, backend: str = "packet", **how: Any) -> dict[str, Any]:
    try:
        result = pyxsim.run({**experiment, "run": how}, backend=backend)
    except StuckError as error:
        result = error.result  # type: ignore[attr-defined]
    return datasets(result, folder / "result.h5")


few = settings(max_examples=part_of(60, 6), deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(experiment=faulty_experiments())
def test_threads_skipping_and_the_reference_agree(tmp_path_factory: Any, experiment: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("faults")
    wanted = outcome(experiment, folder)
    ways = [("packet", {"skip": False}), ("packet", {"threads": 2}), ("reference", {})]
    for backend, how in ways:
        found = outcome(experiment, folder, backend=backend, **how)
        assert list(found) == list(wanted), (backend, how)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{backend} {how} {name}")


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"down": True}, {}, "faults[0]: the fault selects nothing"),
    ({"link": LINK, "npu": 1, "down": True}, {}, "faults[0]: link and npu exclude each other"),
    ({"link": LINK}, {}, "faults[0]: the fault has no effect"),
    ({"link": "nope", "down": True}, {}, "faults[0].link: no link has the name 'nope'"),
    ({"router": "9", "down": True}, {}, "faults[0].router: no router has the name '9'"),
    ({"npu": 9, "down": True}, {}, "faults[0].npu: no NPU has the name '9'"),
    ({"group": "a", "down": True}, {}, "faults[0].group: there are no groups"),
    ({"link": "*", "count": 9, "down": True}, {}, "faults[0].count: only 1 match the name"),
    ({"link": LINK, "slow": 2}, {}, "faults[0].slow: links and routers do not compute"),
    ({"npu": 1, "slow": 2}, {}, "faults[0].slow: has no effect without computation"),
    ({"link": LINK, "bandwidth": "1 TB/s"}, {}, "faults[0].bandwidth: the fault degrades no link"),
    ({"link": LINK, "latency": "1 ns"}, {}, "faults[0].latency: the fault degrades no link"),
    ({"link": LINK, "bit_error_rate": 1}, {}, "faults[0].bit_error_rate: no flit would arrive"),
    ({"link": LINK, "flit_error_rate": 1}, {}, "faults[0].flit_error_rate: no flit would arrive"),
    (
        {"link": LINK, "bit_error_rate": 1e-9, "flit_error_rate": 1e-9},
        {},
        "faults[0].flit_error_rate: cannot be combined with `bit_error_rate`",
    ),
    ({"link": LINK, "down": True, "lanes": 0.5}, {}, "faults[0].lanes: has no effect"),
    ({"link": LINK, "bit_error_rate": 1e-9, "lanes": 0}, {}, "faults[0].lanes: no lane has errors"),
    (
        {"link": LINK, "flit_error_rate": 0.9999},
        {"network": {**LINE["network"], "retry": {}}},
        "faults[0].flit_error_rate: fewer than 1 in 1000 flits of 2048 bits would arrive intact",
    ),
    (
        {"link": LINK, "bit_error_rate": 1e-9},
        {"network": {**LINE["network"], "retry": {"timeout": "1 ns"}}},
        "network.retry.timeout: 1 cycle is shorter than the round trip of a link, 204 cycles",
    ),
    (
        {"npu": "*", "down": True},
        {"network": {**LINE["network"], "shape": [1]}, "message": [], "collective": {"kind": "barrier"}},
        "faults[0].npu: it has no link",
    ),
    ({"link": LINK, "down": True, "mttf": "1 us"}, {}, "faults[0].for: a repeating fault needs a duration"),
    (
        {"link": LINK, "bit_error_rate": 0.01},
        {"network": {**LINE["network"], "retry": {}}},
        "faults[0].bit_error_rate: fewer than 1 in 1000 flits of 2048 bits would arrive intact",
    ),
    ({"link": LINK, "down": True, "every": "1 us"}, {}, "faults[0].for: a repeating fault needs a duration"),
    ({"link": LINK, "down": True, "for": "2 us", "every": "1 us"}, {}, "faults[0].every: the fault repeats before"),
    ({"link": LINK, "down": True, "until": "1 us"}, {}, "faults[0].until: has no effect"),
    ({"link": LINK, "in_flight": "lose", "latency": "1 us"}, {}, "faults[0].in_flight: has no effect"),
    (
        {"link": LINK, "down": True},
        {"network": {**LINE["network"], "retry": {"efficiency": 0}}},
        "efficiency: leaves no bandwidth",
    ),
    (
        {"link": LINK, "down": True},
        {"network": {**LINE["network"], "retry": {}, "router": {"output_queue": True}}},
        "network.router.output_queue: retry replaces output queues",
    ),
    (
        {"link": LINK, "bit_error_rate": 1e-9},
        {"network": {**LINE["network"], "clock": "1 GHz", "retry": {"timeout": "1 s"}}},
        "network.retry.timeout: answers and timeouts of a link take 1000000000 cycles; allowed: at most 1677",
    ),
    (
        {"link": LINK, "latency": "10 ms"},
        {"network": {**LINE["network"], "clock": "1 GHz"}},
        "faults[0].latency: a flit and its credit would take 20000010 cycles on a link; allowed: at most 1677",
    ),
    (
        {"link": LINK, "bandwidth": "16 kB/s"},
        {"network": {**LINE["network"], "clock": "1 GHz"}},
        "faults[0].bandwidth: a flit and its credit would take 320002",
    ),
]


@pytest.mark.parametrize(("fault", "others", "message"), REFUSED)
def test_refused_with_one_line(fault: dict[str, Any], others: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pyxsim.run({**LINE, **others, "faults": [fault]})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "flow"])
def test_other_backends_refuse_faults_of_links_with_one_line(backend: str) -> None:
    with pytest.raises(InputError, match=f"faults\\[0\\].down: backend '{backend}' does not change links"):
        pyxsim.run({**LINE, "faults": [{"link": LINK, "down": True}]}, backend=backend)


def test_check_says_why_nothing_is_folded() -> None:
    ring = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    prepared = prepare(load_experiment({**ring, "faults": [{"link": "*", "at": "1 s", "down": True}]}))
    assert prepared.mode == "closed"
    assert "[[faults]]" in prepared.why_every_npu


def test_settings_are_written_as_they_are_read() -> None:
    fault = {"npu": 1, "at": "1 us", "for": "2 us", "up": "3 us", "until": "1 ms", "down": True}
    first = load_experiment({**LINE, "faults": [fault]})
    assert type(first).from_toml(first.to_toml()) == first
    assert 'for = "2 us"' in first.to_toml()


# --- skipping, checkpoints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"link": "*", "count": 1, "at": "40 us", "for": "5 us", "down": True},
        {"link": "*", "count": 1, "at": "40 us", "bandwidth": "32 GB/s"},
        {"link": "*", "count": 2, "at": "30 us", "for": "10 us", "up": "20 us", "latency": "25 ns"},
        {"link": "*", "at": "1 s", "down": True},
    ],
)
def test_skipping_stops_at_faults_and_goes_on_behind_them(fault: dict[str, Any], tmp_path: Path) -> None:
    long = changed(collective={"size": "4 MiB"}) | {"faults": [fault]}
    assert compare(long, tmp_path).counts["skipped_cycles"] > 10_000


class _EnoughError(Exception):
    pass


def test_a_run_with_faults_and_retry_continues_from_its_pickle() -> None:
    lossy = {"link": LINK, "count": 1, "at": "1 us", "for": "1 us", "up": "700 ns", "down": True, "in_flight": "lose"}
    errors = {"link": "*", "bit_error_rate": 1e-5}
    network = {**LINE["network"], "retry": {}}
    experiment = load_experiment({**LINE, "network": network, "faults": [errors, lossy], "run": {"skip": False}})
    wanted = simulate(prepare(experiment))
    first = prepare(experiment)
    assert first.mode == "closed"
    first.network.set_tick_interval(500)
    calls = count()

    def pause() -> None:
        if next(calls) == 8:
            raise _EnoughError

    first.network.pause = pause
    with pytest.raises(_EnoughError):
        simulate(first)
    assert 0 < first.network.now < wanted.time_cycles
    second = prepare(experiment)
    assert second.mode == "closed"
    second.network, second.system, second.job = pickle.loads(pickle.dumps((first.network, first.system, first.job)))
    found = simulate(second)
    assert found.time_cycles == wanted.time_cycles
    columns = found.backend_tables["link_faults"].columns
    for name, values in wanted.backend_tables["link_faults"].columns.items():
        np.testing.assert_array_equal(columns[name], values, err_msg=name)


# --- attribution ------------------------------------------------------------------------------------------------------


def test_attribution_says_what_faults_cost(sound: int) -> None:
    down = run({"link": LINK, "at": "1 us", "for": "500 ns", "down": True}, experiment=ATTRIBUTED)
    assert down.time_cycles == sound + 500
    # Every packet that waits in front of the link then, or at its NPU for the packets there, does for the fault.
    link = down.attribution.link_names.index(LINK)
    at_link = down.attribution.congestion()[link, 0]
    assert at_link[PARTS.index("fault")] >= 500
    assert down.attribution.culprits == ["message", "faults", "none"]


def test_with_attribution_nothing_is_skipped_from_the_first_fault_on(tmp_path: Path) -> None:
    half = {"link": LINK, "for": "1 us", "bandwidth": "64 GB/s"}
    compare({**ATTRIBUTED, "faults": [half | {"at": "3 us"}]}, tmp_path)
    result = run(half, experiment=ATTRIBUTED)
    assert result.counts["not_skipped"] == "output.attribution with faults needs every cycle simulated"


def test_attribution_of_bit_errors_with_retry() -> None:
    errors = {"link": LINK, "both_directions": False, "bit_error_rate": 1e-6}
    result = run(errors, experiment=ATTRIBUTED, retry={})
    plain = run(errors, retry={})
    assert result.time_cycles == plain.time_cycles
    link = result.attribution.link_names.index(LINK)
    table = result.backend_tables["link_faults"].columns
    # Of each error some packets see the whole round trip of 204 cycles.
    assert result.attribution.congestion()[link, 0, PARTS.index("fault")] >= 204 * int(table["errors"].sum()) > 0


def test_messages_that_lose_packets_have_no_row() -> None:
    tables = {**ATTRIBUTED, "message": [*LINE["message"], {"src": 1, "dst": 0, "size": "64 KiB"}]}
    with pytest.raises(StuckError) as caught:
        run(
            {"link": LINK, "at": "1 us", "for": "500 ns", "down": True, "in_flight": "lose", "both_directions": False},
            experiment=tables,
        )
    latency = caught.value.result.attribution.latency
    assert latency["message"].tolist() == [1]
    assert sum(latency[part] for part in PARTS) == latency["arrived"] - latency["sent"]


@few
@given(experiment=faulty_experiments())
def test_attribution_changes_nothing_and_adds_up(tmp_path_factory: Any, experiment: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("attributed")
    wanted = outcome(experiment, folder)
    found = outcome({**experiment, "output": {**experiment["output"], "attribution": "links"}}, folder)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    if "latency/sent" not in found:  # nothing has arrived
        return
    parts = {name: found[f"latency/{name}"] for name in (*PARTS, "sent", "arrived")}
    assert (sum(parts[part] for part in PARTS) == parts["arrived"] - parts["sent"]).all()
