"""Attribution as tables for the terminal and notebooks: where time went, and which traffic delayed which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.reports.text.facts import percent, rounded
from pyxsim.reports.text.text_width import WIDTH
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.attribution import NO_TRAFFIC, PARTS, Attribution, HotLink
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

MOST_TRAFFICS = 6  # rows of a table, and bars
MOST_CULPRITS = 4  # columns
MOST_LETTERS = 10  # of a traffic's name beside others
WORDS = {"vc": "VC"}
"""Names of parts that differ from their column."""


@dataclass(frozen=True)
class Row:
    """A traffic: its name, arrived messages, mean latency in cycles, and the shares of its parts."""

    name: str
    messages: int
    latency: float
    shares: tuple[float, ...]


def rows(attribution: Attribution) -> list[Row]:
    """Return the traffics by total time, largest first; with several, their sum comes first."""
    order = np.argsort(-attribution.parts.sum(axis=1), kind="stable").tolist()
    traffic_rows = [
        _row(attribution.traffic_names[i], int(attribution.messages[i]), attribution.parts[i])
        for i in order
        if attribution.messages[i]
    ]
    if len(traffic_rows) > 1:
        traffic_rows.insert(0, _row("all", int(attribution.messages.sum()), attribution.parts.sum(axis=0)))
    return traffic_rows


def _row(name: str, messages: int, parts: np.ndarray) -> Row:
    total = int(parts.sum())
    return Row(name, messages, total / messages, tuple((parts / max(1, total)).tolist()))


def tables(result: Result, width: int | None = WIDTH) -> Iterator[RenderableType]:
    """Yield the tables of the summary: parts of the latency, links where packets waited longest, delays by culprit.

    `width` is that of a terminal, or None for a file, where nothing is cut.
    """
    attribution = result.attribution
    if attribution is None or not attribution.messages.any():
        return
    whole = width is None
    yield _parts_table(rows(attribution), attribution.parts_shown, whole)
    links = result.hot_links()
    if links:
        yield _links_table(links, whole)
        yield _blame_table(attribution, whole)


def _parts_table(traffic_rows: list[Row], parts: tuple[str, ...], whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("where the time went", no_wrap=True, overflow="ellipsis", max_width=None if whole else 20)
    for title in ("cycles", *(WORDS.get(part, part) for part in parts)):
        table.add_column(title, justify="right", no_wrap=True)
    for row in traffic_rows[: MOST_TRAFFICS + 1]:
        shares = (_share(share) for share in row.shares[: len(parts)])
        table.add_row(Text(row.name), number(row.latency), *shares)
    if len(traffic_rows) > MOST_TRAFFICS + 1:
        table.add_row(f"and {len(traffic_rows) - MOST_TRAFFICS - 1} more")
    return table


def _share(share: float) -> str:
    return percent(share) if share else "-"


def _links_table(links: list[HotLink], whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("packets waited most at", no_wrap=True, overflow="ellipsis", max_width=None if whole else 25)
    # The number of similar links, and the packets that wait at one of them at a time.
    for title in ("links", "waiting", "busy"):
        table.add_column(title, justify="right", no_wrap=True)
    for title, width in (("for (%)", 25), ("victims (%)", 14), ("by (%)", 14)):
        table.add_column(title, no_wrap=True, overflow="ellipsis", max_width=None if whole else width)
    for link in links:
        busy = "" if np.isnan(link.busy) else percent(link.busy)
        numbers = (f"{1 + len(link.like):,}", number(link.waiting, 3), busy)
        shares = (
            _most(each, count, whole) for each, count in ((link.causes, 2), (link.victims, 1), (link.culprits, 1))
        )
        table.add_row(Text(link.name), *numbers, *(Text(share) for share in shares))
    return table


def _most(cycles: Mapping[str, int], count: int = 1, whole: bool = False) -> str:
    """The largest entries with their percentages: "credit 60, queue 20"."""
    total = sum(cycles.values())
    first = list(cycles.items())[:count]
    return ", ".join(f"{short_name(WORDS.get(name, name), whole)} {100 * share / total:.0f}" for name, share in first)


def short_name(name: str, whole: bool = False) -> str:
    return name if whole or name in PARTS or len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}\u2026"


def blame(attribution: Attribution) -> tuple[list[str], list[str], np.ndarray]:
    """Return (victims, culprits, int64[victims, culprits]): cycles of waiting in the network, largest first.

    Culprits beyond MOST_CULPRITS are merged as "others"; the last column is waiting without a culprit.
    """
    matrix, names = attribution.matrix, attribution.culprits
    victims = np.argsort(-matrix.sum(axis=1), kind="stable")
    victims = victims[matrix[victims].any(axis=1)][:MOST_TRAFFICS]
    no_traffic, matrix = matrix[victims, -1], matrix[victims, :-1]
    # In the order of the victims, so that waiting for the own traffic is on the diagonal.
    order = np.concatenate([victims, np.setdiff1d(np.flatnonzero(matrix.any(axis=0)), victims)])
    order = order[matrix[:, order].any(axis=0)]
    culprits, more = order[:MOST_CULPRITS], order[MOST_CULPRITS:]
    columns = [matrix[:, culprits]]
    titles = [names[i] for i in culprits.tolist()]
    for title, column in (("others", matrix[:, more].sum(axis=1)), (NO_TRAFFIC, no_traffic)):
        if column.any():
            columns.append(column[:, np.newaxis])
            titles.append(title)
    return [names[i] for i in victims.tolist()], titles, np.hstack(columns)


def _blame_table(attribution: Attribution, whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    victims, culprits, cycles = blame(attribution)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("delays by traffic", no_wrap=True, overflow="ellipsis", max_width=None if whole else 20)
    for title in ("cycles", *(short_name(name, whole) for name in culprits)):
        table.add_column(title, justify="right", no_wrap=True)
    for victim, cycle in zip(victims, cycles, strict=True):
        shares = (cycle / cycle.sum()).tolist()
        table.add_row(Text(victim), rounded(int(cycle.sum()), ""), *(_share(share) for share in shares))
    return table


def html(result: Result) -> str:
    """Return the parts as HTML for a notebook; empty without attribution."""
    attribution = result.attribution
    if attribution is None or not attribution.messages.any():
        return ""
    parts = attribution.parts_shown
    titles = "".join(f"<th>{title}</th>" for title in ("cycles", *(WORDS.get(part, part) for part in parts)))
    lines = "".join(
        f"<tr><td style='text-align:left'>{escape(row.name)}</td><td>{number(row.latency)}</td>"
        + "".join(f"<td>{_share(share)}</td>" for share in row.shares[: len(parts)])
        + "</tr>"
        for row in rows(attribution)[: MOST_TRAFFICS + 1]
    )
    return f"<table><tr><th style='text-align:left'>where the time went</th>{titles}</tr>{lines}</table>"
