"""Lanes: where NPUs meet their routers, and which of them a message takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import AnyIntArray, BoolArray, IntArray, unique_by_identity
from pyxsim.errors import InputError
from pyxsim.network.link_params import LANE, LinkParams, LinkParamsFactory
from pyxsim.network.link_paths import ends_of_routes
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import to_cycles

_EJECT = 32  # bits of an ejection lane, where both lanes of a pair are one number


@dataclass(frozen=True, eq=False)
class Lanes:
    """The injection lanes, or the ejection lanes, of all NPUs, numbered NPU by NPU.

    start     int64[npus + 1]  those of NPU i are start[i] to start[i + 1] - 1
    key       int64[lanes]     what each is there for: a link of the router, a dimension, a plane, or just its place
    place     int64[links]     which of an NPU's lanes serves a link of its router
    wires     each kind of lanes once; `wire` int64[lanes]: which of them each is
    """

    start: IntArray
    key: IntArray
    place: IntArray
    wires: Sequence[LinkParams]
    wire: IntArray

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, npu: int) -> dict[int, int]:
        """The lanes of an NPU by their keys."""
        first, end = self.start[npu : npu + 2].tolist()
        return dict(zip(self.key[first:end].tolist(), range(first, end), strict=True))

    def __iter__(self) -> Iterator[dict[int, int]]:
        return (self[npu] for npu in range(len(self)))

    @cached_property
    def npu(self) -> IntArray:
        """int64[lanes]: the NPU of each."""
        return np.repeat(np.arange(len(self)), self.count)

    @cached_property
    def count(self) -> IntArray:
        """int64[npus]: how many each has."""
        return np.diff(self.start)

    def check(self, npus: IntArray | None = None) -> None:
        """Raise InputError where one of these NPUs (default: of all) has no lane."""
        count = self.count if npus is None else self.count[npus]
        if not count.all():
            place = int(np.argmin(count))
            npu = place if npus is None else int(npus[place])
            raise InputError(
                f"NPU {npu} has no link, and so no lane", key="network.lanes", allowed="'auto' or a number"
            )

    def name(self, lane: int, kind: str) -> str:
        """A lane by its NPU, and its number there if it has several: "injection lane 1 of NPU 5"."""
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
    """The injection lanes (or, `incoming`, the ejection lanes) of all NPUs. Raises InputError.

    `wires`: of each kind of links; `link_params`: of each link; `numbered`: NPUs with a plain number of lanes.
    """
    home, ends = topology.home, topology.link_dst if incoming else topology.link_src
    count = network.lanes if isinstance(network.lanes, int) else 1
    plain = np.full_like(numbered, True) if topology.lane_per_plane else numbered
    # Links router by router; those with the same key have a lane together, in order of the first one.
    link = np.argsort(ends, kind="stable")
    router = ends[link].astype(np.int64)
    key = topology.link_dim[link].astype(np.int64) if network.lanes == "per-dimension" else link
    _, first, group = np.unique(router * (topology.links + 1) + key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    group = np.argsort(order)[group]
    first = first[order]
    groups = np.searchsorted(router[first], np.arange(topology.routers + 1))  # where those of each router begin
    place = np.zeros(topology.links, np.int64)
    place[link] = group - groups[router]

    each = topology.planes if topology.lane_per_plane else count
    start = np.zeros(topology.npus + 1, np.int64)
    np.cumsum(np.where(plain, each, np.diff(groups)[home]), out=start[1:])
    npu = np.repeat(np.arange(topology.npus), np.diff(start))
    number = np.arange(start[-1]) - start[npu]
    place[np.isin(ends, home[plain])] = 0
    # A lane is as wide as the widest of the links that it serves.
    kinds, which = unique_by_identity(link_params)
    speeds = sorted({wire.s for wire in (*kinds, *wires)}) or [Fraction(1)]
    rank = np.array([speeds.index(wire.s) for wire in kinds], np.int64)[which][link]
    most = min((speeds.index(wire.s) for wire in wires), default=0)
    of_router = np.full(topology.routers, len(speeds))
    np.minimum.at(of_router, router, rank)
    of_router[of_router == len(speeds)] = most
    of_group = np.full(len(first) + 1, most)
    of_group[group] = len(speeds)
    np.minimum.at(of_group, group, rank)
    at = np.where(plain[npu], len(first), groups[home[npu]] + number)
    fastest, wire = np.unique(np.where(plain[npu], of_router[home[npu]], of_group[at]), return_inverse=True)

    latency = to_cycles(network.lane_latency, network.clock)[0]
    make = partial(wiring.wire, latency=latency, from_router=incoming, into_router=not incoming, keys=LANE)
    if network.lane_bandwidth is None:
        found = [make(network.flit * network.clock / speeds[i], quiet=True) for i in fastest.tolist()]
    else:
        found = [make(network.lane_bandwidth)] * len(fastest)
    keys = np.where(plain[npu], number, np.append(key[first], 0)[at])
    return Lanes(start, keys, place, found, wire)


class Turns:
    """Lanes in turns: each NPU's one after the other."""

    def __init__(self, lanes: Lanes) -> None:
        self.first, self.count = lanes.start[:-1], lanes.count
        self.turn = np.zeros(len(lanes), np.int64)
        self._alone = self.count.max(initial=0) <= 1

    def one(self, npu: int) -> int:
        """A lane for an NPU."""
        turn = int(self.turn[npu])
        self.turn[npu] = turn + 1
        return int(self.first[npu]) + turn % int(self.count[npu])

    def take(self, npus: NDArray[np.integer]) -> IntArray:
        """A lane for each of these NPUs, which may come several times."""
        first: IntArray = self.first[npus]
        if self._alone:
            return first
        order = np.argsort(npus, kind="stable")
        ordered = npus[order]
        rank = np.empty(len(npus), np.int64)
        rank[order] = np.arange(len(npus)) - np.searchsorted(ordered, ordered)
        lanes: IntArray = first + (self.turn[npus] + rank) % self.count[npus]
        np.add.at(self.turn, npus, 1)
        return lanes


