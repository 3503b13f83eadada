"""The searches of a sweep, against trying every value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.analysis.goal import answer, rows, search
from pyxsim.results.sweep import Number, Point

LOADS = [round(0.1 * k, 1) for k in range(1, 11)]
SATURATION: dict[str, Any] = {"kind": "saturation", "key": "load", "values": LOADS}
SMALLEST: dict[str, Any] = {
    "kind": "smallest",
    "key": "depth",
    "values": list(range(1, 17)),
    "metric": "latency",
    "within": 0.01,
    "best": "lowest",
}


def made(goal: dict[str, Any], values: list[dict[str, Number]]) -> list[Point]:
    """A row in which every point was run."""
    changed = [{"vcs": 2, goal["key"]: value} for value in goal["values"]]
    return [Point(str(k), c, "done", v) for k, (c, v) in enumerate(zip(changed, values, strict=True))]


def searched(goal: dict[str, Any], row: list[Point]) -> tuple[list[int], dict[str, Any]]:
    """The points in the order in which they are asked for, and what is found."""
    known = [Point(point.key, point.changed) for point in row]
    order: list[int] = []
    while (after := search(goal, known).following) is not None:
        assert search(goal, known).left >= 1
        order.append(after)
        known[after] = row[after]
    assert search(goal, row).tried == order  # more points that are known change nothing
    assert search(goal, known).left == 0
    return order, answer(goal, known)


@given(st.integers(0, 10))
def test_saturation_is_the_last_load_that_is_taken(taken: int) -> None:
    row = made(SATURATION, [{"saturated": k >= taken, "accepted_load": load} for k, load in enumerate(LOADS)])
    order, found = searched(SATURATION, row)
    assert len(order) <= 4  # 10 values
    assert found["state"] == ("found" if taken else "none")
    assert found["load"] == found["accepted_load"] == (LOADS[taken - 1] if taken else None)
    assert found["refused"] == (LOADS[taken] if taken < 10 else None)


@given(st.lists(st.integers(0, 500), min_size=16, max_size=16), st.sampled_from(["lowest", "highest"]))
def test_the_smallest_value_that_is_good(drops: list[int], best: str) -> None:
    """Latencies that get better and better, in any manner."""
    levels = [1000 + sum(drops[k:]) for k in range(16)]
    sign = 1 if best == "lowest" else -1
    row = made(SMALLEST, [{"latency": sign * level} for level in levels])
    order, found = searched({**SMALLEST, "best": best}, row)
    good = [k for k in range(16) if levels[k] <= levels[-1] * 1.01]
    assert found["depth"] == SMALLEST["values"][good[0]]
    assert (found["state"], found["monotone"], found["tried"]) == ("found", True, len(order))
    assert found["best"] == sign * levels[-1]
    assert len(order) <= 5


def test_what_is_not_monotone_is_said() -> None:
    levels = [9.0] * 7 + [1.0] + [5.0] * 8  # the eighth, which is asked for, is better than all after it
    found = searched(SMALLEST, made(SMALLEST, [{"latency": level} for level in levels]))[1]
    assert (found["monotone"], found["best"]) == (False, 5.0)


@pytest.mark.parametrize("goal", [SATURATION, SMALLEST])
def test_a_point_that_failed_ends_the_search(goal: dict[str, Any]) -> None:
    row = [Point(str(k), {goal["key"]: value}, "failed") for k, value in enumerate(goal["values"])]
    order, found = searched(goal, row)
    assert len(order) == 1
    assert (found["state"], found[goal["key"]]) == ("failed", None)


def test_rows_are_the_combinations_of_the_other_axes() -> None:
    both = made(SATURATION, [{}] * 10) + made(SATURATION, [{}] * 10)
    assert [len(row) for row in rows(SATURATION, both)] == [10, 10]
    assert answer(SATURATION, [Point("a", {"vcs": 4, "load": load}) for load in LOADS])["state"] == "open"
