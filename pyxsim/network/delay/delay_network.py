"""Base of the backends that delay whole messages: message pairs, time, windows, counts. No packets or routers.

A backend passes a `Model` to `DelayedNetwork`. The model has a compiled engine, which carries messages over routes
(`extend` adds them) and returns arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from pyxsim.arrays import IntArray
from pyxsim.errors import SimulationError
from pyxsim.network.delay.line_copies import LEAST_NPUS, LineCopies
from pyxsim.network.delay.pairs import Pairs
from pyxsim.network.delay.windowed_counts import Recorder, WindowedCounts
from pyxsim.network.lines import Lines
from pyxsim.network.protocol import Backend
from pyxsim.network.windows import Windows
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology

FOREVER = 1 << 62
MOST_WINDOWS = 256
MOST_CELLS = 2**14  # windows x NPUs: the flits of links are computed for each window at the end


class Engine(Protocol):
    """The compiled engine of a model. `flits`: int64[routes], the flits that each route has carried."""

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
        """The cycle of the next event; a cycle beyond all others if there is none."""

    def send(self, paths: IntArray, nbytes: IntArray, at: int) -> int:
        """Send messages over these pairs in cycle `at`; return the number of the first. Raises OverflowError."""

    def advance(self, until: int, slack: int) -> tuple[IntArray, IntArray]:
        """Return (messages, cycles): the next arrivals up to cycle `until`, and those up to `slack` cycles later."""

    def wait(self, cycle: int) -> None:
        """Advance time to `cycle`; nothing happens before it."""


class Model(Protocol):
    """A delay model. `rates`: bytes per cycle of each link; `latencies`: cycles, not rounded.

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
        """Add pairs, in the order of their numbers."""

    def copy_lines(self, copies: LineCopies) -> bool:
        """Count what the first lines carry for all lines from now on; return False if the lines differ."""

    @property
    def links_work(self) -> bool:
        """Whether the engine counts flits as time passes; else it counts a message when it is sent."""

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        """Return int64[links]: the flits of each link when the routes of the engine have carried `flits`.

        `ends`: rows source, destination, plane of the pairs so far.
        """

    @property
    def flits(self) -> int:
        """Flits of all messages, each counted once."""


class DelayedNetwork(Backend):
    """A backend whose messages take the time that a model computes.

    `window`: cycles of a statistics window; `windows`: the recorder, by default `WindowedCounts`. `tick` is called with
    every batch of arrivals. `skip`: whether the first of several lines may stand for all.
    """

    _copies: LineCopies | None = None

    def __init__(
        self,
        topology: Topology,
        network: Network,
        model: Model,
        *,
        window: int = 1000,
        windows: Recorder | None = None,
        tick: Callable[[], None] | None = None,
        skip: bool = True,
    ) -> None:
        super().__init__(topology, network, window=window, tick=tick)
        self.model = model
        self.engine = model.engine
        self._pairs = Pairs(topology.npus)
        self._skip = skip
        rows = max(1, min(MOST_WINDOWS, MOST_CELLS // topology.npus))
        self.windows = windows or WindowedCounts(window, rows, topology.counted_links, self._on_links)

    @property
    def now(self) -> int:
        return self.engine.now

    # -- messages --

    def wants_lines(self, nbytes: int) -> bool:
        return self._skip and self.npus >= LEAST_NPUS

    def expect_lines(self, kinds: Sequence[Lines]) -> bool:
        copies = LineCopies(kinds, self.npus, self.settings.flit)
        if not copies.clear or not self.model.copy_lines(copies):
            return False
        self._copies = copies
        return True

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        paths, fresh = self._pairs.number(src, dst, plane)
        if len(fresh):
            self.model.extend(src[fresh], dst[fresh], plane[fresh])
        self._book(at)
        try:
            first = self.engine.send(paths, nbytes, at)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        if self._copies is not None:
            self._copies.send(src, dst, plane, nbytes)
        return first

    def _book(self, at: int) -> None:
        """Close the windows that end before cycle `at`, the cycle of the next message."""
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
        if self._copies is not None:
            self._copies.arrive(messages)
        self.bytes_delivered = (self._copies or self.engine).bytes_delivered
        self.tick()
        return messages, cycles

    def _advance(self, limit: int, slack: int) -> tuple[IntArray, IntArray]:
        """Return the next arrivals; if the engine counts flits as time passes, close windows in time."""
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

    # -- results --

    @property
    def link_rates(self) -> tuple[Sequence[Fraction], Sequence[Fraction]]:
        return self.model.rates, self.model.latencies

    def windows_table(self) -> Windows:
        return self.windows.table()

    def totals(self) -> dict[str, IntArray]:
        """Return running totals per link: the flits that the messages fill; zeros where routes are not known."""
        return {"flits": self._on_links(self.engine.flits)}

    def _on_links(self, flits: IntArray) -> IntArray:
        return self.model.on_links(self._pairs.ends(), flits)

    def counts(self) -> dict[str, int]:
        """Return the counters of the JSON summary; a message counts as one packet."""
        flits = self.totals()["flits"]
        delivered = (self._copies or self.engine).delivered
        lines = {} if self._copies is None else {"groups": self._copies.lines, "classes": self._copies.kinds}
        return {
            "npus": self.npus,
            "messages": delivered,
            "packets": delivered,
            "flits": (self._copies or self.model).flits,
            "flit_hops": int(flits.sum()),
            "router_visits": 0,
            "bytes_delivered": self.bytes_delivered,
            "skipped_cycles": 0,
            "threads": 1,
            **lines,
        }
