"""The width of text reports: that of the terminal, or for files that of the widest line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

WIDTH = 100  # columns that fit everywhere
BOUNDLESS = 10_000
LEAST = 8  # minimum columns of names


def stderr_console() -> Console:
    """Return the console on stderr. Without a reader it raises BrokenPipeError; that of rich exits with 1."""
    from rich.console import Console

    class StderrConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich calls this while it handles the BrokenPipeError

    return StderrConsole(stderr=True, highlight=False)


def room(console: Console, parts: Iterable[RenderableType]) -> int:
    """Return the columns for some parts: WIDTH, or more for tables that would be cut, up to the terminal's width.

    Text and tables with a wrapping column fit any width.
    """
    from rich.measure import Measurement
    from rich.table import Table

    most = console.width if console.is_terminal else BOUNDLESS
    options = console.options.update(width=BOUNDLESS)
    tables = [part for part in parts if isinstance(part, Table)]
    whole = [table for table in tables if all(column.no_wrap or column.width is not None for column in table.columns)]
    needed = (Measurement.get(console, options, table).maximum for table in whole)
    return min(most, max(WIDTH, *needed, 0))


def bound(console: Console) -> int | None:
    """Return the columns of a terminal; None for a file, where nothing is cut."""
    return console.width if console.is_terminal else None


def fitted(table: Table, width: int | None) -> Table:
    """Fit a table into the columns of a terminal: titles wrap first, then names in its first column; nothing is cut.

    Without a width (a file), the table stays as it is.
    """
    from rich.console import Console
    from rich.measure import Measurement

    if width is None:
        return table
    console = Console(width=BOUNDLESS)

    def wide(part: RenderableType) -> Measurement:
        return Measurement.get(console, console.options, part)

    first, *others = table.columns
    if wide(table).maximum > width:
        for column in others:
            column.width = max([wide(column.header).minimum, *(wide(cell).maximum for cell in column.cells)])
            column.no_wrap = False
    if (too_much := wide(table).maximum - width) > 0:
        first_width = max(wide(cell).maximum for cell in (first.header, *first.cells))
        first.width, first.no_wrap, first.overflow = max(LEAST, first_width - too_much), False, "fold"
    return table
