"""What the backends of delays share: messages and their pairs, time, windows, counts. No packets, routers or buffers.

A backend makes a `Model` and hands it to `DelayedNetwork`. The model has an engine, which is compiled: it is told ways
(what messages travel over), carries messages over them, and says what arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.analytical.alike import alike
from pyxsim.analytical.pairs import Pairs
from pyxsim.errors import SimulationError
from pyxsim.network.between import Between
from pyxsim.network.ledger import Ledger, Recorder
from pyxsim.network.protocol import Longs
from pyxsim.network.wires import MAX_DENOMINATOR, Wire
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
    def flits(self) -> Longs: ...

    @property
    def next_cycle(self) -> int:
        """The cycle in which something happens next; one that never comes if nothing does."""

    def send(self, ways: Longs, nbytes: Longs, at: int) -> int:
        """Messages over these pairs in cycle `at`; returns the number of the first. Raises OverflowError."""

    def advance(self, until: int, slack: int) -> tuple[Longs, Longs]:
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

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        """Make pairs known, in the order of their numbers."""

    @property
    def links_work(self) -> bool:
        """Whether what ways have carried changes while time passes; else a message is booked when it is sent."""

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        """int64[links]: what links have carried, when the ways of the engine have carried `flits`.

        `ends`: rows source, destination, plane of the pairs known so far.
        """

    @property
    def flits(self) -> int:
        """Flits of all messages, however many links they cross."""


class DelayedNetwork(Between):
    """A `Network` (see protocol) whose messages take what a model says.

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
        self.topology = topology
        self.settings = network
        self.npus = topology.npus
        self.clock_hz: Fraction = network.clock
        if tick is not None:
            self.tick = tick
        self.warnings: list[str] = []
        self.model = model
        self.engine = model.engine
        self._pairs = Pairs(topology.npus)
        rows = max(1, min(MOST_WINDOWS, MOST_CELLS // topology.npus))
        self.windows = windows or Ledger(window, rows, topology.links, self._on_links)

    @property
    def now(self) -> int:
        return self.engine.now

    @property
    def bytes_delivered(self) -> int:
        return self.engine.bytes_delivered

    # -- messages --

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, tag: int = 0) -> int:
        row = np.array([[src], [dst], [plane], [nbytes]], np.int64)
        return self.send_many(row[0], row[1], row[3], row[2], at)

    def send_many(self, src: Longs, dst: Longs, nbytes: Longs, plane: Longs, at: int, tag: Longs | int = 0) -> int:
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

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[Longs, Longs]:
        self.pause()
        limit = FOREVER if until is None else until
        try:
            messages, cycles = self._advance(limit, slack)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        if not len(messages) and until is not None:
            self.engine.wait(until)
        self.tick()
        return messages, cycles

    def _advance(self, limit: int, slack: int) -> tuple[Longs, Longs]:
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
    def link_wires(self) -> list[Wire]:
        """The network links, as the packet backend has them: flit time and latency.

        They are for statistics; a flit time that is too fine a fraction for these is the next best one, and never 0.
        """
        widths, width_of = alike(self.model.rates)
        waits, wait_of = alike(self.model.latencies)
        least = Fraction(1, MAX_DENOMINATOR)
        times = [max((self.settings.flit / width).limit_denominator(MAX_DENOMINATOR), least) for width in widths]
        wires = [[Wire(time, ceil(wait), 0, 0) for wait in waits] for time in times]
        return [wires[width][wait] for width, wait in zip(width_of.tolist(), wait_of.tolist(), strict=True)]

    def npu_bandwidths(self) -> list[Fraction]:
        """Bytes per cycle that an NPU can send into each dimension."""
        topology = self.topology
        found = [Fraction(0)] * len(topology.dims)
        for link in np.flatnonzero(topology.link_src == topology.home[0]).tolist():
            found[topology.kind_dims[topology.link_dim[link]]] += self.model.rates[link]
        return [bandwidth or Fraction(1) for bandwidth in found]

    def totals(self) -> dict[str, Longs]:
        """Running totals per network link: flits, as many as the messages fill; zeros where ways are not known."""
        return {"flits": self._on_links(self.engine.flits)}

    def _on_links(self, flits: Longs) -> Longs:
        return self.model.on_links(self._pairs.ends(), flits)

    def buffer_max(self) -> NDArray[np.int32]:
        """There are no buffers."""
        return np.zeros(self.topology.links, np.int32)

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

    def link_name(self, link: int) -> str:
        return self.topology.link_name[link]
