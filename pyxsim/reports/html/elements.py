"""The elements of an HTML page: chapters of sections of panels; and the registry of the panels of a result.

A panel is a figure, a table or a text with a title. `@html_panel(name, section=...)` registers a function that makes
panels; the page of a result shows them in their section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pyxsim.errors import InputError
from pyxsim.registry import Registry
from pyxsim.reports.text.facts import Fact
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Detail:
    """How much data a page contains; a page that would be too large is made again with a smaller `share`."""

    share: float = 1.0

    def most(self, count: int) -> int:
        """Return `count` scaled by the share, at least 8."""
        return max(8, round(count * self.share))


@dataclass(frozen=True)
class Panel:
    """A figure, a table or a text with its title.

    Parameters
    ----------
    title
        Title of the panel.
    text
        What the panel shows, in one or two sentences; also the label for screen readers.
    figure
        A plotly figure (`pyxsim.reports.html.plotly_style.figure`).
    height
        Height of the figure in pixels.
    sheet
        A table.
    preformatted
        Text in a fixed-width font; `folded` hides it until a click.
    sentences
        Items of a list.
    notes
        What was left out.
    wide
        Whether the panel has the full width of the page.
    """

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

    def wrong_fields(self) -> dict[str, str]:
        """Return the fields with a value of another type, and what each may be."""
        right = {
            **{name: (isinstance(getattr(self, name), str), "a text") for name in ("title", "text", "preformatted")},
            **{name: (_texts(getattr(self, name)), "a list of texts") for name in ("sentences", "notes")},
            "figure": (self.figure is None or hasattr(self.figure, "to_json"), "a plotly figure, or None"),
            "height": (isinstance(self.height, int) and self.height >= 0, "pixels, a whole number"),
            "sheet": (self.sheet is None or isinstance(self.sheet, Sheet), "a Sheet, or None"),
        }
        return {name: allowed for name, (holds, allowed) in right.items() if not holds}


@dataclass(frozen=True)
class Section:
    """Panels under one heading; `lead` are sentences above them."""

    key: str
    title: str
    panels: Sequence[Panel]
    lead: Sequence[str] = ()


@dataclass(frozen=True)
class Chapter:
    """The report of one file, or of several together.

    Parameters
    ----------
    title
        Heading.
    by
        Version, backend and seed.
    cards
        Key figures.
    make
        Function that makes the sections for a level of detail.
    lead
        Sentences below the cards.
    alarms
        Warnings at the top, such as an incomplete run.
    files
        Names of the files.
    """

    title: str
    by: str
    cards: Sequence[Fact]
    make: Callable[[Detail], Iterator[Section]]
    lead: Sequence[str] = ()
    alarms: Sequence[str] = ()
    files: Sequence[str] = field(default_factory=list)


SECTIONS = {
    "network": "Network",
    "links": "Links over time",
    "chunks": "Chunks",
    "workload": "Workload",
    "latency": "Latency",
    "attribution": "Where the time went",
    "waiting": "Waiting",
    "hot": "Hot links",
    "numbers": "In numbers",
    "settings": "Settings",
}
"""Sections of the page of a result and their headings, in order."""
LAST_SECTIONS = ("numbers", "settings")  # sections after those that users add

PanelFunction = Callable[[Result, Detail], Panel | Iterable[Panel]]
html_panels: Registry[PanelFunction] = Registry("HTML panel")


def html_panel(
    name: str, *, section: str, applies: Callable[[Result], bool] = lambda result: True
) -> Callable[[PanelFunction], PanelFunction]:
    """Register panels of the HTML page of a result.

    The decorated function takes (result, detail) and returns a Panel or several.

    Parameters
    ----------
    name
        Name in the registry.
    section
        Key of SECTIONS, or the heading of a new section.
    applies
        Whether a result has data for the panels.

    Raises
    ------
    InputError
        For a misspelt section: in lower case, and close to one of SECTIONS.
    """
    if section not in SECTIONS and section.islower() and (match := get_close_matches(section, SECTIONS, n=1)):
        problem = f"the panel '{name}' is for the section '{section}'; did you mean '{match[0]}'?"
        raise InputError(
            problem, allowed=f"{', '.join(SECTIONS)}, or the heading of a new section, with a capital letter"
        )
    return lambda function: html_panels.register(name, module=function.__module__, section=section, applies=applies)(
        function
    )


def sheet_of(table: RenderableType) -> Sheet:
    """Convert a table of the text summary, so that terminal and page show the same cells."""
    from rich.table import Table

    assert isinstance(table, Table)
    head = [str(column.header) for column in table.columns]
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    text_columns = [
        title for title, column in zip(head[1:], table.columns[1:], strict=True) if column.justify != "right"
    ]
    rows = [[column[i] if i < len(column) else "" for column in columns] for i in range(table.row_count)]
    return Sheet(head, rows, text_columns)


def _texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value)


def _plain(cell: Any) -> str:
    return getattr(cell, "plain", None) or str(cell)


def cut(text: str, most: int = 80) -> str:
    """Shorten a text to `most` characters: its beginning, an ellipsis and its end."""
    return text if len(text) <= most else f"{text[: most // 2]}\u2026{text[-(most // 2 - 1) :]}"
