"""Tables of collectives: collectives and messages, phases, and chunks per dimension."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pyxsim.reports.text.facts import dimension_names, percent, rounded
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns, plural

if TYPE_CHECKING:
    from rich.table import Table

MAX_COLLECTIVES = 5
MAX_PHASES = 6
MAX_DIMENSIONS = 4


def tables(result: Result) -> Iterator[Table]:
    """Yield a table of collectives and messages, or of the phases of a single one; then one of the dimensions."""
    if len(result.collectives) + len(result.point_to_point) > 1:
        yield _collectives(result)
    elif len(result.phases.get("phase", ())):
        yield _phases(result)
    if len(result.phases.get("phase", ())):
        yield _dimensions(result)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], most: int, count: int) -> Table:
    """A table of at most `most` of `count` rows; the first column is text, the others are numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(titles[0], no_wrap=True)
    for title in titles[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for name, *values in itertools.islice(rows, most):
        table.add_row(Text(name), *values)
    if count > most:
        table.add_row(f"and {count - most} more")
    return table


def _collectives(result: Result) -> Table:
    rows = itertools.chain(_collective_rows(result), _message_rows(result))
    titles = ("collective", "NPUs", "size", "from", "to", "time", "lower bound x")
    return _table(titles, rows, MAX_COLLECTIVES, len(result.collectives) + len(result.point_to_point))


def _collective_rows(result: Result) -> Iterator[Sequence[str]]:
    for row in result.collectives:
        kind, name = str(row.get("kind", "")), str(row.get("name", ""))
        ratio = row.get("ratio")
        times = _times(result, row["start"], row["end"])
        label = f"{name}: {kind}" if name not in ("", kind) else kind
        if (calls := row.get("calls", -1)) >= 0:
            label, times = f"{label}, {plural(calls, 'call')}", (*times[:2], _time(result, row["time"]))
        bound = "" if ratio is None or math.isnan(ratio) else f"{ratio:.2f}"
        yield label, f"{row.get('npus', '')}", rounded(row["bytes"], "B", 1024), *times, bound


def _message_rows(result: Result) -> Iterator[Sequence[str]]:
    for row in result.point_to_point:
        label = f"{row['name']}: NPU {row['src']} to {row['dst']}"
        yield label, "2", rounded(row["bytes"], "B", 1024), *_times(result, row["start"], row["end"]), ""


def _times(result: Result, start: int, end: int) -> tuple[str, str, str]:
    """Start, end and duration; a dash for what did not happen in the run."""
    begun = _time(result, start) if start >= 0 else "-"
    return begun, *((_time(result, end), _time(result, end - start)) if end >= 0 else ("-", "-"))


def _time(result: Result, cycles: float | None) -> str:
    """Cycles as a time; empty for NaN, which is None in a loaded result."""
    return "" if cycles is None or math.isnan(cycles) else format_time_ns(Fraction(cycles) * 10**9 / result.clock_hz)


def _phases(result: Result) -> Table:
    columns = result.phases
    rows = (
        (
            f"{phase}: {kind} in {_dimension(result, dim)}",
            f"{chunks}",
            *_times(result, start, end)[:2],
            *(_time(result, mean) for mean in means),
        )
        for phase, kind, dim, chunks, start, end, *means in zip(*(columns[key].tolist() for key in _PHASE), strict=True)
    )
    titles = ("phase", "chunks", "from", "to", "a chunk takes", "after waiting", "a message")
    return _table(titles, rows, MAX_PHASES, len(columns["phase"]))


_PHASE = ("phase", "kind", "dimension", "chunks", "start", "end", "time", "queueing", "network")


def _dimensions(result: Result) -> Table:
    columns = result.dimensions
    rows = (
        (
            _dimension(result, dim),
            rounded(nbytes, "B", 1024),
            percent(occupancy),
            percent(first),
            _time(result, queueing),
            _time(result, network),
        )
        for dim, nbytes, occupancy, first, queueing, network in zip(
            *(columns[key].tolist() for key in _DIMENSION), strict=True
        )
    )
    titles = ("chunks in dimension", "bytes", "at work", "NPU 0", "waiting", "a message")
    return _table(titles, rows, MAX_DIMENSIONS, len(columns["dimension"]))


_DIMENSION = ("dimension", "bytes", "occupancy", "occupancy_npu0", "queueing", "network")


def _dimension(result: Result, dim: int) -> str:
    return dimension_names(result).get(dim, "several" if dim < 0 else str(dim))
