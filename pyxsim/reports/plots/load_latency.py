"""Plots of a load-latency curve."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.reports.plots.style import (
    GREY,
    PART_COLOURS,
    axes,
    colour,
    nothing,
    save_figure,
    titled,
)
from pyxsim.reports.text.attribution_tables import WORDS
from pyxsim.results.attribution import PARTS
from pyxsim.results.curve import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAR = 3  # times the highest load: bounds beyond are not drawn
HEADROOM = 6  # times the lowest latency: limit of the axis


def load_latency(curve: Curve, ax: Axes | None = None) -> Axes:
    """Lines: mean packet latency with 95 % intervals and p99 over offered load; the load bound as a line.

    With attribution, areas below the mean show its parts.
    """
    ax = axes(ax, 6, 4)
    loads, means = curve.column("offered_load"), curve.column("packet_latency")
    steady = curve.column("saturated") == 0
    if not steady.any():
        return nothing(ax, "no sustained load")
    known = np.where(steady, means, np.nan)
    half = np.nan_to_num(curve.column("packet_latency_interval"))
    top = max(float(np.nanmin(known)) * HEADROOM, float(np.nanmax(known)) * 1.05)
    ax.errorbar(loads[steady], known[steady], half[steady], color=colour(0), lw=1.6, marker="o", ms=3.5, capsize=2)
    _parts(curve, ax, steady)
    tail = curve.column("packet_latency_p99")
    ax.plot(loads[steady], tail[steady], color=colour(0), lw=0.9, ls=":")
    _bounds(curve, ax, named=True)
    _name_tail(ax, loads[steady], tail[steady], top)
    ax.set(ylim=(0, top), xlabel="offered load (flits per node and cycle)", ylabel="packet latency (cycles)")
    titled(ax, curve.title)
    return ax


def _parts(curve: Curve, ax: Axes, steady: Any) -> None:
    known = {part: curve.column(f"latency_{part}")[steady] for part in PARTS}
    if not np.nan_to_num(known["fault"]).any():  # or it is unknown, in a curve of an earlier version
        del known["fault"]
    if not all(np.isfinite(values).all() for values in known.values()):
        return
    names = [WORDS.get(part, part) for part in known]
    loads = curve.column("offered_load")[steady]
    ax.stackplot(loads, *known.values(), colors=[PART_COLOURS[part] for part in known], labels=names, lw=0, zorder=0)
    ax.legend(loc="upper left", reverse=True, frameon=False)  # from top to bottom, like the areas


def throughput(curve: Curve, ax: Axes | None = None) -> Axes:
    """Lines: accepted over offered load, from the node with the least to the one with the most."""
    ax = axes(ax, 6, 3)
    loads, mean = curve.column("offered_load"), curve.column("accepted_load")
    if not np.isfinite(mean).any():
        return nothing(ax, "nothing was measured")
    ax.fill_between(loads, curve.column("accepted_load_min"), curve.column("accepted_load_max"), alpha=0.15, lw=0)
    ax.plot(loads, loads, color=GREY, lw=0.8, ls=":")
    half = np.nan_to_num(curve.column("accepted_load_interval"))
    ax.errorbar(loads, mean, half, color=colour(0), lw=1.6, marker="o", ms=3.5, capsize=2)
    _bounds(curve, ax)
    top = 1.1 * float(np.nanmax([*curve.column("accepted_load_max"), *mean]))
    if curve.throughput_bound is not None and curve.throughput_bound < FAR * loads.max():
        top = max(top, 1.15 * curve.throughput_bound)
        ax.axhline(curve.throughput_bound, color=colour(4), lw=0.8, ls="--")
        place: Any = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        ax.annotate("throughput bound", (0, curve.throughput_bound), (4, 4), fontsize=8, color=colour(4), **place)
    ax.set(ylim=(0, top), xlabel="offered load (flits per node and cycle)", ylabel="accepted load")
    titled(ax, "Accepted load (shade: all nodes)")
    return ax


def _name_tail(ax: Axes, loads: Any, tail: Any, top: float) -> None:
    """Label the p99 line on a free side, inside the axes."""
    known = np.flatnonzero(np.isfinite(tail))
    if len(known) < 2:  # no line
        return
    inside = known[tail[known] < top]
    last = inside[-1] if len(inside) else known[0]
    position = float(loads[last]), float(min(tail[last], top))
    if len(inside) and len(inside) < len(known):  # to where the line leaves the axes
        after = known[len(inside)]
        share = (top - position[1]) / float(tail[after] - tail[last])
        position = position[0] + share * (float(loads[after]) - position[0]), top
    low = position[1] > 0.9 * top
    look: Any = {"textcoords": "offset points", "va": "top" if low else "bottom", "fontsize": 8, "color": GREY}
    first = position[0] < 0.1 * ax.get_xlim()[1]
    ax.annotate("p99", position, (4 if first else -6, -2 if low else 4), ha="left" if first else "right", **look)


def _bounds(curve: Curve, ax: Axes, named: bool = False) -> None:
    """Shade loads beyond saturation; draw the bound of links and lanes if it is near; cross failed loads."""
    high, loads = curve.saturation[1], curve.column("offered_load")
    near = curve.throughput_bound is not None and curve.throughput_bound < FAR * loads.max()
    right = 1.05 * max(
        float(loads.max()), curve.throughput_bound if curve.throughput_bound is not None and near else 0.0
    )
    look: Any = {"textcoords": "offset points", "fontsize": 8}
    if high is not None:
        ax.axvspan(high, right, color=GREY, alpha=0.12, lw=0)
        if named:
            place = ((high + right) / 2, 0)
            ax.annotate("saturated", place, (0, 12), ha="center", color=GREY, xycoords=ax.get_xaxis_transform(), **look)
    failed = [float(point["offered_load"]) for point in curve.points if "error" in point]
    if failed:
        below = ax.get_xaxis_transform()
        ax.plot(failed, [0.0] * len(failed), transform=below, color=colour(4), ls="", marker="x", clip_on=False)
        ax.annotate("failed", (failed[0], 0), (4, 6), ha="left", color=colour(4), xycoords=below, **look)
    if curve.throughput_bound is not None and near:
        ax.axvline(curve.throughput_bound, color=colour(4), lw=1, ls="--")
        if named:
            top = (curve.throughput_bound, 1)
            ax.annotate(
                "throughput bound",
                top,
                (-3, -10),
                ha="right",
                color=colour(4),
                xycoords=ax.get_xaxis_transform(),
                **look,
            )
    ax.set_xlim(0, right)


def save(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Write both plots to a file. Raises InputError if that is impossible."""

    def draw() -> Figure:
        from matplotlib.figure import Figure

        page = Figure(figsize=(7, 8), dpi=120, layout="constrained")
        upper, lower = page.subplots(2, 1, height_ratios=(3, 2))
        load_latency(curve, upper)
        throughput(curve, lower)
        return page

    save_figure(path, draw)
