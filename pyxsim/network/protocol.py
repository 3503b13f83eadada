"""The contract of a network backend: what the system layer, the runner and the analysis use of it.

A backend is a subclass of `Backend` that implements `now`, `send_many` and `advance`; every other member has a default.
Time is a whole number of cycles of the backend's clock and never goes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import BoolArray, Int32Array, IntArray, unique_by_identity
from pyxsim.errors import InputError
from pyxsim.network.engine_config import EngineConfig, MessageClass
from pyxsim.network.fault_times import NEVER
from pyxsim.network.lines import Lines
from pyxsim.network.link_params import MAX_DENOMINATOR, LinkParams
from pyxsim.network.link_paths import link_rates_of
from pyxsim.network.user_backend import check_returns
from pyxsim.network.windows import Windows
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do.

    Attributes
    ----------
    packets
        Messages are packets in routers with buffers: routes need a deadlock proof, and `Backend.config` is set.
    congestion
        Messages that share a link slow each other down.
    open_traffic
        The backend registers an `OpenBackend` as `open_traffic`.
    background
        Background traffic may run beside messages (`carry_background`).
    attribution
        `output.attribution` has an effect.
    watch_packet
        `pyxsim run --watch` works.
    threads
        `run.threads` has an effect.
    mpi
        Several MPI ranks may simulate one network (`run.mpi`).
    fast_forward
        Periods of regular traffic are skipped (docs/fast_forward.md).
    checkpoint
        The backend can be pickled between two calls.
    pauses
        Switches pause links, so routes need a proof (`Backend.prove_pauses`).
    in_order
        Arrivals of the same cycle have an order of their own.
    link_faults
        [[faults]] change links.
    transactions
        Messages are memory transactions ([network.transactions]), sent by `Backend.send_accesses`.
    """

    packets: bool = False
    congestion: bool = True
    open_traffic: bool = False
    background: bool = False
    attribution: bool = False
    watch_packet: bool = False
    threads: bool = False
    mpi: bool = False
    fast_forward: bool = False
    checkpoint: bool = True
    pauses: bool = False
    in_order: bool = False
    link_faults: bool = False
    transactions: bool = False


class BackgroundSource(Protocol):
    """Creates the packets of background traffic, ahead of the network."""

    def create(self, network: Any) -> int:
        """Inject the next packets (`inject_background`); return the cycle up to which all are created."""


@dataclass(frozen=True)
class BackendTable:
    """A table of a backend for the result: arrays by column, and attributes.

    The dataset of that name (pyxsim/results/datasets/) describes the columns; a table without one becomes a table of
    the result, one row per entry of its columns.
    """

    columns: Mapping[str, NDArray[Any]]
    attrs: Mapping[str, int | float | str] = field(default_factory=dict)


class AttributionRecords(Protocol):
    """Latencies of messages and packets by cause (docs/attribution.md).

    `level`: 1 by link and cause, 2 also of each packet.
    """

    @property
    def level(self) -> int: ...

    def messages(self) -> dict[str, IntArray]:
        """Return int64[messages] columns: src, dst, bytes, tag, sent, arrived (cycles; -1: not yet)."""

    def splits(self) -> IntArray:
        """Return int64[messages, 8]: the latency of each message by cause."""

    def waits(self) -> dict[str, Any]:
        """Return the columns of the blame table: which traffic delayed which."""

    def stays(self) -> IntArray:
        """Return int64[rows, 3 + 8]: message, packet, link and cycles by cause, in the order of arrival."""


def _nothing() -> None:
    """Do nothing: the default hook."""


