"""The backend `reference` with [network.transactions]: the reference engine carries the packets of
`ReferenceTransactions` (docs/memory_traffic.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Stop
from pyxsim.network.packet.still_time import StillTime
from pyxsim.network.packet.transactions.transaction_engine import TransactionEngine
from pyxsim.network.packet.transactions.transaction_limits import limits, sizes
from pyxsim.network.packet.transactions.transaction_network import TransactionNetwork
from pyxsim.reference.engine import ReferenceEngine
from pyxsim.reference.transaction_state import LOAD, MULTICAST, OPERAND, SUM, ReferenceTransactions
from pyxsim.settings import Experiment, Network
from pyxsim.settings.transactions import Transactions
from pyxsim.topology.topology import Topology

_NOTHING = np.zeros(0, np.int64)


class _Engine(ReferenceEngine):
    """The reference engine, which returns arrivals by `deliveries`, as an engine that recycles its records."""

    def __init__(self, *description: Any) -> None:
        super().__init__(*description)
        self._returned: list[tuple[IntArray, IntArray]] = []

    def run(self, until: int, **options: Any) -> Stop:
        stop = super().run(until, **options)
        self._returned.append((stop.messages, stop.cycles))
        return replace(stop, messages=_NOTHING, cycles=_NOTHING)

    def deliveries(self) -> dict[str, IntArray]:
        """Return the numbers and cycles of the messages that have arrived since the last call, in order of both."""
        serial, last = (np.concatenate(parts) for parts in zip((_NOTHING, _NOTHING), *self._returned, strict=True))
        self._returned.clear()
        return {"serial": serial, "last": last}


class ReferenceTransactionNetwork(TransactionNetwork):
    """Memory transactions in plain Python; parameters as for `TransactionNetwork`."""

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        network = super().for_experiment(experiment, topology, window=window)
        network.still = StillTime(passes=False)
        return network

    def _accesses(self, npus: int, network: Network, asked: Transactions) -> TransactionEngine:
        accesses = ReferenceTransactions(*sizes(npus, network, asked), **limits(network, asked, reduces=self.reduces))
        return cast(TransactionEngine, accesses)

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        return cast(Engine, _Engine(self.topology.routers, config.links, config.routes, config.options))

    def send_accesses(
        self,
        src: IntArray,
        dst: IntArray,
        nbytes: IntArray,
        plane: IntArray,
        at: int,
        tag: IntArray | int,
        accesses: tuple[IntArray, IntArray, IntArray],
    ) -> int:
        first = self.messages_sent
        rows = list(zip(*(c.tolist() for c in (src, dst, nbytes, plane, *accesses)), strict=True))
        self.messages_sent += len(rows)
        self.undelivered += len(rows)
        loads: list[tuple[int, int]] = []  # by the distance of their receivers
        for number, (s, d, size, _, kind, access, count) in enumerate(rows, first):
            self._sizes.append(size)
            if kind == LOAD:
                loads.append(((d - s) % self.npus, number))
            elif kind in (SUM, MULTICAST, OPERAND):
                parts = self._gathered.setdefault(access, [])
                parts.append((s, d, number))
                if len(parts) == count:
                    self._at_switch(kind, self._gathered.pop(access), size)
            else:
                self._access(number, rows[number - first])
        for _, number in sorted(loads):
            self._access(number, rows[number - first])
        self.accesses.begin(at)
        self._flush()
        return first

    def _access(self, number: int, row: Iterable[int]) -> None:
        s, d, size, plane, kind, *_ = row
        opposite = self._back.get(plane, plane)
        if kind == LOAD:  # the receiver sends requests, against the data
            self.accesses.access(kind, d, s, size, number, there=opposite, back=plane)
        else:
            self.accesses.access(kind, s, d, size, number, there=plane, back=opposite)

    def _at_switch(self, kind: int, messages: Iterable[tuple[int, int, int]], size: int) -> None:
        if kind == SUM:  # the receiver adds its data to those of all senders
            (initiator,) = {d for _, d, _ in messages}
            gets = {initiator: -1} | {s: number for s, _, number in messages}
        elif kind == MULTICAST:
            (initiator,) = {s for s, _, _ in messages}
            gets = {initiator: -1} | {d: number for _, d, number in messages}
        else:
            gets = {d: number for _, d, number in messages}
            self.accesses.push_sum(list(gets), list(gets.values()), size)
            return
        members = sorted(gets)
        self.accesses.at_switch(kind, initiator, members, [gets[npu] for npu in members], size)

    def _flush(self) -> None:
        numbers = []
        for at, src, dst, flits, klass, plane in self.accesses.outgoing().T.tolist():
            inject, eject = self._lanes_of(src, dst, plane)
            numbers.append(self.engine.send(inject, eject, dst, plane, 1, flits, flits, at, klass))
            self._next_start, self._last_start = min(self._next_start, at), max(self._last_start, at)
        if numbers:
            self.accesses.sent(numbers[0])

    def _lanes_of(self, src: int, dst: int, plane: int) -> tuple[int, int]:
        """Return the lanes of a packet; each NPU of a switch, and each port of it, has one."""
        if self.reduces:
            return int(self._inject[src]), int(self._eject[dst])
        return self._lanes.one(src, dst, plane)
