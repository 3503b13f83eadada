"""How wide a page of text is: a terminal has its width, a file has as many columns as its widest line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDTH = 100  # columns that fit everywhere
BOUNDLESS = 10_000


def room(console: Console, parts: Iterable[RenderableType]) -> int:
    """Columns for these parts: WIDTH, or what a table needs that would be cut there, at most what a terminal has.

    Text needs no more than there is, nor does a table that has a column of no own width that goes on in the next line.
    """
    from rich.measure import Measurement
    from rich.table import Table

    most = console.width if console.is_terminal else BOUNDLESS
    options = console.options.update(width=BOUNDLESS)
    tables = [part for part in parts if isinstance(part, Table)]
    whole = [table for table in tables if all(each.no_wrap or each.width is not None for each in table.columns)]
    needed = (Measurement.get(console, options, table).maximum for table in whole)
    return min(most, max(WIDTH, *needed, 0))


def bound(console: Console) -> int | None:
    """The columns of a terminal; None: of a file, where nothing is cut."""
    return console.width if console.is_terminal else None
