"""Bottleneck cuts of a network: how fast any collective on it can be, whatever its algorithm.

What is inside a cut and wanted behind it must cross the cut. If every NPU wants what all hold, k of n NPUs are inside
and M bytes there are in all, that takes at least M * k / n over the bandwidth of the cut. The largest such time is a
lower bound, which spanning trees reach (L. Zhao and others, "ForestColl: Throughput-Optimal Collective Communications
on Heterogeneous Network Fabrics", arXiv 2402.06787; J. Edmonds, "Edge-disjoint branchings", 1973, for trees).
A reduce-scatter is an all-gather on the reversed links.
docs/optimum.md derives the bounds of all kinds of collectives from these cuts and partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.topology.capacity_graph import CapacityGraph, Classes, Unreached, symmetries
from pyxsim.topology.max_flow import FlowGraph

UNLIMITED = 1 << 62  # links times flows


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """The cut that limits what NPUs can receive.

    Attributes
    ----------
    rate
        Width of the cut over the amount held outside: what is held per unit of time, at most.
    behind
        bool[nodes]: the nodes behind the cut; those of NPUs in another position behind other cuts of the same rate are
        in `others`.
    exact
        Whether no cut has a lower rate; otherwise some may, as not all were searched.
    """

    rate: Fraction
    behind: BoolArray
    exact: bool
    others: list[BoolArray] = field(default_factory=list)


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
    graph, names = CapacityGraph.named(links, npus)
    members = np.arange(len(npus))
    try:
        found = bottleneck(graph, members)
    except Unreached as unreached:
        raise ValueError(f"nothing reaches {names[unreached.node]}") from None
    return found.rate * graph.unit * len(npus)


def bottleneck(
    graph: CapacityGraph,
    holders: IntArray,
    amounts: Sequence[int] | None = None,
    targets: IntArray | None = None,
    *,
    shape: Sequence[int] = (),
    work: int = UNLIMITED,
) -> Bottleneck:
    """Return the cut with the least width for what is held outside of it and wanted behind it.

    A rate is possible if it can flow from all holders to each target, one target at a time. A cut that forbids this
    has a lower rate; the last one is the bottleneck (Dinkelbach's method, with whole numbers throughout). Of targets
    that a symmetry maps on each other, one is tried.

    Parameters
    ----------
    graph
        The network.
    holders
        int64[NPUs]: the nodes that hold data.
    amounts
        How much each of them holds (default: 1); a target wants all of it.
    targets
        Nodes that want data (default: the holders).
    shape
        The grid that the holders form, for their symmetries.
    work
        Links times flows that may be computed. If that is not enough, only some targets are tried, and the result is
        not exact: its rate may be too high, so that times remain lower bounds.

    Raises
    ------
    Unreached
        If no data reach a target.
    """
    amounts = [1] * len(holders) if amounts is None else [int(amount) for amount in amounts]
    symmetric = targets is None and len(set(amounts)) == 1
    wanted = holders if targets is None else targets
    held = dict(zip(holders.tolist(), amounts, strict=True))
    total = sum(amounts)
    needs = {node: total - held.get(node, 0) for node in wanted.tolist()}
    wanted = np.array([node for node in wanted.tolist() if needs[node]], np.int64)
    if not len(wanted):
        raise ValueError("no target lacks data")
    # The NPUs alone: the links to each of them.
    into = graph.into
    if symmetric:  # all need as much
        first = min(wanted.tolist(), key=into.__getitem__)
    else:
        first = min(wanted.tolist(), key=lambda node: Fraction(into[node], needs[node]))
    if not into[first]:
        raise Unreached(first)
    rate = Fraction(into[first], needs[first])
    behind = np.zeros(graph.nodes, np.bool_)
    behind[first] = True
    flows = _Flows(graph, holders, amounts)
    affordable = work // max(len(graph.width), 1)
    if affordable < 2:
        return Bottleneck(rate, behind, exact=False)
    mappings = symmetries(graph, holders, shape) if symmetric and len(holders) > 2 else []
    if symmetric:
        classes = Classes(len(holders))
        for mapping in mappings:
            classes.join(np.argsort(holders)[np.searchsorted(np.sort(holders), mapping[holders])])
        wanted = holders[classes.first]
    others: list[BoolArray] = []
    for target in wanted.tolist():
        while affordable:
            affordable -= 1
            new, cut = flows.rate(target, rate)
            if new == rate:
                if cut is not None:
                    behind = cut
                    others.append(cut)
                break
            assert cut is not None
            if not new:
                raise Unreached(target)
            rate, behind, others = new, cut, []
        else:
            return Bottleneck(rate, behind, exact=False)
    return Bottleneck(rate, behind, True, _images(others, mappings))


class _Flows:
    """Flows from all holders to one target."""

    def __init__(self, graph: CapacityGraph, holders: IntArray, amounts: Sequence[int]) -> None:
        self.graph, self.amounts = graph, amounts
        self.holders = np.zeros(graph.nodes, np.bool_)
        self.holders[holders] = True
        self.held = np.zeros(graph.nodes, object)
        self.held[holders] = list(amounts)
        source = np.full(len(holders), graph.nodes)
        ends = np.concatenate([graph.src, source]), np.concatenate([graph.dst, holders])
        self.flows = FlowGraph(graph.nodes + 1, *ends)

    def rate(self, target: int, rate: Fraction) -> tuple[Fraction, BoolArray | None]:
        """Return the rate if it can flow, and the smallest cut that allows no more; else a cut with its lower rate."""
        by, whole = rate.denominator, rate.numerator
        capacities = [width * by for width in self.graph.width] + [amount * whole for amount in self.amounts]
        value, behind = self.flows.flow(capacities, self.graph.nodes, target)
        behind = behind[:-1]
        outside = int(self.held[~behind].sum())
        if value == whole * sum(self.amounts):
            return rate, behind if outside else None
        return Fraction(self.graph.width_into(behind), outside), behind


def _images(cuts: Sequence[BoolArray], mappings: Sequence[IntArray]) -> list[BoolArray]:
    """The cuts and all their images."""
    known = {cut.tobytes(): cut for cut in cuts}
    front = list(known.values())
    while front:
        following = []
        for cut in front:
            for mapping in mappings:
                image = np.zeros_like(cut)
                image[mapping[cut]] = True
                if (key := image.tobytes()) not in known:
                    known[key] = image
                    following.append(image)
        front = following
    return list(known.values())
