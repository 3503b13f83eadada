"""A trace in numbers: types of nodes, bytes, and the shape of its graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from pyxsim.chakra.messages import CommType, NodeType
from pyxsim.chakra.trace_graph import Graph, type_name

_OF_TYPE = {
    NodeType.COMM_SEND: "send",
    NodeType.COMM_RECV: "receive",
    NodeType.MEM_LOAD: "load",
    NodeType.MEM_STORE: "store",
}


@dataclass
class Statistics:
    """Statistics of a trace, or of all ranks.

    Attributes
    ----------
    nodes
        Number of nodes per type.
    bytes
        Bytes per kind: all-reduce, send, load, ...
    compute_ns
        Duration of all COMP nodes.
    depth
        Length of the longest chain of nodes.
    width
        Nodes of the largest level, which is the distance from the beginning.
    critical_ns
        The longest path by durations; of several ranks the longest.
    """

    nodes: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    dependencies: int = 0
    compute_ns: int = 0
    depth: int = 0
    width: int = 0
    critical_ns: int = 0

    @property
    def total(self) -> int:
        """Number of nodes."""
        return sum(self.nodes.values())


def statistics(graph: Graph) -> Statistics:
    """Return the statistics of one trace."""
    kinds, counts = np.unique(graph.type, return_counts=True)
    level, end = graph.levels
    reached = level[level >= 0]
    sizes: dict[str, int] = {}
    for kind, name in _OF_TYPE.items():
        if (graph.type == kind).any():
            sizes[name] = _sum(graph.size[graph.type == kind])
    for comm in np.unique(graph.comm[graph.comm >= 0]).tolist():
        name = CommType(comm).name.lower().replace("_", "-")
        sizes[name] = _sum(graph.size[graph.comm == comm])
    return Statistics(
        nodes={type_name(kind): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)},
        bytes=sizes,
        dependencies=len(graph.before),
        compute_ns=_sum(graph.nanos[graph.type == NodeType.COMP]),
        depth=int(reached.max()) + 1 if len(reached) else 0,
        width=int(np.bincount(reached).max()) if len(reached) else 0,
        critical_ns=int(end.max()) if len(end) else 0,
    )


def together(parts: Iterable[Statistics]) -> Statistics:
    """Return the statistics of all ranks: sums; maxima of depth, width and critical path."""
    return reduce(_both, parts, Statistics())


def _both(a: Statistics, b: Statistics) -> Statistics:
    def summed(x: dict[str, int], y: dict[str, int]) -> dict[str, int]:
        return {name: x.get(name, 0) + y.get(name, 0) for name in dict.fromkeys((*x, *y))}

    return Statistics(
        summed(a.nodes, b.nodes),
        summed(a.bytes, b.bytes),
        a.dependencies + b.dependencies,
        a.compute_ns + b.compute_ns,
        max(a.depth, b.depth),
        max(a.width, b.width),
        max(a.critical_ns, b.critical_ns),
    )


def _sum(values: np.ndarray) -> int:
    """The sum as a Python number, which does not overflow; unknown sizes count as 0."""
    return sum(values[values > 0].tolist())
