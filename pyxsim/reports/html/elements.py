"""What a page consists of: chapters of sections of panels; a panel is a picture, a table, or a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyxsim.reports.text.facts import Fact
from pyxsim.reports.text.text_table import Sheet

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Detail:
    """How much of the data a page holds: a page that would be too large is made again with a smaller `share`."""

    share: float = 1.0

    def most(self, count: int) -> int:
        """So many of `count` things, at least a few."""
        return max(8, round(count * self.share))


@dataclass(frozen=True)
class Panel:
    """A picture or a table with its title. `text`: what is seen, in a sentence or two, for those who see and for those
    who do not; `notes`: what was left out."""

    title: str
    text: str = ""
    figure: Any = None
    height: int = 0
    sheet: Sheet | None = None
    preformatted: str = ""
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()
    folded: bool = False
    wide: bool = True


@dataclass(frozen=True)
class Section:
    """Panels under one heading. `lead`: sentences that say what is found below."""

    key: str
    title: str
    panels: Sequence[Panel]
    lead: Sequence[str] = ()


@dataclass(frozen=True)
class Chapter:
    """What is told of one file, or of several together.

    `by`: what made it; `cards`: its great numbers; `alarms`: what must not be overlooked; `make`: its sections, in so
    much detail.
    """

    title: str
    by: str
    cards: Sequence[Fact]
    make: Callable[[Detail], Iterator[Section]]
    lead: Sequence[str] = ()
    alarms: Sequence[str] = ()
    files: Sequence[str] = field(default_factory=list)


def sheet_of(table: RenderableType) -> Sheet:
    """A table of the summary, cell by cell: what the terminal shows, the page shows as well."""
    from rich.table import Table

    assert isinstance(table, Table)
    head = [str(column.header) for column in table.columns]
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    words = [title for title, column in zip(head[1:], table.columns[1:], strict=True) if column.justify != "right"]
    rows = [[column[i] if i < len(column) else "" for column in columns] for i in range(table.row_count)]
    return Sheet(head, rows, words)


def _plain(cell: Any) -> str:
    return getattr(cell, "plain", None) or str(cell)


def cut(text: str, most: int = 80) -> str:
    """A name that fits: its beginning and its end tell most."""
    return text if len(text) <= most else f"{text[: most // 2]}\u2026{text[-(most // 2 - 1) :]}"
