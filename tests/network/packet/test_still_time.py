"""Time in which nothing can move: the same to the bit as with every stop, and passed over in no time."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import SimulationError, StuckError
from pyxsim.results.result import HOW_IT_RAN
from tests.examples import part_of
from tests.runner.test_fast_forward import datasets

TORUS: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4, 4], "bandwidth": "100 GB/s", "latency": "100 ns"},
    "collective": {"kind": "all-reduce", "size": "64 KiB"},
}
CABLE = "d0+:(0,0,0)->(1,0,0)"

NETWORKS: tuple[dict[str, Any], ...] = (
    {"topology": "torus", "shape": [4]},
    {"topology": "torus", "shape": [2, 3], "router": {"output_queue": True}},
    {"topology": "torus", "shape": [3, 2], "router": {"sa_allocator": "islip:2", "internal_speedup": 2}},
    {"topology": "torus", "shape": [3, 2], "router": {"speculation": True, "va_allocator": "wavefront"}},
    {"topology": "torus", "shape": [4, 2], "router": {"routing": "minimal-adaptive", "vcs": 6}},
    {"topology": "torus", "shape": [3, 2], "router": {"shared_buffer": 6, "flow_control": "virtual-cut-through"}},
    {"topology": "folded-clos", "options": {"children": [2, 2], "parents": [2]}},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}, "router": {"routing": "ugal", "vcs": 6}},
    {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}},
    {"dims": [{"block": "ring", "npus": 3}, {"block": "switch", "npus": 2}]},
)
LINK_LAYERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"retry": {}},
    {"retry": {"buffer": 5, "nack_bits": 9000}},
    {"reroute": {"reaction": "700 ns"}},
    {"reroute": {"reaction": "30 us"}, "retry": {}},
    {"credits": {}},
    {"credits": {"preset": "uec"}, "retry": {}},
)


@st.composite
def outages(draw: st.DrawFn, link_layer: dict[str, Any]) -> dict[str, Any]:
    length = st.one_of(st.integers(1, 900), st.integers(1000, 90_000))
    fault: dict[str, Any] = {"link": "*", "count": draw(st.integers(1, 3)), "seed": draw(st.integers(0, 99))}
    fault |= {"at": f"{draw(st.integers(0, 3000))} ns", "both_directions": draw(st.booleans())}
    kinds = ["down", "down", "bandwidth"]
    if "retry" in link_layer and "reroute" not in link_layer:
        kinds += ["lose", "errors"]
    effects: dict[str, dict[str, Any]] = {
        "down": {"down": True},
        "bandwidth": {"bandwidth": "10 GB/s"},
        "lose": {"down": True, "in_flight": "lose"},
        "errors": {"bit_error_rate": 1e-5},
    }
    kind = draw(st.sampled_from(kinds))
    if draw(st.integers(0, 5)):
        fault["for"] = f"{draw(length)} ns"
        if draw(st.booleans()):
            fault["up"] = f"{draw(length)} ns"
    return fault | effects[kind]


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    link_layer = draw(st.sampled_from(LINK_LAYERS))
    network = {**draw(st.sampled_from(NETWORKS)), **link_layer, "latency": "30 ns", "flit": "64 B", "packet": "256 B"}
    if "retry" in link_layer and {"output_queue", "internal_speedup"} & set(network.get("router", {})):
        network.pop("router")  # retry replaces output queues
    network["bandwidth"] = draw(st.sampled_from(["64 GB/s", "50 GB/s"]))
    network["router"] = {**network.get("router", {}), "watchdog": draw(st.sampled_from([500, 10_000]))}
    gap = st.integers(0, 400_000).map("{} ns".format)
    npu = st.sampled_from([(0, 1), (1, 0), (2, 3), (3, 1), (0, 3)])
    ends = draw(st.lists(st.tuples(npu, gap), min_size=1, max_size=5))
    messages = [{"src": src, "dst": dst, "size": "3 KiB", "at": at} for (src, dst), at in ends]
    level = draw(st.sampled_from(["off", "off", "links"])) if not link_layer else "off"
    return {
        "network": network,
        "message": messages,
        "faults": draw(st.lists(outages(link_layer), min_size=1, max_size=3)),
        "output": {"window": draw(st.sampled_from(["20 ns", "70 ns", "2 us"])), "attribution": level},
    }


def outcome(experiment: dict[str, Any], folder: Path, **how: Any) -> tuple[dict[str, Any], dict[str, Any], str, int]:
    why = ""
    try:
        result = pyxsim.run({**experiment, "run": how})
    except SimulationError as error:
        result, why = error.result, str(error)  # type: ignore[attr-defined]
    summary = {name: value for name, value in result.json().items() if name not in HOW_IT_RAN}
    return datasets(result, folder / "result.h5"), summary, why, result.counts["skipped_cycles"]


def same(experiment: dict[str, Any], folder: Path) -> int:
    """Compare a run with one that makes every stop; return the cycles that it skips."""
    found, summary, why, skipped = outcome(experiment, folder)
    wanted, other, expected, none = outcome(experiment, folder, skip=False)
    assert none == 0
    assert why == expected
    assert summary == other
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    return skipped


few = settings(max_examples=part_of(60, 12), deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(experiment=experiments())
def test_random_outages_are_the_same_with_every_stop(tmp_path_factory: Any, experiment: dict[str, Any]) -> None:
    same(experiment, tmp_path_factory.mktemp("still"))


@pytest.mark.slow
@settings(few, max_examples=1000)
@given(experiment=experiments())
def test_many_random_outages_are_the_same_with_every_stop(tmp_path_factory: Any, experiment: dict[str, Any]) -> None:
    same(experiment, tmp_path_factory.mktemp("still"))


@pytest.mark.parametrize(
    "more",
    [{}, {"retry": {}}, {"credits": {}}, {"router": {"output_queue": True}}, {"flit": "64 B", "transactions": {}}],
)
def test_an_outage_is_the_same_with_every_stop_and_passed_over(more: dict[str, Any], tmp_path: Path) -> None:
    fault = {"link": CABLE, "at": "2 us", "for": "300 us", "down": True}
    network = {**TORUS["network"], "shape": [4, 2, 2], **more}
    outage = {**TORUS, "network": network, "faults": [fault], "output": {"window": "50 ns"}}
    assert same(outage, tmp_path) > 250_000


def test_an_outage_of_a_second_takes_a_second_of_time_and_none_to_simulate() -> None:
    sound = pyxsim.run(TORUS)
    begin = process_time()
    result = pyxsim.run({**TORUS, "faults": [{"link": CABLE, "at": "2 us", "for": "1 s", "down": True}]})
    assert process_time() - begin < 5  # less than a second on a quiet computer; it was 80
    # Packets that wait for the link at its beginning may take their turns in another order at its end.
    assert 0.9e9 < result.time_cycles - sound.time_cycles <= 1e9
    assert result.counts["flits"] == sound.counts["flits"]
    assert result.counts["skipped_cycles"] > 0.99e9
    waited = list(result.links.name).index(CABLE)
    assert result.totals["stall_serial"][waited] > 0.99e9


def test_a_message_far_away_is_reached_at_once() -> None:
    messages = [{"src": 0, "dst": 1, "size": "4 KiB"}, {"src": 0, "dst": 1, "size": "4 KiB", "at": "1e8 s"}]
    alone = pyxsim.run({"network": TORUS["network"], "message": messages[:1]}).time_cycles
    begin = process_time()
    assert pyxsim.run({"network": TORUS["network"], "message": messages}).time_cycles == 10**17 + alone
    assert process_time() - begin < 5


def test_time_that_cannot_be_counted_is_refused() -> None:
    message = {"src": 0, "dst": 1, "size": "4 KiB", "at": "1e9 s"}
    with pytest.raises(StuckError, match="beyond cycle 184467440737095516, the last one"):
        pyxsim.run({"network": TORUS["network"], "message": [message]})
