"""Tables of texts that are shown on a terminal and in a Markdown page alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyxsim.reports.text.text_width import WIDTH

if TYPE_CHECKING:
    from rich.console import RenderableType

GAP, LEAST = 2, 8
"""Columns between two columns of a table, and that a text keeps."""


@dataclass(frozen=True)
class Sheet:
    """A table. `head`: the titles of its columns; the first column is a name, those in `words` are texts, the others
    are numbers. `marked`: rows and columns of cells that stand out."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    marked: frozenset[tuple[int, int]] = frozenset()

    def rich(self, most: int | None = None, width: int | None = WIDTH) -> RenderableType:
        """For a terminal of so many columns, or for a file (None); at most so many rows. Too wide texts go on in the
        next line, names are cut off in a terminal, numbers are always whole."""
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
        """Of each column: the widest texts give way first, the names last, and in a terminal only."""
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
        """For a page: one row of titles, the name in the first column."""
        ends = ["---" if self._is_text(number) else "--:" for number in range(len(self.head))]
        return "\n".join(_line(row) for row in [self.head, ends, *self.rows]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(cell: str) -> str:
    # A bar would begin another column, an asterisk another style.
    return cell.replace("|", "\\|").replace("*", "\\*")
