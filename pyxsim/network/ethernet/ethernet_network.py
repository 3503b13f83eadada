"""The Ethernet backend: messages become flows of packets in an event-driven engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.delay.pairs import Pairs
from pyxsim.network.ethernet.config import PICOSECONDS, EthernetConfig, make_config
from pyxsim.network.ethernet.deadlock import LEAST_INTERVAL, PauseWatch, cycle_warning, pause_cycle
from pyxsim.network.ethernet.engine import Engine
from pyxsim.network.ethernet.ideal import first_port, ideal_times
from pyxsim.network.ethernet.transport_choice import make_transport
from pyxsim.network.ethernet.user_transport import UserTransport
from pyxsim.network.protocol import Backend, BackendTable, Capabilities
from pyxsim.network.windows import PeakRecorder, WindowRecorder, Windows
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology

FOREVER = 1 << 62
MOST_ROWS = 1 << 20  # of the table of flows
WINDOWED = ("marked", "dropped", "trimmed", "pauses")  # counters in the table by windows of time
PORT_COLUMNS = {"sent_bytes": "bytes", "sent_packets": "packets", "paused_time": "paused", "peak": "depth"}


class EthernetNetwork(Backend):
    """Packets over switches with output queues, a shared buffer, ECN and PFC (docs/ethernet.md).

    `seed`: of marks and of random routes.
    """

    capabilities = Capabilities(pauses=True)

    def __init__(
        self,
        topology: Topology,
        settings: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(topology, settings, window=window, tick=tick)
        ethernet = settings.ethernet
        transport = make_transport(ethernet)
        self.arrays: EthernetConfig = make_config(
            topology,
            settings,
            seed=seed,
            header=transport.header_bytes,
            reply=transport.reply_bytes,
            telemetry=transport.telemetry,
        )
        self.engine = Engine(self.arrays, transport)
        if isinstance(transport, UserTransport):  # its state is in Python objects of the user
            self.capabilities = replace(self.capabilities, checkpoint=False)  # type: ignore[misc]
        self.windows = WindowRecorder(window, topology.counted_links)
        self.peaks = PeakRecorder()
        self._window_end = window
        self._cycle = 0
        per_cycle = Fraction(PICOSECONDS) / settings.clock
        self._num, self._den = per_cycle.numerator, per_cycle.denominator
        self._pairs = Pairs(topology.npus)
        self._rtt: IntArray = np.zeros(0, np.int64)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._watch: PauseWatch | None = None
        if ethernet.pfc.enabled:
            frame = int(self.arrays.ports[:, 5].max(initial=0))
            interval = max(LEAST_INTERVAL, self.arrays.rules["retry"], 4 * frame)
            self._watch = PauseWatch(self.engine, self.arrays, self.link_name, self._node_name, interval)

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        return cls(topology, experiment.network, window=window, seed=experiment.output.seed)

    @property
    def now(self) -> int:
        return self._cycle

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        paths, fresh = self._pairs.number(src, dst, np.zeros_like(plane))
        if len(fresh):
            self._rtt = np.append(self._rtt, self.base_rtt(src[fresh], dst[fresh]))
        self.messages_sent += len(src)
        sport = self._random.integers(49152, 65536, len(src))
        entropy = sport | 4791 << 16  # UDP port of RoCEv2
        first: int = self.engine.send(src, dst, nbytes, entropy, self._rtt[paths], at * self._num // self._den)
        return first

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        self.pause()
        limit = FOREVER if until is None else until * self._num // self._den
        while True:
            following = self.engine.next_time
            if following < 0 or following > limit:
                if following < 0:
                    self._search_deadlock(idle=True)
                messages = cycles = np.zeros(0, np.int64)
                break
            self._close_window(-(-following * self._den // self._num))
            stop = min(limit, self._window_end * self._num // self._den)
            messages, cycles = self.engine.run(stop, self._num, self._den, slack)
            self._cycle = max(self._cycle, -(-self.engine.now * self._den // self._num))
            self.tick()
            if len(messages):
                break
            self._search_deadlock()
        if len(messages):
            order = np.lexsort((messages, cycles))
            messages, cycles = messages[order], cycles[order]
            self._cycle = max(self._cycle, int(cycles[-1]))
        elif until is not None:
            self._cycle = until
        self.bytes_delivered = self.engine.counts["delivered_bytes"]
        return messages, cycles

    def _search_deadlock(self, *, idle: bool = False) -> None:
        """Raise DeadlockError if ports are paused forever; at most every interval, unless no event is left."""
        if self._watch is not None and (idle or self.engine.now >= self._watch.due):
            self._watch.search(self._cycle, idle=idle)

    def _node_name(self, node: int) -> str:
        routers = self.topology.routers
        return self.topology.router_name[node] if node < routers else f"NPU {node - routers}"

    def prove_pauses(self, pairs: IntArray | None) -> tuple[str, list[str]]:
        if not self.settings.ethernet.pfc.enabled:
            return "switches do not pause links (PFC is off), so they cannot deadlock", []
        cycle = [self.link_name(port) for port in pause_cycle(self.arrays, pairs)]
        return cycle_warning(cycle) if cycle else "no links can wait for each other under PFC", cycle

    def _close_window(self, cycle: int) -> None:
        """Record the window that ends before `cycle`, in which the next event is."""
        if cycle > self._window_end:
            self._record(self._window_end)
            self._window_end = self.windows.window * max(1, -(-cycle // self.windows.window))

    def _record(self, cycle: int) -> None:
        if cycle > self.windows.end:
            self.windows.record(cycle, self.totals())
            self.peaks.record(cycle, self.engine.window_peaks(), self.windows.window)

    @property
    def own_routing(self) -> str:
        return f"shortest routes, load balancing by {self.settings.ethernet.load_balancing}"

    def base_rtt(self, src: IntArray, dst: IntArray) -> IntArray:
        """Return int64[K], ps: latency of the links both ways, and transmission of one largest payload on each link."""
        arrays, payload = self.arrays, self.arrays.rules["mtu"]
        total = np.zeros(len(src), np.int64)
        for start, end, size in ((src, dst, payload), (dst, src, 0)):
            node, last = arrays.home[start].astype(np.int64), arrays.home[end]
            while (moving := np.flatnonzero(node != last)).size:
                port = first_port(arrays, node[moving], end[moving])
                picoseconds, per_bytes, delay = arrays.ports[port, 3:6].T
                total[moving] += size * picoseconds // per_bytes + delay
                node[moving] = arrays.ports[port, 1]
        return total

    def finish(self, cycle: int) -> None:
        """End the run in `cycle`: close the statistics."""
        super().finish(cycle)
        self._record(max(cycle, self.windows.end))
        self.windows.close(cycle)

    # -- results --

    def totals(self) -> dict[str, IntArray]:
        """Return the counters of each link; "flits": bytes on the wire in units of a flit; "paused": picoseconds."""
        counters = self.engine.port_counters()
        return {
            "flits": counters["sent_bytes"] // self.settings.flit,
            "paused": counters["paused_time"],
            **{name: counters[name] for name in WINDOWED},
        }

    def windows_table(self) -> Windows:
        return self.windows.table().until(self.end)  # acknowledgments may be on the way when the run ends

    def tables(self) -> dict[str, BackendTable]:
        """Return the tables of flows, of ports, and of ports by windows of time."""
        flows = self.engine.flow_table(MOST_ROWS)
        flows["ideal"] = ideal_times(self.arrays, flows["src"], flows["dst"], flows["bytes"])
        flows["sent"] += flows["resent"]
        counters = self.engine.port_counters()
        ports = {PORT_COLUMNS.get(name, name): column for name, column in counters.items()}
        windows = self.windows_table()
        counts = {name: windows.counts[name] for name in (*WINDOWED, "paused") if name in windows.counts}
        depth = self.peaks.table(windows.start, windows.length, self.topology.counted_links)
        attrs = {"window_cycles": windows.length}
        return {
            "flows": BackendTable(flows, {"left_out": self.messages_sent - len(flows["src"])}),
            "ports": BackendTable(ports),
            "port_windows": BackendTable({"time": windows.start, **counts, "depth": depth}, attrs),
        }

    def counts(self) -> dict[str, Any]:
        """Return the counters of the JSON summary."""
        counts, ports = self.engine.counts, self.engine.port_counters()
        return {
            **super().counts(),
            "packets": counts["made"],
            "flits": int(self.totals()["flits"].sum()),
            "packet_hops": counts["hops"],
            "packets_delivered": counts["delivered"],
            "packets_dropped": counts["dropped"],
            "packets_in_network": counts["in_network"],
            **{f"packets_{name}": int(ports[name].sum()) for name in ("trimmed", "marked")},
            "packets_resent": self.engine.resent(),
        }
