"""Tables of measurements, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.cases import CASES
from benchmarks.history import Change
from benchmarks.measure import Row, skipped
from benchmarks.recorded import RECORDED
from pyxsim.reports.text.facts import percent, rounded

ELSEWHERE = "recorded: on another machine, which may be faster or slower than this one"
MARKS = {"slower": "SLOWER", "faster": "faster", "same": ""}


def tables(rows: Sequence[Row], changes: Sequence[Change | None] | None = None) -> list[Table]:
    """Print a table for each unit of work, with peers. `changes` since the last session, one per row."""
    found = []
    for unit in dict.fromkeys(CASES[row["name"]].unit for row in rows):
        table = Table(title=f"{unit}: how many, and how many in a CPU second", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("case", no_wrap=True)
        for head in ("work", "CPU s", "with set-up", "rate", "MB"):
            table.add_column(head, justify="right", no_wrap=True)
        if changes is not None:
            table.add_column("before", justify="right", no_wrap=True)
        parts, others = [], False
        for number, row in enumerate(rows):
            if CASES[row["name"]].unit != unit:
                continue
            _add(table, row, () if changes is None else (_told(row, changes[number]),))
            others = others or any(other.case == row["name"] for other in RECORDED)
            if skipped(row):
                parts.append(f"{percent(skipped(row))} of {row['name']}")
        notes = [f"* cycles that repeat others are skipped: {', '.join(parts)}"] if parts else []
        table.caption = "\n".join([*notes, *([ELSEWHERE] if others else [])]) or None
        found.append(table)
    return found


def _add(table: Table, row: Row, told: tuple[str, ...]) -> None:
    """Print a case, and below it the times of other simulators for its work."""
    work, seconds = row[CASES[row["name"]].key], row["cpu_s"]
    times = f"{seconds['median']:.3f} ({seconds['min']:.3f}-{seconds['max']:.3f})"
    rate = rounded(work / seconds["median"], "")
    whole, peak = f"{row['whole_cpu_s']['median']:.3f}", f"{row['peak_rss_mb']:.0f}"
    name = f"{row['name']} *" if skipped(row) else row["name"]
    table.add_row(name, rounded(work, ""), times, whole, rate, peak, *told)
    for other in RECORDED:
        if other.case == row["name"]:
            least, most = other.scaled(work)
            rate = _range(rounded(work / most, ""), rounded(work / least, ""))
            peak = "?" if other.peak_mb is None else f"{other.peak_mb:.0f}"
            times = _range(f"{least:.1f}", f"{most:.1f}")
            table.add_row(f"  {other.what}, recorded", "", times, "", rate, peak, *("" for _ in told), style="dim")


def _told(row: Row, change: Change | None) -> str:
    """Pairs with another tree are more reliable than an earlier session."""
    if "against" in row:
        pairs = row["against"]
        return f"{pairs['median']:.2f} ({pairs['min']:.2f}-{pairs['max']:.2f})"
    return "" if change is None else f"{change.ratio:.2f} {MARKS[change.word]}".rstrip()


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"
