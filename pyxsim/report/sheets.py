"""Tables of texts that are shown on a terminal and in a Markdown page alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Sheet:
    """A table. `head`: the titles of its columns; the first column is a name, those in `words` are texts, the others
    are numbers. `marked`: rows and columns of cells that stand out."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    marked: frozenset[tuple[int, int]] = frozenset()

    def rich(self, most: int | None = None) -> RenderableType:
        """For a terminal; at most so many rows."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for number, title in enumerate(self.head):
            word = not number or title in self.words
            widest = max([len(title), *(len(row[number]) for row in self.rows)])
            # What is too wide for the terminal is cut off in texts, never in numbers.
            look: Any = {"justify": "left"} if word else {"justify": "right", "min_width": widest}
            table.add_column(title, no_wrap=True, overflow="ellipsis", **look)
        for row, cells in enumerate(self.rows[:most]):
            styles = ("bold yellow" if (row, column) in self.marked else "" for column in range(len(cells)))
            table.add_row(*(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True)))
        if most is not None and len(self.rows) > most:
            table.add_row(f"and {len(self.rows) - most} more")
        return table

    def markdown(self) -> str:
        """For a page: one row of titles, the name in the first column."""
        ends = ["---" if not number or title in self.words else "--:" for number, title in enumerate(self.head)]
        return "\n".join(_line(row) for row in [self.head, ends, *self.rows]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(cell: str) -> str:
    # A bar would begin another column, an asterisk another style.
    return cell.replace("|", "\\|").replace("*", "\\*")
