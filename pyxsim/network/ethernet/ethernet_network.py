"""The Ethernet backend: messages become flows of packets in an event-driven engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.network.delay.pairs import Pairs
from pyxsim.network.ethernet.config import DATA_CLASS, PICOSECONDS, PINT, EthernetConfig, make_config
from pyxsim.network.ethernet.deadlock import LEAST_INTERVAL, PauseWatch, cycle_warning, pause_cycle
from pyxsim.network.ethernet.engine import Engine
from pyxsim.network.ethernet.engine_tables import FLOW_COLUMNS
from pyxsim.network.ethernet.fault_tables import renamed, with_faults
from pyxsim.network.ethernet.flow_samples import FlowSamples
from pyxsim.network.ethernet.ideal import ideal_times, round_trip
from pyxsim.network.ethernet.link_faults import link_changes
from pyxsim.network.ethernet.pause_tree import MOST_HOPS, NONE, victims
from pyxsim.network.ethernet.stripes import Stripes
from pyxsim.network.ethernet.traffic_classes import TrafficClasses
from pyxsim.network.ethernet.transport_choice import make_transport
from pyxsim.network.ethernet.uec.uec_arrays import make_uec_config, with_links
from pyxsim.network.ethernet.uec.uec_config import UecConfig
from pyxsim.network.ethernet.uec.uec_engine import UecEngine
from pyxsim.network.ethernet.uec.uec_transports import UecTransport
from pyxsim.network.ethernet.unused_settings import unused
from pyxsim.network.ethernet.user_transport import UserTransport
from pyxsim.network.protocol import Backend, BackendTable, Capabilities
from pyxsim.network.windows import PeakRecorder, WindowRecorder, Windows
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology

FOREVER = 1 << 62
MOST_ROWS = 1 << 20  # of the table of flows
ROCE_PORT = 4791
NS3_PORTS = 10000, 100  # first source port, destination port
WINDOWED = ("marked", "dropped", "trimmed", "errors", "pauses")  # counters in the table by windows of time
PORT_COLUMNS = {"sent_bytes": "bytes", "sent_packets": "packets", "paused_time": "paused", "peak": "depth"}


class EthernetNetwork(Backend):
    """Packets over switches with output queues, a shared buffer, ECN and PFC (docs/ethernet.md).

    `seed`: of marks and of random routes. `attribution`: whether the time of flows is divided by what they wait for.
    """

    capabilities = Capabilities(pauses=True, in_order=True, link_faults=True)

    def __init__(
        self,
        topology: Topology,
        settings: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        seed: int = 1,
        attribution: bool = False,
    ) -> None:
        transport = make_transport(settings.ethernet)
        settings = transport.adapt(settings)
        super().__init__(topology, settings, window=window, tick=tick)
        ethernet = settings.ethernet
        self.arrays: EthernetConfig = make_config(
            topology,
            settings,
            seed=seed,
            header=transport.header_bytes,
            reply=transport.reply_bytes,
            telemetry=transport.telemetry,
            rules={**transport.rules, "attribution": attribution},
        )
        self._uec: UecConfig | None = None
        if transport.telemetry == PINT:  # its switches average over the longest round trip
            self.arrays.rules["pint_trip"] = -(-self.largest_rtt // 1000)
        changes = link_changes(topology, settings, self.arrays)
        self.engine: Engine | UecEngine
        if isinstance(transport, UecTransport):
            random = np.random.MT19937(seed)
            self._uec = make_uec_config(settings, changes[0].arrays, transport, random)
            self.engine = UecEngine(self._uec, random)
        else:
            self.engine = Engine(changes[0].arrays, transport)
        self._changes = changes[1:]
        self._routes = [changes[0].arrays, *(change.arrays for change in changes[1:])]
        if isinstance(transport, UserTransport):  # its state is in Python objects of the user
            self.capabilities = replace(self.capabilities, checkpoint=False)  # type: ignore[misc]
        self.windows = WindowRecorder(window, topology.counted_links)
        self.peaks = PeakRecorder()
        self.samples = FlowSamples() if ethernet.sampled_flows else None
        self._window_end = window
        self._cycle = 0
        per_cycle = Fraction(PICOSECONDS) / settings.clock
        self._num, self._den = per_cycle.numerator, per_cycle.denominator
        self._pairs = Pairs(topology.npus)
        self._rtt: IntArray = np.zeros(0, np.int64)
        self._count: IntArray = np.zeros(0, np.int64)  # of the messages of each pair
        self._classes = TrafficClasses(ethernet.classes, topology.npus) if ethernet.classes else None
        self._stripes = Stripes(ethernet.queue_pairs, ethernet.mtu) if ethernet.queue_pairs > 1 else None
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._watch: PauseWatch | None = None
        if isinstance(self.engine, Engine) and ethernet.pfc.enabled:
            frame = int(self.arrays.ports[:, 5].max(initial=0))
            interval = max(LEAST_INTERVAL, self.arrays.rules["retry"], 4 * frame)
            self._watch = PauseWatch(self.engine, self.arrays, self.link_name, self._node_name, interval)

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        output = experiment.output
        network, faults = with_faults(experiment, topology)
        try:
            return cls(topology, network, window=window, seed=output.seed, attribution=output.attribution != "off")
        except InputError as error:
            raise renamed(error, experiment, faults) from None

    @property
    def now(self) -> int:
        return self._cycle

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        paths, fresh = self._pairs.number(src, dst, np.zeros_like(plane))
        if len(fresh):
            self._rtt = np.append(self._rtt, self._rtt_of(src[fresh], dst[fresh]))
            self._count = np.append(self._count, np.zeros(len(fresh), np.int64))
        first = self.messages_sent
        self.messages_sent += len(src)
        classes: IntArray = np.full(len(src), DATA_CLASS)
        if self._classes is not None:
            classes = self._classes.select(src, nbytes, tag, self.traffic_names)
        nic: IntArray = np.full(len(src), -1)
        if self._stripes is not None:
            which, nbytes, nic = self._stripes.cut(nbytes)
            src, dst, paths, classes = src[which], dst[which], paths[which], classes[which]
        if self.settings.ethernet.source_ports == "counted":
            entropy = self._counted(paths) % 65536 | NS3_PORTS[1] << 16
        else:
            entropy = self._random.integers(49152, 65536, len(src)) | ROCE_PORT << 16
        time = at * self._num // self._den
        if isinstance(self.engine, Engine):
            self.engine.send(src, dst, nbytes, entropy, self._rtt[paths], time, nic, classes)
        else:  # its hosts have one link each
            self.engine.send(src, dst, nbytes, entropy, self._rtt[paths], time)
        return first

    def _counted(self, paths: IntArray) -> IntArray:
        """Source ports of messages of these pairs, counted from the first one."""
        order = np.argsort(paths, kind="stable")
        ordered = paths[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        number = np.arange(len(paths)) - np.repeat(first, np.diff(first, append=len(paths)))
        ports = np.empty(len(paths), np.int64)
        ports[order] = NS3_PORTS[0] + self._count[ordered] + number
        np.add.at(self._count, paths, 1)
        return ports

    def _rtt_of(self, src: IntArray, dst: IntArray) -> IntArray:
        if self.settings.ethernet.base_rtt == "pair":
            return self.base_rtt(src, dst)
        return np.full(len(src), self.largest_rtt)

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
            stop = min(limit, self._window_end * self._num // self._den, self._change_links(following) - 1)
            messages, cycles = self.engine.run(stop, self._num, self._den, slack)
            if self._stripes is not None:
                messages, cycles = self._stripes.complete(messages, cycles)
            self._cycle = max(self._cycle, -(-self.engine.now * self._den // self._num))
            self.tick()
            if len(messages):
                break
            self._search_deadlock()
        if len(messages):
            order = np.argsort(cycles, kind="stable")
            messages, cycles = messages[order], cycles[order]
            self._cycle = max(self._cycle, int(cycles[-1]))
        elif until is not None:
            self._cycle = until
        self.bytes_delivered = self.engine.counts["delivered_bytes"]
        return messages, cycles

    def _change_links(self, time: int) -> int:
        """Apply the changes of links up to `time` (ps), before which nothing happens; return when the next one is."""
        while self._changes and self._changes[0].time <= time:
            change, *self._changes = self._changes
            self.engine.wait(change.time)
            if isinstance(self.engine, UecEngine):
                assert self._uec is not None
                self.engine.set_links(with_links(self._uec, change.arrays))
            else:
                self.engine.set_links(change.arrays)
        return self._changes[0].time if self._changes else FOREVER

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
        cycles = (pause_cycle(arrays, pairs) for arrays in self._routes)
        cycle = [self.link_name(port) for port in next(filter(None, cycles), [])]
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
            if self.samples is not None:
                control = self.engine.flow_control(self.settings.ethernet.sampled_flows)
                self.samples.record(cycle, control, self.windows.window)

    @property
    def own_routing(self) -> str:
        if self._uec is not None:
            return "shortest routes, a path by the entropy of each packet"
        return f"shortest routes, load balancing by {self.settings.ethernet.load_balancing}"

    def base_rtt(self, src: IntArray, dst: IntArray) -> IntArray:
        """Return int64[K], ps: latency of the links both ways, and transmission of one largest payload on each link."""
        if self._uec is not None:
            return round_trip(self.arrays, src, dst, self._uec.rules["mtu"], self._uec.rules["control"])
        return round_trip(self.arrays, src, dst, self.arrays.rules["mtu"], 0)

    @cached_property
    def largest_rtt(self) -> int:
        """The largest base round-trip time of all pairs of NPUs, in ps."""
        npus = np.arange(self.topology.npus)
        return max(int(self.base_rtt(np.full(len(npus), npu), npus).max()) for npu in npus)

    @property
    def warnings(self) -> list[str]:
        return unused(self.settings.ethernet)

    @property
    def notes(self) -> list[str]:
        return self._classes.notes(self.traffic_names) if self._classes is not None else []

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
        columns = self.engine.flow_table(MOST_ROWS)
        flows = {name: columns[name] for name in FLOW_COLUMNS if name in columns}
        flows.setdefault("traffic_class", np.full(len(flows["src"]), DATA_CLASS))
        flows["ideal"] = ideal_times(self.arrays, flows["src"], flows["dst"], flows["bytes"])
        flows["sent"] += flows["resent"]
        number = np.arange(len(flows["src"]))
        flows["message"] = number if self._stripes is None else self._stripes.message[number]
        counters = self.engine.port_counters()
        ports = {PORT_COLUMNS.get(name, name): column for name, column in counters.items()}
        windows = self.windows_table()
        ports |= self._pause_tree(flows, windows)
        counts = {name: windows.counts[name] for name in (*WINDOWED, "paused") if name in windows.counts}
        depth = self.peaks.table(windows.start, windows.length, self.topology.counted_links)
        attrs = {"window_cycles": windows.length}
        frames = {}
        if self.settings.ethernet.pfc.log and isinstance(self.engine, Engine):
            time, port, pause = self.engine.pfc_frames().T
            frames = {"pfc_frames": BackendTable({"time": time, "link": port, "pause": pause})}
        if self.arrays.rules["attribution"] and isinstance(self.engine, Engine):
            frames["flow_times"] = BackendTable(dict(self.engine.flow_times(MOST_ROWS)))
        if self.samples is not None:
            frames["flow_windows"] = BackendTable(self.samples.table(), attrs)
        return {
            **frames,
            "flows": BackendTable(flows, {"left_out": self.engine.counts["flows"] - len(flows["src"])}),
            "ports": BackendTable(ports),
            "port_windows": BackendTable({"time": windows.start, **counts, "depth": depth}, attrs),
        }

    def _pause_tree(self, flows: dict[str, IntArray], windows: Windows) -> dict[str, IntArray]:
        """Return the columns of ports about causes of pauses, and add to those of flows which of them are victims."""
        none = np.full(len(flows["src"]), NONE)
        flows["victim_of"], flows["victim_time"] = none, np.zeros_like(none)
        if not isinstance(self.engine, Engine):
            links: IntArray = np.full(len(self.arrays.ports), NONE)
            return {"cause": links, "root": links, "caused": np.zeros_like(links)}
        tree = self.engine.pause_tree()
        if (tree["root"] >= 0).any() and self.settings.ethernet.load_balancing == "ecmp":
            cycle = self._num / self._den  # ps
            time = np.append(windows.start, max(self.end, *windows.start[-1:] + 1)) * cycle
            until = np.where(flows["end"] < 0, time[-1], flows["end"])
            paused = np.cumsum(windows.counts["paused"], axis=0, dtype=np.int64)
            flows["victim_of"], flows["victim_time"] = victims(
                self.engine.ecmp_paths(len(none), MOST_HOPS),
                tree["root"],
                np.stack([flows["start"], until], axis=1).astype(float),
                time,
                np.concatenate([np.zeros_like(paused[:1]), paused]),
            )
        return {"cause": tree["cause"], "root": tree["root"], "caused": tree["caused_time"]}

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
            "packets_errored": counts["errored"],
            "packets_in_network": counts["in_network"],
            **{f"packets_{name}": int(ports[name].sum()) for name in ("trimmed", "marked")},
            "packets_resent": self.engine.resent(),
        }
