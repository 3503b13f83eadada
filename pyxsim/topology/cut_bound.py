"""The bottleneck cut of a network: how fast any all-gather or reduce-scatter on it can be.

What is inside a cut that leaves at least one NPU out must leave it: k of n NPUs are inside, and M bytes in total take
at least M * k / n over the bandwidth out of the cut. The largest such time is a lower bound, which spanning trees reach
(L. Zhao and others, "ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network Fabrics", arXiv
2402.06787). A reduce-scatter is an all-gather on the reversed links.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction

_SOURCE = ("source", None)


def bottleneck_bandwidth(links: Iterable[tuple[Hashable, Hashable, int]], npus: Sequence[Hashable]) -> Fraction:
    """Return the most bytes per time that an all-gather can deliver to every NPU, those of its own included.

    Parameters
    ----------
    links
        From, to, and bandwidth, a whole number of any unit, which is that of the result. Parallel links add up.
    npus
        The nodes that hold and want data, at least 2; all others are switches.

    Raises
    ------
    ValueError
        If an NPU cannot be reached from another one.
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(npus)
    for a, b, bandwidth in links:
        before = graph.edges[a, b]["bandwidth"] if graph.has_edge(a, b) else 0
        graph.add_edge(a, b, bandwidth=before + bandwidth)
    # A rate is possible if it can flow from every NPU to each of them at once. A cut that forbids this gives a smaller
    # rate; the last one is the bottleneck (Dinkelbach's method, with whole numbers throughout).
    rate = Fraction(sum(data["bandwidth"] for *_, data in graph.in_edges(npus[0], data=True)), len(npus) - 1)
    checked = 0
    while checked < len(npus):
        target = npus[checked]
        if not rate:
            raise ValueError(f"nothing reaches {target}")
        for *_, data in graph.edges(data=True):
            data["capacity"] = data["bandwidth"] * rate.denominator
        flow = graph.copy()
        flow.add_edges_from(((_SOURCE, npu) for npu in npus), capacity=rate.numerator)
        value, (inside, _) = nx.minimum_cut(flow, _SOURCE, target)
        if value == rate.numerator * len(npus):
            checked += 1
            continue
        out = sum(data["bandwidth"] for a, b, data in graph.edges(data=True) if a in inside and b not in inside)
        rate = Fraction(out, sum(npu in inside for npu in npus))
    return rate * len(npus)
