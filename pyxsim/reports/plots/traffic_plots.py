"""Plots of open traffic: the latency distribution, and latency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import GREY, axes, colour, nothing, titled
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {"packet_latency_p50": "p50", "packet_latency_p99": "p99"}
MOST_BARS = 120
LEAST_NAMED = 0.15  # of the axis: a part of it that has its name


@plot("latencies")
def latencies(result: Result, ax: Axes | None = None) -> Axes:
    """Histogram of packet latencies over all classes."""
    ax = axes(ax, 6, 2.5)
    traffic = result.traffic
    if traffic is None or not len(traffic.latency):
        return nothing(ax, "no packets were measured")
    counts = traffic.packets.sum(axis=0)
    values = traffic.latency
    # The slowest packets would squeeze the others to the left edge.
    top = float(traffic.summary["packet_latency_p999"] or values[-1]) * 1.1 + 1
    width = -(-int(top - values[0]) // MOST_BARS)  # whole cycles, or some bars hold more of them than others
    edges = np.arange(int(values[0]), int(top) + 2 * width, width) - 0.5
    heights, _ = np.histogram(values, edges, weights=counts / counts.sum())
    ax.stairs(heights, edges, fill=True, color=colour(0), alpha=0.85)
    top = float(heights.max()) * 1.25  # room for the names of the marks
    for key, name in MARKS.items():
        position = float(traffic.summary[key])
        ax.axvline(position, color=GREY, lw=0.8)
        ax.annotate(
            name, (position, 1), (3, -9), xycoords=ax.get_xaxis_transform(), textcoords="offset points", fontsize=8
        )
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, top), xlabel="packet latency (cycles)")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    titled(ax, "Latency of the measured packets")
    return ax


@plot("course")
def course(result: Result, ax: Axes | None = None) -> Axes:
    """The mean latency of the packets created in each batch of cycles: of batches all of whose packets have arrived, as
    the ones that have would be the quick ones. Shaded: what was measured, and its mean."""
    ax = axes(ax, 6, 2.5)
    traffic = result.traffic
    if traffic is None or not len(traffic.batches.get("latency", ())):
        return nothing(ax, "nothing was measured")
    summary = traffic.summary
    begin = int(summary["warmup_cycles"] or 0)
    end = begin + int(summary["measured_cycles"] or 0)
    start = np.asarray(traffic.batches["start"])
    whole = start < end  # what is measured ends with the last batch that is complete
    means = np.asarray(traffic.batches["latency"], dtype=float)[whole]
    if not np.isfinite(means).any():
        return nothing(ax, "no complete batch")
    last = max(end, int(start[-1]) + int(start[-1] - start[-2]) if len(start) > 1 else end)
    ax.stairs(means, [*start[whole].tolist(), end], baseline=None, color=colour(0), lw=1.2)
    ax.axvspan(begin, end, color=colour(0), alpha=0.08, lw=0)
    mean, half = summary["packet_latency"], summary["packet_latency_interval"]
    if mean is not None:
        ax.hlines(mean, begin, end, color=colour(4), lw=1)
        if half is not None:
            ax.fill_between([begin, end], mean - half, mean + half, color=colour(4), alpha=0.2, lw=0)
    ax.set(xlim=(start[0], last), ylim=(0, 1.25 * max(float(np.nanmax(means)), mean or 0.0)))
    ax.set_xlabel("cycle of creation")
    parts = {"warm-up": (start[0], begin), "measured": (begin, end), "with packets in flight": (end, last)}
    for name, (left, right) in parts.items():
        if right - left > LEAST_NAMED * (last - start[0]):
            place = ((left + right) / 2, 1)
            look: Any = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
            ax.annotate(name, place, (0, -9), ha="center", fontsize=8, color=GREY, **look)
    titled(ax, "Mean packet latency over time (cycles)")
    return ax
