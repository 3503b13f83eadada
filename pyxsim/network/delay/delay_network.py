"""What the backends of delays share: messages and their pairs, time, windows, counts. No packets, routers or buffers.

A backend makes a `Model` and hands it to `DelayedNetwork`. The model has an engine, which is compiled: it is told ways
(what messages travel over), carries messages over them, and says what arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from pyxsim.arrays import IntArray
from pyxsim.errors import SimulationError
from pyxsim.network.delay.pairs import Pairs
from pyxsim.network.delay.windowed_counts import Recorder, WindowedCounts
from pyxsim.network.protocol import Backend, DelayTerms
from pyxsim.network.windows import Windows
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology

FOREVER = 1 << 62
MOST_WINDOWS = 256
MOST_CELLS = 2**14  # windows x NPUs: what links carried is worked out for each window at the end


class Engine(Protocol):
    """What carries the messages of a model. `flits`: int64[ways], what each has carried; what a way is, it decides."""

    @property
    def now(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def bytes_delivered(self) -> int: ...
    @property
    def flits(self) -> IntArray: ...

    @property
    def next_cycle(self) -> int:
        """The cycle in which something happens next; one that never comes if nothing does."""

    def send(self, ways: IntArray, nbytes: IntArray, at: int) -> int:
        """Messages over these pairs in cycle `at`; returns the number of the first. Raises OverflowError."""

    def advance(self, until: int, slack: int) -> tuple[IntArray, IntArray]:
        """(messages, cycles) of the next arrivals up to cycle `until`, and of those up to `slack` cycles later."""

    def wait(self, cycle: int) -> None:
        """Let time pass in which nothing happens."""


class Model(Protocol):
    """What the backend wants of a model. `rates`: bytes per cycle of each link; `latencies`: cycles, perhaps broken.

    `widest`: bytes per cycle of the widest link.
    """

    @property
    def engine(self) -> Engine: ...
    @property
    def rates(self) -> Sequence[Fraction]: ...
    @property
    def latencies(self) -> Sequence[Fraction]: ...
    @property
    def widest(self) -> Fraction: ...

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        """Make pairs known, in the order of their numbers."""

    @property
    def links_work(self) -> bool:
        """Whether what ways have carried changes while time passes; else a message is booked when it is sent."""

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        """int64[links]: what links have carried, when the ways of the engine have carried `flits`.

        `ends`: rows source, destination, plane of the pairs known so far.
        """

    @property
    def flits(self) -> int:
        """Flits of all messages, however many links they cross."""


class DelayedNetwork(Backend):
    """A backend whose messages take what a model says.

    `window`: cycles of the statistics' windows; `windows`: what keeps them, if not a ledger. `tick` is called with
    every batch of arrivals: progress, Ctrl-C.
    """

    def __init__(
        self,
        topology: Topology,
        network: Network,
        model: Model,
        *,
        window: int = 1000,
        windows: Recorder | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(topology, network, window=window, tick=tick)
        self.model = model
        self.engine = model.engine
        self._pairs = Pairs(topology.npus)
        rows = max(1, min(MOST_WINDOWS, MOST_CELLS // topology.npus))
        self.windows = windows or WindowedCounts(window, rows, topology.links, self._on_links)

    @property
    def now(self) -> int:
        return self.engine.now

    # -- messages --

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        ways, fresh = self._pairs.number(src, dst, plane)
        if len(fresh):
            self.model.extend(src[fresh], dst[fresh], plane[fresh])
        self._book(at)
        try:
            return self.engine.send(ways, nbytes, at)
        except OverflowError as error:
            raise SimulationError(str(error)) from None

    def _book(self, at: int) -> None:
        """Something is about to be sent in cycle `at`: what was carried up to then belongs to windows before it."""
        if at >= self.windows.due:
            self.windows.close(at, self.engine.flits)

    # -- time --

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        self.pause()
        limit = FOREVER if until is None else until
        try:
            messages, cycles = self._advance(limit, slack)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        if not len(messages) and until is not None:
            self.engine.wait(until)
        self.bytes_delivered = self.engine.bytes_delivered
        self.tick()
        return messages, cycles

    def _advance(self, limit: int, slack: int) -> tuple[IntArray, IntArray]:
        """The next arrivals; where links work meanwhile, their windows are closed in time."""
        while self.model.links_work and self.engine.next_cycle <= limit:
            if self.engine.next_cycle >= self.windows.due:
                self.windows.close(self.engine.next_cycle, self.engine.flits)
            messages, cycles = self.engine.advance(min(limit, self.windows.due - 1), slack)
            if len(messages):
                return messages, cycles
        return self.engine.advance(limit, slack)

    def finish(self, cycle: int) -> None:
        """Close the statistics at the end of a run."""
        self.windows.finish(cycle, self.engine.flits)

    # -- what there is to see --

    @property
    def link_rates(self) -> tuple[Sequence[Fraction], Sequence[Fraction]]:
        return self.model.rates, self.model.latencies

    @property
    def delay_terms(self) -> DelayTerms | None:
        latency = min(self.model.latencies, default=Fraction(0))
        return DelayTerms(self.model.widest, latency, self.capabilities.congestion)

    def windows_table(self) -> Windows:
        return self.windows.table()

    def totals(self) -> dict[str, IntArray]:
        """Running totals per network link: flits, as many as the messages fill; zeros where ways are not known."""
        return {"flits": self._on_links(self.engine.flits)}

    def _on_links(self, flits: IntArray) -> IntArray:
        return self.model.on_links(self._pairs.ends(), flits)

    def counts(self) -> dict[str, int]:
        """The counters of the JSON summary that a network knows. A message is one packet."""
        flits = self.totals()["flits"]
        return {
            "npus": self.npus,
            "messages": self.engine.delivered,
            "packets": self.engine.delivered,
            "flits": self.model.flits,
            "flit_hops": int(flits.sum()),
            "router_visits": 0,
            "bytes_delivered": self.bytes_delivered,
            "skipped_cycles": 0,
            "threads": 1,
        }
