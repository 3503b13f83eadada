"""Ranges, values in step, lists of points and goals of [sweep]."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings.points import plan_of, points
from tests.in_turn import in_turn

OPEN: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4], "router": {"vcs": 2, "buffer": 8}},
    "traffic": {"pattern": "uniform", "load": 0.1},
}
BUFFER, VCS, LOAD = "network.router.buffer", "network.router.vcs", "traffic.load"


def swept(table: dict[str, Any], *overrides: str) -> list[dict[str, Any]]:
    return [dict(point.swept) for point in points({**OPEN, "sweep": table}, overrides)]


def told(table: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        plan_of({**OPEN, "sweep": table}, overrides)
    return str(caught.value)


RANGES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"from": 0.1, "to": 0.5, "step": 0.1}, [0.1, 0.2, 0.3, 0.4, 0.5]),  # no 0.30000000000000004
    ({"from": 0.1, "to": 0.45, "step": 0.1}, [0.1, 0.2, 0.3, 0.4]),
    ({"from": 1, "to": 9, "step": 4}, [1, 5, 9]),
    ({"from": 1, "to": 2, "step": 0.5}, [1.0, 1.5, 2.0]),
    ({"from": 1, "to": 20, "factor": 2}, [1, 2, 4, 8, 16]),
    ({"from": 0.1, "to": 0.9, "count": 3}, [0.1, 0.5, 0.9]),
    ({"from": 1, "to": 64, "count": 4, "spacing": "geometric"}, [1, 4, 16, 64]),
    ({"from": 1, "to": 4, "count": 9, "spacing": "geometric"}, [1, 2, 3, 4]),  # whole numbers, each once
    ({"from": 0.01, "to": 1.0, "count": 3, "spacing": "geometric"}, [0.01, 0.1, 1.0]),
    ({"from": "1 KiB", "to": "1 MiB", "factor": 32}, ["1 KiB", "32 KiB", "1 MiB"]),
    ({"from": "0.5 us", "to": "1 us", "step": "250 ns"}, ["500 ns", "750 ns", "1 us"]),
    ({"from": "1 cycle", "to": "3 cycles", "step": "1 cycle"}, ["1 cycle", "2 cycle", "3 cycle"]),
]


@pytest.mark.parametrize(("given", "values"), RANGES)
def test_a_range_stands_for_a_list(given: dict[str, Any], values: list[Any]) -> None:
    base = {**OPEN, "network": {**OPEN["network"], "options": {}}}
    found = plan_of({**base, "sweep": {"network.options.x": given}})
    assert found.axes == {"network.options.x": values}
    assert [type(value) for value in found.axes["network.options.x"]] == [type(value) for value in values]


def test_values_in_step_and_lists_of_points_are_an_axis_each() -> None:
    table = {LOAD: [0.1, 0.2], "zip": {VCS: [1, 2], BUFFER: [8, 4]}}
    assert swept(table) == [{VCS: v, BUFFER: b, LOAD: x} for v, b in ((1, 8), (2, 4)) for x in (0.1, 0.2)]
    listed = points({**OPEN, "sweep": {"points": [{VCS: 1}, {BUFFER: 2, LOAD: 0.5}, {}], "output.seed": [1, 2]}})
    assert [point.label for point in listed] == [
        *("vcs=1, seed=1", "vcs=1, seed=2"),
        *("buffer=2, load=0.5, seed=1", "buffer=2, load=0.5, seed=2"),
        *("as it is, seed=1", "as it is, seed=2"),
    ]
    assert listed[2].experiment.network.router.buffer == 2
    assert listed[4].experiment.network.router.buffer == 8


def test_what_is_set_by_hand_is_no_longer_swept() -> None:
    table = {"zip": {VCS: [1, 2], BUFFER: [8, 8]}, LOAD: [0.1, 0.2]}
    assert swept(table, f"{VCS}=4") == [{BUFFER: 8, LOAD: x} for x in (0.1, 0.2)]
    assert swept(table, f"{VCS}=4", f"{BUFFER}=1", f"{LOAD}=0.3") == [{}]


def test_a_goal_is_an_axis_that_is_searched() -> None:
    goal = {"kind": "smallest", "key": BUFFER, "values": {"from": 1, "to": 8, "factor": 2}, "metric": "packet_latency"}
    plan = plan_of({**OPEN, "sweep": {LOAD: [0.1, 0.2], "goal": goal}})
    assert plan.axes == {LOAD: [0.1, 0.2], BUFFER: [1, 2, 4, 8]}
    assert [point.experiment.network.router.buffer for point in plan.points] == [1, 2, 4, 8] * 2
    assert plan.goal is not None
    assert (plan.goal.within.numerator, plan.goal.within.denominator) == (1, 100)
    found = plan_of({**OPEN, "sweep": {VCS: [1, 2], "goal": {"kind": "saturation"}}})
    assert len(found.points) == 200
    assert found.axes[LOAD][:3] == [0.01, 0.02, 0.03]
    with pytest.raises(
        InputError, match=r"sweep\.goal: this command does not search; allowed: only with `pyxsim sweep`"
    ):
        points({**OPEN, "sweep": {"goal": {"kind": "saturation"}}})


SMALLEST = {"kind": "smallest", "key": BUFFER, "values": [1, 2], "metric": "cycles"}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({LOAD: {"from": 0.1, "to": 0.2}}, 'sweep."traffic.load": neither step, factor nor count is set; allowed: one'),
    ({LOAD: {"from": 0.1, "to": 0.2, "step": 0.1, "count": 2}}, "step and count are set"),
    ({LOAD: {"from": 0.1, "too": 0.2, "step": 0.1}}, 'sweep."traffic.load".too: unknown key'),
    ({LOAD: {"from": 0.1, "too": 0.2, "step": 0.1}}, "did you mean 'to'?"),
    ({LOAD: {"to": 0.2, "step": 0.1}}, 'sweep."traffic.load".from: is missing; allowed: a number'),
    ({LOAD: {"fron": 0.1, "to": 0.2, "step": 0.1}}, "did you mean 'from'?"),
    ({LOAD: {"from": 0.3, "to": 0.2, "step": 0.1}}, '"traffic.load".to: ends before it begins: 0.2 is less than 0.3'),
    ({LOAD: {"from": 0.3, "to": 0.4, "step": 0}}, '"traffic.load".step: 0 is not a step; allowed: a number above zero'),
    ({LOAD: {"from": 0.3, "to": 0.4, "factor": 1}}, "1 is not a factor; allowed: a number above one"),
    ({LOAD: {"from": 0, "to": 0.4, "factor": 2}}, '"traffic.load".from: 0 cannot be multiplied by a factor'),
    ({LOAD: {"from": 0, "to": 1, "step": 1e-9}}, "has too many values; allowed: at most 10000"),
    ({LOAD: {"from": "1 KiB", "to": 3, "step": "1 B"}}, "3 has no unit"),
    ({LOAD: {"from": "1 KiB", "to": "3 ns", "step": "1 B"}}, "'ns' in '3 ns' is not a unit of the kind of '1 KiB'"),
    ({LOAD: {"from": True, "to": 2, "step": 1}}, "true is not a number"),
    ({LOAD: {"from": 1, "to": 2, "step": 1, "spacing": "geometric"}}, "spacing: has no effect without `count`"),
    ({LOAD: 3}, "3 is not a list of values; allowed: a list such as [1, 2, 4], or a range such as { from = 0.1"),
    ({"zip": {VCS: [1], LOAD: [0.1, 0.2]}}, 'sweep.zip: the lists have different lengths: "network.router.vcs" has 1'),
    ({"zip": {VCS: [0], LOAD: [0.1]}}, 'sweep.zip."network.router.vcs"[0]: 0 is too small'),
    ({"zip": {VCS: [1]}, VCS: [2]}, 'sweep."network.router.vcs": the sweep also sets network.router.vcs; allowed'),
    (
        {"zip": {VCS: [1], "network.router": [{}]}},
        'sweep.zip."network.router": the sweep also sets network.router.vcs, which overlaps with it',
    ),
    ({"points": [{"network.router.vsc": 2}]}, 'sweep.points[0]."network.router.vsc": unknown key'),
    ({"points": [{VCS: 2}, {VCS: "x"}]}, "sweep.points[1].\"network.router.vcs\": 'x' is not a whole number"),
    ({"points": {VCS: 2}}, "sweep.points: {"),
    ({"goal": {"kind": "smalest"}}, "did you mean 'smallest'?"),
    ({"goal": {"kind": "smallest"}}, "sweep.goal.metric: is missing"),
    ({"goal": {**SMALLEST, "key": "network.router.bufer"}}, "sweep.goal.key: unknown key"),
    ({"goal": {**SMALLEST, "values": [0]}}, "sweep.goal.values[0]: 0 is too small"),
    ({"goal": {**SMALLEST, "values": [1, 1]}}, "sweep.goal.values: duplicate value"),
    ({"goal": {**SMALLEST, "within": "200 %"}}, "sweep.goal.within: '200 %' is not a fraction"),
    ({"goal": {"kind": "saturation", "metric": "cycles"}}, "sweep.goal.metric: has no effect on a saturation"),
    ({"goal": {"kind": "saturation", "values": [0.2, 0.1]}}, "sweep.goal.values: the loads are not in ascending order"),
    ({"goal": {"kind": "saturation"}, LOAD: [0.1]}, "sweep also sets traffic.load"),
]


@in_turn(("table", "line"), FAULTS)
def test_faults(table: dict[str, Any], line: str) -> None:
    assert line in told(table), told(table)


def test_what_is_searched_cannot_be_set_by_hand() -> None:
    assert (
        told({"goal": SMALLEST}, f"{BUFFER}=4") == f"overrides: {BUFFER}: cannot be set, because the sweep searches it"
    )
