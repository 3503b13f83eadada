"""Hooks of a running simulation: progress, signals and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.signals import StopSignals

INTERVAL = 0.1  # seconds between two calls of a progress function


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    Parameters
    ----------
    cycle
        Simulated cycles.
    bytes_delivered, bytes_total
        Of all messages; `bytes_total` is 0 for open traffic, whose length is not known.
    router_visits
        Flits times routers passed; 0 where the backend has no routers.
    simulated_visits
        Router visits that were simulated, not skipped.
    clock_hz
        Cycles per second of simulated time.
    expected_visits
        Returns the router visits of the whole run, 0 if not known. It is computed from the routes of all messages.
    """

    cycle: int
    bytes_delivered: int
    bytes_total: int
    router_visits: int
    simulated_visits: int
    clock_hz: Fraction
    expected_visits: Callable[[], int] = field(default=int, repr=False, compare=False)


def progress_of(prepared: Prepared | PreparedTraffic) -> Progress:
    """Return the progress of a run."""
    network = prepared.network
    return Progress(
        network.now,
        network.bytes_delivered,
        prepared.bytes_planned,
        network.router_visits,
        network.simulated_visits,
        network.clock_hz,
        lambda: prepared.router_visits,
    )


@dataclass(eq=False)
class ProgressHooks:
    """The hooks of one run, which its network calls between two batches of events.

    Parameters
    ----------
    show
        Called with the Progress, at most every 0.1 s. Its method `close`, if it has one, is called after the run.
    signals
        The signals that end the run; those of `StopSignals.of_library` by default; with
        checkpoints they should include SIGTERM (`terminate`).
    checkpoints
        Writes checkpoints, also when a signal ends the run.
    """

    show: Callable[[Progress], None] | None = None
    signals: StopSignals = field(default_factory=StopSignals.of_library, kw_only=True)
    checkpoints: CheckpointWriter | None = field(default=None, kw_only=True)
    _last: float = field(default=0.0, init=False)

    @contextmanager
    def attached(self, prepared: Prepared | PreparedTraffic) -> Iterator[None]:
        """Inside, the network of a run calls the hooks, after those that it has already."""
        network = prepared.network
        tick, pause = network.tick, network.pause

        def called_often() -> None:
            tick()
            self._tick(prepared)

        network.tick = called_often
        if (writer := self.checkpoints) is not None:
            writer.stop_requested = writer.stop_requested or (lambda: bool(self.signals.number))
            writer.start(prepared)
            network.pause = self._pause
        self._last = time.monotonic()
        try:
            yield
        finally:
            network.tick, network.pause = tick, pause
            if (close := getattr(self.show, "close", None)) is not None:
                close()

    def _pause(self) -> None:
        assert self.checkpoints is not None
        try:
            self.checkpoints.write_if_due()
        except KeyboardInterrupt:
            self.signals.obey()

    def _tick(self, prepared: Prepared | PreparedTraffic) -> None:
        if self.show is not None and (now := time.monotonic()) - self._last >= INTERVAL:
            self._last = now
            self.show(progress_of(prepared))
        if self.signals.number and self.checkpoints is None:
            self.signals.obey()  # with checkpoints the run ends where it can be resumed, after the last one
