"""Plots of links: utilization over time, stalls, balance. They take matplotlib Axes or create and return them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import (
    STALL_COLOURS,
    Clock,
    axes,
    colour,
    heat,
    nice_top,
    nothing,
    percent_axis,
    strip,
    thinned,
    titled,
)
from pyxsim.reports.text.facts import STALL_WORDS, dimensions, link_name, link_title
from pyxsim.results.result import STALLS, Result
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_COUNTED = "not measured by this backend"
MAX_NAMED = 24  # maximum rows with names
MAX_COLUMNS = 600  # points in time
MAX_LINES = 500  # rows of links

_TAG = re.compile(r"d\d+([^:]{0,12}):")


@dataclass(frozen=True)
class Band:
    """Adjacent rows of the heat map, from `top` down: links of one dimension (or kind) and direction."""

    dim: int
    tag: str
    links: IntArray
    top: float

    @property
    def bottom(self) -> float:
        """The row below the last one."""
        return self.top + len(self.links)

    @property
    def middle(self) -> float:
        """The row of its label."""
        return (self.top + self.bottom) / 2


def bands(result: Result) -> list[Band]:
    """Group links by dimension, and by the direction in their names ("d0+:(0)->(1)")."""
    groups: dict[tuple[int, str], list[int]] = {}
    for link, (name, dim) in enumerate(zip(result.links.name, result.links.dim.tolist(), strict=True)):
        match = _TAG.match(name)
        groups.setdefault((dim, match.group(1) if match else ""), []).append(link)
    gap = 0.012 * len(result.links)
    made: list[Band] = []
    for (dim, tag), links in sorted(groups.items(), key=lambda item: item[0][0]):
        above = made[-1] if made else None
        top = above.bottom + (gap if above.dim != dim else gap / 4) if above else 0.0
        made.append(Band(dim, tag, np.array(links), top))
    return made


@plot("utilization")
def utilization(result: Result, ax: Axes | None = None) -> Axes:
    """Heat map: the share of each time window that each link spends sending; grouped by dimension and direction."""
    ax = axes(ax, 9, 5)
    use = result.utilization
    if not (use.size and result.has_link_counters):
        return nothing(ax, NOT_COUNTED if result.busy.size else "the result has no links or no simulated time")
    clock, rows, top = Clock.of(result), bands(result), nice_top(float(use.max()))
    # Averaged here, because matplotlib would blend neighbouring rows.
    use, starts = thinned(use, MAX_COLUMNS)
    step = int(starts[1]) if len(starts) > 1 else len(result.windows)
    right = float(clock.at(len(starts) * step * result.windows.length))
    for band in rows:
        share, _ = thinned(use[:, band.links].T, max(8, MAX_LINES * len(band.links) // len(result.links)))
        extent = (0.0, right, band.bottom, band.top)
        image = ax.imshow(share, extent=extent, cmap=heat(), vmin=0, vmax=top, aspect="auto", interpolation="nearest")
        strip(ax, band.top, band.bottom, colour(band.dim))
    places, labels = zip(*_row_labels(result, rows), strict=True)
    ax.set_yticks(places, labels)
    ax.tick_params(axis="y", length=0, pad=9, labelsize=8 if len(labels) <= 12 else 6.5)
    ax.set(xlim=(0, clock.end), ylim=(rows[-1].bottom, 0), xlabel=clock.label)
    window = format_time_ns(Fraction(int(result.window_cycles[0])) * 10**9 / result.clock_hz)
    titled(ax, f"Every link over time: share of each {window} spent sending")
    ax.spines[["left", "bottom"]].set_visible(False)
    if (figure := ax.get_figure()) is not None:
        bar = figure.colorbar(image, cax=ax.inset_axes((1.012, 0, 0.014, 1)))
        percent_axis(bar.ax.yaxis)
        bar.outline.set_visible(False)
    return ax


def _row_labels(result: Result, rows: list[Band]) -> Iterator[tuple[float, str]]:
    """Yield (row, text): names of links, directions or dimensions, whichever fit."""
    if len(result.links) <= MAX_NAMED:
        for band in rows:
            yield from ((band.top + 0.5 + i, result.links.name[link]) for i, link in enumerate(band.links))
    elif len(rows) <= MAX_NAMED:
        yield from ((band.middle, f"{link_title(result, band.dim)} {band.tag}".strip()) for band in rows)
    else:
        for dim in sorted({band.dim for band in rows}):
            inside = [band for band in rows if band.dim == dim]
            yield (inside[0].top + inside[-1].bottom) / 2, link_title(result, dim)


@plot("dimensions")
def dimension_lines(result: Result, ax: Axes | None = None) -> Axes:
    """Lines: utilization of the links of each dimension or kind over time, mean (line) and maximum (shade)."""
    ax = axes(ax, 9, 2.5)
    use = result.utilization
    if not (use.size and result.has_link_counters):
        return nothing(ax, NOT_COUNTED if result.busy.size else "the result has no links or no simulated time")
    clock = Clock.of(result)
    for dim in np.unique(result.links.dim).tolist():
        mine = use[:, result.links.dim == dim]
        lines, starts = thinned(np.stack([mine.mean(axis=1), mine.max(axis=1)], axis=1), MAX_COLUMNS)
        edges = np.append(clock.at(result.windows.start[starts]), clock.end)
        ax.stairs(lines[:, 1], edges, baseline=lines[:, 0], fill=True, color=colour(dim), alpha=0.15, lw=0)
        ax.stairs(lines[:, 0], edges, baseline=None, color=colour(dim), lw=1.4, label=link_name(result, dim))
    ax.set(xlim=(0, clock.end), ylim=(0, nice_top(float(use.max())) * 1.02), xlabel=clock.label)
    percent_axis(ax.yaxis, 4)
    what = "Kinds of links" if result.link_kinds else "Dimensions"
    titled(ax, f"{what} over time: mean over the links (line), busiest link (shade)")
    _legend(ax)
    return ax


def _legend(ax: Axes) -> None:
    """Place the legend above the axes, next to the title."""
    handles, labels = ax.get_legend_handles_labels()
    look: dict[str, Any] = {"frameon": False, "fontsize": 8, "borderaxespad": 0.2, "columnspacing": 1.2}
    ax.legend(handles, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=8, handlelength=1, **look)


@plot("stalls")
def stalls(result: Result, ax: Axes | None = None) -> Axes:
    """Bars: causes of stalls per dimension, as shares of the run."""
    ax = axes(ax, 5, 2.5)
    uses = dimensions(result)
    if not result.stall_causes:
        return nothing(ax, NOT_COUNTED if uses else "no links")
    places = np.arange(len(uses))
    left = np.zeros(len(uses))
    for i, name in enumerate(STALLS):
        if name not in result.stall_causes:
            continue
        share = np.array([use.stalls[i] for use in uses])
        ax.barh(places, share, left=left, height=0.6, color=STALL_COLOURS[name], label=STALL_WORDS[name])
        left += share
    dims = np.unique(result.links.dim).tolist()
    for place, dim in enumerate(dims):
        strip(ax, place - 0.3, place + 0.3, colour(dim))
    ax.set_yticks(places, [link_name(result, dim) for dim in dims])
    ax.tick_params(axis="y", length=0, pad=9, labelsize=8)
    ax.set(ylim=(max(3, len(uses)) - 0.5, -0.5), xlim=(0, max(1e-3, float(left.max()) * 1.05)))
    percent_axis(ax.xaxis)
    titled(ax, "What flits waited for, as a share of the run")
    ax.spines["left"].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.14), ncols=4, handlelength=0.8, frameon=False)
    return ax


@plot("links")
def link_lines(result: Result, ax: Axes | None = None) -> Axes:
    """Lines: utilization of the links of each dimension, sorted; flat lines are balanced."""
    ax = axes(ax, 5, 3)
    if not result.has_link_counters:
        return nothing(ax, NOT_COUNTED if len(result.links) else "no links")
    for dim in np.unique(result.links.dim).tolist():
        share = np.sort(result.link_utilization[result.links.dim == dim])[::-1]
        edges = np.linspace(0, 1, len(share) + 1)
        ax.stairs(share, edges, baseline=None, color=colour(dim), lw=1.6, label=link_name(result, dim))
    ax.set(xlim=(0, 1), ylim=(0, nice_top(float(result.link_utilization.max())) * 1.02))
    ax.set_xlabel(f"links of the {'kind' if result.link_kinds else 'dimension'}, busiest first")
    percent_axis(ax.xaxis)
    percent_axis(ax.yaxis, 4)
    titled(ax, "Balance of the links")
    _legend(ax)
    return ax
