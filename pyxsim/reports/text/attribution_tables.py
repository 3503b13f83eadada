"""Where the time of messages went, and who made whom wait: tables for the terminal, and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.reports.plots.style import GREY, PART_COLOURS, axes, heat, nothing, percent_axis, titled
from pyxsim.reports.text.facts import percent, plural, rounded
from pyxsim.reports.text.text_width import WIDTH
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.attribution import NOBODY, PARTS, Attribution, HotLink, hot_links
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType
    from rich.table import Table

MOST_TRAFFICS = 6  # rows of a table, and bars
MOST_CULPRITS = 4  # columns
MOST_LETTERS = 10  # of a traffic's name beside others
WORDS = {"vc": "VC"}
"""Parts that are not called as their column is."""


@dataclass(frozen=True)
class Row:
    """A traffic: its name, how many messages of it arrived, the mean latency (cycles), and the shares of its parts."""

    name: str
    messages: int
    latency: float
    shares: tuple[float, ...]


def rows(told: Attribution) -> list[Row]:
    """The traffics, those on which most time was spent first; all of them together where there are several."""
    order = np.argsort(-told.parts.sum(axis=1), kind="stable").tolist()
    found = [_row(told.traffic_names[i], int(told.messages[i]), told.parts[i]) for i in order if told.messages[i]]
    if len(found) > 1:
        found.insert(0, _row("all", int(told.messages.sum()), told.parts.sum(axis=0)))
    return found


def _row(name: str, messages: int, parts: np.ndarray) -> Row:
    total = int(parts.sum())
    return Row(name, messages, total / messages, tuple((parts / max(1, total)).tolist()))


def tables(result: Result, width: int | None = WIDTH) -> Iterator[RenderableType]:
    """What the summary shows: the parts, the links where packets waited longest, who made whom wait. `width`: of a
    terminal; None: of a file, where nothing is cut."""
    told = result.attribution
    if told is None or not told.messages.any():
        return
    whole = width is None
    yield _parts_table(rows(told), whole)
    links = hot_links(result)
    if links:
        yield _links_table(links, whole)
        yield _blame_table(told, whole)


def _parts_table(found: list[Row], whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("where the time went", no_wrap=True, overflow="ellipsis", max_width=None if whole else 20)
    for title in ("cycles", *(WORDS.get(part, part) for part in PARTS)):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found[: MOST_TRAFFICS + 1]:
        table.add_row(Text(row.name), number(row.latency), *(_share(share) for share in row.shares))
    if len(found) > MOST_TRAFFICS + 1:
        table.add_row(f"and {len(found) - MOST_TRAFFICS - 1} more")
    return table


def _share(share: float) -> str:
    return percent(share) if share else "-"


def _links_table(links: list[HotLink], whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("packets waited most at", no_wrap=True, overflow="ellipsis", max_width=None if whole else 25)
    # How many links are alike, and of one of them how many packets waited there at a time.
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
    """The first of them, with their shares in percent: "credit 60, queue 20"."""
    total = sum(cycles.values())
    first = list(cycles.items())[:count]
    return ", ".join(f"{_short(WORDS.get(name, name), whole)} {100 * each / total:.0f}" for name, each in first)


def _short(name: str, whole: bool = False) -> str:
    return name if whole or name in PARTS or len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}\u2026"


def blame(told: Attribution) -> tuple[list[str], list[str], np.ndarray]:
    """(victims, culprits, int64[victims, culprits]): cycles that each waited in the network, the most first.

    Culprits that are too many for a table are one, "others"; nobody is the last one.
    """
    matrix, names = told.matrix, told.traffic_names
    victims = np.argsort(-matrix.sum(axis=1), kind="stable")
    victims = victims[matrix[victims].any(axis=1)][:MOST_TRAFFICS]
    nobody, matrix = matrix[victims, -1], matrix[victims, :-1]
    # In the order of the victims, so that whoever waits for himself is on the diagonal.
    order = np.concatenate([victims, np.setdiff1d(np.flatnonzero(matrix.any(axis=0)), victims)])
    order = order[matrix[:, order].any(axis=0)]
    culprits, more = order[:MOST_CULPRITS], order[MOST_CULPRITS:]
    columns = [matrix[:, culprits]]
    titles = [names[i] for i in culprits.tolist()]
    for title, column in (("others", matrix[:, more].sum(axis=1)), (NOBODY, nobody)):
        if column.any():
            columns.append(column[:, np.newaxis])
            titles.append(title)
    return [names[i] for i in victims.tolist()], titles, np.hstack(columns)


def _blame_table(told: Attribution, whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    victims, culprits, cycles = blame(told)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("who waited for whom", no_wrap=True, overflow="ellipsis", max_width=None if whole else 20)
    for title in ("cycles", *(_short(name, whole) for name in culprits)):
        table.add_column(title, justify="right", no_wrap=True)
    for victim, each in zip(victims, cycles, strict=True):
        shares = (each / each.sum()).tolist()
        table.add_row(Text(victim), rounded(int(each.sum()), ""), *(_share(share) for share in shares))
    return table


def html(result: Result) -> str:
    """The parts for a notebook; nothing where the run did not tell."""
    told = result.attribution
    if told is None or not told.messages.any():
        return ""
    titles = "".join(f"<th>{title}</th>" for title in ("cycles", *(WORDS.get(part, part) for part in PARTS)))
    lines = "".join(
        f"<tr><td style='text-align:left'>{escape(row.name)}</td><td>{number(row.latency)}</td>"
        + "".join(f"<td>{_share(share)}</td>" for share in row.shares)
        + "</tr>"
        for row in rows(told)[: MOST_TRAFFICS + 1]
    )
    return f"<table><tr><th style='text-align:left'>where the time went</th>{titles}</tr>{lines}</table>"


def parts(result: Result, ax: Axes | None = None) -> Axes:
    """Bars: what the time of the messages of each traffic was spent on, on average."""
    ax = axes(ax, 7, 2.5)
    told = result.attribution
    if told is None or not told.messages.any():
        return nothing(ax, "the run did not tell where the time went")
    found = rows(told)[: MOST_TRAFFICS + 1]
    left = np.zeros(len(found))
    places = np.arange(len(found))
    for i, part in enumerate(PARTS):
        share = np.array([row.shares[i] for row in found])
        ax.barh(places, share, left=left, height=0.6, color=PART_COLOURS[part], label=WORDS.get(part, part))
        left += share
    ax.set_yticks(places, [_short(row.name) for row in found])
    for place, row in enumerate(found):
        ax.text(1.01, place, f"{number(row.latency)} cycles", va="center", fontsize=8, color=GREY)
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.set(ylim=(max(3, len(found)) - 0.5, -0.5), xlim=(0, 1))
    percent_axis(ax.xaxis)
    what = "message" if result.traffic is None else "measured packet"
    titled(ax, f"Where the time went, of {plural(int(told.messages.sum()), what)}")
    ax.spines["left"].set_visible(False)
    _legend(ax)
    return ax


def waits(result: Result, ax: Axes | None = None, count: int = 10) -> Axes:
    """Bars: the links and lanes where packets waited longest, and for what: how many waited there on average."""
    ax = axes(ax, 6, 3)
    links = hot_links(result, count)
    if not links:
        return nothing(ax, "no packet waited" if result.attribution else "the run did not tell who waited")
    places, left = np.arange(len(links)), np.zeros(len(links))
    for part in (part for part in PARTS if any(part in link.causes for link in links)):
        packets = np.array([link.causes.get(part, 0) / link.cycles * link.waiting for link in links])
        ax.barh(places, packets, left=left, height=0.7, color=PART_COLOURS[part], label=WORDS.get(part, part))
        left += packets
    ax.set_yticks(places, [f"{link.name} (+{len(link.like):,})" if link.like else link.name for link in links])
    ax.tick_params(axis="y", length=0, labelsize=7)
    ax.set(ylim=(max(5, len(links)) - 0.4, -0.6), xlim=(0, float(left.max()) * 1.02))
    titled(ax, "Where packets waited, and how many at a time")
    ax.spines["left"].set_visible(False)
    _legend(ax)
    return ax


def culprits(result: Result, ax: Axes | None = None) -> Axes:
    """Matrix: for whom each traffic waited in the network, as shares of its waiting."""
    ax = axes(ax, 4, 3)
    told = result.attribution
    if told is None or not len(told.waits["link"]):
        return nothing(ax, "no packet waited" if told else "the run did not tell who waited")
    victims, names, cycles = blame(told)
    shares = cycles / cycles.sum(axis=1, keepdims=True)
    ax.imshow(shares, cmap=heat(), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for (victim, culprit), share in np.ndenumerate(shares):
        if share:
            tint = "white" if share > 0.5 else "black"
            ax.text(culprit, victim, percent(share), ha="center", va="center", fontsize=8, color=tint)
    ax.set_xticks(range(len(names)), [_short(name) for name in names])
    ax.set_yticks(range(len(victims)), [_short(name) for name in victims])
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("waited for")
    titled(ax, "Who made whom wait")
    return ax


def _legend(ax: Axes) -> None:
    """Below the axes, where no bar is."""
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncols=4, handlelength=0.8, frameon=False, labelcolor=GREY)