class Backend(ABC):
    """A network of `npus` endpoints, numbered from 0, that carries messages.

    Parameters
    ----------
    topology
        The network; its links are the rows of all tables per link.
    settings
        The section [network].
    window
        Length of a statistics window in cycles.
    tick
        Called regularly, for progress and signals. It may raise.

    Attributes
    ----------
    config
        Links, lanes and routers; set where `capabilities.packets` is true.
    pause
        Called where a checkpoint can be written: all arrivals are reported, and the whole state is in objects. A copy
        or a pickle of the object has no `tick` and no `pause`.
    traffic_names
        Names of the tags of messages, as the job gives them (`Job.traffic`); more may follow during the run.
    bytes_delivered, messages_sent
        Counters that `send_many` and `advance` keep.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    messages_numbered = 0  # of a user's backend (user_backend.py)
    numbers_in_flight: BoolArray = np.zeros(0, np.bool_)  # of a user's backend: whether each of its messages is
    traffic_names: Sequence[str] = ()
    config: EngineConfig
    tick: Callable[[], None] = staticmethod(_nothing)
    pause: Callable[[], None] = staticmethod(_nothing)

    def __init__(
        self, topology: Topology, settings: Network, *, window: int = 1000, tick: Callable[[], None] | None = None
    ) -> None:
        self.topology = topology
        self.settings = settings
        self.npus = topology.npus
        self.clock_hz: Fraction = settings.clock
        self.window = window
        self.end = 0  # of the run, as `finish` gives it
        self.bytes_delivered = self.messages_sent = 0
        if tick is not None:
            self.tick = tick

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        """Make the backend of an experiment. Raises InputError for settings that it does not model."""
        return cls(topology, experiment.network, window=window)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("pyxsim."):  # a user's
            check_returns(cls)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("tick", "pause")}

    # -- messages and time --

    @property
    @abstractmethod
    def now(self) -> int:
        """The current cycle. Messages can still be sent in it."""

    @abstractmethod
    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        """Send K >= 1 messages in cycle `at >= now`.

        Parameters
        ----------
        src, dst
            int64[K], NPUs.
        nbytes
            int64[K], at least 1.
        plane
            int64[K], planes of the topology: the route of a queue.
        tag
            Number of its traffic, for attribution; one number or int64[K].

        Returns
        -------
        int
            The number of the first message; the others follow it. Messages count from 0.
        """

    @abstractmethod
    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        """Let time pass to cycle `until` (None: until nothing is left to do), but stop at arrivals.

        Parameters
        ----------
        slack
            The caller sends nothing for this many cycles after an arrival: arrivals within them may be returned
            together.

        Returns
        -------
        messages, cycles
            int64[K]: the messages that have arrived completely since the last call, in the order (cycle, message);
            with `Capabilities.in_order`, those of a cycle in the order of their arrival.
            K = 0: `until` is reached, or nothing is left to do.

        Raises
        ------
        SimulationError
            The simulated system failed, for example in a deadlock.
        """

    def take_losses(self) -> Sequence[int]:
        """Return the messages that have lost a packet since the last call, at which `advance` stops, too.

        Only for jobs that start again after failures; several packets of a message may be lost.
        """
        return ()

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, tag: int = 0) -> int:
        """Send one message; see `send_many`."""
        row = np.array([[src], [dst], [nbytes], [plane]], np.int64)
        return self.send_many(row[0], row[1], row[2], row[3], at, tag)

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
        """Send messages that are loads, stores, and so on, where `capabilities.transactions` is true; see `send_many`.

        Parameters
        ----------
        accesses
            int64[K] each: the kind (pyxsim/collective/accesses.py); the number of the access of the switch that the
            message is a part of, -1 for none; and of how many messages that access consists.
        """
        raise InputError("this backend has no memory transactions", key="network.transactions")

    @property
    def wants_traffic(self) -> bool:
        """Whether `expect` is of use."""
        return False

    def expect(self, traffic: IntArray) -> None:  # noqa: B027
        """Announce every message of the run before the first one is sent, if all are known.

        `traffic` is int64[rows, 5]: source, destination, plane, bytes, number of messages.
        """

    def wants_lines(self, nbytes: int) -> bool:
        """Whether `expect_lines` is of use for collectives of that many bytes, over all NPUs."""
        return False

    def expect_lines(self, kinds: Sequence[Lines]) -> bool:
        """Announce every message of the run by lines of NPUs, of which only the first of each kind sends (`lockstep`).

        Returns whether its messages take the same time in all lines of the kind; its counters then stand for all.
        """
        return False

    def carry_background(self, source: BackgroundSource, tag: int) -> None:
        """Carry background traffic beside the messages from now on, where `capabilities.background` is true.

        It does not count in `bytes_delivered`, and `advance` neither returns its packets nor waits for them.
        `tag`: number of the traffic of its first class.
        """
        raise InputError("this backend does not support background traffic", key="--backend")

    def finish(self, cycle: int) -> None:
        """End the run in `cycle`: close the statistics."""
        self.end = cycle

    def set_tick_interval(self, cycles: int) -> None:  # noqa: B027
        """Call `tick` at least once in `cycles` simulated cycles, where that is possible."""

    # -- the network --

    @property
    def follows_links(self) -> bool:
        """Whether routes are computed again as links go down and come up."""
        return False

    def parts_of(self, npus: Sequence[int], cycle: int) -> list[int]:
        """Return the connected part of the network to which each of some NPUs belongs in a cycle.

        NPUs with the same number have routes to each other; without routes that follow links, ways over links that are
        up. `cycle`: the current one of the system layer; the network may be idle since an earlier one.
        """
        return [0] * len(npus)

    def next_change(self, cycle: int) -> int:
        """Return the first cycle after `cycle` in which `parts_of` may change, or NEVER."""
        return NEVER

    @property
    def bytes_lost(self) -> int:
        """Bytes of messages that were sent and have not arrived, where those of abandoned work may be lost."""
        return 0

    @property
    def link_rates(self) -> tuple[Sequence[Fraction], Sequence[Fraction]]:
        """Bandwidth (bytes per cycle) and latency (cycles) of each link, exact."""
        return link_rates_of(self.topology, self.settings)

    @property
    def link_params(self) -> Sequence[LinkParams]:
        """Flit time and latency of each link, for statistics.

        A flit time with too large a denominator is approximated, and never 0.
        """
        rates, latencies = self.link_rates
        widths, width_of = unique_by_identity(rates)
        waits, wait_of = unique_by_identity(latencies)
        least = Fraction(1, MAX_DENOMINATOR)
        times = [max((self.settings.flit / width).limit_denominator(MAX_DENOMINATOR), least) for width in widths]
        wires = [[LinkParams(time, ceil(wait), 0, 0) for wait in waits] for time in times]
        return [wires[width][wait] for width, wait in zip(width_of.tolist(), wait_of.tolist(), strict=True)]

    def injection_bandwidths(self) -> list[Fraction]:
        """Return the bandwidth with which an NPU sends into each dimension; only the ratios count."""
        topology, rates = self.topology, self.link_rates[0]
        widths = [Fraction(0)] * len(topology.dims)
        for link in np.flatnonzero(topology.link_src == topology.home[0]).tolist():
            widths[topology.kind_dims[topology.link_dim[link]]] += rates[link]
        return [bandwidth or Fraction(1) for bandwidth in widths]

    @property
    def warnings(self) -> list[str]:
        """Lines for the user, known before the run."""
        return []

    @property
    def notes(self) -> list[str]:
        """Lines for the user, known after the run."""
        return []

    def prove_pauses(self, pairs: IntArray | None) -> tuple[str, list[str]]:
        """Return whether paused links can wait for each other: a text, and the names of the links of a cycle.

        `pairs`: int64[n, 2], source and destination of the messages; None for all pairs.
        """
        return "this backend has no buffers that could deadlock", []

    @property
    def own_routing(self) -> str:
        """How the backend chooses routes, if not by the routing algorithm of the network; else empty."""
        return ""

    def cut(self, nbytes: int) -> tuple[int, int, int]:
        """Return (packets, flits of each, flits of the last one) of a message of `nbytes` bytes."""
        raise InputError("this backend has no packets", key="--backend")

    def engine_bytes(self) -> int | None:
        """Return the memory that the engine takes, in bytes; None where it is not known."""
        return None

    # -- results --

    def attribution(self) -> AttributionRecords | None:
        """Return the records of attribution; None if they are not kept."""
        return None

    @property
    def router_visits(self) -> int:
        """Flits times routers passed so far; 0 without routers."""
        return 0

    @property
    def simulated_visits(self) -> int:
        """Router visits that were simulated, not skipped."""
        return self.router_visits

    def totals(self) -> dict[str, IntArray]:
        """Return the counters of each link, int64[links]; "flits" is always there.

        Reports leave out counters that stay zero on a backend without router visits (`Result.has_link_counters`).
        """
        return {"flits": np.zeros(self.topology.counted_links, np.int64)}

    def windows_table(self) -> Windows:
        """Return the counters of each link by windows of time, after `finish`."""
        return Windows.whole(self.end, self.totals())

    def buffer_max(self) -> Int32Array:
        """Return int32[links]: the most flits that a VC buffer of each link ever held."""
        return np.zeros(self.topology.counted_links, np.int32)

    def tables(self) -> dict[str, BackendTable]:
        """Return further tables for the result by the name of their dataset, after `finish`; by default none."""
        return {}

    def fault_report(self) -> list[str]:
        """Return a line for each message that faults keep from arriving, and for each link that is down."""
        return []

    def planned_routes(self) -> list[tuple[int, int, str, str, int]]:
        """Return the epochs of the tables of routes that are known before the run.

        Rows: cycle from which on they are used, links down, routes, how they follow those before, pairs of NPUs without
        a route. The first ones only; none where routes stay as they are.
        """
        return []

    def counts(self) -> dict[str, Any]:
        """Return the counters of the JSON summary."""
        return {
            "npus": self.npus,
            "messages": self.messages_sent,
            "packets": self.messages_sent,
            "flits": 0,
            "flit_hops": int(self.totals()["flits"].sum()),
            "router_visits": self.router_visits,
            "bytes_delivered": self.bytes_delivered,
            "skipped_cycles": 0,
            "threads": 1,
        }

    def link_name(self, link: int) -> str:
        """Return the name of a link of the topology; backends with lanes name these, too."""
        return self.topology.counted_link_name[link]

    def link_names(self) -> list[str]:
        """Return the names of all links, and behind them those of lanes."""
        return list(self.topology.counted_link_name)

    # -- one packet --

    def watch_packet(self, message: int, packet: int) -> None:
        """Log what happens to a packet. Raises InputError without packets."""
        raise InputError("this backend has no packets", key="--watch", allowed="with --backend packet")

    def watched_events(self) -> list[tuple[int, str, int, int, int]]:
        """Return the log of the watched packet: (cycle, event, link, VC, flit)."""
        return []

    def message_split(self, message: int) -> list[int] | None:
        """Return the latency of a message by cause; None where it is not kept."""
        return None


class OpenBackend(Backend):
    """A backend for open traffic: messages enter in arrays, and arrivals are taken out in tables."""

    @classmethod
    @abstractmethod
    def for_open_traffic(
        cls,
        experiment: Experiment,
        topology: Topology,
        *,
        window: int,
        classes: Sequence[MessageClass],
        packet: int,
    ) -> Self:
        """Make the backend of an experiment with open traffic.

        `classes`: of the messages. `packet`: flits of the longest packet.
        """

    @abstractmethod
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
        """Send messages in cycles `at >= now`; arrays, or one number for all.

        Each has `packets` packets of `flits` flits, the last one of `last_flits` (default: as the others). Returns the
        number of the first one.
        """

    @abstractmethod
    def run(self, until: int, *, slack: int | None = None) -> bool:
        """Let time pass to cycle `until`, or to `slack` cycles after the first arrival.

        Returns False when nothing is left to do; `now` may be less than `until` then. Raises DeadlockError.
        """

    @abstractmethod
    def deliveries(self) -> dict[str, IntArray]:
        """Return the messages that have arrived completely since the last call, in the order (last, serial).

        Columns, int64[K]: serial, klass, src, dst, at (when it was sent), first (flit launched), last (flit arrived),
        packets, flits, hops (routers that its heads passed, summed over its packets); with attribution also parts,
        int64[K, 8].
        """
