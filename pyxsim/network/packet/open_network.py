"""The packet backend for open traffic: messages enter in arrays, and arrivals are taken out in tables.

The engine forgets a message once `deliveries` has returned it, so memory holds only messages in flight and in source
queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import MOST_TAGS
from pyxsim.network.engine_config import MessageClass
from pyxsim.network.lanes import RoundRobinLanes
from pyxsim.network.packet.divided_network import FOREVER
from pyxsim.network.packet.mpi_world import mpi_world
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.protocol import OpenBackend
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology

_COLUMNS = ("src", "dst", "packets", "flits", "last_flits")


class OpenNetwork(PacketNetwork, OpenBackend):
    """The packet backend for open traffic; parameters as in `PacketNetwork`."""

    capabilities = replace(PacketNetwork.capabilities, fast_forward=False)

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        classes: Sequence[MessageClass] = (MessageClass(),),
        **options: Any,
    ) -> None:
        super().__init__(topology, network, classes=classes, open_traffic=True, recycle=True, **options)
        self._into, self._out = RoundRobinLanes(self.config.inject), RoundRobinLanes(self.config.eject)
        for lanes in (self.config.inject, self.config.eject):
            lanes.check()
        self._sent = _Sent()
        self._arrived: list[dict[str, IntArray]] = []

    @classmethod
    def for_open_traffic(
        cls,
        experiment: Experiment,
        topology: Topology,
        *,
        window: int,
        classes: Sequence[MessageClass],
        packet: int,
    ) -> Self:
        return cls(
            topology,
            experiment.network,
            window=window,
            seed=experiment.output.seed,
            classes=classes,
            packet=packet,
            attribution=experiment.output.level,
            threads=experiment.run.most_threads,
            world=mpi_world() if experiment.run.mpi else None,
            faulty=experiment,
        )

    def inject(
        self,
        at: ArrayLike,
        src: ArrayLike,
        dst: ArrayLike,
        flits: ArrayLike,
        klass: ArrayLike = 0,
        *,
        plane: ArrayLike = -1,
        packets: ArrayLike = 1,
        last_flits: ArrayLike | None = None,
    ) -> int:
        last_flits = flits if last_flits is None else last_flits
        values = np.broadcast_arrays(at, src, dst, flits, klass, plane, packets, last_flits)
        at, src, dst, flits, klass, plane, packets, last_flits = (np.atleast_1d(value) for value in values)
        if not len(src):
            return self._sent.count
        first = self.engine.send_many(
            self._into.take(src),
            self._out.take(dst),
            dst,
            plane,
            packets,
            flits,
            last_flits,
            at,
            klass,
            np.minimum(klass, MOST_TAGS - 1),  # tag
        )
        self._next_start = min(self._next_start, int(at.min()))
        self._sent.add(first, {"src": src, "dst": dst, "packets": packets, "flits": flits, "last_flits": last_flits})
        return first

    def run(self, until: int, *, slack: int | None = None) -> bool:
        limit = self._limit(until, slack)
        self._close_before(self._next_start)
        while True:
            self.pause()
            stop = self._run(limit, FOREVER if slack is None else slack)
            if slack is not None and limit == until:
                self._take()
                limit = self._limit(until, slack)
            if stop.reason == "idle":
                return False
            if self.now >= limit and stop.reason != "window":
                return True

    def _limit(self, until: int, slack: int | None) -> int:
        return until if slack is None or not self._arrived else min(until, int(self._arrived[0]["last"][0]) + slack)

    def deliveries(self) -> dict[str, IntArray]:
        self._take()
        parts, self._arrived = self._arrived, []
        if not parts:
            parts = [self.engine.deliveries()]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        columns |= self._sent.take(columns["serial"])
        self.bytes_delivered += int(columns["flits"].sum()) * self.settings.flit
        return columns

    def _take(self) -> None:
        arrivals = self.engine.deliveries()
        if len(arrivals["serial"]):
            self._arrived.append(arrivals)

    def _packet_flits(self, message: int, packet: int) -> int:
        sent = self._sent
        last = packet == sent.get("packets", message) - 1
        return sent.get("last_flits" if last else "flits", message)

    def message_split(self, message: int) -> list[int] | None:
        return None  # the engine no longer has the message

    def _ends_of(self, message: int) -> tuple[int, int]:
        return self._sent.get("src", message), self._sent.get("dst", message)


class _Sent:
    """Columns of the messages that have not arrived, by number; arrived ones are dropped in blocks."""

    def __init__(self) -> None:
        self.base = 0  # number of the first message that is kept
        self.count = 0  # messages sent
        self.columns = {name: np.zeros(1024, np.int32) for name in _COLUMNS}
        self.pending = np.zeros(1024, np.bool_)

    def add(self, first: int, values: dict[str, NDArray[np.integer]]) -> None:
        begin = first - self.base
        end = begin + len(values["src"])
        if end > len(self.pending):
            self._reserve(len(values["src"]))
            begin, end = first - self.base, first - self.base + len(values["src"])
        for name, column in self.columns.items():
            column[begin:end] = values[name]
        self.pending[begin:end] = True
        self.count = first + len(values["src"])

    def _reserve(self, more: int) -> None:
        """Drop the oldest messages that have arrived, and reserve twice the remaining length."""
        known = self.pending[: self.count - self.base]
        dropped = int(np.argmax(known)) if known.any() else len(known)
        size = 2 * (self.count - self.base - dropped + more)
        for name, column in [*self.columns.items(), ("pending", self.pending)]:
            grown = np.zeros(size, column.dtype)
            kept = column[dropped : self.count - self.base]
            grown[: len(kept)] = kept
            if name == "pending":
                self.pending = grown
            else:
                self.columns[name] = grown
        self.base += dropped

    def take(self, serial: IntArray) -> dict[str, IntArray]:
        """Return sources and destinations of messages that have arrived, and mark these as arrived."""
        index = serial - self.base
        self.pending[index] = False
        return {name: self.columns[name][index].astype(np.int64) for name in ("src", "dst")}

    def get(self, name: str, message: int) -> int:
        return int(self.columns[name][message - self.base])
