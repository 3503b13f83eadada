"""Tables of texts for terminals, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyxsim.reports.text.text_width import WIDTH

if TYPE_CHECKING:
    from rich.console import RenderableType

GAP, LEAST = 2, 8
"""Spaces between columns, and minimum width of a text."""


@dataclass(frozen=True)
class Sheet:
    """A table of texts.

    Parameters
    ----------
    head
        Titles of the columns. The first column holds names.
    rows
        Cells, row by row.
    words
        Titles of columns with text; the others are numbers.
    marked
        (row, column) of highlighted cells.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    marked: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if not all(isinstance(cell, str) for cell in row):
                raise TypeError(f"row {number} of a Sheet is {row!r}; expected texts")

    def rich(self, most: int | None = None, width: int | None = WIDTH) -> RenderableType:
        """Return a rich table of at most `most` rows, for a terminal of `width` columns or a file (None).

        Wide texts wrap, names are cut in a terminal, numbers never.
        """
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
        more = f"and {len(self.rows) - most} more" if most is not None and len(self.rows) > most else ""
        widths = self._widths(width)
        widths[0] = max(widths[0], len(more))
        for number, (title, wide) in enumerate(zip(self.head, widths, strict=True)):
            look: Any = {"justify": "left" if self._is_text(number) else "right", "width": wide}
            wrap = title in self.words
            table.add_column(title, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis", **look)
        for row, cells in enumerate(self.rows[:most]):
            styles = ("bold yellow" if (row, column) in self.marked else "" for column in range(len(cells)))
            table.add_row(*(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True)))
        if more:
            table.add_row(more)
        return table

    def _is_text(self, number: int) -> bool:
        return not number or self.head[number] in self.words

    def _widths(self, width: int | None) -> list[int]:
        """The width of each column: the widest texts shrink first, names last, and only in a terminal."""
        columns = range(len(self.head))
        widths = [max(len(row[number]) for row in (self.head, *self.rows)) for number in columns]
        names = [] if width is None else [0]
        for texts in ([number for number in columns[1:] if self._is_text(number)], names):
            while (
                sum(widths) + GAP * len(widths) > (width or WIDTH)
                and max((widths[i] for i in texts), default=0) > LEAST
            ):
                widths[max(texts, key=lambda number: widths[number])] -= 1
        return widths

    def markdown(self) -> str:
        """Return the table as Markdown."""
        ends = ["---" if self._is_text(number) else "--:" for number in range(len(self.head))]
        return "\n".join(_line(row) for row in [self.head, ends, *self.rows]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(cell: str) -> str:
    # A bar starts another column, an asterisk another style.
    return cell.replace("|", "\\|").replace("*", "\\*")
