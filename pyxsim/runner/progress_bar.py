"""A progress bar on a terminal and in Jupyter, for the `progress` of `pyxsim.run` and `pyxsim.sweep`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from fractions import Fraction
from typing import Any, Protocol

from pyxsim.runner.hooks import Progress
from pyxsim.units import format_time_ns, rounded

DELAY = 2.0  # seconds before a bar appears: a short run needs none
TEXT = 72  # columns of the text beside the bar


class PointsProgress(Protocol):
    """The progress of many points: the share that has ended, and a line of text."""

    @property
    def share(self) -> float: ...

    @property
    def line(self) -> str: ...


class ProgressBar:
    """Show the progress of a run or a sweep: a bar, the simulated time or the points, the speed and the time left.

    It appears after two seconds on a terminal (stderr) or in a Jupyter notebook, and nowhere else. One bar serves one
    run at a time.

    Parameters
    ----------
    label
        Text in front, such as the name of the run.
    delay
        Seconds before the bar appears.

    Examples
    --------
    >>> pyxsim.run("inputs/torus_all_reduce.toml", progress=pyxsim.ProgressBar())  # doctest: +SKIP
    >>> pyxsim.sweep("sweep.toml", "results/sweep", progress=pyxsim.ProgressBar())  # doctest: +SKIP
    """

    def __init__(self, label: str = "", *, delay: float = DELAY) -> None:
        self.label = label
        self._delay = delay
        self._begin: float | None = None
        self._visits = 0  # expected of the whole run
        self._display: _Display | None = None

    def __call__(self, progress: Progress | PointsProgress) -> None:
        """Show the progress of a run, or of many points."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now
        elapsed = now - self._begin
        if elapsed < self._delay:
            return
        with suppress(OSError):  # a terminal that is gone ends no run
            if not isinstance(progress, Progress):
                self._display = self._display or _display()
                self._display.show(progress.share, self.label, progress.line)
                return
            if self._display is None:
                self._visits = progress.expected_visits()
                self._display = _display()
            # Bytes count when their message has arrived, which may take long; router visits are the work of a run.
            visits = progress.router_visits / self._visits if self._visits else 0.0
            share = visits if self._visits else _delivered(progress)
            done, left = words(progress, elapsed, share)
            self._display.show(share, f"{self.label}{done}", left)

    def close(self) -> None:
        """Remove the bar."""
        if self._display is not None:
            with suppress(OSError):
                self._display.close()
        self._begin, self._display = None, None


def _delivered(progress: Progress) -> float:
    """The share of the bytes, where the backend has no routers."""
    return progress.bytes_delivered / progress.bytes_total if progress.bytes_total else 0.0


def words(progress: Progress, elapsed: float, share: float) -> tuple[str, str]:
    """Return the texts before and after the bar, after `elapsed` seconds and a share of the work."""
    simulated = format_time_ns(Fraction(progress.cycle) * 10**9 / progress.clock_hz)
    delivered, total = rounded(progress.bytes_delivered, "B", 1024), rounded(progress.bytes_total, "B", 1024)
    speed = f", {rounded(progress.simulated_visits / elapsed, '')} visits/s" if elapsed > 0 else ", 0 visits/s"
    if progress.bytes_delivered and not progress.router_visits:
        speed = ""
    if not progress.bytes_total:  # the length of open traffic is not known
        return f"{simulated} simulated", f"{delivered}{speed}"
    left = clock(max(0.0, elapsed * (1 / share - 1))) if share else "?"
    return f"{simulated} simulated", f"{delivered} of {total}{speed}, {left} left"


def clock(seconds: float) -> str:
    """Return seconds as text: "5 s", "1:05", "2:03:04"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class _Display(Protocol):
    def show(self, share: float, done: str, left: str) -> None: ...

    def close(self) -> None: ...


class _Nothing:
    """Neither a terminal nor a notebook."""

    def show(self, share: float, done: str, left: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Terminal:
    """A bar of rich. The run calls often enough: no thread refreshes it, and nothing of it stays on the screen."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("{task.fields[done]}", markup=False),
            BarColumn(bar_width=max(1, min(20, console.width - TEXT))),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=1.0, done="", left="")
        self._bar.start()

    def show(self, share: float, done: str, left: str) -> None:
        self._bar.update(self._task, completed=share, done=done, left=left)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """An HTML bar in the output of a cell, which IPython updates: ipywidgets is not needed."""

    def __init__(self) -> None:
        from importlib import import_module

        shown: Any = import_module("IPython.display")
        self._html = shown.HTML
        self._handle = shown.display(shown.HTML(""), display_id=True)

    def show(self, share: float, done: str, left: str) -> None:
        from html import escape

        bar = f'<progress max="1" value="{share:.4f}"></progress>'
        self._handle.update(self._html(f"<code>{escape(done)}</code> {bar} <code>{escape(left)}</code>"))

    def close(self) -> None:
        self._handle.update(self._html(""))


def _display() -> _Display:
    if _in_notebook():
        return _Notebook()
    return _Terminal() if sys.stderr.isatty() else _Nothing()


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
