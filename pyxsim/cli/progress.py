"""What is seen of a run while it takes place, and where it can be left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.facts import rounded
from pyxsim.runner.lifecycle import Progress, standing
from pyxsim.runner.prepare import Prepared, PreparedTraffic
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SILENCE = 2.0  # seconds before anything is shown: a short run needs no progress
PAUSE = 0.1  # seconds between two looks
TEXT = 72  # columns of the text beside the bar


class Watch:
    """Looks at a run at every `tick`: ends it when a signal has come, if nobody else `ends` it; shows how far it is."""

    def __init__(self, out: CommandOutput, *, ends: bool = True) -> None:
        self.out = out
        self.ends = ends
        self._prepared: Prepared | PreparedTraffic | None = None
        self._begin = self._last = 0.0
        self._bar: Bar | None = None
        self._visits = 0  # of the whole run
        self._name = ""

    @contextmanager
    def over(self, prepared: Prepared | PreparedTraffic, name: str = "") -> Iterator[None]:
        """While the run takes place. `name`: which one it is, where there are several."""
        self._prepared, self._name = prepared, name
        self._begin = self._last = time.monotonic()
        try:
            with self.out.stop.deferred():
                yield
        finally:
            self._prepared = None
            if self._bar is not None:
                with suppress(OSError):  # a terminal that is gone ends no run
                    self._bar.stop()
                self._bar = None

    def tick(self) -> None:
        """Called by the network every now and then."""
        if self._prepared is None:
            return
        if self.ends:
            self.out.stop.obey()
        now = time.monotonic()
        if now - self._last < PAUSE:
            return
        self._last = now
        if self.out.live and now - self._begin >= SILENCE:
            with suppress(OSError):
                self._show(self._prepared, now - self._begin)

    def _show(self, prepared: Prepared | PreparedTraffic, elapsed: float) -> None:
        if self._bar is None:
            self._visits = prepared.router_visits
            self._bar = _bar(self.out)
            self._bar.start()
        progress = standing(prepared)
        (task,) = self._bar.task_ids
        # Bytes count when their message is there, which may take long; the work of a run is its router visits.
        share = progress.router_visits / self._visits if self._visits else _delivered(progress)
        done, left = words(progress, elapsed, share)
        self._bar.update(task, completed=share, done=f"{self._name}{done}", left=left)
        self._bar.refresh()


def _delivered(progress: Progress) -> float:
    """The share of the bytes: all that is known where there are no routers."""
    return progress.bytes_delivered / progress.bytes_total if progress.bytes_total else 0.0


def words(progress: Progress, elapsed: float, share: float) -> tuple[str, str]:
    """How far a run is after `elapsed` seconds and a share of its work, and what is left of it."""
    simulated = format_time_ns(Fraction(progress.cycle) * 10**9 / progress.clock_hz)
    delivered, total = rounded(progress.bytes_delivered, "B", 1024), rounded(progress.bytes_total, "B", 1024)
    speed = f", {rounded(progress.simulated_visits / elapsed, '')} visits/s" if elapsed > 0 else ", 0 visits/s"
    if progress.bytes_delivered and not progress.router_visits:
        speed = ""
    if not progress.bytes_total:  # open traffic runs until it is known well enough
        return f"{simulated} simulated", f"{delivered}{speed}"
    left = clock(max(0.0, elapsed * (1 / share - 1))) if share else "?"
    return f"{simulated} simulated", f"{delivered} of {total}{speed}, {left} left"


def clock(seconds: float) -> str:
    """Seconds for people: 5 s, 1:05, 2:03:04."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _bar(out: CommandOutput) -> Bar:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    # No thread refreshes it, since the run itself calls often enough; and nothing of it stays on the screen.
    console = out.console
    bar = Bar(
        TextColumn("{task.fields[done]}", markup=False),
        BarColumn(bar_width=max(1, min(20, console.width - TEXT))),
        TextColumn("{task.fields[left]}", markup=False),
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=1.0, done="", left="")
    return bar
