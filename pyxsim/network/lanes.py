"""The lanes between NPUs and routers, and the choice of lanes for a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import AnyIntArray, ArrayMemo, BoolArray, IntArray, unique_by_identity
from pyxsim.errors import InputError
from pyxsim.network.link_params import LANE, LINK, LinkParams, LinkParamsFactory
from pyxsim.network.link_paths import ends_of_routes
from pyxsim.network.retry import share_of_bandwidth
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import to_cycles

_EJECT = 32  # bits of the ejection lane in a number that holds both lanes of a pair
_MANY = 4096  # messages whose lanes are looked up in arrays
_MOST_CALLED = 1 << 21  # entries of known calls: 16 MB


@dataclass(frozen=True, eq=False)
class Lanes:
    """The injection lanes, or the ejection lanes, of all NPUs, numbered NPU by NPU.

    Attributes
    ----------
    start
        int64[npus + 1]: NPU i has the lanes start[i] to start[i + 1] - 1.
    key
        int64[lanes]: the link, dimension or plane that a lane serves, or its number.
    place
        int64[links]: index, among the lanes of an NPU, of the lane that serves a link of its router.
    wires, wire
        Parameters of each kind of lanes; int64[lanes], the kind of each lane.
    """

    start: IntArray
    key: IntArray
    place: IntArray
    wires: Sequence[LinkParams]
    wire: IntArray

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, npu: int) -> dict[int, int]:
        """Return the lanes of an NPU by their keys."""
        first, end = self.start[npu : npu + 2].tolist()
        return dict(zip(self.key[first:end].tolist(), range(first, end), strict=True))

    def __iter__(self) -> Iterator[dict[int, int]]:
        return (self[npu] for npu in range(len(self)))

    @cached_property
    def npu(self) -> IntArray:
        """int64[lanes]: the NPU of each lane."""
        return np.repeat(np.arange(len(self)), self.count)

    @cached_property
    def count(self) -> IntArray:
        """int64[npus]: number of lanes of each NPU."""
        return np.diff(self.start)

    def check(self, npus: IntArray | None = None) -> None:
        """Raise InputError if one of these NPUs (default: all) has no lane."""
        count = self.count if npus is None else self.count[npus]
        if not count.all():
            index = int(np.argmin(count))
            npu = index if npus is None else int(npus[index])
            raise InputError(
                f"NPU {npu} has no link and therefore no lane", key="network.lanes", allowed="'auto' or a number"
            )

    def name(self, lane: int, kind: str) -> str:
        """Return the name of a lane, such as "injection lane 1 of NPU 5"; without its number if it is the only one."""
        npu = int(self.npu[lane])
        first, end = self.start[npu : npu + 2].tolist()
        return f"{kind} lane {f'{lane - first} ' if end - first > 1 else ''}of NPU {npu}"


def make_lanes(
    topology: Topology,
    network: Network,
    wires: Sequence[LinkParams],
    link_params: Sequence[LinkParams],
    numbered: BoolArray,
    wiring: LinkParamsFactory,
    *,
    incoming: bool,
) -> Lanes:
    """Make the injection lanes (with `incoming`, the ejection lanes) of all NPUs. Raises InputError.

    `wires`: parameters of each kind of links; `link_params`: of each link; `numbered`: bool[npus], NPUs with a given
    number of lanes instead of a lane per link or dimension.
    """
    home = topology.home if incoming else topology.relation.starts
    ends = topology.link_dst if incoming else topology.link_src
    count = network.lanes if isinstance(network.lanes, int) else 1
    plain = np.full_like(numbered, True) if topology.lane_per_plane else numbered
    # Links router by router; links of a router with the same key share a lane, in order of the first one.
    link = np.argsort(ends, kind="stable")
    router = ends[link].astype(np.int64)
    key = topology.link_dim[link].astype(np.int64) if network.lanes == "per-dimension" else link
    _, first, group = np.unique(router * (topology.links + 1) + key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    group = np.argsort(order)[group]
    first = first[order]
    groups = np.searchsorted(router[first], np.arange(topology.routers + 1))  # first group of each router
    place = np.zeros(topology.links, np.int64)
    place[link] = group - groups[router]

    given_count = topology.planes if topology.lane_per_plane else count
    start = np.zeros(topology.npus + 1, np.int64)
    np.cumsum(np.where(plain, given_count, np.diff(groups)[home]), out=start[1:])
    npu = np.repeat(np.arange(topology.npus), np.diff(start))
    number = np.arange(start[-1]) - start[npu]
    place[np.isin(ends, home[plain])] = 0
    # A lane is as wide as the widest of the links that it serves. Messages whose packets choose their first link take
    # the lanes in turn: then each lane serves all links of the router.
    choosing = not topology.relation.deterministic and any(queue.plane < 0 for dim in topology.queues for queue in dim)
    serves_all = np.full_like(plain, True) if choosing else plain
    kinds, which = unique_by_identity(link_params)
    speeds = sorted({wire.s for wire in (*kinds, *wires)}) or [Fraction(1)]
    rank = np.array([speeds.index(wire.s) for wire in kinds], np.int64)[which][link]
    fastest_setting = min((speeds.index(wire.s) for wire in wires), default=0)
    of_router = np.full(topology.routers, len(speeds))
    np.minimum.at(of_router, router, rank)
    of_router[of_router == len(speeds)] = fastest_setting
    of_group = np.full(len(first) + 1, fastest_setting)
    of_group[group] = len(speeds)
    np.minimum.at(of_group, group, rank)
    at = np.where(plain[npu], len(first), groups[home[npu]] + number)
    fastest, wire = np.unique(np.where(serves_all[npu], of_router[home[npu]], of_group[at]), return_inverse=True)

    if topology.hosts:
        latency = to_cycles(network.latencies(len(topology.link_kinds))[0], network.clock)[0]
    else:
        latency = network.lane_cycles
    keys_of = LINK if topology.hosts else LANE
    make = partial(wiring.wire, latency=latency, from_router=incoming, into_router=not incoming, keys=keys_of)
    if topology.hosts:
        width = network.bandwidths(len(topology.link_kinds))[0] * share_of_bandwidth(network)
        kinds_of_lanes = [make(width)] * len(fastest)
    elif network.lane_bandwidth is None:
        kinds_of_lanes = [make(network.flit * network.clock / speeds[i]) for i in fastest.tolist()]
    else:
        kinds_of_lanes = [make(network.lane_bandwidth)] * len(fastest)
    keys = np.where(plain[npu], number, np.append(key[first], 0)[at])
    return Lanes(start, keys, place, kinds_of_lanes, wire)


class RoundRobinLanes:
    """The lanes of each NPU in round-robin order."""

    def __init__(self, lanes: Lanes) -> None:
        self.first, self.count = lanes.start[:-1], lanes.count
        self.used = np.zeros(len(lanes), np.int64)
        self._single = self.count.max(initial=0) <= 1

    def one(self, npu: int) -> int:
        """Return the next lane of an NPU."""
        used = int(self.used[npu])
        self.used[npu] = used + 1
        return int(self.first[npu]) + used % int(self.count[npu])

    def take(self, npus: NDArray[np.integer]) -> IntArray:
        """Return the next lane of each of these NPUs, which may contain repetitions."""
        first: IntArray = self.first[npus]
        if self._single:
            return first
        order = np.argsort(npus, kind="stable")
        ordered = npus[order]
        rank = np.empty(len(npus), np.int64)
        rank[order] = np.arange(len(npus)) - np.searchsorted(ordered, ordered)
        lanes: IntArray = first + (self.used[npus] + rank) % self.count[npus]
        np.add.at(self.used, npus, 1)
        return lanes


class LaneChoice:
    """Chooses the lanes of messages: those of the first and last link of the route, or round robin if unknown."""

    def __init__(self, topology: Topology, network: Network, inject: Lanes, eject: Lanes) -> None:
        self._relation = topology.relation
        self._inject, self._eject = inject, eject
        self._by_plane = topology.lane_per_plane
        self._by_number = isinstance(network.lanes, int) and not self._by_plane
        self._open = not (self._by_number or self._by_plane or topology.relation.deterministic)
        self._out, self._into = RoundRobinLanes(inject), RoundRobinLanes(eject)
        # Cache: (source, destination, plane) as one number -> both lanes as one number; as arrays, by the first number.
        self._known: dict[int, int] = {}
        self._codes = self._lanes = np.zeros(0, np.int64)
        self._calls: ArrayMemo[tuple[IntArray, IntArray]] = ArrayMemo(_MOST_CALLED)

    def one(self, src: int, dst: int, plane: int) -> tuple[int, int]:
        """Return (injection lane, ejection lane) of a message."""
        if self._by_number:
            lane = self._out.one(src)
            return lane, int(self._eject.start[dst] + lane - self._inject.start[src])
        if self._open and plane < 0:
            return self._out.one(src), self._into.one(dst)
        code = self._code(src, dst, plane)
        if (known := self._known.get(code)) is None:
            inject, eject = self._fixed(*(np.array([value], np.int64) for value in (src, dst, plane)))
            self._known[code] = int(inject[0]) << _EJECT | int(eject[0])
            return int(inject[0]), int(eject[0])
        return known >> _EJECT, known & ((1 << _EJECT) - 1)

    def many(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        """Return (injection lane, ejection lane) of each message, int64[K] each."""
        if self._by_number:
            inject = self._out.take(src)
            return inject, self._eject.start[dst] + inject - self._inject.start[src]
        if self._open and (undecided := plane < 0).any():
            inject, eject = np.empty_like(src), np.empty_like(dst)
            inject[undecided], eject[undecided] = self._out.take(src[undecided]), self._into.take(dst[undecided])
            inject[~undecided], eject[~undecided] = self._fixed(src[~undecided], dst[~undecided], plane[~undecided])
            return inject, eject
        return self._fixed(src, dst, plane)

    def _fixed(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        key = ArrayMemo.key((src, dst, plane))
        if (found := self._calls.get(key)) is not None:
            return found
        codes = self._code(src, dst, plane)
        pair_lanes = self._recall(codes)
        if len(new := np.flatnonzero(pair_lanes < 0)):
            inject, eject = self._find(src[new], dst[new], plane[new])
            pair_lanes[new] = inject << _EJECT | eject
            self._remember(codes[new], pair_lanes[new])
        lanes = pair_lanes >> _EJECT, pair_lanes & ((1 << _EJECT) - 1)
        self._calls.put(key, lanes, 5 * len(src))
        return lanes

    def _recall(self, codes: IntArray) -> IntArray:
        """Return the lanes from the cache, -1 if unknown."""
        known = np.full(len(codes), -1)
        if len(codes) < _MANY:
            known[:] = [self._known.get(code, -1) for code in codes.tolist()]
        if len(self._codes):
            place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
            found = self._codes[place] == codes
            known[found] = self._lanes[place[found]]
        return known

    def _remember(self, codes: IntArray, lanes: IntArray) -> None:
        """Add lanes to the cache: many at once to arrays, which take less memory."""
        if len(codes) < _MANY:
            self._known.update(zip(codes.tolist(), lanes.tolist(), strict=True))
            return
        self._codes, first = np.unique(np.concatenate([self._codes, codes]), return_index=True)
        self._lanes = np.concatenate([self._lanes, lanes])[first]

    def _find(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        if self._by_plane:
            return self._inject.start[src] + plane, self._eject.start[dst] + plane
        self._inject.check(src)
        self._eject.check(dst)
        first, last = ends_of_routes(self._relation, src, dst, plane)
        inject, eject = (
            lanes.start[npu] + np.where(link >= 0, np.append(lanes.place, 0)[link], 0)
            for lanes, npu, link in ((self._inject, src, first), (self._eject, dst, last))
        )
        return inject, eject

    def _code(self, src: AnyIntArray | int, dst: AnyIntArray | int, plane: AnyIntArray | int) -> Any:
        npus, planes = self._relation.npus, self._relation.planes + 1
        return (src * npus + dst) * planes + plane + 1
