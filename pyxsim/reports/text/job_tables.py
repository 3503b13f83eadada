"""Several jobs as tables: their times, slowdowns, restarts and interference."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from pyxsim.reports.text.facts import percent
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import WIDTH
from pyxsim.results.interference import interference
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_JOBS = 12  # rows on a terminal


def tables(result: Result, width: int | None = WIDTH) -> Iterator[RenderableType]:
    """Yield the table of the jobs; nothing without any. `width`: as in Sheet."""
    if result.jobs:
        yield jobs_sheet(result).rich(None if width is None else MOST_JOBS, width)
    if result.job_restarts:
        yield restarts_sheet(result).rich(None if width is None else MOST_JOBS, width)


def jobs_sheet(result: Result) -> Sheet:
    """Return the times of the jobs, with the times alone and slowdowns if they were simulated."""
    compared = any(row["alone"] >= 0 for row in result.jobs)
    rows = []
    for row in result.jobs:
        times = [_time(result, row[name]) for name in ("at", "start", "end", "time")]
        if compared:
            slowdown = row["slowdown"]
            known = slowdown is not None and slowdown == slowdown
            times += [_time(result, row["alone"]), f"{slowdown:.3f}" if known else "-"]
        rows.append((row["name"], f"{row['npus']:,}", *times, row["placement"]))
    head = ("job", "NPUs", "arrives", "starts", "ends", "time", *(("alone", "slowdown") if compared else ()), "on NPUs")
    return Sheet(head, rows, words=("on NPUs",))


def restarts_sheet(result: Result) -> Sheet:
    """Return where the time of jobs that may restart went."""
    rows = []
    for row in result.job_restarts:
        spent = [_time(result, row[name]) for name in ("work", "checkpoints", "lost", "down")]
        total = sum(row[name] for name in ("work", "checkpoints", "lost", "down"))
        rate = float(row["done"] * result.clock_hz / total) if total else 0.0
        share = percent(row["goodput"]) if total else "-"
        done = f"{row['done']:,}/{row['iterations']:,}"
        counts = [f"{row[name]:,}" for name in ("failures", "written")]
        rows.append((row["job"], done, *counts, *spent, share, f"{rate:,.0f}"))
    head = (
        "job",
        "iterations",
        "failures",
        "checkpoints",
        "work",
        "writing",
        "lost",
        "down",
        "goodput",
        "iterations/s",
    )
    return Sheet(head, rows)


def failures_sheet(result: Result) -> Sheet:
    """Return the cost of each failure."""
    rows = []
    for row in result.job_failures:
        times = [_time(result, row[name]) for name in ("lost", "down")]
        spare = "-" if row["spare"] < 0 else str(row["spare"])
        undone = f"{row['iterations']:,}"
        npu = "-" if row["npu"] < 0 else str(row["npu"])
        rows.append((row["job"], _time(result, row["at"]), row["cause"], npu, undone, *times, spare))
    head = ("job", "at", "cause", "NPU", "iterations undone", "lost", "down", "replaced by")
    return Sheet(head, rows, words=("cause",))


def interference_sheet(result: Result) -> Sheet | None:
    """Return the cycles that each job waited in the network, and the share of each culprit; None if unknown."""
    waits = interference(result.attribution, len(result.jobs))
    if waits is None:
        return None
    rows = []
    for name, row in zip(waits.victims, waits.cycles.tolist(), strict=True):
        total = sum(row)
        rows.append((name, f"{total:,}", *(percent(each / total) if each else "-" for each in row)))
    return Sheet(("job", "waited (cycles)", *(f"for {name}" for name in waits.culprits)), rows)


def _time(result: Result, cycles: int) -> str:
    return "-" if cycles < 0 else format_time_ns(Fraction(cycles) * 10**9 / result.clock_hz)
