"""The transactions of all NPUs: docs/memory_traffic.md in plain Python, slow and readable.

`ReferenceTransactions` has the interface of the engine's `TransactionEngine`, and must agree with it on every packet.
Packets have to arrive cycle by cycle, with `release` in between where `next_release` says so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import takewhile
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.packet.transactions.transaction_tables import BINS, bin_edges

STORE, LOAD, ATOMIC, SUM, MULTICAST, OPERAND = KINDS = range(6)
REQUEST, RESPONSE, TO_SWITCH, TO_MEMBER, FROM_MEMBER, FROM_SWITCH = TYPES = range(6)
_ANSWERS = (RESPONSE, FROM_MEMBER, FROM_SWITCH)

Key = tuple[int, int]  # of a queue: the kind and the target; loads, and stores with atomics, are apart


@dataclass(eq=False)
class Access:
    """A message, or those that one access of the switch stands for: transactions of at most `part` bytes."""

    kind: int
    initiator: int
    target: int  # NONE at the switch
    size: int
    part: int
    messages: dict[int, int]  # by the NPU that gets their data, NPUs in order; -1: not a message
    planes: tuple[int, int] = (0, 0)  # of requests and of responses
    sums: list[Sum] = field(default_factory=list)  # of operands: that of each transaction
    issued: int = 0

    @property
    def count(self) -> int:
        return ceil(Fraction(self.size, self.part))

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(self.messages, self.count)  # transactions whose data have not arrived

    @property
    def key(self) -> Key:
        return (STORE if self.kind == ATOMIC else self.kind), self.target


@dataclass(eq=False)
class Request:
    """A transaction."""

    access: Access
    index: int
    nbytes: int
    issued: int
    pending: int = 0  # answers of members
    ended: bool = False


@dataclass(eq=False)
class Sum:
    """A sum that takes an entry of the reduction buffer."""

    members: int
    request: Request | None = None  # of a load of a sum
    arrived: int = -1
    start: int = -1  # when it took its entry
    end: int = -1
    added: int = 0
    operands: list[Request] = field(default_factory=list)


@dataclass(eq=False)
class Server:
    """Serves bytes one after the other: a memory, or the adders."""

    rate: Fraction | None
    free: Fraction = Fraction(0)
    busy: Fraction = Fraction(0)

    def serve(self, nbytes: int, now: int) -> int:
        """Return the cycle in which these bytes have been served."""
        if self.rate is None:
            return now
        self.busy += nbytes / self.rate
        self.free = max(self.free, Fraction(now)) + nbytes / self.rate
        return ceil(self.free)


@dataclass(eq=False)
class Npu:
    """What an NPU issues, and what it waits for."""

    memory: Server
    queues: dict[Key, deque[Access]] = field(default_factory=dict)
    turns: deque[Key] = field(default_factory=deque)  # queues that may issue, in the order of their turns
    places: list[Request] = field(default_factory=list)  # requests that count as outstanding, in their order
    most: int = 0


@dataclass(eq=False)
class Sending:
    """A packet."""

    type: int
    request: Request
    member: int  # the NPU at its other end, if the switch is at one
    at: int
    src: int
    dst: int
    flits: int


class ReferenceTransactions:
    """The state of all accesses; parameters as for `TransactionEngine`."""

    lookahead = 0  # every cycle with an arrival is processed by itself

    def __init__(
        self,
        npus: int,
        flit: int,
        size: int,
        switch_size: int,
        request: int,
        response: int,
        *,
        turnaround: int,
        memory_latency: int,
        switch_latency: int,
        memory_rate: Fraction | None = None,
        adder_rate: Fraction | None = None,
        outstanding: int,
        per_destination: int = 0,
        entries: int = 0,
        in_order: bool = False,
        acks: bool = True,
        fetches: bool = False,
        units: bool = False,
    ) -> None:
        self.npus, self.flit, self.size, self.switch_size = npus, flit, size, switch_size
        self.headers = request, response
        self.turnaround, self.memory_latency, self.switch_latency = turnaround, memory_latency, switch_latency
        self.limit, self.pair_limit, self.entries = outstanding, per_destination, entries
        self.in_order, self.acks, self.fetches, self.units = in_order, acks, fetches, units
        self.nodes = [Npu(Server(memory_rate)) for _ in range(npus)]
        self.adders = Server(adder_rate)
        self.open = self.last_end = 0
        self.waiting: deque[Sum] = deque()  # for an entry
        self.releases: deque[int] = deque()  # cycles in which entries become free
        self.sums: list[Sum] = []  # all that have had an entry
        self.in_use = self.most_entries = self.most_waiting = 0
        self._outgoing: list[Sending] = []
        self._flying: dict[int, Sending] = {}  # by serial number
        self._complete: list[tuple[int, int]] = []  # a heap of (cycle, message)
        self._latencies: list[list[int]] = [[] for _ in KINDS]
        self._counts = [dict.fromkeys(_COUNTED, 0) for _ in KINDS]
        self._packets = [[0] * len(TYPES), [0] * len(TYPES)]

    # -- work --

    def access(
        self, kind: int, initiator: int, peer: int, size: int, message: int, *, there: int = 0, back: int = 0
    ) -> None:
        """Add a store, a load or an atomic; parameters as for `TransactionEngine.access`."""
        gets = initiator if kind == LOAD else peer
        self._add(Access(kind, initiator, peer, size, self.size, {gets: message}, (there, back)))

    def at_switch(self, kind: int, initiator: int, members: Sequence[int], messages: Sequence[int], size: int) -> None:
        """Add a load of the sum of all members, or a store to all members."""
        by_npu = dict(zip(members, messages, strict=True))
        self._add(Access(kind, initiator, -1, size, self.switch_size, by_npu))

    def push_sum(self, members: Sequence[int], messages: Sequence[int], size: int) -> None:
        """Add a sum to which every member sends its operands, and which every member gets."""
        sums = [Sum(len(members)) for _ in range(ceil(Fraction(size, self.switch_size)))]
        for npu, message in zip(members, messages, strict=True):
            self._add(Access(OPERAND, npu, -1, size, self.switch_size, {npu: message}, sums=sums))

    def _add(self, access: Access) -> None:
        npu = self.nodes[access.initiator]
        npu.queues.setdefault(access.key, deque()).append(access)
        self.open += access.count
        self._take_turn(npu, access.key)

    def begin(self, at: int) -> None:
        """Issue requests of the accesses that have been added."""
        for npu in range(self.npus):
            self._issue(npu, at)

    def _take_turn(self, npu: Npu, key: Key) -> None:
        """Let a queue that may issue wait for its turn, behind the others."""
        held = sum(request.access.key == key for request in npu.places)
        full = self.pair_limit and held >= self.pair_limit
        if npu.queues[key] and not full and key not in npu.turns:
            npu.turns.append(key)

    def _issue(self, number: int, at: int) -> None:
        npu = self.nodes[number]
        while npu.turns and len(npu.places) < self.limit:
            key = npu.turns.popleft()
            access = npu.queues[key][0]
            nbytes = min(access.part, access.size - access.issued * access.part)
            request = Request(access, access.issued, nbytes, at)
            access.issued += 1
            if access.issued == access.count:
                npu.queues[key].popleft()
            npu.places.append(request)
            npu.most = max(npu.most, len(npu.places))
            counts = self._counts[access.kind]
            counts["transactions"] += 1
            counts["data_bytes"] += nbytes
            data = 0 if access.kind in (LOAD, SUM) else nbytes
            if access.target >= 0:
                self._send(REQUEST, request, number, access.target, at, data)
            else:
                self._send(TO_SWITCH, request, number, self.npus + number, at, data)
            self._take_turn(npu, key)

    def _send(self, kind: int, request: Request, src: int, dst: int, at: int, data: int) -> None:
        counts, answers = self._counts[request.access.kind], kind in _ANSWERS
        nbytes = self.headers[answers] + data
        flits = ceil(Fraction(nbytes, self.flit))
        name = "response" if answers else "request"
        counts[f"{name}_bytes"] += nbytes
        counts[f"{name}_flits"] += flits
        counts["carried_bytes"] += data
        self._packets[0][kind] += 1
        self._outgoing.append(Sending(kind, request, dst if dst < self.npus else src, at, src, dst, flits))

    # -- packets --

    def outgoing(self) -> IntArray:
        """Return the packets to send, int64[6, K], as `TransactionEngine.outgoing`."""
        rows = [
            (p.at, p.src, p.dst, p.flits, p.type in _ANSWERS, p.request.access.planes[p.type in _ANSWERS])
            for p in self._outgoing
        ]
        return np.array(rows, np.int64).reshape(-1, 6).T

    def sent(self, first: int) -> None:
        """Note the serial number of the first one of the packets of `outgoing`; the others follow."""
        self._flying |= enumerate(self._outgoing, first)
        self._outgoing = []

    def packet(self, serial: int) -> tuple[int, int, int]:
        """Return (flits, initiator, target) of a packet that has not arrived."""
        packet = self._flying[serial]
        return packet.flits, packet.request.access.initiator, packet.member

    def arrive(self, serials: IntArray, cycles: IntArray) -> None:
        """Process packets that have arrived, in this order."""
        for serial, now in zip(serials.tolist(), cycles.tolist(), strict=True):
            self.release(now)
            packet = self._flying.pop(serial)
            self._packets[1][packet.type] += 1
            _ON_ARRIVAL[packet.type](self, packet, now)

    def _at_target(self, packet: Sending, now: int) -> None:
        request, target = packet.request, packet.dst
        kind, nbytes = request.access.kind, request.nbytes
        at = self.nodes[target].memory.serve(nbytes * (2 if kind == ATOMIC else 1), now) + self.memory_latency
        if kind != LOAD:
            self._data_arrived(request.access, target, now)
        returned = nbytes if kind == LOAD or (kind == ATOMIC and self.fetches) else 0
        if returned or self.acks:
            self._send(RESPONSE, request, target, packet.src, at, returned)
        else:
            self._end(request, now)

    def _at_initiator(self, packet: Sending, now: int) -> None:
        request = packet.request
        for npu in request.access.messages if request.access.kind in (LOAD, SUM, OPERAND) else ():
            self._data_arrived(request.access, npu, now)
        self._end(request, now)

    def _at_switch(self, packet: Sending, now: int) -> None:
        request = packet.request
        access = request.access
        if access.kind == MULTICAST:
            self._to_members(request, now + self.switch_latency, request.nbytes)
        elif access.kind == SUM:
            self._request_entry(Sum(len(access.messages), request), now)
        else:
            entry = access.sums[request.index]
            entry.operands.append(request)
            if len(entry.operands) == 1:
                self._request_entry(entry, now)
            elif entry.start >= 0:
                self._add_operand(entry, request.nbytes, now)

    def _to_members(self, request: Request, at: int, data: int) -> None:
        request.pending = len(request.access.messages)
        for npu in request.access.messages:
            self._send(TO_MEMBER, request, self.npus + npu, npu, at, data)

    def _at_member(self, packet: Sending, now: int) -> None:
        request, npu = packet.request, packet.dst
        at = self.nodes[npu].memory.serve(request.nbytes, now) + self.memory_latency
        if request.access.kind == SUM:
            self._send(FROM_MEMBER, request, npu, packet.src, at, request.nbytes)
            return
        self._data_arrived(request.access, npu, now)
        if self.acks:
            self._send(FROM_MEMBER, request, npu, packet.src, at, 0)
            return
        request.pending -= 1
        if not request.pending:
            self._end(request, now)

    def _from_member(self, packet: Sending, now: int) -> None:
        request = packet.request
        if request.access.kind == SUM:
            entry = next(s for s in self.sums if s.request is request)
            self._add_operand(entry, request.nbytes, now)
            return
        request.pending -= 1
        if not request.pending:
            self._to_initiator(request, now + self.switch_latency, 0)

    def _to_initiator(self, request: Request, at: int, data: int) -> None:
        npu = request.access.initiator
        self._send(FROM_SWITCH, request, self.npus + npu, npu, at, data)

    # -- the reduction buffer --

    def _request_entry(self, entry: Sum, now: int) -> None:
        entry.arrived = now
        if self.entries and self.in_use == self.entries:
            self.waiting.append(entry)
            self.most_waiting = max(self.most_waiting, len(self.waiting))
        else:
            self._start(entry, now)

    def _start(self, entry: Sum, now: int) -> None:
        self.in_use += 1
        self.most_entries = max(self.most_entries, self.in_use)
        self.sums.append(entry)
        entry.start = now
        if entry.request is not None:
            self._to_members(entry.request, max(now, entry.arrived + self.switch_latency), 0)
        for request in entry.operands:
            self._add_operand(entry, request.nbytes, now)

    def _add_operand(self, entry: Sum, nbytes: int, now: int) -> None:
        at = self.adders.serve(nbytes, now) + self.switch_latency
        entry.added += 1
        if entry.added < entry.members:
            return
        entry.end = at
        self.releases.append(at)
        for request in entry.operands if entry.request is None else (entry.request,):
            self._to_initiator(request, at, nbytes)

    def next_release(self) -> int:
        """Return the cycle in which the next entry becomes free for a sum that waits; -1: none waits, or is known."""
        return self.releases[0] if self.waiting and self.releases else -1

    def release(self, now: int) -> None:
        """Free the entries that are free by cycle `now`, for sums that wait."""
        while self.releases and self.releases[0] <= now:
            at = self.releases.popleft()
            self.in_use -= 1
            if self.waiting:
                self._start(self.waiting.popleft(), at)

    @property
    def waiting_at_switch(self) -> int:
        """Sums that wait for an entry of the reduction buffer."""
        return len(self.waiting)

    # -- ends --

    def _data_arrived(self, access: Access, npu: int, now: int) -> None:
        access.left[npu] -= 1
        if not access.left[npu] and access.messages[npu] >= 0:
            heapq.heappush(self._complete, (now + self.turnaround, access.messages[npu]))

    def _end(self, request: Request, now: int) -> None:
        npu = self.nodes[request.access.initiator]
        request.ended = True
        self.open -= 1
        self.last_end = now
        self._latencies[request.access.kind].append(now - request.issued)
        free = list(takewhile(lambda other: other.ended, npu.places)) if self.in_order else [request]
        for other in free:
            npu.places.remove(other)
            self._take_turn(npu, other.access.key)
        self._issue(request.access.initiator, now + self.turnaround)

    def next_completion(self) -> int:
        """Return the cycle in which the next message is complete; -1: none is known yet."""
        return self._complete[0][0] if self._complete else -1

    def completed(self, now: int) -> tuple[IntArray, IntArray]:
        """Return (messages, cycles) of those that are complete by cycle `now`."""
        rows = []
        while self._complete and self._complete[0][0] <= now:
            rows.append(heapq.heappop(self._complete))
        cycles, messages = np.array(rows, np.int64).reshape(-1, 2).T
        return messages, cycles

    # -- results --

    def packet_counts(self) -> IntArray:
        """Return int64[2, 6]: packets sent and arrived by type."""
        return np.array(self._packets)

    def kinds(self) -> tuple[list[dict[str, int]], IntArray]:
        """Return the statistics of each kind, and int64[kinds, bins] of latencies, as `TransactionEngine.kinds`."""
        rows, counts = [], np.zeros((len(KINDS), BINS), np.int64)
        for kind, latencies in enumerate(self._latencies):
            ends = {"min": min(latencies, default=-1), "max": max(latencies, default=0), "sum": sum(latencies)}
            rows.append({**self._counts[kind], **{f"latency_{name}": value for name, value in ends.items()}})
            np.add.at(counts[kind], np.searchsorted(bin_edges(BINS), latencies), 1)
        return rows, counts

    def outstanding_most(self) -> IntArray:
        """Return int64[npus]: most requests outstanding."""
        return np.array([npu.most for npu in self.nodes])

    def switch(self, end: int) -> dict[str, float]:
        """Return the counters of the switch at the end of the run."""
        stalls = [entry.start - entry.arrived for entry in self.sums if entry.start > entry.arrived]
        return {
            "stalls": len(stalls),
            "stall_cycles": sum(stalls),
            "entry_cycles": sum((min(end, s.end) if s.end >= 0 else end) - s.start for s in self.sums),
            "entries_max": self.most_entries,
            "waiting_max": self.most_waiting,
            "adder_busy": float(self.adders.busy),
        }


_COUNTED = (
    "transactions",
    "data_bytes",
    "carried_bytes",
    "request_flits",
    "response_flits",
    "request_bytes",
    "response_bytes",
)
_ON_ARRIVAL = {
    REQUEST: ReferenceTransactions._at_target,
    RESPONSE: ReferenceTransactions._at_initiator,
    TO_SWITCH: ReferenceTransactions._at_switch,
    TO_MEMBER: ReferenceTransactions._at_member,
    FROM_MEMBER: ReferenceTransactions._from_member,
    FROM_SWITCH: ReferenceTransactions._at_initiator,
}
