"""The search of a sweep with a goal: which point to run next, and the answer.

Both follow from the known points alone. A row is one combination of the other axes, with its points in the order of the
searched values. Bisection tries them in a fixed order, so the answer does not depend on which process ran a point,
when, or how often the sweep was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from pyxsim.results import sweep as sweeps
from pyxsim.results.sweep import Point, Sweep

SATURATION = "saturation"


def read(path: str | os.PathLike[str]) -> Sweep:
    """Read the folder of a sweep as it is now, with the answers to its goal. Raises InputError if it holds no sweep."""
    sweep = sweeps.read(path)
    goal = sweep.goal
    if not goal:
        return sweep
    searched = rows(goal, sweep.points)
    points = [row[number] for row in searched for number in sorted(search(goal, row).tried)]
    return replace(sweep, points=points, answers=[answer(goal, row) for row in searched])


@dataclass
class Search:
    """The progress of the search in a row. Points are numbers in the row.

    Attributes
    ----------
    tried
        Points that were tried, in order.
    following
        The point to try next; None at the end.
    found
        The point that answers the search: the highest load that is not saturated, or the smallest value that is good
        enough.
    beyond
        Its neighbor on the other side of the answer.
    failed
        A tried point has no number.
    remaining
        Candidates that are left.
    """

    tried: list[int] = field(default_factory=list)
    following: int | None = None
    found: int | None = None
    beyond: int | None = None
    failed: bool = False
    remaining: int = 0

    @property
    def left(self) -> int:
        """How many points the search still tries; each halves the candidates."""
        return 0 if self.following is None else max(1, self.remaining.bit_length())


def rows(goal: Mapping[str, Any], points: Sequence[Point]) -> list[list[Point]]:
    """Split points into rows; the searched key is the last axis."""
    width = len(goal["values"])
    return [list(points[begin : begin + width]) for begin in range(0, len(points), width)]


def search(goal: Mapping[str, Any], row: Sequence[Point]) -> Search:
    """Return the search in a row, as far as its points are known."""
    return (_saturation if goal["kind"] == SATURATION else _smallest)(goal, row)


def _saturation(goal: Mapping[str, Any], row: Sequence[Point]) -> Search:
    """The highest load without saturation, assuming that all lower loads are not saturated either."""
    state = Search()
    low, high = -1, len(row)
    while high - low > 1:
        middle, state.remaining = (low + high) // 2, high - low - 1
        if not _try(state, row, middle):
            return state
        if row[middle].values["saturated"]:
            high = middle
        else:
            low = middle
    state.found = low if low >= 0 else None
    state.beyond = high if high < len(row) else None
    return state


def _smallest(goal: Mapping[str, Any], row: Sequence[Point]) -> Search:
    """The smallest value whose number is within the margin of that of the largest value."""
    state = Search()
    last = len(row) - 1
    state.remaining = len(row)
    if not _try(state, row, last, goal["metric"]):
        return state
    is_good = _as_good(goal, float(row[last].values[goal["metric"]]))
    low, high = -1, last
    while high - low > 1:
        middle, state.remaining = (low + high) // 2, high - low - 1
        if not _try(state, row, middle, goal["metric"]):
            return state
        if is_good(float(row[middle].values[goal["metric"]])):
            high = middle
        else:
            low = middle
    state.found, state.beyond = high, low if low >= 0 else None
    return state


def _try(state: Search, row: Sequence[Point], number: int, metric: str = "saturated") -> bool:
    """Try a point; False if the search stops here, because it is missing or has no number."""
    if row[number].state == "missing":
        state.following = number
        return False
    state.tried.append(number)
    state.failed = metric not in row[number].values
    return not state.failed


def _as_good(goal: Mapping[str, Any], best: float) -> Callable[[float], bool]:
    """Return a predicate: whether a number is as good as `best`, up to the share that the goal allows."""
    slack = goal["within"] * abs(best)
    if goal["best"] == "lowest":
        return lambda number: number <= best + slack
    return lambda number: number >= best - slack


def answer(goal: Mapping[str, Any], row: Sequence[Point]) -> dict[str, Any]:
    """Return the answer in a row: its other axes, `state` (found, none, failed, open), the value, further numbers."""
    progress, key = search(goal, row), str(goal["key"])
    others = {name: value for name, value in row[0].changed.items() if name != key}
    if progress.failed:
        state = "failed"
    elif progress.following is not None:
        state = "open"
    else:
        state = "none" if progress.found is None else "found"
    point = row[progress.found] if progress.found is not None else None
    value = None if point is None else point.changed[key]
    common = {**others, "state": state, key: value, "tried": len(progress.tried)}
    if goal["kind"] == SATURATION:
        return {
            **common,
            "refused": None if progress.beyond is None else row[progress.beyond].changed[key],
            "accepted_load": None if point is None else point.values.get("accepted_load"),
        }
    metric, best = goal["metric"], row[-1].values.get(goal["metric"])
    number = None if point is None else point.values[metric]
    return {**common, metric: number, "best": best, "monotone": _monotone(goal, row, progress)}


def _monotone(goal: Mapping[str, Any], row: Sequence[Point], progress: Search) -> bool:
    """Whether the number improves or stays as good from each tried value to the next: what bisection assumes."""
    if progress.failed:
        return True
    tried = [float(row[number].values[goal["metric"]]) for number in sorted(progress.tried)]
    return all(_as_good(goal, before)(after) for before, after in pairwise(tried))
