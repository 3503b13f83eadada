"""The partition that limits an all-reduce: how fast any algorithm can add up data in NPUs and return the sums.

Divide the NPUs into k groups and call a group one NPU. An element of the data must arrive in a first group as the
complete sum, for which the k-1 others each send a message; and from then on each of the others must receive one. The
messages that bring them differ from those before, so every element leaves groups 2 (k-1) times (P. Patarasuk and X.
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009, for groups of one). The width of
all links out of the groups carries no more.

Among NPUs without switches and with links that are equal both ways, trees in which data are added up and returned
reach the bound: the largest packing of spanning trees equals the least partition (W. Tutte and C. Nash-Williams, 1961).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.topology.capacity_graph import CapacityGraph
from pyxsim.topology.cut_bound import Bottleneck
from pyxsim.topology.max_flow import FlowGraph


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of NPUs, and the switches on their side.

    Attributes
    ----------
    count
        Number of groups.
    width
        Total width of the links out of each group.
    single
        Whether each group is one NPU.
    """

    count: int
    width: int
    single: bool = False

    @property
    def rate(self) -> Fraction:
        """The most bytes of an all-reduce per unit of time."""
        return Fraction(self.width, 2 * (self.count - 1))


def singles(graph: CapacityGraph, npus: IntArray) -> Partition:
    """Return the partition into single NPUs."""
    out = graph.reverse.into
    return Partition(len(npus), sum(out[npu] for npu in npus.tolist()), single=True)


def known_partition(graph: CapacityGraph, npus: IntArray, cuts: Bottleneck) -> Partition:
    """Return the better one of two partitions: into single NPUs, and into what is behind the bottleneck cuts.

    The nodes in no cut form one group more.
    """
    best = singles(graph, npus)
    free = np.ones(graph.nodes, np.bool_)
    count = width = 0
    for behind in sorted([cuts.behind, *cuts.others], key=lambda cut: int(cut[npus].sum())):
        if not (behind[npus] & ~free[npus]).any():
            free &= ~behind
            count += 1
            width += graph.width_out(behind)
    if free[npus].any():
        count += 1
        width += graph.width_out(free)
    blocks = Partition(count, width, single=count == len(npus))
    return min(best, blocks, key=lambda partition: partition.rate) if count > 1 else best


def least_partition(graph: CapacityGraph, npus: IntArray) -> Partition:
    """Return the partition with the least rate, after Newton's method: a flow for each NPU in each round.

    Each round finds the partition with the least width minus rate times groups, by the greedy algorithm for the
    truncation of a submodular function (W. Cunningham, "Optimal attack and reinforcement of a network", 1985).
    """
    search = _Truncation(graph, npus)
    best = singles(graph, npus)
    while True:
        groups = search.partition(Fraction(best.width, best.count - 1))
        if len(groups) < 2:
            return best
        width = sum(search.width(group) for group in groups)
        new = Partition(len(groups), width, single=len(groups) == len(npus))
        if new.rate >= best.rate:
            return best
        best = new


class _Truncation:
    """Least partitions of NPUs; the width of a group is that of its least cut to all other NPUs."""

    def __init__(self, graph: CapacityGraph, npus: IntArray) -> None:
        self.graph, self.npus = graph, npus.tolist()
        source, sink = graph.nodes, graph.nodes + 1
        count = len(npus)
        src = np.concatenate([graph.src, np.full(count, source), npus])
        dst = np.concatenate([graph.dst, npus, np.full(count, sink)])
        self.flows = FlowGraph(graph.nodes + 2, src, dst)
        self.most = sum(graph.width) + 1

    def partition(self, rate: Fraction) -> list[list[int]]:
        """Return the groups, as positions of NPUs, with the least sum of width minus `rate`."""
        values: list[int] = []
        groups: list[list[int]] = []
        for position in range(len(self.npus)):
            least, members = self._least(position, values, rate)
            values.append(least)
            joined = [group for group in groups if members.intersection(group)]
            groups = [group for group in groups if group not in joined]
            groups.append(sorted({position, *(number for group in joined for number in group)}))
        return groups

    def width(self, group: Sequence[int]) -> int:
        """Return the width of the least cut around some NPUs, given by their positions."""
        inside = set(group)
        into = [self.most if number in inside else 0 for number in range(len(self.npus))]
        out = [0 if number in inside else self.most for number in range(len(self.npus))]
        return self._flow(1, into, out)[0]

    def _least(self, position: int, values: Sequence[int], rate: Fraction) -> tuple[int, set[int]]:
        """The least width minus rate minus values of the others, times the denominator of the rate; and the group.

        Over all groups of this NPU and earlier ones.
        """
        by, most = rate.denominator, (self.most + sum(map(abs, values))) * rate.denominator
        later = len(self.npus) - position - 1
        into = [*(max(value, 0) for value in values), most, *[0] * later]
        out = [*(max(-value, 0) for value in values), 0, *[most] * later]
        value, behind = self._flow(by, into, out)
        group = {number for number in range(position) if not behind[self.npus[number]]}
        return value - sum(max(value, 0) for value in values) - rate.numerator, group

    def _flow(self, by: int, into: list[int], out: list[int]) -> tuple[int, BoolArray]:
        capacities = [width * by for width in self.graph.width] + into + out
        return self.flows.flow(capacities, self.graph.nodes, self.graph.nodes + 1)
