"""The packet backend: messages as packets and flits through the engine, cycle by cycle (docs/router.md)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.engine import Engine
from pyxsim.errors import InputError
from pyxsim.network.deadlock import deadlock_error
from pyxsim.network.machine import Machine, build_machine
from pyxsim.network.windows import WindowRecorder
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology

SLICE = 200_000  # cycles between two looks at the keyboard and the clock
FOREVER = 1 << 60
MAX_FLITS = 2**31 - 1


class Route(NamedTuple):
    """How messages from one NPU to another travel: lanes, and links crossed."""

    inject: int
    eject: int
    hops: int


class PacketNetwork:
    """A `Network` (see protocol) that simulates every flit.

    `window`: cycles of the statistics' windows. `tick` is called at least every `SLICE` cycles: progress, Ctrl-C.
    """

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        trace: bool = False,
    ) -> None:
        self.topology = topology
        self.settings = network
        self.npus = topology.npus
        self.clock_hz: Fraction = network.clock
        self.machine: Machine = build_machine(topology, network)
        self.engine = Engine(
            topology.routers, self.machine.links, self.machine.routes, self.machine.options, trace=trace
        )
        self.windows = WindowRecorder(window, topology.links)
        self.tick = tick or (lambda: None)
        self.flit_hops = 0
        self.bytes_delivered = 0
        self._routes: dict[tuple[int, int, int], Route] = {}
        self._bytes: list[int] = []
        self._ends: list[tuple[int, int]] = []
        # Since when nothing has been going on, and when the first message since then starts.
        self._idle_since: int | None = None
        self._next_start = FOREVER
        self._turn = [0] * topology.npus

    @property
    def now(self) -> int:
        return self.engine.now

    # -- messages --

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int) -> int:
        if nbytes < 1:
            raise ValueError(f"a message of {nbytes} bytes")
        route = self._routes.get((src, dst, plane)) or self._find_route(src, dst, plane)
        packets, flits, last = self.cut(nbytes)
        message = self.engine.send(route.inject, route.eject, dst, plane, packets, flits, last, at)
        self._next_start = min(self._next_start, at)
        self._bytes.append(nbytes)
        self._ends.append((src, dst))
        self.flit_hops += ((packets - 1) * flits + last) * route.hops
        return message

    def cut(self, nbytes: int) -> tuple[int, int, int]:
        """(packets, flits of each, flits of the last one) of a message. The header rides in front of the payload."""
        size, flit, header = self.settings.packet, self.settings.flit, self.settings.header
        packets = -(-nbytes // size)
        full = -(-(size + header) // flit)
        rest = nbytes - (packets - 1) * size
        last = full if self.settings.pad_packets else -(-(rest + header) // flit)
        if packets == 1:
            full = last  # the packets that may be longer are not there
        if max(packets, full) > MAX_FLITS:
            what = "packets" if packets > MAX_FLITS else "flits in a packet"
            raise InputError(
                f"a message of {nbytes} bytes has too many {what}", key="network.packet", allowed=f"at most {MAX_FLITS}"
            )
        return packets, full, last

    def _find_route(self, src: int, dst: int, plane: int) -> Route:
        """The lanes of a pair: those of its first and its last link."""
        lanes = self.settings.lanes
        links = [link for link, _ in self.topology.relation.route(src, dst, plane)]
        machine, dims = self.machine, self.topology.link_dim
        if self.topology.lane_per_plane:
            first = last = plane
        elif isinstance(lanes, int):
            first = last = self._turn[src]
            self._turn[src] = (self._turn[src] + 1) % lanes
        elif not links:
            first, last = next(iter(machine.inject[src])), next(iter(machine.eject[dst]))
        elif lanes in ("auto", "per-link"):
            first, last = links[0], links[-1]
        else:
            first, last = int(dims[links[0]]), int(dims[links[-1]])
        route = Route(machine.inject[src][first], machine.eject[dst][last], len(links))
        if not isinstance(lanes, int) or self.topology.lane_per_plane:
            self._routes[src, dst, plane] = route
        return route

    # -- time --

    def advance(self, until: int | None, *, slack: int = 0) -> list[tuple[int, int]]:
        limit = FOREVER if until is None else until
        self._close_before(self._next_start)
        while True:
            stop = self.engine.run(min(limit, self.engine.now + SLICE), slack=slack, window=self.windows.window)
            if stop.reason == "window":
                self._record()
            # First what arrived, then the tick: it may raise KeyboardInterrupt.
            self.bytes_delivered += sum(self._bytes[message] for message, _ in stop.delivered)
            self.tick()
            if stop.reason == "deadlock":
                self._record()
                stuck, ordered = self.engine.waiting(), self.settings.router.ordered
                raise deadlock_error(stop.cycle, stuck, self.link_name, self._message_name, ordered=ordered)
            if stop.delivered:
                return stop.delivered
            if stop.reason == "idle":
                self._idle_since = self.engine.now
            # A window may end in the very cycle `limit`: its arrivals are still to come then.
            if stop.reason == "idle" or (stop.reason == "until" and self.engine.now >= limit):
                return []

    def _record(self) -> None:
        self.windows.record(self.engine.now, self.totals())

    def _close_before(self, cycle: int) -> None:
        """Book what was counted before an idle time that reaches into another window, now that it ends in `cycle`."""
        idle, window = self._idle_since, self.windows.window
        if idle is not None and (idle - 1) // window != cycle // window:
            self.windows.record(max(idle, self.windows.end), self.totals())
        self._idle_since, self._next_start = None, FOREVER

    def finish(self, cycle: int) -> None:
        """Close the statistics at the end of a run. Credits may still be under way then; they are not counted."""
        self._close_before(cycle)
        self.windows.record(max(cycle, self.windows.end), self.totals())
        self.windows.close(cycle)

    # -- what there is to see --

    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Running totals per network link."""
        return {name: values[: self.topology.links] for name, values in self.engine.counters().items()}

    def buffer_max(self) -> NDArray[np.int32]:
        """Most flits ever in one VC buffer of each network link."""
        vcs = self.settings.router.vcs
        peaks = self.engine.buffer_max()[: self.topology.links * vcs]
        return peaks.reshape(-1, vcs).max(axis=1) if peaks.size else np.zeros(0, dtype=np.int32)

    def counts(self) -> dict[str, int]:
        """The counters of the JSON summary that a network knows."""
        totals = self.engine.totals()
        return {
            "npus": self.npus,
            "messages": totals["messages_delivered"],
            "packets": totals["packets"],
            "flits": totals["flits"],
            "flit_hops": int(self.totals()["flits"].sum()),
            "router_visits": totals["router_visits"],
            "bytes_delivered": self.bytes_delivered,
            "skipped_cycles": 0,
        }

    def link_name(self, link: int) -> str:
        """A network link by its name, a lane by its NPU."""
        links = self.machine.links
        if link < links.network:
            return self.topology.link_name[link]
        if link < links.network + links.injection:
            return f"injection lane of NPU {links.dst[link]}"
        return f"ejection lane of NPU {links.src[link]}"

    def _message_name(self, message: int) -> str:
        src, dst = self._ends[message]
        return f"message {message}, NPU {src} to {dst}"
