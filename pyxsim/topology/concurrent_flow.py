"""The concurrent flow of a network: how fast any all-to-all on it can be.

Every byte from NPU to NPU is another one, so all of them flow at once. Give each link a length: bytes times the
distance that they must go is at most length times width of all links, times the time. Every choice of lengths thus
bounds the time from below, and the best one is the time of the maximum concurrent flow (F. Shahrokhi and D. Matula,
"The maximum concurrent flow problem", 1990), by the duality of linear programs. Here the linear program only finds the
lengths; the bound is that of the lengths, in whole numbers, so it holds whatever the solver's tolerance.

This assumes that data are forwarded, not coded: no node sends a combination of blocks of which another makes one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import AnyIntArray, IntArray
from pyxsim.errors import InputError
from pyxsim.topology.capacity_graph import CapacityGraph, Classes, Unreached, symmetries

MOST_VARIABLES = 60_000  # of a linear program, which HiGHS solves in seconds
_FINE = 10**6  # whole lengths up to this one stand for those of the solver
_FAR = np.iinfo(np.int64).max
Demand = NDArray[np.int64]


@dataclass(frozen=True)
class FlowBound:
    """A lower bound of the time of an all-to-all.

    Attributes
    ----------
    time
        Bytes over width: divided by the unit of the graph it is a time.
    exact
        Whether some flow takes no more time, to the tolerance of the solver.
    """

    time: Fraction
    exact: bool


def time_of_lengths(
    graph: CapacityGraph,
    npus: IntArray,
    lengths: Sequence[int],
    demand: Demand | None = None,
    sources: Sequence[tuple[int, int]] | None = None,
) -> Fraction:
    """Return the least time of a demand, by these lengths of the links, in bytes per width.

    Parameters
    ----------
    npus
        int64[NPUs]: their nodes.
    lengths
        Of each link, whole numbers.
    demand
        int64[NPUs, NPUs]: bytes from each to each (default: 1).
    sources
        Some positions of NPUs, and how many each stands for (default: all).

    Raises
    ------
    Unreached
        If data cannot reach their NPU.
    """
    total = sum(length * width for length, width in zip(lengths, graph.width, strict=True))
    if not total:
        return Fraction(0)
    after: list[list[tuple[int, int]]] = [[] for _ in range(graph.nodes)]
    for a, b, length in zip(graph.src.tolist(), graph.dst.tolist(), lengths, strict=True):
        after[a].append((b, int(length)))
    nodes = npus.tolist()
    work = 0
    for source, count in sources or [(position, 1) for position in range(len(nodes))]:
        row = [1] * len(nodes) if demand is None else demand[source].tolist()
        distance = _distances(after, nodes[source])
        for position, nbytes in enumerate(row):
            if nbytes and position != source:
                if distance[nodes[position]] == _FAR:
                    raise Unreached(nodes[position])
                work += count * nbytes * distance[nodes[position]]
    return Fraction(work, total)


def _distances(after: Sequence[Sequence[tuple[int, int]]], source: int) -> list[int]:
    """The distance of each node (Dijkstra 1959)."""
    distance = [int(_FAR)] * len(after)
    distance[source] = 0
    front = [(0, source)]
    while front:
        far, node = heapq.heappop(front)
        if far > distance[node]:
            continue
        for near, length in after[node]:
            if far + length < distance[near]:
                distance[near] = far + length
                heapq.heappush(front, (far + length, near))
    return distance


def farthest(nodes: int, src: AnyIntArray, dst: AnyIntArray, lengths: IntArray, source: int, npus: IntArray) -> int:
    """Return the largest distance of some nodes from a source; those that are not reached do not count."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for a, b, length in zip(src.tolist(), dst.tolist(), lengths.tolist(), strict=True):
        after[a].append((b, length))
    distance = _distances(after, source)
    return max((distance[node] for node in npus.tolist() if distance[node] != _FAR), default=0)


class Orbits:
    """What the symmetries of a graph map on each other: positions of NPUs, and links."""

    def __init__(self, graph: CapacityGraph, npus: IntArray, shape: Sequence[int] = ()) -> None:
        npu_classes, link_classes = Classes(len(npus)), Classes(len(graph.width))
        order, keys = np.argsort(npus), graph.src * graph.nodes + graph.dst
        for mapping in symmetries(graph, npus, shape):
            npu_classes.join(order[np.searchsorted(npus[order], mapping[npus])])
            link_classes.join(np.searchsorted(keys, mapping[graph.src] * graph.nodes + mapping[graph.dst]))
        first, count = np.unique(npu_classes.of, return_counts=True)
        self.sources: list[tuple[int, int]] = list(zip(first.tolist(), count.tolist(), strict=True))
        """A position of each class, and the size of the class."""
        self.links = link_classes.of
        """int64[links]: the class of each link."""

    def sources_of(self, lengths: IntArray) -> list[tuple[int, int]] | None:
        """Return the sources that stand for all with these lengths; None if a symmetry changes a length."""
        return self.sources if bool((lengths == lengths[self.links]).all()) else None


