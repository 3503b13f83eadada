"""Projections of networks that are too large to draw: utilization by pairs of dimensions."""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray
from pyxsim.reports.plots.style import GREY, axes, heat, nice_top, percent_axis, titled
from pyxsim.reports.text.facts import plural
from pyxsim.results.result import Result
from pyxsim.topology import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_DRAWN = 6000  # maximum links of a drawing
VIEWS = 3  # pairs of dimensions
_CELL = ("A cell is the busiest link", "at the routers with", "these coordinates.")


def projections(result: Result, topology: Topology, ax: Axes | None = None) -> Axes:
    """Heat maps per pair of dimensions: a cell is the busiest link of all routers with these coordinates."""
    ax = axes(ax, 6, 6)
    ax.set_axis_off()
    use = result.link_utilization
    top = nice_top(float(max(use.max(initial=0), result.utilization.max(initial=0))))
    real = [dim for dim, size in enumerate(topology.shape) if size > 1] or [0]
    pairs: list[tuple[int, int | None]] = list(islice(combinations(real, 2), VIEWS))
    places = [(0.0, 0.57, 0.4, 0.4), (0.56, 0.57, 0.4, 0.4), (0.0, 0.04, 0.4, 0.4)]
    text_at, between = (0.56, 0.42), "\n"
    if len(pairs) < VIEWS:  # a single view uses the whole axes
        pairs = pairs or [(real[0], None)]
        places, text_at, between = [(0.0, 0.2, 1.0, 0.76)], (0.0, 0.06), " "
    for (across, up), place in zip(pairs, places, strict=True):
        view = ax.inset_axes(place)
        share, present = busiest(topology, use, across, up)
        shown: Any = np.ma.masked_where(~present, share)  # empty where no router is
        image = view.imshow(shown.T, origin="lower", cmap=heat(), vmin=0, vmax=top, aspect="auto", interpolation="none")
        view.set_xlabel(f"coordinate {across}", labelpad=2)
        view.tick_params(labelsize=7)
        if up is None:
            view.set_yticks([])
        else:
            view.set_ylabel(f"coordinate {up}", labelpad=2)
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.02, 0.3, 0.03, 0.5)))
    percent_axis(bar.ax.yaxis)
    bar.outline.set_visible(False)
    routers = plural(len(np.unique(topology.home)), "router")
    lines = [f"{routers}, {plural(topology.links, 'link')}:", "too many to draw one by one.", *_CELL]
    ax.text(text_at[0], text_at[1], between.join(lines), va="top", fontsize=8, color=GREY)
    titled(ax, "Utilization over the run")
    return ax


def busiest(
    topology: Topology, values: FloatArray, across: int, up: int | None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the largest value of a link per pair of coordinates, and whether NPUs are there: [n, m] each.

    A link counts at the router where it starts, or from a switch where it ends; links between switches and
    host links do not count.
    """
    begins = np.isin(topology.link_src, topology.home)
    most = np.zeros(topology.routers)
    np.maximum.at(most, np.where(begins, topology.link_src, topology.link_dst), values[: topology.links])
    shape = topology.shape[across], 1 if up is None else topology.shape[up]
    cell = topology.coords[:, across] * shape[1] + (0 if up is None else topology.coords[:, up])
    highest, present = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1], np.bool_)
    np.maximum.at(highest, cell, most[topology.home])
    present[cell] = True
    return highest.reshape(shape), present.reshape(shape)
