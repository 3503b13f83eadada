"""Cuts through a network: the bisection, and others that bound what any routing can do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.topology.topology import Topology

MAX_EXACT = 16  # routers with NPUs up to which every even cut is tried: 6435 cuts
MAX_SPECTRAL = 1500  # routers
AT_ONCE = 1 << 20  # links, of as many cuts as are looked at together


def bisection(topology: Topology, width: IntArray | None = None) -> tuple[int, bool]:
    """The fewest directed channels between two halves of the routers that have NPUs, and whether that is exact.

    `width`: how much each link counts; left out: 1. A switch stands on the side where it costs less. Up to MAX_EXACT
    routers with as many NPUs each all cuts are tried. Beyond that only the straight ones are, through the middle of one
    dimension: for tori and meshes they are the best (chapter 3.1.2), in general they are an upper bound; and of graphs
    that are no grid one along the second eigenvector of the Laplacian (Fiedler 1975). With an odd number of routers the
    halves differ by one.
    """
    width = np.ones(topology.links, np.int64) if width is None else width
    homes, count = np.unique(topology.home, return_counts=True)
    if len(homes) <= MAX_EXACT and (count == count[0]).all():
        # Between switches the sides are found greedily.
        has_npu = np.zeros(topology.routers, np.bool_)
        has_npu[homes] = True
        exact = not (~has_npu[topology.link_src] & ~has_npu[topology.link_dst]).any()
        return _least(topology, homes, _even_cuts(len(homes)), width), exact
    halves = []
    for rank in _ranks(topology).T:
        # Those in the middle of an odd dimension are shared out in order of their numbers.
        size = int(rank.max()) + 1
        place = 2 * rank + 1 - size
        middle = np.flatnonzero(place == 0)
        side = place > 0
        side[middle[len(middle) // 2 :]] = True
        if size > 1:
            halves.append(side)
    if topology.place is not None and topology.routers <= MAX_SPECTRAL:
        side = _fiedler(topology)[homes].argsort(kind="stable").argsort() >= len(homes) // 2
        halves.append(side)
    return _least(topology, homes, halves, width), False


def cuts(topology: Topology) -> Iterator[tuple[BoolArray, BoolArray]]:
    """(side of each NPU, side of each router) of cuts without a switch that could stand better elsewhere.

    Around each router alone; and across every dimension, both ways, at all places and around all layers.
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
    """int64[homes, dimensions]: where routers with NPUs stand; those that are shared count once."""
    _, first = np.unique(topology.home, return_index=True)
    ranks = [np.unique(axis, return_inverse=True)[1] for axis in topology.coords[first].T]
    return np.stack(ranks, axis=1).astype(np.int64)


def _even_cuts(count: int) -> Iterator[BoolArray]:
    """Every way to put half of the routers (rounded up) on the side of the first."""
    for others in combinations(range(1, count), (count + 1) // 2 - 1) if count > 1 else ():
        side = np.ones(count, np.bool_)
        side[[0, *others]] = False
        yield side


def _least(topology: Topology, homes: NDArray[np.int32], home_sides: Iterable[BoolArray], width: IntArray) -> int:
    """Of several cuts the least: directed links between the sides, each counted by its width."""
    found = []
    left, rows = iter(home_sides), max(AT_ONCE // max(topology.links, 1), 1)
    while some := [*islice(left, rows)]:
        side = _sides(topology, homes, np.array(some))
        crossing = side[:, topology.link_src] != side[:, topology.link_dst]
        found.append(int((crossing @ width).min()))
    return min(found, default=0)


def _sides(topology: Topology, homes: NDArray[np.int32], home_sides: BoolArray) -> IntArray:
    """A row for each cut, 1 or -1 for each router. A switch joins the side of most of its placed neighbours."""
    ends = (topology.link_src, topology.link_dst)
    side = np.zeros((len(home_sides), topology.routers), np.int64)  # 0 is not placed yet
    side[:, homes] = np.where(home_sides, 1, -1)
    first = np.arange(len(side))[:, np.newaxis] * topology.routers  # of each row, as bincount has no rows
    for _ in range(topology.switches):
        pull = np.zeros(side.size)
        for here, there in (ends, ends[::-1]):
            pull += np.bincount((first + here).ravel(), side[:, there].ravel(), side.size)
        placed = np.where(side == 0, np.sign(pull).reshape(side.shape), side).astype(np.int64)
        if (placed == side).all():
            break
        side = placed
    side[side == 0] = 1
    return side


def _fiedler(topology: Topology) -> NDArray[np.float64]:
    """Routers along the eigenvector of the second smallest eigenvalue: neighbours have near values."""
    laplacian = np.zeros((topology.routers, topology.routers))
    np.add.at(laplacian, (topology.link_src, topology.link_dst), -1.0)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, laplacian.diagonal() - laplacian.sum(axis=1))
    vector: NDArray[np.float64] = np.linalg.eigh(laplacian)[1][:, min(1, topology.routers - 1)]
    return vector
