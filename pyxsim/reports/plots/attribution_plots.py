"""Plots of attribution: where time went, where packets waited, and which traffic delayed which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import GREY, PART_COLOURS, axes, heat, nothing, percent_axis, titled
from pyxsim.reports.text.attribution_tables import MOST_TRAFFICS, WORDS, blame, rows, short_name
from pyxsim.reports.text.facts import percent, plural
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.attribution import PARTS
from pyxsim.results.interference import interference
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@plot("parts")
def parts(result: Result, ax: Axes | None = None) -> Axes:
    """Bars: the mean latency of each traffic, by parts."""
    ax = axes(ax, 7, 2.5)
    attribution = result.attribution
    if attribution is None or not attribution.messages.any():
        return nothing(ax, "no attribution")
    shown = rows(attribution)[: MOST_TRAFFICS + 1]
    left = np.zeros(len(shown))
    places = np.arange(len(shown))
    for i, part in enumerate(attribution.parts_shown):
        share = np.array([row.shares[i] for row in shown])
        ax.barh(places, share, left=left, height=0.6, color=PART_COLOURS[part], label=WORDS.get(part, part))
        left += share
    ax.set_yticks(places, [short_name(row.name) for row in shown])
    for place, row in enumerate(shown):
        ax.text(1.01, place, f"{number(row.latency)} cycles", va="center", fontsize=8, color=GREY)
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.set(ylim=(max(3, len(shown)) - 0.5, -0.5), xlim=(0, 1))
    percent_axis(ax.xaxis)
    what = "measured packet" if result.traffic is not None and not result.is_background else "message"
    titled(ax, f"Where the time went, of {plural(int(attribution.messages.sum()), what)}")
    ax.spines["left"].set_visible(False)
    _legend(ax)
    return ax


@plot("waits")
def waits(result: Result, ax: Axes | None = None, count: int = 10) -> Axes:
    """Bars: the links and lanes where packets waited longest, by cause, as packets waiting at a time."""
    ax = axes(ax, 6, 3)
    links = result.hot_links(count)
    if not links:
        return nothing(ax, "no packet waited" if result.attribution else "no attribution")
    places, left = np.arange(len(links)), np.zeros(len(links))
    for part in (part for part in PARTS if any(part in link.causes for link in links)):
        packets = np.array([link.causes.get(part, 0) / link.cycles * link.waiting for link in links])
        ax.barh(places, packets, left=left, height=0.7, color=PART_COLOURS[part], label=WORDS.get(part, part))
        left += packets
    ax.set_yticks(places, [f"{link.name} (+{len(link.like):,})" if link.like else link.name for link in links])
    ax.tick_params(axis="y", length=0, labelsize=7)
    ax.set(ylim=(max(5, len(links)) - 0.4, -0.6), xlim=(0, float(left.max()) * 1.02))
    titled(ax, "Where packets waited: mean number of waiting packets")
    ax.spines["left"].set_visible(False)
    _legend(ax)
    return ax


@plot("culprits")
def culprits(result: Result, ax: Axes | None = None) -> Axes:
    """Matrix: the waiting of each traffic in the network, by the traffic that caused it, as shares."""
    ax = axes(ax, 4, 3)
    attribution = result.attribution
    if attribution is None or not len(attribution.waits["link"]):
        return nothing(ax, "no packet waited" if attribution else "no attribution")
    return _matrix(ax, *blame(attribution), "Delays by traffic")


@plot("interference")
def interference_matrix(result: Result, ax: Axes | None = None) -> Axes:
    """Matrix: the waiting of each job in the network, by the job that caused it, as shares."""
    ax = axes(ax, 4, 3)
    found = interference(result.attribution, len(result.jobs))
    if found is None:
        return nothing(ax, "no attribution" if result.jobs else "no jobs")
    return _matrix(ax, found.victims, found.culprits, found.cycles, "Interference between jobs")


def _matrix(ax: Axes, victims: Sequence[str], names: Sequence[str], cycles: IntArray, title: str) -> Axes:
    shares = cycles / np.maximum(1, cycles.sum(axis=1, keepdims=True))
    ax.imshow(shares, cmap=heat(), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for (victim, culprit), share in np.ndenumerate(shares):
        if share:
            tint = "white" if share > 0.5 else "black"
            ax.text(culprit, victim, percent(share), ha="center", va="center", fontsize=8, color=tint)
    ax.set_xticks(range(len(names)), [short_name(name) for name in names])
    ax.set_yticks(range(len(victims)), [short_name(name) for name in victims])
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("waited for")
    titled(ax, title)
    return ax


def _legend(ax: Axes) -> None:
    """Place the legend below the axes, where no bar is."""
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncols=4, handlelength=0.8, frameon=False, labelcolor=GREY)
