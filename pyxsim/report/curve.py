"""The picture of a load-latency curve."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.output.curve import Curve
from pyxsim.output.hdf5 import check_writable
from pyxsim.report.style import GREY, STYLE, axes, colour, need_matplotlib, nothing, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = 3  # times the highest load: a bound beyond that would leave no room for the curve
HEADROOM = 6  # times the lowest latency: what is above is a wall, not a value


def load_latency(curve: Curve, ax: Axes | None = None) -> Axes:
    """Mean packet latency over offered load with 95 % intervals, and p99; the bound of the load as a line."""
    ax = axes(ax, 6, 4)
    loads, means = curve.column("offered_load"), curve.column("packet_latency")
    steady = curve.column("saturated") == 0
    if not steady.any():
        return nothing(ax, "no load that the network can take")
    known = np.where(steady, means, np.nan)
    half = np.nan_to_num(curve.column("packet_latency_interval"))
    top = max(float(np.nanmin(known)) * HEADROOM, float(np.nanmax(known)) * 1.05)
    ax.errorbar(loads[steady], known[steady], half[steady], color=colour(0), lw=1.6, marker="o", ms=3.5, capsize=2)
    tail = curve.column("packet_latency_p99")
    ax.plot(loads[steady], tail[steady], color=colour(0), lw=0.9, ls=":")
    where = float(loads[steady][-1]), float(tail[steady][-1])
    if where[1] < top:
        ax.annotate("p99", where, (-4, 4), textcoords="offset points", ha="right", fontsize=8, color=GREY)
    _bounds(curve, ax)
    ax.set(ylim=(0, top), xlabel="offered load (flits per node and cycle)", ylabel="packet latency (cycles)")
    titled(ax, curve.title)
    return ax


def throughput(curve: Curve, ax: Axes | None = None) -> Axes:
    """Accepted load over offered load, from the node that got the least to the one that got the most."""
    ax = axes(ax, 6, 3)
    loads, mean = curve.column("offered_load"), curve.column("accepted_load")
    if not np.isfinite(mean).any():
        return nothing(ax, "nothing was measured")
    ax.fill_between(loads, curve.column("accepted_load_min"), curve.column("accepted_load_max"), alpha=0.15, lw=0)
    ax.plot(loads, loads, color=GREY, lw=0.8, ls=":")
    half = np.nan_to_num(curve.column("accepted_load_interval"))
    ax.errorbar(loads, mean, half, color=colour(0), lw=1.6, marker="o", ms=3.5, capsize=2)
    _bounds(curve, ax)
    if curve.bound is not None and curve.bound < FAR * loads.max():
        ax.axhline(curve.bound, color=colour(4), lw=0.8, ls="--")
    ax.set(ylim=(0, None), xlabel="offered load (flits per node and cycle)", ylabel="accepted load")
    titled(ax, "Accepted load (shade: all nodes)")
    return ax


def _bounds(curve: Curve, ax: Axes) -> None:
    """Grey: loads that the network cannot take. A line: what links and lanes carry at most, if it is not far off."""
    high, loads = curve.saturation[1], curve.column("offered_load")
    near = curve.bound is not None and curve.bound < FAR * loads.max()
    right = 1.05 * max(float(loads.max()), curve.bound if curve.bound is not None and near else 0.0)
    if high is not None:
        ax.axvspan(high, right, color=GREY, alpha=0.12, lw=0)
    if curve.bound is not None and near:
        ax.axvline(curve.bound, color=colour(4), lw=1, ls="--")
        place: Any = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate("bound", (curve.bound, 1), (-3, -10), ha="right", fontsize=8, color=colour(4), **place)
    ax.set_xlim(0, right)


def save(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Write both plots to a picture. InputError where that is impossible."""
    target = check_writable(path)
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        page = Figure(figsize=(7, 8), dpi=120, layout="constrained")
        upper, lower = page.subplots(2, 1, height_ratios=(3, 2))
        load_latency(curve, upper)
        throughput(curve, lower)
    try:
        page.savefig(target)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the plot: {error}", file=os.fspath(path)) from error
