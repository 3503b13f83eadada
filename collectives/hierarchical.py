"""Hierarchical: the ranks of one dimension as a grid, and one algorithm along each of its sides.

Rank r of "hierarchical:G" is number r mod G in its group of G consecutive ranks (a box, a rack). All-reduce is a
reduce-scatter in every group, G all-reduces across the groups, each of the ranks with the same number, and an
all-gather in every group: the bytes of a ring in 2(G-1) + 2(N/G-1) steps (Cho, Finkler and Kung, "BlueConnect",
MLSys 2019; the 2-D rings of TPUs). All use rings, except all-to-all: every rank sends to each rank of its group the
data for the ranks with that number, and then across what was collected, N/G + G - 2 messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt, prod

import numpy as np
from pyxsim_library.collectives import ring

from pyxsim.collective.arrays import I64
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives

Shape = tuple[int, ...]


class Grid:
    """The ranks of a schedule as a grid, dimension 0 varying fastest; block b is at the place of rank b."""

    def __init__(self, s: Schedule, shape: Shape) -> None:
        self.s = s
        self.shape = shape
        self.dims = range(len(shape))
        self.stride = [prod(shape[:dim]) for dim in self.dims]

    def offsets(self, dims: Iterable[int]) -> I64:
        """From the corner to every place that differs from it only along these dimensions, in order."""
        at = np.zeros(1, dtype=np.int64)
        for dim in dims:
            at = (np.arange(self.shape[dim])[:, None] * self.stride[dim] + at).ravel()
        return at

    def along(self, dim: int, turns: Iterable[ring.Turn], *, lines: Iterable[int], cut: Iterable[int]) -> None:
        """Apply a pattern on many lines along `dim`: those that start at the corner, or differ from it along `lines`.

        The unit of a place on a line is all blocks of that place, as far as the data were cut before: along the
        dimensions `cut` they are where the line is.
        """
        start = self.offsets(lines)
        fixed = sum((start // self.stride[d] % self.shape[d] * self.stride[d] for d in cut), np.zeros_like(start))
        free = self.offsets(d for d in self.dims if d != dim and d not in set(cut))
        for src, dst, unit, reduce in turns:
            # On all lines at once: a row for each line.
            senders, receivers = ((start[:, None] + each * self.stride[dim]).ravel() for each in (src, dst))
            blocks = (fixed[:, None] + unit * self.stride[dim]).ravel()[:, None] + free
            self.s.step(senders, receivers, blocks, reduce)

    def exchange(self, dim: int) -> None:
        """Every rank sends each rank on its line along `dim` the data for that rank's place."""
        rank, n, stride = np.arange(self.s.n), self.shape[dim], self.stride[dim]
        below = rank % stride
        # Data from all places that differ only below `dim`, for all places that differ only above it.
        source = (rank - below)[:, None, None] + self.offsets(range(dim))[:, None]
        target = below[:, None, None] + self.offsets(range(dim + 1, len(self.shape)))
        place = rank // stride % n
        for distance in range(1, n):
            to = (place + distance) % n
            blocks = source * self.s.n + target + (to * stride)[:, None, None]
            self.s.step(rank, rank + (to - place) * stride, blocks.reshape(self.s.n, -1))


def reduce_scatter(grid: Grid, dims: Iterable[int]) -> None:
    for dim in dims:
        others = [d for d in grid.dims if d != dim]
        grid.along(dim, ring.reduce_scatter(grid.shape[dim]), lines=others, cut=range(dim))


def all_gather(grid: Grid, dims: Iterable[int]) -> None:
    for dim in reversed(list(dims)):
        others = [d for d in grid.dims if d != dim]
        grid.along(dim, ring.all_gather(grid.shape[dim]), lines=others, cut=range(dim))


def all_reduce(grid: Grid) -> None:
    # Along the last dimension reduce-scatter and all-gather are an all-reduce of the rest.
    reduce_scatter(grid, grid.dims)
    all_gather(grid, grid.dims)


def broadcast(grid: Grid) -> None:
    # All ranks of the root's group send a part of the buffer across, each on its own lines.
    *inner, last = grid.dims
    for dim in inner:
        grid.along(dim, ring.scatter(grid.shape[dim]), lines=range(dim), cut=range(dim))
    grid.along(last, ring.broadcast(grid.shape[last]), lines=inner, cut=inner)
    all_gather(grid, inner)


def reduce(grid: Grid) -> None:
    *inner, last = grid.dims
    reduce_scatter(grid, inner)
    grid.along(last, ring.reduce(grid.shape[last]), lines=inner, cut=inner)
    for dim in reversed(inner):
        grid.along(dim, ring.gather(grid.shape[dim]), lines=range(dim), cut=range(dim))


def scatter(grid: Grid) -> None:
    # Across first, as much as a group needs in one piece.
    for dim in reversed(grid.dims):
        above = range(dim + 1, len(grid.shape))
        grid.along(dim, ring.scatter(grid.shape[dim]), lines=above, cut=above)


def gather(grid: Grid) -> None:
    for dim in grid.dims:
        above = range(dim + 1, len(grid.shape))
        grid.along(dim, ring.gather(grid.shape[dim]), lines=above, cut=above)


def all_to_all(grid: Grid) -> None:
    for dim in grid.dims:
        grid.exchange(dim)


PARTS = {
    "all-reduce": all_reduce,
    "reduce-scatter": lambda grid: reduce_scatter(grid, grid.dims),
    "all-gather": lambda grid: all_gather(grid, grid.dims),
    "all-to-all": all_to_all,
    "broadcast": broadcast,
    "reduce": reduce,
    "gather": gather,
    "scatter": scatter,
}


def factor(n: int, limit: int) -> int:
    """The largest factor of n up to `most`."""
    return next(f for f in range(max(limit, 1), 0, -1) if n % f == 0)


def check_group(n: int, group: int) -> None:
    """Raise InputError unless n ranks can be divided into groups of `group`."""
    if n % group:
        allowed = [str(f) for f in range(1, n + 1) if n % f == 0]
        raise InputError(f"{n} ranks cannot be divided into groups of {group}", allowed=allowed)


def on_grid(kind: str, shape: Shape) -> Schedule:
    """The schedule of a kind on a grid of this shape."""
    s = Schedule(kind, prod(shape))
    PARTS[kind](Grid(s, shape))
    return s


@collectives.register("hierarchical", kinds=tuple(PARTS))
def hierarchical(kind: str, n: int, group: int | None = None) -> Schedule:
    group = factor(n, isqrt(n)) if group is None else group
    check_group(n, group)
    return on_grid(kind, (group, n // group))
