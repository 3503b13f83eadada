"""Pictures of a result: `result.plot.utilization()`, and the page that `pyxsim run --plot` writes.

matplotlib is an extra and takes long to import: only a call of one of these functions needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim import library
from pyxsim.errors import InputError, PyxsimError
from pyxsim.reports.plots import gantt
from pyxsim.reports.plots.chunk_bars import chunks
from pyxsim.reports.plots.link_plots import dimension_lines, link_lines, stalls, utilization
from pyxsim.reports.plots.projections import MOST_DRAWN, projections
from pyxsim.reports.plots.style import GREY, STYLE, axes, heat, need_matplotlib, nice_top, nothing, percent_axis, titled
from pyxsim.reports.text import attribution_tables
from pyxsim.reports.text.facts import percent, plural, rounded
from pyxsim.reports.text.traffic_facts import course, latencies, number
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result
from pyxsim.topology import build
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["Plots", "figure", "save", "utilization"]


@dataclass(frozen=True)
class Plots:
    """The plots of one result, as methods. Each takes matplotlib Axes or makes them, and returns them."""

    result: Result

    def utilization(self, ax: Axes | None = None) -> Axes:
        """Heat map: how busy each link was in each time window."""
        return utilization(self.result, ax)

    def dimensions(self, ax: Axes | None = None) -> Axes:
        """Lines: how busy the links of each dimension were over time."""
        return dimension_lines(self.result, ax)

    def chunks(self, ax: Axes | None = None, npu: int = 0) -> Axes:
        """Bars: which chunk was in which dimension on one NPU."""
        return chunks(self.result, ax, npu)

    def stalls(self, ax: Axes | None = None) -> Axes:
        """Bars: what flits waited for, per dimension."""
        return stalls(self.result, ax)

    def links(self, ax: Axes | None = None) -> Axes:
        """Lines: the links of each dimension in order of how busy they were."""
        return link_lines(self.result, ax)

    def latencies(self, ax: Axes | None = None) -> Axes:
        """Histogram: how many packets of open traffic took how long."""
        return latencies(self.result, ax)

    def course(self, ax: Axes | None = None) -> Axes:
        """Line: the mean packet latency over time, and what of it was measured."""
        return course(self.result, ax)

    def parts(self, ax: Axes | None = None) -> Axes:
        """Bars: what the time of the messages of each traffic was spent on."""
        return attribution_tables.parts(self.result, ax)

    def waits(self, ax: Axes | None = None, count: int = 10) -> Axes:
        """Bars: the links and lanes where packets waited longest, and for what."""
        return attribution_tables.waits(self.result, ax, count)

    def culprits(self, ax: Axes | None = None) -> Axes:
        """Matrix: for whom each traffic waited."""
        return attribution_tables.culprits(self.result, ax)

    def gantt(self, ax: Axes | None = None) -> Axes:
        """Bars: what the NPUs of a workload do when, and the critical path."""
        return gantt.gantt(self.result, ax)

    def topology(self, ax: Axes | None = None) -> Axes:
        """The network, its links coloured by how busy they were over the run."""
        return network(self.result, ax)

    def figure(self) -> Figure:
        """All of it on one page."""
        return figure(self.result)


def network(result: Result, ax: Axes | None = None) -> Axes:
    """The network, its links coloured by how busy they were over the run; one with many, seen along its dimensions."""
    ax = axes(ax, 6, 6)
    topology = topology_of(result)
    if topology is None:
        return nothing(ax, "the result does not know its network")
    if topology.links > MOST_DRAWN:
        return projections(result, topology, ax)
    from pyxsim.reports.plots.network_drawing import draw

    figure = ax.get_figure()
    before = set(figure.axes) if figure else set()
    use = result.link_utilization
    # The scale of the links over time: the same colour, the same share.
    top = nice_top(float(max(use.max(initial=0), result.utilization.max(initial=0))))
    draw(topology, ax=ax, values=use, cmap=heat(), scale=(0.0, top))
    for bar in set(figure.axes) - before if figure else ():
        percent_axis(bar.yaxis)
    ax.set_title("")
    titled(ax, "Share of the run spent sending")
    return ax


def topology_of(result: Result) -> Any:
    """The network of a result; of one from a file, made again from its settings. None where that gives another one."""
    if result.topology is not None:
        return result.topology
    settings = result.experiment.get("network", {})
    dims = [{k: v for k, v in dim.items() if k not in _LINK_SETTINGS} for dim in settings.get("dims") or []]
    try:
        library.load_all()
        topology = build(settings.get("topology"), settings.get("shape"), dims, settings.get("options"))
    except PyxsimError:  # a user's own topology, whose file may be gone
        return None
    return topology if list(topology.link_name) == result.links.name else None


LONGEST_WHY = 60  # letters, in a headline
_LINK_SETTINGS = ("bandwidth", "latency")


def figure(result: Result) -> Figure:
    """One page: what was simulated and how fast; links, dimensions and chunks over time; the network; the waiting. Of a
    workload, what its NPUs do."""
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context(STYLE):
        below: list[tuple[float, Callable[[Result, SubFigure], None]]] = []  # inches
        if result.work is not None:
            below.append((gantt.height(result), _workload))
        if result.attribution is not None:
            below.append((2.8, _where_the_time_went))
        inches = [9.0, *(each for each, _ in below)]
        page = Figure(figsize=(15, sum(inches)), dpi=120, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        upper: Figure | SubFigure = page
        if below:
            parts: Any = page.subfigures(len(inches), 1, height_ratios=inches)
            upper = parts[0]
            for (_, draw), part in zip(below, parts[1:], strict=True):
                draw(result, part)
        dims = len(np.unique(result.chunks["dimension"]))
        measured = result.traffic is not None
        heights = [0.42, 1.2, 3.4] + ([min(1.7, 0.6 + 0.4 * dims)] if dims else []) + [1.5] * measured
        # What is over time takes two columns, so that the pair below begins and ends where it does.
        grid = upper.add_gridspec(len(heights), 3, width_ratios=(31, 31, 38), height_ratios=heights)
        _header(upper.add_subplot(grid[0, :]), result)

        over_time = [dimension_lines(result, upper.add_subplot(grid[1, :2]))]
        over_time.append(utilization(result, upper.add_subplot(grid[2, :2])))
        if dims:
            over_time.append(chunks(result, upper.add_subplot(grid[3, :2])))
        for ax in over_time[:-1]:
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)

        if measured:
            latencies(result, upper.add_subplot(grid[-1, 0]))
            course(result, upper.add_subplot(grid[-1, 1]))

        shown = [network, link_lines, stalls] if topology_of(result) is not None else [link_lines, stalls]
        right = grid[1:, 2].subgridspec(len(shown), 1, height_ratios=(3.2, 1, 1)[-len(shown) :])
        for i, panel in enumerate(shown):
            ax = panel(result, upper.add_subplot(right[i]))
            if panel is link_lines and (legend := ax.get_legend()) is not None:
                legend.remove()  # the same colours as above, and no room
    return page


def _workload(result: Result, page: SubFigure) -> None:
    gantt.gantt(result, page.subplots())


def _where_the_time_went(result: Result, page: SubFigure) -> None:
    panels = (attribution_tables.parts, attribution_tables.culprits, attribution_tables.waits)
    for ax, panel in zip(page.subplots(1, len(panels), width_ratios=(36, 24, 40)), panels, strict=True):
        panel(result, ax)
        if panel is attribution_tables.waits and (legend := ax.get_legend()) is not None:
            legend.remove()  # the colours of the first panel


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write `figure` to a file, in the format that its name ends with. InputError where that is impossible."""
    target = check_writable(path)
    try:
        figure(result).savefig(target)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the plot: {error}", file=os.fspath(path)) from error


