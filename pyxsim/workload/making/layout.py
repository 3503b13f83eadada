"""The parallelism of traces, from their groups and messages: axes of a grid of ranks, and pipeline stages.

Ranks of a stage have consecutive numbers. Within a stage, each group of ranks is a contiguous range of axes: ranks that
differ only in their places along these axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError

ALLOWED = "groups of consecutive ranks or of ranks at equal distances, each dividing the next larger one"
STAGES = -1  # the axis of the pipeline
MOST_TASKS = 1 << 24  # of all ranks that are made: a few gigabytes
_SHOWN = 6


@dataclass(frozen=True, order=True)
class Span:
    """A kind of group: the ranks that differ only along axes `first` to `last` - 1, of some pipeline stages.

    Attributes
    ----------
    stages
        "own": of one stage; "all": of all; "ends": of the first and the last.
    """

    first: int
    last: int
    stages: str = "own"


@dataclass(frozen=True, order=True)
class Shift:
    """The receiver of a message, relative to the sender: `by` places further along an axis.

    An axis is circular, the pipeline (STAGES) is not.
    """

    axis: int
    by: int


@dataclass(frozen=True)
class Layout:
    """`stages` pipeline stages, each a grid of ranks with these sizes; ranks along the first axis are consecutive."""

    axes: tuple[int, ...]
    stages: int = 1

    @property
    def per_stage(self) -> int:
        """The number of ranks of a stage."""
        return prod(self.axes)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.per_stage * self.stages

    def stage_of(self, rank: int) -> int:
        """Return the stage of a rank."""
        return rank // self.per_stage

    def span(self, members: Sequence[int], rank: int) -> Span | None:
        """Return the kind of a group of ranks that `rank` is in; None for a group that is not on the grid."""
        size = self.per_stage
        by_stage: dict[int, list[int]] = {}
        for member in sorted(members):
            by_stage.setdefault(member // size, []).append(member % size)
        within = by_stage[self.stage_of(rank)]
        if any(others != within for others in by_stage.values()):
            return None
        which = "own" if len(by_stage) == 1 else "all" if len(by_stage) == self.stages else None
        if which is None and sorted(by_stage) == [0, self.stages - 1]:
            which = "ends"
        axes = self._range(within, rank % size)
        return None if axes is None or which is None else Span(*axes, which)

    def _range(self, within: list[int], place: int) -> tuple[int, int] | None:
        """The axes of a group in a stage."""
        strides = self.strides
        if len(within) == 1:
            return (0, 0)
        step = within[1] - within[0]
        if step not in strides or step * len(within) not in strides:
            return None
        first, last = strides.index(step), strides.index(step * len(within))
        return (first, last) if within == self._places(first, last, place) else None

    @property
    def strides(self) -> list[int]:
        """The distance of neighbors along each axis, then the ranks of a stage."""
        return [prod(self.axes[:axis]) for axis in range(len(self.axes) + 1)]

    def _places(self, first: int, last: int, place: int) -> list[int]:
        low, high = self.strides[first], self.strides[last]
        base = place - place % high + place % low
        return [base + low * step for step in range(high // low)]

    def groups(self, span: Span, stage: int) -> list[tuple[int, ...]]:
        """Return all groups of a kind; those of `stage` if they are of one stage each."""
        stages = {"own": [stage], "all": range(self.stages), "ends": sorted({0, self.stages - 1})}[span.stages]
        low, high = self.strides[span.first], self.strides[span.last]
        bases = [place for place in range(self.per_stage) if place // low % (high // low) == 0]
        rows = [self._places(span.first, span.last, base) for base in bases]
        return [tuple(each * self.per_stage + place for each in stages for place in row) for row in rows]

    def size(self, span: Span) -> int:
        """Return the number of ranks of each group of a kind."""
        many = {"own": 1, "all": self.stages, "ends": min(2, self.stages)}[span.stages]
        return many * prod(self.axes[span.first : span.last])

    def shift(self, source: int, target: int) -> Shift | None:
        """Return the place of a receiver relative to the sender; None if they differ in more than one axis.

        The shorter way around an axis counts; of two equal ones, the one forward.
        """
        stages = self.stage_of(target) - self.stage_of(source)
        here, there = source % self.per_stage, target % self.per_stage
        strides = self.strides
        places = [
            (axis, (there // strides[axis] - here // strides[axis]) % size) for axis, size in enumerate(self.axes)
        ]
        moved = [(axis, by) for axis, by in places if by]
        if stages:
            return Shift(STAGES, stages) if not moved else None
        if len(moved) != 1:
            return None
        axis, by = moved[0]
        size = self.axes[axis]
        return Shift(axis, by if 2 * by <= size else by - size)

    def targets(self, ranks: IntArray, shift: Shift) -> IntArray:
        """Return the receiver of a message of each of `ranks`, -1 for one beyond the pipeline."""
        if shift.axis == STAGES:
            targets = ranks + shift.by * self.per_stage
            return np.where((targets >= 0) & (targets < self.ranks), targets, -1)
        stride, size = self.strides[shift.axis], self.axes[shift.axis]
        place = ranks // stride % size
        moved: IntArray = ranks + ((place + shift.by) % size - place) * stride
        return moved


def layout_of(groups: Iterable[Sequence[int]], ranks: int, stages: int) -> Layout:
    """Return the layout in which each of `groups` is a contiguous range of axes. Raises InputError if there is none."""
    if ranks % stages:
        raise InputError(f"{ranks} ranks are no {stages} pipeline stages of equal size", allowed=f"divisors of {ranks}")
    size = ranks // stages
    cuts = {1, size}
    seen = {tuple(sorted(group)) for group in groups}
    for group in sorted(seen, key=lambda each: (len(each), each)):
        stage = group[0] // size
        within = [member % size for member in group if member // size == stage]
        if len(within) > 1:
            step = within[1] - within[0]
            cuts |= {step, step * len(within)}
    chain = sorted(cuts)
    for low, high in pairwise(chain):
        if high % low:
            raise InputError(f"groups at distances {low} and {high} form no grid of {ranks} ranks", allowed=ALLOWED)
    if chain[-1] > size:
        raise InputError(f"a group reaches over {chain[-1]} ranks of {size} per stage", allowed=ALLOWED)
    layout = Layout(tuple(high // low for low, high in pairwise(chain)) or (1,), stages)
    for group in seen:
        if layout.span(group, group[0]) is None:
            raise InputError(f"the group of {listed(group)} is not on the grid of {_by(layout)}", allowed=ALLOWED)
    return layout


def listed(members: Sequence[int]) -> str:
    """Return the text that names a group of ranks."""
    more = ", ..." if len(members) > _SHOWN else ""
    return f"ranks {', '.join(map(str, members[:_SHOWN]))}{more}"


def _by(layout: Layout) -> str:
    sizes = " x ".join(map(str, layout.axes))
    return f"{sizes} ranks" + (f" in each of {layout.stages} stages" if layout.stages > 1 else "")
