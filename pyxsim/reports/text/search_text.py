"""A search as text: its best points, and what more of a resource gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.search import UNITS, SearchResult
from pyxsim.units import percent, plural, rounded

MOST_CAUSES = 4  # of cuts that a summary shows
_SHARES = ("mfu", "memory_headroom")


def value_text(name: str, value: Any) -> str:
    """Return a number of a point with its unit; "-" for none."""
    if value is None:
        return "-"
    if name in _SHARES:
        return percent(value)
    unit = UNITS.get(name, "")
    if unit == "ns":
        scale, unit = next(
            each for each in ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")) if value >= each[0] or each[0] == 1
        )
        return f"{value / scale:.4g} {unit}"
    return rounded(value, unit) if unit == "B" else f"{value:.4g} {unit}".rstrip()


def axis_names(found: SearchResult) -> list[str]:
    """Return the last parts of the axes, or all of one that is not unique."""
    ends = [name.rpartition(".")[2] for name in found.axes]
    return [end if ends.count(end) == 1 else name for name, end in zip(found.axes, ends, strict=True)]


def point_sheet(found: SearchResult, most: int | None = None) -> Sheet:
    """Return a row for each point, or for the best ones; of several objectives with the Pareto front of each."""
    several = len(found.objectives) > 1
    others = [name for name in ("mfu", "memory") if name in found.names and name not in found.objectives]
    numbers = [*found.objectives, *others]
    rows = []
    for row in found.rows[:most]:
        values = [_word(row[name]) for name in found.axes]
        place = "-" if row["rank"] is None else str(row["rank"])
        front = ["-" if row["front"] is None else str(row["front"])] if several else []
        rows.append([place, *values, *(value_text(name, row.get(name)) for name in numbers), *front, row["state"]])
    head = ("rank", *axis_names(found), *numbers, *(["front"] if several else []), "state")
    return Sheet(head, rows, ("state",))


def sensitivity_sheet(found: SearchResult) -> Sheet:
    """Return a row for each resource."""
    rows = [[row["resource"], f"{100 * row['gain']:+.2f} %"] for row in found.sensitivities]
    return Sheet(("10 % more of", f"improves {found.objectives[0]} by"), rows, ("10 % more of",))


def summary_lines(found: SearchResult) -> Iterator[str]:
    """Yield the counts, what was cut, and how sure the answer is."""
    counts = found.counts
    yield f"{counts['combinations']} combinations, {counts['can run']} can run"
    for row in found.cuts[:MOST_CAUSES]:
        example = f"; such as {row['example']}" if row.get("example") else ""
        yield f"{row['points']} cut by {row['cause']} ({row['reason']}){example}"
    if len(found.cuts) > MOST_CAUSES:
        yield f"others cut by {plural(len(found.cuts) - MOST_CAUSES, 'more cause')}: search.json"
    yield (
        f"{counts['screened']} screened by {found.screen} ({found.method}), {counts['decided']} decided by "
        f"{found.decide}, "
        f"{counts['never simulated']} never simulated"
    )
    if counts["failed"]:
        reasons = [row["reason"] for row in found.rows if row["reason"]]
        yield f"{counts['failed']} failed, such as: {reasons[0]}"
    if found.confidence:
        yield str(found.confidence["text"])


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
