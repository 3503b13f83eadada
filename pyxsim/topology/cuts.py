"""Cuts of a network: the bisection, and other cuts that bound every routing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.topology.topology import Topology

MAX_EXACT = 16  # routers with NPUs up to which every even cut is tried: 6435 cuts
MAX_SPECTRAL = 1500  # routers
BATCH_LINKS = 1 << 20  # cuts times links that are evaluated together


def bisection(topology: Topology, width: IntArray | None = None) -> tuple[int, bool]:
    """Return the fewest directed links between two halves of the routers with NPUs, and whether that is exact.

    `width` is the weight of each link (default: 1). A switch is on the side with the smaller cut. Up to MAX_EXACT
    routers with equal numbers of NPUs, all even cuts are tried. Beyond that only the straight cuts through the middle
    of a dimension are, which are optimal for tori and meshes (Dally and Towles, 3.1.2) and an upper bound in general;
    for a network that is not a grid, also the cut along the second eigenvector of the Laplacian (Fiedler 1975). With
    an odd number of routers the halves differ by one.
    """
    width = np.ones(topology.links, np.int64) if width is None else width
    homes, count = np.unique(topology.home, return_counts=True)
    if len(homes) <= MAX_EXACT and (count == count[0]).all():
        # The sides of switches linked to other switches are found greedily.
        has_npu = np.zeros(topology.routers, np.bool_)
        has_npu[homes] = True
        exact = not (~has_npu[topology.link_src] & ~has_npu[topology.link_dst]).any()
        return _smallest(topology, homes, _even_cuts(len(homes)), width), exact
    halves = []
    for rank in _ranks(topology).T:
        # The routers in the middle of an odd dimension are divided in order of their numbers.
        size = int(rank.max()) + 1
        from_middle = 2 * rank + 1 - size
        middle = np.flatnonzero(from_middle == 0)
        side = from_middle > 0
        side[middle[len(middle) // 2 :]] = True
        if size > 1:
            halves.append(side)
    if topology.place is not None and topology.routers <= MAX_SPECTRAL:
        side = _fiedler(topology)[homes].argsort(kind="stable").argsort() >= len(homes) // 2
        halves.append(side)
    return _smallest(topology, homes, halves, width), False


def cuts(topology: Topology) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Yield cuts as (side of each NPU, side of each router), with each switch on the side of most of its neighbors.

    The cuts are: around each single router; and in every dimension, in both directions, before each coordinate and
    around each coordinate.
    """
    homes = np.unique(topology.home)
    for home in homes.tolist() if len(homes) > 1 else []:
        routers = np.zeros(topology.routers, np.bool_)
        routers[home] = True
        yield topology.home == home, routers
    for rank in _ranks(topology).T:
        size = int(rank.max()) + 1
        tried = set()
        for at in range(size):
            for flags in (rank <= at, rank > at, rank == at):
                if flags.all() or not flags.any() or flags.tobytes() in tried:
                    continue
                tried.add(flags.tobytes())
                routers = _sides(topology, homes, flags[np.newaxis])[0] > 0
                yield routers[topology.home], routers


def _ranks(topology: Topology) -> IntArray:
    """int64[homes, dimensions]: coordinates of the routers with NPUs, compacted; a shared router counts once."""
    _, first = np.unique(topology.home, return_index=True)
    ranks = [np.unique(axis, return_inverse=True)[1] for axis in topology.coords[first].T]
    return np.stack(ranks, axis=1).astype(np.int64)


def _even_cuts(count: int) -> Iterator[BoolArray]:
    """Every way to put half of the routers (rounded up) on the side of the first."""
    for same_side in combinations(range(1, count), (count + 1) // 2 - 1) if count > 1 else ():
        side = np.ones(count, np.bool_)
        side[[0, *same_side]] = False
        yield side


def _smallest(topology: Topology, homes: NDArray[np.int32], home_sides: Iterable[BoolArray], width: IntArray) -> int:
    """The smallest of several cuts: the total width of the directed links between the sides."""
    widths = []
    remaining, rows = iter(home_sides), max(BATCH_LINKS // max(topology.links, 1), 1)
    while batch := [*islice(remaining, rows)]:
        side = _sides(topology, homes, np.array(batch))
        crossing = side[:, topology.link_src] != side[:, topology.link_dst]
        widths.append(int((crossing @ width).min()))
    return min(widths, default=0)


def _sides(topology: Topology, homes: NDArray[np.int32], home_sides: BoolArray) -> IntArray:
    """int64[cuts, routers]: side 1 or -1. A switch joins the side of most of its neighbors that have one."""
    ends = (topology.link_src, topology.link_dst)
    side = np.zeros((len(home_sides), topology.routers), np.int64)  # 0 is not placed yet
    side[:, homes] = np.where(home_sides, 1, -1)
    first = np.arange(len(side))[:, np.newaxis] * topology.routers  # of each row, as bincount has no rows
    for _ in range(topology.switches):
        pull = np.zeros(side.size)
        for near_end, far_end in (ends, ends[::-1]):
            pull += np.bincount((first + near_end).ravel(), side[:, far_end].ravel(), side.size)
        placed = np.where(side == 0, np.sign(pull).reshape(side.shape), side).astype(np.int64)
        if (placed == side).all():
            break
        side = placed
    side[side == 0] = 1
    return side


def _fiedler(topology: Topology) -> NDArray[np.float64]:
    """float64[routers]: the eigenvector of the second smallest eigenvalue; neighbors have similar values."""
    laplacian = np.zeros((topology.routers, topology.routers))
    np.add.at(laplacian, (topology.link_src, topology.link_dst), -1.0)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, laplacian.diagonal() - laplacian.sum(axis=1))
    vector: NDArray[np.float64] = np.linalg.eigh(laplacian)[1][:, min(1, topology.routers - 1)]
    return vector
