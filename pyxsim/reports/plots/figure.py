"""`result.plot`, and the figure of a run that `pyxsim run --plot` writes.

matplotlib is an extra and slow to import; only the functions that draw import it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.reports.plots.attribution_plots import culprits, parts, waits
from pyxsim.reports.plots.chunk_bars import chunks
from pyxsim.reports.plots.flow_plots import FLOW_PLOTS
from pyxsim.reports.plots.gantt import gantt, gantt_height
from pyxsim.reports.plots.link_plots import dimension_lines, link_lines, stalls, utilization
from pyxsim.reports.plots.network_plot import network, topology_of
from pyxsim.reports.plots.plot_registry import figure_rows, plots
from pyxsim.reports.plots.style import GREY, STYLE, need_matplotlib, save_figure
from pyxsim.reports.plots.traffic_plots import course, latencies
from pyxsim.reports.text.facts import percent, plural, rounded
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["FLOW_PLOTS", "Plots", "figure", "save"]  # FLOW_PLOTS: rows of the figure, by their registration
LONGEST_REASON = 60  # characters in the title


class Plots:
    """The plots of one result as methods: `result.plot.utilization()`; `dir(result.plot)` lists them.

    Each takes matplotlib Axes or creates them, and returns them.
    """

    def __init__(self, result: Result) -> None:
        self.result = result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in plots:
            raise AttributeError(f"unknown plot '{name}'; the plots are {', '.join([*plots, 'figure'])}")
        function = plots.get(name)
        return update_wrapper(partial(function, self.result), function)

    def __dir__(self) -> list[str]:
        return [*plots, "figure", "result"]

    def figure(self) -> Figure:
        """Draw the figure that `--plot` writes: all plots of a run on one page."""
        return figure(self.result)


def figure(result: Result) -> Figure:
    """Draw a run on one page.

    The page shows the key figures, links, dimensions and chunks over time, the network, the balance of the links and
    the stalls; latencies of open traffic, the NPUs of a workload, attribution and registered rows where they apply.
    """
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context(STYLE):
        rows: list[tuple[float, Callable[[Result, SubFigure], None]]] = []  # (inches, function) below the main part
        if result.work is not None:
            rows.append((gantt_height(result), partial(_single, gantt)))
        if result.attribution is not None:
            rows.append((2.8, _attribution))
        rows += [(inches, partial(_single, function)) for inches, function in figure_rows(result)]
        inches = [9.0, *(height for height, _ in rows)]
        page = Figure(figsize=(15, sum(inches)), dpi=120, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        upper: Figure | SubFigure = page
        if rows:
            subfigures: Any = page.subfigures(len(inches), 1, height_ratios=inches)
            upper = subfigures[0]
            for (_, draw), subfigure in zip(rows, subfigures[1:], strict=True):
                draw(result, subfigure)
        dims = len(np.unique(result.chunks["dimension"]))
        measured = result.traffic is not None
        heights = [0.42, 1.2, 3.4] + ([min(1.7, 0.6 + 0.4 * dims)] if dims else []) + [1.5] * measured
        # Plots over time span two columns, so that the pair of plots below them aligns with their edges.
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

        panels: list[tuple[float, bool, Callable[..., Any]]] = [
            (3.2, topology_of(result) is not None, network),
            (1, result.has_link_counters, link_lines),
            (1, bool(result.stall_causes), stalls),
        ]
        if not any(applies for _, applies, _ in panels):
            panels = [(1, True, link_lines)]  # says that nothing was measured
        ratios = [ratio for ratio, applies, _ in panels if applies]
        shown = [function for _, applies, function in panels if applies]
        right = grid[1:, 2].subgridspec(len(shown), 1, height_ratios=ratios)
        for i, function in enumerate(shown):
            ax = function(result, upper.add_subplot(right[i]))
            if function is link_lines and (legend := ax.get_legend()) is not None:
                legend.remove()  # the same colours as above, and no space
    return page


def _single(function: Callable[..., Any], result: Result, page: SubFigure) -> None:
    function(result, page.subplots())


def _attribution(result: Result, page: SubFigure) -> None:
    functions = (parts, culprits, waits)
    for ax, function in zip(page.subplots(1, len(functions), width_ratios=(36, 24, 40)), functions, strict=True):
        function(result, ax)
        if function is waits and (legend := ax.get_legend()) is not None:
            legend.remove()  # the colours of the first plot


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the figure of a run to a file; its suffix is the format. Raises InputError if that is impossible."""
    save_figure(path, lambda: figure(result))


def _reason(result: Result) -> str:
    """Why a run is incomplete, in a few words: "deadlock in cycle 40"."""
    if not result.failure:
        return "interrupted"
    reason = result.failure.partition(":")[0]
    return reason if len(reason) <= LONGEST_REASON else "failed"


def _header(ax: Axes, result: Result) -> None:
    """The title and the key figures of the run."""
    time = format_time_ns(Fraction(result.time_cycles) * 10**9 / result.clock_hz)
    figures = [f"{time} ({plural(result.time_cycles, 'cycle')})"]
    if result.ratio is not None and result.complete:
        figures.append(f"{result.ratio:.3f} x the lower bound")
    if result.traffic is not None:
        summary = result.traffic.summary
        if summary["packet_latency"] is not None:
            of = "background" if result.is_background else "packet"
            figures.append(f"{of} latency {number(summary['packet_latency'])} cycles")
        figures.append(f"accepted load {number(summary['accepted_load'])} of {number(summary['offered_load'])}")
    if (rates := result.rates) and not result.is_background:
        figures.append(f"bus bandwidth {rounded(rates.bus, 'B/s')}")
    if not result.is_background:  # one line
        figures.append(f"{plural(int(result.counts.get('npus', 0)), 'NPU')}, {plural(len(result.links), 'link')}")
    if result.has_link_counters:
        share = result.link_utilization
        figures.append(f"links busy {percent(float(share.mean()))} on average, {percent(float(share.max()))} at most")
    ax.set_axis_off()
    title = result.title if result.complete else f"{result.title} ({_reason(result)})"
    by = f"{result.backend}, pyxsim {result.provenance.get('version', '')}"
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    texts = [
        ax.annotate(title, (0, 1), (0, 0), fontsize=15, weight="bold", **place),
        ax.annotate("   |   ".join(figures), (0, 1), (0, -23), fontsize=10, color=GREY, **place),
        ax.annotate(by, (1, 1), (0, -2), ha="right", color=GREY, **place),
    ]
    for text in texts:
        text.set_in_layout(False)  # a long line must not narrow the plots