class LaneChoice:
    """The lanes of messages: those of the first and the last link of their way; in turns where these are not known."""

    def __init__(self, topology: Topology, network: Network, inject: Lanes, eject: Lanes) -> None:
        self._relation = topology.relation
        self._inject, self._eject = inject, eject
        self._by_plane = topology.lane_per_plane
        self._by_number = isinstance(network.lanes, int) and not self._by_plane
        self._open = not (self._by_number or self._by_plane or topology.relation.deterministic)
        self._out, self._into = Turns(inject), Turns(eject)
        # Lanes of pairs that have their own: (source, destination, plane) as one number -> both lanes as one.
        self._known: dict[int, int] = {}

    def one(self, src: int, dst: int, plane: int) -> tuple[int, int]:
        """The lanes of one message."""
        if self._by_number:
            lane = self._out.one(src)
            return lane, int(self._eject.start[dst] + lane - self._inject.start[src])
        if self._open and plane < 0:
            return self._out.one(src), self._into.one(dst)
        code = self._code(src, dst, plane)
        if (known := self._known.get(code)) is None:
            inject, eject = self._own(*(np.array([value], np.int64) for value in (src, dst, plane)))
            return int(inject[0]), int(eject[0])
        return known >> _EJECT, known & ((1 << _EJECT) - 1)

    def many(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        """The (injection lane, ejection lane) of each message of some."""
        if self._by_number:
            inject = self._out.take(src)
            return inject, self._eject.start[dst] + inject - self._inject.start[src]
        if self._open and (turns := plane < 0).any():
            inject, eject = np.empty_like(src), np.empty_like(dst)
            inject[turns], eject[turns] = self._out.take(src[turns]), self._into.take(dst[turns])
            inject[~turns], eject[~turns] = self._own(src[~turns], dst[~turns], plane[~turns])
            return inject, eject
        return self._own(src, dst, plane)

    def _own(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
        codes = self._code(src, dst, plane).tolist()
        lanes = [self._known.get(code, -1) for code in codes]
        found = np.array(lanes, np.int64)
        if len(new := np.flatnonzero(found < 0)):
            inject, eject = self._find(src[new], dst[new], plane[new])
            found[new] = inject << _EJECT | eject
            self._known.update(zip([codes[i] for i in new.tolist()], found[new].tolist(), strict=True))
        return found >> _EJECT, found & ((1 << _EJECT) - 1)

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
