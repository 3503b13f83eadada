"""`pyxsim sweep`: run the points of an experiment in several processes, and keep the results in a folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError, SimulationError, all_or_faults
from pyxsim.reports.plots.style import need_matplotlib
from pyxsim.reports.plots.sweep_lines import file_name, save, short_names, text_of
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import bound
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.dataset import columns_of
from pyxsim.results.sweep import Sweep
from pyxsim.results.sweep_table import names_of
from pyxsim.runner.progress_bar import clock
from pyxsim.settings.points import Plan, plan_of
from pyxsim.study.sweep import Standing, sweep
from pyxsim.study.sweep.sweep_run import ONE_POINT

if TYPE_CHECKING:
    from rich.live import Live

MOST_ROWS = 24  # rows of points on a terminal
MOST_RUNNING = 8  # running points that are listed
PAUSE = 0.1  # seconds between two updates of a terminal
SILENCE = 10.0  # seconds between two lines without a terminal
NO_HUE = "-"
_TELLING = (  # columns on a terminal, where the points have them
    *(
        "time_ns",
        "lower_bound_ns",
        "compute_ns",
        "exposed_ns",
        "accepted_load",
        "packet_latency",
        "packet_latency_p99",
        "saturated",
    ),
)


def show_sweep(
    out: CommandOutput, path: str, folder: str, *, plot: tuple[str, str, str] | None = None, **options: Any
) -> None:
    """Run `pyxsim sweep`. `plot`: x, y and hue, which may be "-". `options`: as for `pyxsim.sweep`."""
    overrides = tuple(options.get("overrides") or ())
    plotted = _wanted(plot, path, overrides, tuple(options.get("libraries") or ())) if plot is not None else None
    needs = [(plotted[1], "--plot")] if plotted is not None else []
    with _Watch(out, path) as watch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ONE_POINT)  # the display has a line for the command
        try:
            swept = sweep(path, folder, **{**options, "overrides": overrides}, needs=needs, progress=watch.see)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{folder} contains the completed points; the same command resumes the sweep"
            ) from None
    written = [f"{folder}/{name}" for name in names_of(swept)]
    if plotted is not None:
        written.append(f"{folder}/{file_name(plotted)}")
        save(swept, written[-1], *plotted)
    out.put({**_to_json(swept), **_faults(swept)})
    out.say(*_shown(swept, watch.standing, bound(out.console)), "", f"wrote {', '.join(written)}")
    if failed := swept.counts["failed"]:
        raise SimulationError(f"{failed} of {len(swept)} points failed")
    if failed := sum(row["state"] == "failed" for row in swept.answers):
        raise SimulationError(f"{failed} of {len(swept.answers)} searches failed, because their points lack the metric")


def _wanted(
    plot: tuple[str, str, str], path: str, overrides: tuple[str, ...], libraries: tuple[str, ...]
) -> tuple[str, str, str | None]:
    """The columns of a plot, checked before the sweep. Raises InputError."""
    plan, _ = all_or_faults(lambda: plan_of(path, overrides, libraries), need_matplotlib)
    x, y, hue = plot
    return _axis(plan, x), y, None if hue == NO_HUE else _axis(plan, hue)


def _axis(plan: Plan, name: str) -> str:
    ends = [path for path in plan.axes if path == name or path.endswith(f".{name}")]
    if len(ends) != 1:
        raise InputError(f"'{name}' is not a swept key", key="--plot", allowed=short_names(plan.axes), given=name)
    return ends[0]


# During the sweep


class _Watch:
    """Shows the progress of a sweep: live lines on a terminal, else a line from time to time."""

    def __init__(self, out: CommandOutput, path: str) -> None:
        self.out = out
        self.path = path
        self.standing = Standing(0)
        self._to_json = 0
        self._reasons: set[str] = set()
        self._last = self._shown = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def see(self, standing: Standing) -> None:
        """Called several times a second."""
        began, self.standing = bool(self.standing.total), standing
        if self.out.silent:
            return
        if not (began or standing.swept):  # warn before running what may not be meant
            self._print(
                f"only one point: {self.path} sweeps nothing. Add [sweep] or [[variant]]; a key that is set with "
                "--set is "
                "no longer swept"
            )
        if self.out.live and time.monotonic() - self._shown >= PAUSE:
            self._shown = time.monotonic()
            self._show(standing)
        news, self._to_json = standing.news[self._to_json :], len(standing.news)
        for label, reason in news:
            self._print(f"failed: {label}" if reason in self._reasons else f"failed: {label}: {reason}")
            self._reasons.add(reason)
        if not self.out.live and time.monotonic() - self._last >= SILENCE:
            self._last = time.monotonic()
            self._print(standing.line)

    def _print(self, line: str) -> None:
        from rich.text import Text

        if self._live is not None:
            self._live.console.print(Text(line, overflow="fold"))
        else:
            self.out.say(line)

    def _show(self, standing: Standing) -> None:
        from rich.live import Live

        if self._live is None:
            look: dict[str, Any] = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
            self._live = Live(console=self.out.console, transient=True, **look)
            self._live.start()
        self._live.update(_picture(standing), refresh=True)


def _picture(standing: Standing) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(max(1, standing.total), standing.done + standing.failed, width=24), Text(standing.line))
    running = Table.grid(padding=(0, 2))
    now = time.monotonic()
    for label, since in list(standing.running.items())[:MOST_RUNNING]:
        running.add_row("", Text(label, style="dim", overflow="ellipsis", no_wrap=True), Text(clock(now - since)))
    more = len(standing.running) - MOST_RUNNING
    return Group(line, running, *([Text(f"    and {more} more", style="dim")] if more > 0 else []))


# At the end


def _to_json(swept: Sweep) -> dict[str, Any]:
    """For scripts."""
    points = [
        {
            **{name: swept.number(name, point.changed.get(name)) for name in swept.axes},
            "state": point.state,
            **point.values,
            "warnings": list(point.warnings),
            **({"reason": point.reason} if point.reason else {}),
            "key": point.key,
            "file": None if point.file is None else str(point.file),
        }
        for point in swept.points
    ]
    about: dict[str, Any] = {"title": swept.title, "folder": str(swept.folder), "axes": swept.axes}
    answers = {"goal": swept.goal, "answers": swept.answers} if swept.goal else {}
    about["warnings"] = swept.warnings
    about |= {str(state): count for state, count in swept.counts.items()}
    return {**about, "complete": swept.complete, **answers, "points": points}


def _faults(swept: Sweep) -> dict[str, Any]:
    failed = [f"{point.label}: {point.reason}" for point in swept.points if point.state == "failed"]
    failed += [f"{_others(swept, row)}: the search failed" for row in swept.answers if row["state"] == "failed"]
    return {"exit_code": SimulationError.exit_code, "errors": failed} if failed else {}


def _others(swept: Sweep, row: dict[str, Any]) -> str:
    """The label of a row of the answers."""
    settings = [f"{name}={text_of(row[name])}" for name in swept.axes if name in row and name != swept.goal["key"]]
    return ", ".join(settings) or swept.title


def _shown(swept: Sweep, standing: Standing, width: int | None) -> Iterator[Any]:
    from rich.text import Text

    yield Text(swept.title, style="bold")
    if swept.answers:
        yield _sheet(columns_of(swept.answers)).rich(MOST_ROWS, width)
        if any(row.get("monotone") is False for row in swept.answers):
            yield "the metric is not monotone, so the search may have missed the first good value"
    else:
        telling = [name for name in _TELLING if name in swept.numbers]
        settings = {name: [point.changed.get(name) for point in swept.points] for name in swept.axes}
        yield _sheet({**settings, **swept.columns(["state", *telling])}).rich(MOST_ROWS, width)
    reasons: dict[str, list[str]] = {}  # labels by reason
    for point in swept.points:
        if point.state == "failed":
            reasons.setdefault(point.reason, []).append(point.label)
    for reason, labels in reasons.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield Text(f"failed: {labels[0]}{more}: {reason}", overflow="fold")
    yield from map(Text, shortened([f"warning: {text}" for text in swept.warnings], MAX_WARNINGS, "warnings"))
    if standing.unwanted == 1:
        yield "1 point in the folder has other settings, so the table omits it"
    elif standing.unwanted:
        yield f"{standing.unwanted} points in the folder have other settings, so the table omits them"


def _sheet(columns: dict[str, list[Any]]) -> Sheet:
    ends = [name.rpartition(".")[2] for name in columns]
    head = [end if ends.count(end) == 1 else name for end, name in zip(ends, columns, strict=True)]
    texts = {name: [_cell(value) for value in values] for name, values in columns.items()}
    return Sheet(head, list(zip(*texts.values(), strict=True)), words=())


def _cell(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number(value) if value is None or is_number else text_of(value)