def _why(result: Result) -> str:
    """Why a run is not complete, in a few words: "deadlock in cycle 40"."""
    if not result.failure:
        return "interrupted"
    words = result.failure.partition(":")[0]
    return words if len(words) <= LONGEST_WHY else "failed"


def _header(ax: Axes, result: Result) -> None:
    """What was simulated, and its key numbers in one line."""
    time = format_time_ns(Fraction(result.time_cycles) * 10**9 / result.clock_hz)
    parts = [f"{time} ({plural(result.time_cycles, 'cycle')})"]
    if result.ratio is not None and result.complete:
        parts.append(f"{result.ratio:.3f} x the bound")
    if result.traffic is not None:
        told = result.traffic.summary
        if told["packet_latency"] is not None:
            parts.append(f"packet latency {number(told['packet_latency'])} cycles")
        parts.append(f"accepted load {number(told['accepted_load'])} of {number(told['offered_load'])}")
    if rates := result.rates:
        parts.append(f"bus bandwidth {rounded(rates.bus, 'B/s')}")
    parts.append(f"{plural(int(result.counts.get('npus', 0)), 'NPU')}, {plural(len(result.links), 'link')}")
    if len(result.links):
        share = result.link_utilization
        parts.append(f"links busy {percent(float(share.mean()))} on average, {percent(float(share.max()))} at most")
    ax.set_axis_off()
    title = result.title if result.complete else f"{result.title} ({_why(result)})"
    by = f"{result.backend}, pyxsim {result.provenance.get('version', '')}"
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    ax.annotate(title, (0, 1), (0, 0), fontsize=15, weight="bold", **place)
    ax.annotate("   |   ".join(parts), (0, 1), (0, -23), fontsize=10, color=GREY, **place)
    ax.annotate(by, (1, 1), (0, -2), ha="right", color=GREY, **place)
