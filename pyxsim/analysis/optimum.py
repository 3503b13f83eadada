"""The optimum of collectives on a network: a time below which no algorithm can get, "what is possible at all".

The lower bound of a run (bound.py) is that of its plan, which sends certain bytes in each dimension. The optimum is
that of all plans: cuts, partitions and distances of the network bound it (docs/optimum.md has the formulas). NPUs add
and copy data; switches forward them, and add them only if the schedule reduces in the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from pyxsim.arrays import AnyIntArray, BoolArray, IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.topology.capacity_graph import CapacityGraph, Unreached
from pyxsim.topology.concurrent_flow import concurrent_flow, farthest, quick_time
from pyxsim.topology.cut_bound import Bottleneck, bottleneck
from pyxsim.topology.max_flow import FEW
from pyxsim.topology.partition_bound import known_partition, least_partition
from pyxsim.topology.topology import Topology

WORK = 60_000  # links times flows of a bound that is computed beside a run: a part of a second
THOROUGH = 20_000_000  # the same, where the bound is what one asks for: up to a minute
MOST_GROUPS = 4  # groups of a collective whose cuts are searched; the links of each NPU count for all groups
MOST_COLLECTIVES = 4096  # of a run whose optimum is computed
MOST_KINDS = 8  # of links, whose lengths are tried one by one
_FEW = 32  # NPUs whose least partition is searched beside a run
_BY_BLOCKS = ("reduce-scatter", "all-to-all", "scatter")


@dataclass(frozen=True)
class Optimum:
    """A lower bound of the time of collectives for any algorithm on a network.

    Attributes
    ----------
    cycles
        The time, rounded down.
    limit
        What limits it, in words: "bottleneck cut before 8 of 32 NPUs".
    """

    cycles: int
    limit: str


@dataclass(frozen=True)
class Limit:
    """What bounds a collective of any size: cycles per byte, and cycles in any case.

    Attributes
    ----------
    per_byte
        Cycles per byte: of the buffer for all-reduce, broadcast and reduce, of a block for all others.
    least
        Latency between the NPUs that are farthest from each other, as far as it was searched, cycles.
    limit
        In words, what limits the bytes.
    exact
        Whether all cuts were searched (for all-to-all: all flows).
    """

    per_byte: Fraction
    least: int
    limit: str
    exact: bool

    def optimum(self, nbytes: int, endpoint: int) -> Optimum:
        """Return the bound for this many bytes; `endpoint`: cycles that NPUs take for sending and receiving."""
        busy = int(nbytes * self.per_byte)
        if busy >= self.least:
            return Optimum(busy + endpoint if busy else 0, self.limit)
        return Optimum(self.least + endpoint, "latency between the farthest NPUs")


class NetworkOptimum:
    """Bounds of all collectives on one network.

    Parameters
    ----------
    topology
        The network.
    rates, latencies
        Bytes per cycle, and cycles, of every link, those of host links last (`network/link_paths.py`).
    endpoint
        Cycles that an NPU takes to send a message, and to receive one.
    thorough
        Whether to search until the bounds are exact; that of an all-to-all only is if SciPy is installed.
    """

    def __init__(
        self,
        topology: Topology,
        rates: Sequence[Fraction],
        latencies: Sequence[Fraction],
        endpoint: int = 0,
        *,
        thorough: bool = False,
    ) -> None:
        self.endpoint, self.thorough = 2 * endpoint, thorough
        self.all_npus = Communicator.whole(topology.shape)
        self.work = THOROUGH if thorough else WORK
        # Beside a run, flows that need SciPy would take longer than small runs; cuts around single NPUs are at hand.
        self.flow_work = self.work if thorough or topology.links <= FEW else 0
        npus, routers = topology.npus, topology.routers
        src, dst, kind = topology.link_src, topology.link_dst, topology.link_dim
        late = np.array([int(value) for value in latencies], np.int64)
        shared = not topology.hosts and bool((np.bincount(topology.home) > 1).any())
        self.nodes = topology.home.astype(np.int64)
        widths = list(rates)
        if topology.hosts or shared:  # each NPU behind its router, by host links or without limit
            self.nodes = routers + np.arange(npus, dtype=np.int64)
            own = self.nodes.astype(np.int32)
            src, dst = np.concatenate([src, own, topology.home]), np.concatenate([dst, topology.home, own])
            kind = np.concatenate([kind, np.zeros(2 * npus, kind.dtype)])
        if shared:
            widths += [sum(set(rates), Fraction(1)) * max(len(rates), 1)] * (2 * npus)
            late = np.concatenate([late, np.zeros(2 * npus, np.int64)])
        self.graph = CapacityGraph.of(int(max(routers, self.nodes.max(initial=0) + 1)), src, dst, widths)
        self._ends = src, dst, late
        self._kinds = self._link_kinds(src, dst, kind)
        self._limits: dict[Hashable, Limit | None] = {}
        self._known_needs: dict[Hashable, tuple[_Needs, Any]] = {}

    def _link_kinds(self, src: AnyIntArray, dst: AnyIntArray, kind: AnyIntArray) -> list[IntArray]:
        """For each kind of links, int64[links of the graph]: 1 for those of the kind."""
        keys = self.graph.src * self.graph.nodes + self.graph.dst
        if not len(keys):
            return []
        of = np.zeros(len(keys), np.int64)
        place = np.searchsorted(keys, src.astype(np.int64) * self.graph.nodes + dst)
        of[np.minimum(place, len(of) - 1)] = kind
        kinds = np.unique(of)
        return [(of == value).astype(np.int64) for value in kinds] if 1 < len(kinds) <= MOST_KINDS else []

    def of_collective(self, per_group: Sequence[Any]) -> Optimum | None:
        """Return the bound of a collective in one or more groups at once; None if what it computes is unknown."""
        if not all(self._needs(item).known for item in per_group):
            return None
        return self._of(per_group, ())

    def of_run(self, collectives: Iterable[Any], messages: Iterable[Any] = ()) -> Optimum | None:
        """Return the bound of the time from the first issue to the last completion; None as `of_collective`."""
        work, sent = list(collectives), list(messages)
        if not 0 < len(work) + len(sent) <= MOST_COLLECTIVES or not all(self._needs(item).known for item in work):
            return None
        first = min(max(item.start, 0) for item in [*work, *sent])
        best = self._of(work, sent)
        for start in {max(item.start, 0) for item in work} - {first}:
            alone = self._of([item for item in work if item.start == start], ())
            best = max(best, Optimum(start - first + alone.cycles, alone.limit), key=lambda found: found.cycles)
        return best

    def _of(self, work: Sequence[Any], messages: Sequence[Any]) -> Optimum:
        """The bound of work that is issued at once."""
        amounts = Counter[_Key]()
        for item in work:
            needs = self._needs(item)
            amounts[_Key(item.kind, item.communicator, item.root or 0, needs.reduces)] += needs.nbytes
        best = Optimum(0, "")
        for key, nbytes in amounts.most_common(MOST_GROUPS):
            # Some blocks of fewer bytes than members are empty, and no NPU waits for them.
            needed = nbytes or key.kind == "barrier"
            if needed and (limit := self.limit(*key)) is not None:
                best = max(best, limit.optimum(nbytes, self.endpoint), key=lambda found: found.cycles)
        if len(amounts) > 1 or messages:
            best = max(best, self._at_npus(amounts, messages), key=lambda found: found.cycles)
        return best

    def of_all(self, kind: str, size: int, *, in_network: bool = False) -> Optimum | None:
        """Return the bound of a collective of all NPUs, `size` bytes as in its settings; None as `limit`."""
        limit = self.limit(kind, self.all_npus, in_network=in_network)
        nbytes = size // len(self.all_npus) if kind in _BY_BLOCKS else size
        return None if limit is None else limit.optimum(nbytes, self.endpoint)

    def _needs(self, collective: Any) -> _Needs:
        key = collective.kind, collective.communicator, tuple(id(chunk.plan) for chunk in collective.chunks)
        if key not in self._known_needs:
            # The plans stay with their needs, so that no other plan gets their ids.
            self._known_needs[key] = _needs(collective), [chunk.plan for chunk in collective.chunks]
        return self._known_needs[key][0]

    def limit(self, kind: str, group: Any, root: int = 0, in_network: bool = False) -> Limit | None:
        """Return what bounds a collective of a communicator; None for one NPU, or if some NPU is not reached.

        Parameters
        ----------
        root
            Rank of the root, for kinds that have one.
        in_network
            Whether switches add data.
        """
        key = kind, group, root, in_network
        if key not in self._limits:
            try:
                self._limits[key] = self._search(kind, group, root, in_network) if len(group) > 1 else None
            except Unreached:
                self._limits[key] = None
        return self._limits[key]

    def _search(self, kind: str, group: Any, root: int, in_network: bool) -> Limit:
        npus = self.nodes[np.array(group.members)]
        shape = tuple(group.shape) if group.is_grid else ()
        back = kind in ("reduce", "gather")
        least = self._farthest(npus, int(npus[root]), back)
        if kind == "barrier":
            return Limit(Fraction(0), least, "latency between the farthest NPUs", True)
        bound = _Search(self.graph, npus, shape, self)
        per_byte, limit, exact = bound.of(kind, root, in_network)
        return Limit(per_byte / self.graph.unit, least, limit, exact)

    def _farthest(self, npus: IntArray, origin: int, back: bool) -> int:
        src, dst, late = self._ends
        if len(src) > self.work:
            return 0
        ends = (dst, src) if back else (src, dst)
        return farthest(self.graph.nodes, *ends, late, origin, npus)

    def link_kinds(self) -> list[IntArray]:
        """Return for each kind of links, int64[links of the graph], 1 for those of the kind."""
        return self._kinds

    def _at_npus(self, work: Mapping[_Key, int], messages: Sequence[Any]) -> Optimum:
        """The bound by the links of each NPU, for all work together."""
        sent, received = np.zeros((2, len(self.nodes)))
        for key, nbytes in work.items():
            members = np.array(key.group.members)
            out, into = _each(key.kind, len(members), nbytes, key.root)
            sent[members] += out
            received[members] += into
        for message in messages:
            sent[message.src] += message.size
            received[message.dst] += message.size
        best = 0
        for load, widths in ((sent, self.graph.reverse.into), (received, self.graph.into)):
            width = np.array([float(widths[node]) for node in self.nodes.tolist()])
            times = np.divide(load, width, out=np.zeros_like(load), where=width > 0)
            at = int(np.argmax(times))
            if times[at]:
                exact = Fraction(int(load[at])) / (widths[int(self.nodes[at])] * self.graph.unit)
                if load[at] >= 2**53:  # sums of larger floating-point numbers may be rounded up
                    exact *= 1 - Fraction(1, 10**9)
                best = max(best, int(exact))
        if not best:
            return Optimum(0, "")
        return Optimum(best + self.endpoint, "links of one NPU, for all collectives together")


class _Search:
    """The bounds of one group of NPUs: time per byte, in units of the graph; its limit; whether all was searched."""

    def __init__(self, graph: CapacityGraph, npus: IntArray, shape: Sequence[int], network: NetworkOptimum) -> None:
        self.graph, self.npus, self.shape, self.network = graph, npus, shape, network
        self.work, self.flow_work = network.work, network.flow_work

    def of(self, kind: str, root: int, in_network: bool) -> tuple[Fraction, str, bool]:
        """Return the bound of a kind of collective."""
        graph, back = self.graph, self.graph.reverse
        if kind == "all-reduce":
            return self._reduced_in_network() if in_network else self._all_reduce()
        if kind == "all-to-all":
            return self._all_to_all()
        if kind == "all-gather":
            return self._said(self._gathered(graph))
        if kind == "reduce-scatter":
            return self._said(self._gathered(back), after=True)
        if kind in ("broadcast", "reduce"):
            return self._said(self._spread(graph if kind == "broadcast" else back, root), after=kind == "reduce")
        to_root = graph if kind == "gather" else back
        found = bottleneck(to_root, self.npus, targets=self.npus[[root]], work=self.flow_work)
        return self._said(found, after=kind == "scatter")

    def _gathered(self, graph: CapacityGraph) -> Bottleneck:
        return bottleneck(graph, self.npus, shape=self.shape, work=self.flow_work)

    def _spread(self, graph: CapacityGraph, root: int) -> Bottleneck:
        amounts = [int(position == root) for position in range(len(self.npus))]
        others = np.delete(self.npus, root)
        return bottleneck(graph, self.npus, amounts, others, work=self.flow_work)

    def _said(self, found: Bottleneck, after: bool = False) -> tuple[Fraction, str, bool]:
        behind, count = int(found.behind[self.npus].sum()), len(self.npus)
        side = "behind" if after else "before"
        name = "bottleneck cut" if found.exact else "cut"
        return 1 / found.rate, f"{name} {side} {behind} of {count} NPUs", found.exact

    def _reduced_in_network(self) -> tuple[Fraction, str, bool]:
        """Every cut between NPUs must carry everything, both ways."""
        return max(
            (
                self._said(self._spread(graph, 0))
                for graph in {id(g): g for g in (self.graph, self.graph.reverse)}.values()
            ),
            key=lambda found: found[0],
        )

    def _all_reduce(self) -> tuple[Fraction, str, bool]:
        count = len(self.npus)
        graphs = [self.graph] if self.graph.reverse is self.graph else [self.graph, self.graph.reverse]
        found = [self._gathered(graph) for graph in graphs]
        # A reduce-scatter and an all-gather, which trees reach, take that long in all.
        both = sum(1 / (count * cuts.rate) for cuts in (found[0], found[-1]))
        times = []
        for graph, cuts in zip(graphs, found, strict=True):
            partition = known_partition(graph, self.npus, cuts)
            if 1 / partition.rate != both and count <= (4 * _FEW if self.network.thorough else _FEW):
                partition = min(partition, least_partition(graph, self.npus), key=lambda each: each.rate)
            groups = "NPUs" if partition.single else "groups of NPUs"
            times.append((1 / partition.rate, f"links out of {partition.count} {groups}"))
            width, behind = graph.width_into(cuts.behind), int(cuts.behind[self.npus].sum())
            times.append((Fraction(1, width), f"cut before {behind} of {count} NPUs"))
            narrow = min(graph.into[node] for node in self.npus.tolist())
            times.append((Fraction(1, narrow), f"cut before 1 of {count} NPUs"))
        per_byte, limit = max(times, key=lambda each: each[0])
        return per_byte, limit, per_byte == both and all(cuts.exact for cuts in found)

    def _all_to_all(self) -> tuple[Fraction, str, bool]:
        count = len(self.npus)
        if self.network.thorough and find_spec("scipy"):
            found = concurrent_flow(self.graph, self.npus, shape=self.shape)
            if found.exact:
                return found.time, "maximum concurrent flow", True
        kinds = self.network.link_kinds()
        time = quick_time(self.graph, self.npus, kinds, self.shape, work=self.work)
        times = []
        cuts = [self._gathered(graph).behind for graph in (self.graph, self.graph.reverse)]
        for behind in [*cuts, *self._rows()]:
            inside = int(behind[self.npus].sum())
            width = min(self.graph.width_into(behind), self.graph.width_out(behind))
            if 0 < inside < count and width:
                times.append((Fraction(inside * (count - inside), width), f"cut before {inside} of {count} NPUs"))
        times.append((time, "distances between the NPUs"))  # last: of equal bounds, a cut says more
        return *max(times, key=lambda each: each[0]), False

    def _rows(self) -> Iterator[BoolArray]:
        """bool[nodes]: the first NPUs of the group in rows of equal length, with the switches that link only them."""
        count = len(self.npus)
        for row in range(1, count // 2 + 1):
            if count % row == 0:
                behind = np.zeros(self.graph.nodes, np.bool_)
                behind[self.npus[:row]] = True
                yield _with_switches(self.graph, behind, self.npus)


def _with_switches(graph: CapacityGraph, behind: BoolArray, npus: IntArray) -> BoolArray:
    """Add the nodes whose links come from these nodes for the most part."""
    fixed = np.zeros(graph.nodes, np.bool_)
    fixed[npus] = True
    widths = np.array([float(width) for width in graph.width])
    for _ in range(8):
        inside = np.bincount(graph.dst, widths * behind[graph.src], graph.nodes)
        outside = np.bincount(graph.dst, widths * ~behind[graph.src], graph.nodes)
        new = np.where(fixed, behind, inside > outside)
        if (new == behind).all():
            break
        behind = new
    return behind


class _Key(NamedTuple):
    """Collectives whose bytes add up."""

    kind: str
    group: Any
    root: int
    reduces: bool


class _Needs(NamedTuple):
    """Of a collective: whether what it computes is proved, whether switches add data, and the bytes of its limit."""

    known: bool
    reduces: bool
    nbytes: int


def _needs(collective: Any) -> _Needs:
    plans = [chunk.plan for chunk in collective.chunks]
    schedules = [phase.schedule() for plan in {id(plan): plan for plan in plans}.values() for phase in plan.phases]
    known = collective.matrix is None and not any(
        schedule.unproved or schedule.given_bytes is not None for schedule in schedules
    )
    reduces = any(schedule.in_network for schedule in schedules)
    # Blocks may differ in size by a byte: the smallest ones count.
    parts = len(collective.communicator) if collective.kind in _BY_BLOCKS else 1
    nbytes = 0 if collective.kind == "barrier" else sum(plan.size // parts for plan in plans)
    return _Needs(known, reduces, nbytes)


def _each(kind: str, count: int, nbytes: int, root: int) -> tuple[Any, Any]:
    """The bytes that each NPU must send and receive: float64[count] each."""
    one, rest, none = np.full(count, float(nbytes)), np.full(count, float(nbytes * (count - 1))), np.zeros(count)
    if count < 2 or kind == "barrier":
        return none, none
    if kind == "all-reduce":
        return one, one
    if kind == "all-to-all":
        return rest, rest
    if kind in ("all-gather", "reduce-scatter"):
        return (one, rest) if kind == "all-gather" else (rest, one)
    others = one.copy()
    others[root] = 0
    at_root = none.copy()
    at_root[root] = nbytes if kind in ("broadcast", "reduce") else nbytes * (count - 1)
    return (at_root, others) if kind in ("broadcast", "scatter") else (others, at_root)
