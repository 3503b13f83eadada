"""The packet backend: messages as packets and flits through the engine, cycle by cycle (docs/router.md)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray, append, sum_at
from pyxsim.core.engine import Engine, Stop
from pyxsim.core.engine_options import MOST_TAGS
from pyxsim.core.state.record_dtypes import COUNTERS
from pyxsim.errors import InputError
from pyxsim.network.engine_config import MessageClass, build_engine_config
from pyxsim.network.lanes import LaneChoice
from pyxsim.network.link_params import LinkParams
from pyxsim.network.packet.credit_report import credit_counters, credit_tables
from pyxsim.network.packet.divided_network import FOREVER
from pyxsim.network.packet.fault_report import fault_tables, loss_counters
from pyxsim.network.packet.faulty_network import FaultyNetwork, jobs_fail_with_links
from pyxsim.network.packet.folded_engine import FoldedEngine
from pyxsim.network.packet.mpi_world import MpiWorld, mpi_world
from pyxsim.network.packet.packet_attribution import PacketAttribution
from pyxsim.network.packet.packet_classes import background_classes, longest_packet
from pyxsim.network.packet.rank_engine import RankEngine
from pyxsim.network.packet.split_engine import NOTHING, SplitEngine
from pyxsim.network.packet.still_time import StillTime
from pyxsim.network.packet.thread_count import ThreadChoice
from pyxsim.network.packet.watchdog import Entry, Watchdog, deadlock_error
from pyxsim.network.packet.why_every_cycle import why_every_cycle
from pyxsim.network.protocol import AttributionRecords, BackendTable, BackgroundSource, Capabilities
from pyxsim.network.windows import WindowRecorder, Windows
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology

SLICE = 200_000  # maximum cycles between two calls of `tick`
MAX_FLITS = 2**31 - 1
CUT_WORDS = 1 << 20  # totals at window ends that are recorded at once: about 8 MB
FEW = 8  # below this many messages, sending them one by one is faster


class PacketNetwork(FaultyNetwork):
    """Packets and flits through routers with buffers, cycle by cycle (docs/router.md).

    Parameters
    ----------
    topology, network
        The network and its settings.
    window
        Cycles of a statistics window.
    tick
        Called at least every `SLICE` simulated cycles, for progress and signals.
    trace
        Whether the engine records every step (tests).
    seed
        Seed of the draws in routers.
    classes, open_traffic, packet
        See `build_engine_config`.
    recycle
        Whether the engine forgets messages that have arrived (see OpenNetwork).
    attribution
        Attribution of latency (see Engine): 0 none, 1 by link and cause, 2 also per packet.
    skip
        Whether periods of regular traffic are skipped (docs/fast_forward.md).
    caches_episodes
        Whether episodes are kept for later runs, in the cache (docs/folding.md).
    threads
        Number of threads; None: as many as pay (docs/threads.md). With an explicit number above one nothing is skipped.
    background
        Message classes of background traffic, behind `classes`.
    world
        The processes that simulate the network together; None: this one alone. With several, nothing is skipped.
    faulty
        The experiment, if its [[faults]] change links.
    """

    capabilities = Capabilities(
        packets=True,
        open_traffic=True,
        background=True,
        attribution=True,
        watch_packet=True,
        threads=True,
        mpi=True,
        fast_forward=True,
        link_faults=True,
    )

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        trace: bool = False,
        seed: int = 0,
        classes: Sequence[MessageClass] = (MessageClass(),),
        open_traffic: bool = False,
        packet: int | None = None,
        recycle: bool = False,
        attribution: int = 0,
        skip: bool = True,
        caches_episodes: bool = False,
        threads: int | None = 1,
        background: Sequence[MessageClass] = (),
        world: MpiWorld | None = None,
        faulty: Experiment | None = None,
    ) -> None:
        super().__init__(topology, network, window=window, tick=tick)
        self.silent_class = {"silent_class": len(classes)} if background else {}
        classes = (*classes, *background)
        self.config = build_engine_config(
            topology, network, classes=classes, open_traffic=open_traffic, packet=packet, seed=seed
        )
        self._begin_faults(faulty)
        config = self.config
        self.attribution_level, self.caches_episodes = attribution, caches_episodes
        self._engine_options = {"trace": trace, "recycle": recycle, "attribution": attribution, **self.silent_class}
        self.parts: SplitEngine | None = None
        self._traffic: IntArray = np.zeros((0, 5), np.int64)
        self._whole_windows: WindowRecorder | None = None  # while congruent groups are folded
        self._repeating = False
        self.windows, self._every_step = WindowRecorder(window, topology.counted_links), trace
        self._cuts = max(1, CUT_WORDS // max(1, len(COUNTERS) * topology.counted_links))
        self.world = world if world is not None and world.size > 1 else None
        ranks = self.world.size if self.world else 1
        self._every_cycle = why_every_cycle(skip, open_traffic, bool(background), threads, ranks, config.options)
        self.skips, self.still = not self._every_cycle, StillTime(passes=skip and ranks == 1)
        self.threads = ThreadChoice(topology.routers, config.links, threads if ranks == 1 else 1, skips=self.skips)
        self.bytes_delivered = self._skipped_visits = 0
        self._lanes = LaneChoice(topology, network, config.inject, config.eject)
        # Columns of all messages, compact as there may be many millions.
        self._bytes, self._src, self._dst = array("q"), array("i"), array("i")
        # With attribution: cycle and tag of each message, and the arrivals.
        self._at, self._tags = array("q"), array("i")
        self._arrivals: list[tuple[IntArray, IntArray]] = []
        # Background: its creator, the cycle up to which packets are created, undelivered other messages, its first tag.
        self.background: BackgroundSource | None = None
        self.background_until = self.undelivered = self._background_tag = 0
        # Since when the engine is idle, and the cycle of the first message since then.
        self._idle_since: int | None = None
        self._next_start, self._last_start = FOREVER, 0

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        output, background = experiment.output, background_classes(experiment)
        return cls(
            topology,
            experiment.network,
            window=window,
            seed=output.seed,
            attribution=output.level,
            skip=experiment.run.skip,
            caches_episodes=experiment.run.episodes == "cache",
            threads=1 if background or jobs_fail_with_links(experiment) else experiment.run.most_threads,
            packet=longest_packet(experiment),
            background=background,
            world=mpi_world() if experiment.run.mpi else None,
            faulty=experiment,
        )

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        description = self.topology.routers, config.links, config.routes, config.options
        return (
            Engine(*description, **options) if self.world is None else RankEngine(self.world, *description, **options)
        )

    @cached_property
    def watchdog(self) -> Watchdog:
        """Not used with parts: routes are proved then."""
        router, config = self.settings.router, self.config
        return Watchdog(
            self.engine,
            config.links,
            router.watchdog,
            self._credits_needed,
            drained=router.vc_reuse == "drained",
            ordered=router.ordered,
            limit=config.options.shared_limit,
        )

    @property
    def now(self) -> int:
        return self.engine.now

    # -- messages --

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, klass: int = 0, tag: int = 0) -> int:
        if nbytes < 1:
            raise ValueError(f"a message of {nbytes} bytes")
        inject, eject = self._lanes.one(src, dst, plane)
        packets, flits, last = self.cut(nbytes)
        tag = min(tag, MOST_TAGS - 1)
        message = self.engine.send(inject, eject, dst, plane, packets, flits, last, at, klass, tag)
        self._next_start, self._last_start = min(self._next_start, at), max(self._last_start, at)
        self.undelivered += 1
        self._bytes.append(nbytes)
        self._src.append(src)
        self._dst.append(dst)
        if self.attribution_level:
            self._at.append(at)
            self._tags.append(tag)
        return message

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        tags = np.zeros(len(src), np.int64)
        if self.attribution_level:
            tags = np.minimum(np.broadcast_to(tag, len(src)), MOST_TAGS - 1)
        if len(src) < FEW and self.parts is None:
            rows = zip(*(column.tolist() for column in (src, dst, nbytes, plane, tags)), strict=True)
            return min([self.send(s, d, size, plane=p, at=at, tag=t) for s, d, size, p, t in rows])
        if (nbytes == nbytes[0]).all():
            packets, flits, last = (np.full(len(src), part) for part in self.cut(int(nbytes[0])))
        else:
            sizes, size_of = np.unique(nbytes, return_inverse=True)
            packets, flits, last = np.array([self.cut(size) for size in sizes.tolist()]).T[:, size_of]
        inject, eject = self._lanes.many(src, dst, plane)
        first = self.engine.send_many(inject, eject, dst, plane, packets, flits, last, at, 0, tags)
        self._next_start, self._last_start = min(self._next_start, at), max(self._last_start, at)
        self.undelivered += len(src)
        folded = self.parts if isinstance(self.parts, FoldedEngine) else None
        append(self._bytes, nbytes if folded is None else nbytes * folded.copies[inject])
        append(self._src, src)
        append(self._dst, dst)
        if self.attribution_level:
            append(self._at, np.full(len(src), at))
            append(self._tags, tags)
        if folded is not None and folded.scattered:
            self._unfold(folded)
        return int(first)

    def cut(self, nbytes: int) -> tuple[int, int, int]:
        size, flit, header = self.settings.packet, self.settings.flit, self.settings.header
        packets = -(-nbytes // size)
        full = -(-(size + header) // flit)
        rest = nbytes - (packets - 1) * size
        last = full if self.settings.pad_packets else -(-(rest + header) // flit)
        if packets == 1:
            full = last  # there is no full packet
        if max(packets, full) > MAX_FLITS:
            what = "packets" if packets > MAX_FLITS else "flits in a packet"
            raise InputError(
                f"a message of {nbytes} bytes has too many {what}", key="network.packet", allowed=f"at most {MAX_FLITS}"
            )
        return packets, full, last

    # -- background traffic --

    def carry_background(self, source: BackgroundSource, tag: int) -> None:
        self.background, self._background_tag = source, tag

    def inject_background(self, at: IntArray, src: IntArray, dst: IntArray, flits: IntArray, klass: IntArray) -> None:
        plane = np.full(len(src), -1, np.int64)
        inject, eject = self._lanes.many(src, dst, plane)
        tags = np.minimum(self._background_tag + klass, MOST_TAGS - 1) if self.attribution_level else klass
        classes = klass + self.silent_class["silent_class"]
        self.engine.send_many(inject, eject, dst, plane, 1, flits, flits, at, classes, tags)
        self._next_start = min(self._next_start, int(at.min()))
        append(self._bytes, -flits)
        append(self._src, src)
        append(self._dst, dst)
        if self.attribution_level:
            append(self._at, at)
            append(self._tags, tags)

    def background_deliveries(self) -> dict[str, IntArray]:
        arrived = self.engine.deliveries()
        arrived["klass"] -= self.silent_class["silent_class"]
        arrived["dst"] = np.array([self._dst[message] for message in arrived["serial"].tolist()], np.int64)
        if self.attribution_level and len(arrived["serial"]):
            self._arrivals.append((arrived["serial"], arrived["last"]))
        return arrived

    def _packet_flits(self, message: int, packet: int) -> int:
        if self._bytes[message] < 0:  # of the background
            return -self._bytes[message]
        packets, full, last = self.cut(self._bytes[message])
        return last if packet == packets - 1 else full

    def _credits_needed(self, entry: Entry) -> int:
        """Credits that the front flit of a packet needs; 0 for a body flit whose head took the credits of all flits."""
        if self.settings.router.flow_control == "wormhole":
            return 1
        flits = self._packet_flits(entry["message"], entry["packet"])
        return flits if entry["left"] == flits else 0

    # -- time --

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        expected, limit, slack = until is not None, FOREVER if until is None else until, 0 if self.jobs_fail else slack
        batches: list[tuple[IntArray, IntArray]] = []
        self._close_before(self._next_start)
        while True:
            # With `batches`, arrivals exist only there, and a checkpoint would lose them.
            if not batches and not self._repeating:
                self.pause()
            if self.background is None:
                stop = self._run(limit, slack, expected=expected)
            elif until is None and not self.undelivered:
                return NOTHING  # the background alone continues without end
            else:
                stop = self._run_beside(self.background, limit, slack, expected=expected)
                if not expected:
                    self._check_progress()
            if len(stop.messages):
                if not batches:
                    limit = min(limit, int(stop.cycles[0]) + slack)
                batches.append((stop.messages, stop.cycles))
            # After a stop for a window or a period, arrivals of the same cycle may follow.
            ends = stop.reason == "idle" or (stop.reason in ("until", "delivered") and self.engine.now >= limit)
            if ends or self._losses:
                if len(batches) == 1:
                    return batches[0]
                messages, cycles = (np.concatenate(column) for column in zip(NOTHING, *batches, strict=True))
                return messages, cycles

    def _run_beside(self, background: BackgroundSource, limit: int, slack: int, *, expected: bool) -> Stop:
        """Run the engine as `_run`, with packets of the background created ahead. Raises DeadlockError."""
        if self.engine.now >= self.background_until:
            self.background_until = background.create(self)
        while True:
            if self._next_start < FOREVER:
                self._close_before(self._next_start)
            stop = self._run(min(limit, self.background_until), slack, expected=expected)
            if stop.reason != "idle" or len(stop.messages):
                return stop
            # The network is empty: the next packets of the background are the next event.
            while self._next_start == FOREVER and self.background_until < limit:
                self.background_until = background.create(self)
            if self._next_start == FOREVER:
                return stop

    def _run(self, limit: int, slack: int, *, expected: bool = False) -> Stop:
        """Run the engine once and record the outcome. Raises StuckError.

        `expected`: the system expects more than what is in the network, such as the end of a computation.
        """
        limit, goes_on = self._other_work(limit, expected=expected)
        self.still.pass_over(self, limit, goes_on=goes_on)
        apart = self.threads.decide(self.engine)
        watched = FOREVER if self.parts is not None else self.watchdog.due
        until = min(limit, self.engine.now + min(SLICE, self.threads.horizon), watched)
        repeats_until, more = limit if self.skips else 0, {}
        if self.faults is not None:
            until, repeats_until = min(until, self.faults.due), min(repeats_until, self.faults.due)
            more = {"patient": self.faults.patient(self.moved(), self.engine.now) or goes_on}
        window = self.windows.window
        stop = self.engine.run(until, slack=slack, window=window, repeats_until=repeats_until, apart=apart, **more)
        if self.faults is not None and stop.reason in ("until", "delivered") and self.engine.now >= self.faults.due:
            self.faults.apply(self.engine)
            if not goes_on and self.engine.flits_in_flight and self.faults.hopeless(self.moved(), self.engine.now):
                self._record()
                raise self._failed(self.engine.now, "nothing has arrived for long")
        if stop.reason == "idle" and self.faults is not None and self.faults.goes_on(self.engine):
            stop = replace(stop, reason="until")
        if stop.reason == "window":
            self._record()
        elif stop.reason == "repeats":
            self._skip()
        if self.jobs_fail and stop.messages.min(initial=0) < 0:
            stop = self._without_losses(stop)
        # Record arrivals before the tick, which may raise KeyboardInterrupt.
        self.bytes_delivered += sum_at(self._bytes, stop.messages)
        self.undelivered -= len(stop.messages)
        if self.attribution_level and len(stop.messages):
            self._arrivals.append((stop.messages, stop.cycles))
        if not self._repeating:
            self.tick()
        if stop.reason == "deadlock":
            self._record()
            if self.fault_report():
                raise self._failed(stop.cycle, f"nothing moves after cycle {stop.cycle}")
            stuck: list[Entry] = list(self.engine.waiting())
            reasons = self.watchdog.waits(stuck) if self.parts is None else {}
            raise deadlock_error(stop.cycle, stuck, reasons, self.link_name, self.message_name)
        if self.engine.now >= watched:
            stuck, reasons = self.watchdog.search()
            if reasons:
                self._record()
                now = self.engine.now
                raise deadlock_error(now, stuck, reasons, self.link_name, self.message_name, others_move=True)
        if stop.reason == "idle" and self.parts is None:  # the parts record their windows themselves
            self._idle_since = self.engine.now
        return stop

    def _record(self) -> None:
        self.windows.record(self.engine.now, self.totals())

    def _skip(self) -> None:
        """Skip the detected periods, after recording the windows that end within them."""
        engine, end = self.engine, self.engine.ahead
        cuts = self.windows.cuts(engine.now, end)
        for chosen in np.array_split(cuts, -(-len(cuts) // self._cuts)) if len(cuts) else ():
            names: tuple[str, ...] = COUNTERS
            totals = engine.totals_ahead(chosen, self.topology.counted_links)
            if self.faults is not None and self.faults.slowed is not None:
                slowed = self.faults.slowed.cycles(totals[:, COUNTERS.index("flits")])
                names, totals = (*COUNTERS, "slowed"), np.concatenate([totals, slowed[:, np.newaxis]], axis=1)
            self.windows.record_many(chosen, names, totals)
        before = engine.router_visits
        engine.skip()
        self._skipped_visits += engine.router_visits - before
        self.watchdog.passed(end)

    def _close_before(self, cycle: int) -> None:
        """Record the counts before an idle time that ends in `cycle`, if it reaches into another window."""
        idle, window = self._idle_since, self.windows.window
        if idle is not None and (idle - 1) // window != cycle // window:
            self.windows.record(max(idle, self.windows.end), self.totals())
        self._idle_since, self._next_start = None, FOREVER

    def finish(self, cycle: int) -> None:
        """Close the statistics at the end of a run. Credits still in flight are not counted."""
        if self._idle_since is not None and self._idle_since <= cycle:  # later: only credits arrived since the end
            self._close_before(cycle)
        # A run that gets stuck before anything is delivered ends in cycle 0, but may have counts.
        self.windows.record(max(cycle, self.windows.end, min(1, self.engine.now)), self.totals())
        self.windows.close(cycle)
        self.end = cycle
        self._remember_episodes()

    # -- results --

    def attribution(self) -> AttributionRecords | None:
        return PacketAttribution(self) if self.attribution_level else None

    def engine_bytes(self) -> int:
        return self.engine.nbytes

    @property
    def warnings(self) -> list[str]:
        return self.config.warnings

    @property
    def link_params(self) -> Sequence[LinkParams]:
        return self.config.params_of_counted(self.topology)

    def injection_bandwidths(self) -> list[Fraction]:
        topology, links = self.topology, self.config.link_params
        widths = [Fraction(0)] * len(topology.dims)
        for link in np.flatnonzero(topology.link_src == topology.home[0]).tolist():
            widths[topology.kind_dims[topology.link_dim[link]]] += 1 / links[link].s
        for link in np.unique(topology.link_dim, return_index=True)[1].tolist():  # where NPU 0 has no link of its own
            dim = topology.kind_dims[topology.link_dim[link]]
            widths[dim] = widths[dim] or 1 / links[link].s
        return [width or Fraction(1) for width in widths]

    @property
    def router_visits(self) -> int:
        return self.engine.router_visits

    @property
    def simulated_visits(self) -> int:
        return self.engine.router_visits - self.skipped_visits

    def set_tick_interval(self, cycles: int) -> None:
        self.windows = WindowRecorder(
            cycles, self.topology.counted_links
        )  # the engine returns at the end of each window

    def windows_table(self) -> Windows:
        table = self.windows.table()
        # With retry, flits wait for their last answers when the run ends.
        return table.until(self.end) if self.settings.retry is not None and self.end else table

    def watch_packet(self, message: int, packet: int) -> None:
        self.engine.watch(message, packet)

    def watched_events(self) -> list[tuple[int, str, int, int, int]]:
        return self.engine.watched()

    def message_split(self, message: int) -> list[int] | None:
        split: list[int] = self.engine.splits()[message].tolist()
        return split

    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Return running totals per network link."""
        totals = dict(self.engine.counters())
        if self._counts_losses:
            totals |= loss_counters(self.engine)
        if self._credit_messages:
            totals |= credit_counters(self.engine, self.config.links)
        if self.faults is not None and self.faults.slowed is not None:
            totals["slowed"] = self.faults.slowed.cycles(totals["flits"])
        return {name: values[: self.topology.counted_links] for name, values in totals.items()}

    @property
    def not_skipped(self) -> str | None:
        """Why no cycle was skipped; None: some were."""
        if self.skipped_cycles:
            return None
        if self.attribution_level > (self.faults is None):
            which = '= "messages"' if self.faults is None else "with faults"
            return f"output.attribution {which} needs every cycle simulated"
        if self._every_step or self.engine.watching:
            return f"a {'trace' if self._every_step else 'watched packet'} needs every cycle simulated"
        if self.faults is not None and self.faults.epochs is not None and not self._every_cycle:
            return "routes that follow links that are down need every cycle simulated"
        if self._counts_losses and not self._every_cycle:
            return "bit errors, lost flits and retry need every cycle simulated"
        if self._credit_messages and not self._every_cycle:
            return "credits as messages need every cycle simulated"
        return self._every_cycle or "nothing was found to repeat within the run"

    def buffer_max(self) -> NDArray[np.int32]:
        """Return the peak number of flits in a VC buffer of each network link."""
        vcs = self.settings.router.vcs
        peaks = self.engine.buffer_max()[: self.topology.counted_links * vcs]
        return peaks.reshape(-1, vcs).max(axis=1) if peaks.size else np.zeros(0, dtype=np.int32)

    def tables(self) -> dict[str, BackendTable]:
        if not (self._counts_losses or self._credit_messages):
            return {}
        tables: dict[str, BackendTable] = {}
        totals, windows = self.totals(), self.windows_table()
        if self._counts_losses:
            held_until = max(self.end, self.engine.now)
            tables |= fault_tables(totals, self.engine.retries()["count_most"], windows, self.end, held_until)
        if self.faults is not None and self.faults.epochs is not None:
            tables |= self.faults.epochs.tables(self.engine)
        if self._credit_messages:
            tables |= credit_tables(self.engine, self.config.links, totals, windows, self.end)
        return tables

    def counts(self) -> dict[str, Any]:
        """Return the counters of the JSON summary."""
        totals = self.engine.totals()
        return {
            "npus": self.npus,
            "messages": totals["messages_delivered"],
            "packets": totals["packets"],
            "flits": totals["flits"],
            **self._lost(totals),
            "flit_hops": int(self.totals()["flits"].sum()),
            "router_visits": totals["router_visits"],
            "bytes_delivered": self.bytes_delivered,
            "skipped_cycles": self.skipped_cycles,
            "skipped_visits": self.skipped_visits,
            "not_skipped": self.not_skipped,
            **self._folded,
            "threads": self.threads.used,
            "threads_asked": self.threads.wanted or 0,
            "threads_why": self.threads.why,
            **({"ranks": self.world.size} if self.world else {}),
        }

    def link_name(self, link: int) -> str:
        """Return the name of a network link, of a lane by its NPU, or of the drops of a router."""
        config = self.config
        links = config.links
        if link < self.topology.counted_links:
            return self.topology.counted_link_name[link]
        if link < links.network + links.injection:
            return config.inject.name(link - links.network, "injection")
        lane = link - links.network - links.injection
        if lane >= len(config.eject.npu):  # where packets without a route are dropped
            return f"drops of {self.topology.router_name[lane - len(config.eject.npu)]}"
        return config.eject.name(lane, "ejection")

    def link_names(self) -> list[str]:
        """Return the names of all network links, injection lanes and ejection lanes, in the engine's order."""
        links = self.config.links
        return [self.link_name(link) for link in range(links.network + links.injection + links.ejection)]

    def _ends_of(self, message: int) -> tuple[int, int]:
        return self._src[message], self._dst[message]