def quick_time(
    graph: CapacityGraph,
    npus: IntArray,
    classes: Sequence[IntArray] = (),
    shape: Sequence[int] = (),
    work: int = 1 << 62,
) -> Fraction:
    """Return the best time of a byte from each to each by some lengths: that of a byte on the link, and given ones.

    Parameters
    ----------
    classes
        int64[links] each, such as 1 for the links of a dimension, 0 for others.
    work
        Links times distances that may be computed. If that is not enough, only some sources count.
    """
    orbits = Orbits(graph, npus, shape)
    whole = int(np.lcm.reduce(np.array(sorted(set(graph.width)), object)))
    choices = [np.array([whole // width for width in graph.width], object), *classes]
    most = max(work // max(len(graph.width), 1) // len(choices), 1)
    best = Fraction(0)
    for lengths in choices:
        sources = orbits.sources_of(lengths) or [(position, 1) for position in range(len(npus))]
        best = max(best, time_of_lengths(graph, npus, lengths.tolist(), sources=sources[:most]))
    return best


def concurrent_flow(
    graph: CapacityGraph, npus: IntArray, demand: Demand | None = None, shape: Sequence[int] = ()
) -> FlowBound:
    """Return the time of the maximum concurrent flow, by a linear program with the flows from each NPU.

    For equal demands there are flows from one NPU for each class that symmetries map on each other, and one load for
    each class of links. If the program is larger than MOST_VARIABLES, the bound is `quick_time`.

    Raises
    ------
    InputError
        If SciPy is not installed.
    Unreached
        If data cannot reach their NPU.
    """
    if demand is None:
        orbits = Orbits(graph, npus, shape)
        sources, link_class = orbits.sources, orbits.links
    else:
        sources, link_class = [(position, 1) for position in range(len(npus))], np.arange(len(graph.width))
    if len(sources) * len(graph.width) > MOST_VARIABLES:
        if demand is None:
            return FlowBound(quick_time(graph, npus, shape=shape), exact=False)
        whole = int(np.lcm.reduce(np.array(sorted(set(graph.width)), object)))
        time = time_of_lengths(graph, npus, [whole // width for width in graph.width], demand)
        return FlowBound(time, exact=False)
    solved = _solve(graph, npus, sources, link_class, demand)
    lengths = np.round(_FINE * solved.lengths / max(solved.lengths.max(), 1e-300)).astype(np.int64).tolist()
    time = time_of_lengths(graph, npus, lengths, demand, sources)
    return FlowBound(time, exact=float(time) >= solved.time * (1 - 1e-4))


@dataclass(frozen=True)
class _Solved:
    time: float
    lengths: NDArray[np.float64]  # of each link


def _solve(
    graph: CapacityGraph,
    npus: IntArray,
    sources: Sequence[tuple[int, int]],
    link_class: IntArray,
    demand: Demand | None,
) -> _Solved:
    """Minimize the time in which the flows from these NPUs, averaged over all symmetries, fit into the links.

    Rows: what each node receives less what it sends is what it wants; the load of each class of links is at most its
    width times the time. Columns: the flow of each source on each link; the time.
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_array
    except ImportError:
        raise InputError("the maximum concurrent flow needs SciPy", allowed="pip install 'pyxsim[design]'") from None
    links, nodes, flows = len(graph.width), graph.nodes, len(sources)
    numbers = np.arange(links)
    classes, which = np.unique(link_class, return_inverse=True)
    widths = np.array([float(width) for width in graph.width])
    rows, columns, values = [], [], []
    wants = np.zeros((flows, nodes))
    load_rows, load_columns, load_values = [], [], []
    for number, (source, count) in enumerate(sources):
        wants[number, npus] = 1 if demand is None else demand[source]
        wants[number, npus[source]] = 0
        wants[number, npus[source]] = -wants[number].sum()
        rows += [number * nodes + graph.dst, number * nodes + graph.src]
        columns += [number * links + numbers] * 2
        values += [np.ones(links), -np.ones(links)]
        load_rows.append(which)
        load_columns.append(number * links + numbers)
        load_values.append(np.full(links, float(count)))
    capacity = np.bincount(which, widths, len(classes))
    load_rows.append(np.arange(len(classes)))
    load_columns.append(np.full(len(classes), flows * links))
    load_values.append(-capacity)
    equal: Any = csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (flows * nodes, flows * links + 1)
    )
    below: Any = csr_array(
        (np.concatenate(load_values), (np.concatenate(load_rows), np.concatenate(load_columns))),
        (len(classes), flows * links + 1),
    )
    cost = np.zeros(flows * links + 1)
    cost[-1] = 1
    found = linprog(cost, below, np.zeros(len(classes)), equal, wants.ravel(), method="highs")
    if found.status:
        raise ValueError(f"no flow satisfies the demand: {found.message}")
    return _Solved(float(found.fun), -np.asarray(found.ineqlin.marginals)[which])
