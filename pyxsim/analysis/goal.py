"""What a sweep with a goal tries next, and what it has found: both follow from the points that are known.

A row is a combination of the other axes, its points in the order of the values that are searched. They are tried by
bisection, always in the same order: so it does not matter who ran them, when, and how often a sweep was broken off.
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
    points = [row[number] for row in searched for number in sorted(walk(goal, row).tried)]
    return replace(sweep, points=points, answers=[answer(goal, row) for row in searched])


@dataclass
class Walk:
    """How far the search in a row is. `tried`: the points that were, in order; `after`: the one to try next, None at
    the end; `found`, `beyond`: the last that does not have what is searched for, or the first that does, and its
    neighbour: numbers of points, None where there is none. `failed`: a point is known to give no number. `between`: how
    many points it may still be."""

    tried: list[int] = field(default_factory=list)
    after: int | None = None
    found: int | None = None
    beyond: int | None = None
    failed: bool = False
    between: int = 0

    @property
    def left(self) -> int:
        """How many points it will still try, of which each tells a half."""
        return 0 if self.after is None else max(1, self.between.bit_length())


def rows(goal: Mapping[str, Any], points: Sequence[Point]) -> list[list[Point]]:
    """The points of each combination of the other axes; the searched key is the last axis."""
    width = len(goal["values"])
    return [list(points[begin : begin + width]) for begin in range(0, len(points), width)]


def walk(goal: Mapping[str, Any], row: Sequence[Point]) -> Walk:
    """The search in a row, as far as its points are known."""
    return (_saturation if goal["kind"] == SATURATION else _smallest)(goal, row)


def _saturation(goal: Mapping[str, Any], row: Sequence[Point]) -> Walk:
    """The last load that is taken. It is taken for granted that a network which takes a load takes all lower ones."""
    made = Walk()
    low, high = -1, len(row)
    while high - low > 1:
        middle, made.between = (low + high) // 2, high - low - 1
        if not _known(made, row, middle):
            return made
        if row[middle].values["saturated"]:
            high = middle
        else:
            low = middle
    made.found = low if low >= 0 else None
    made.beyond = high if high < len(row) else None
    return made


def _smallest(goal: Mapping[str, Any], row: Sequence[Point]) -> Walk:
    """The first value with which the number is nearly as good as with the last one."""
    made = Walk()
    last = len(row) - 1
    made.between = len(row)
    if not _known(made, row, last, goal["metric"]):
        return made
    good = _as_good(goal, float(row[last].values[goal["metric"]]))
    low, high = -1, last
    while high - low > 1:
        middle, made.between = (low + high) // 2, high - low - 1
        if not _known(made, row, middle, goal["metric"]):
            return made
        if good(float(row[middle].values[goal["metric"]])):
            high = middle
        else:
            low = middle
    made.found, made.beyond = high, low if low >= 0 else None
    return made


def _known(made: Walk, row: Sequence[Point], number: int, metric: str = "saturated") -> bool:
    """Whether the search can go on after this point."""
    if row[number].state == "missing":
        made.after = number
        return False
    made.tried.append(number)
    made.failed = metric not in row[number].values
    return not made.failed


def _as_good(goal: Mapping[str, Any], best: float) -> Callable[[float], bool]:
    """Whether a number is as good as another one, or off by no more than the share that the goal allows."""
    slack = goal["within"] * abs(best)
    if goal["best"] == "lowest":
        return lambda number: number <= best + slack
    return lambda number: number >= best - slack


def answer(goal: Mapping[str, Any], row: Sequence[Point]) -> dict[str, Any]:
    """What was found in a row: its other axes, `state` (found, none, failed, open), the value, and numbers beside."""
    made, key = walk(goal, row), str(goal["key"])
    others = {name: value for name, value in row[0].changed.items() if name != key}
    state = (
        "failed" if made.failed else "open" if made.after is not None else "found" if made.found is not None else "none"
    )
    found = row[made.found] if made.found is not None else None
    value = None if found is None else found.changed[key]
    beyond = None if made.beyond is None else row[made.beyond].changed[key]
    told = {**others, "state": state, key: value, "tried": len(made.tried)}
    if goal["kind"] == SATURATION:
        return {
            **told,
            "refused": beyond,
            "accepted_load": None if found is None else found.values.get("accepted_load"),
        }
    metric, best = goal["metric"], row[-1].values.get(goal["metric"])
    number = None if found is None else found.values[metric]
    return {**told, metric: number, "best": best, "monotone": _monotone(goal, row, made)}


def _monotone(goal: Mapping[str, Any], row: Sequence[Point], made: Walk) -> bool:
    """Whether the number gets better, or stays as good, from each tried value to the next one: what bisection needs."""
    tried = [float(row[number].values[goal["metric"]]) for number in sorted(made.tried) if not made.failed]
    return all(_as_good(goal, before)(after) for before, after in pairwise(tried))
