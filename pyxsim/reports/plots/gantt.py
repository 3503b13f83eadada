"""The plot of a workload: computation, communication and idle time of NPUs, and the critical path."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import DIMENSION_COLOURS, Clock, axes, nothing, titled
from pyxsim.reports.text.facts import plural
from pyxsim.results.result import Result
from pyxsim.results.work import ACTIVITIES, MOST_SHOWN, Columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = dict(zip(ACTIVITIES, (DIMENSION_COLOURS[0], DIMENSION_COLOURS[2], DIMENSION_COLOURS[1]), strict=True))
# Shares of the height of an NPU: communication is below the computation that may hide it.
_PLACES = {"compute": (0.08, 0.5), "communication": (0.6, 0.32)}
_THREE = {"compute": (0.06, 0.32), "memory": (0.4, 0.18), "communication": (0.6, 0.32)}
_PATH = "#000000"
MOST_STEPS = 2000  # longest steps of the critical path; more would not be visible
MOST_LABELS = 32


def gantt_height(result: Result) -> float:
    """Return the height of the plot in the figure of a run, in inches."""
    return 0.8 + 0.16 * max(4, len(shown(result)[0])) if result.work is not None else 0.0


@plot("gantt")
def gantt(result: Result, ax: Axes | None = None) -> Axes:
    """Bars: activities of NPUs over time, a selection of many; a line from bar to bar is the critical path."""
    ax = axes(ax, 12, max(2.5, gantt_height(result)))
    work = result.work
    if work is None or not len(work.timeline["npu"]):
        return nothing(ax, "the result has no task graph")
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    clock = Clock.of(result)
    npus, others = shown(result)
    row = {npu: place for place, npu in enumerate(npus)}
    table = work.timeline
    activities = places(table)
    for npu, place in row.items():
        for name, (top, high) in activities.items():
            which = (table["npu"] == npu) & (table["doing"] == ACTIVITIES.index(name))
            begin, end = clock.at(table["begin"][which]), clock.at(table["end"][which])
            spans = np.stack([begin, end - begin], axis=1).tolist()
            ax.broken_barh(spans, (place + top, high), facecolors=COLOURS[name], lw=0)
    like = work.npus["like"]
    _critical(ax, clock, work.path, like, row, len(npus))
    labelled = list(row.items())[:: -(-len(npus) // MOST_LABELS)]
    alike = np.bincount(like, minlength=len(like)) - 1
    ticks = [
        (place + 0.5, f"NPU {npu}" + (f" and {alike[npu]} like it" if alike[npu] else "")) for npu, place in labelled
    ]
    if others:
        ticks.append((len(npus) + 0.5, "others"))
    ax.set_yticks(*zip(*ticks, strict=True))
    ax.tick_params(axis="y", length=0, labelsize=7)
    ax.set(xlim=(0, clock.end), ylim=(len(npus) + bool(others), 0), xlabel=clock.label)
    count = len(like) if len(npus) == len(np.unique(like)) else int((np.isin(like, npus)).sum())
    subject = f"{count:,} of {plural(len(like), 'NPU')}" if count < len(like) else plural(count, "NPU")
    titled(ax, f"Activity of {subject}" if count > 1 else "Activity of the NPU")
    ax.spines["left"].set_visible(False)
    handles: list[Any] = [Patch(color=COLOURS[name], label=name) for name in activities]
    handles.append(Line2D([], [], color=_PATH, lw=1.2, label="critical path"))
    look: dict[str, Any] = {"frameon": False, "fontsize": 8, "borderaxespad": 0.2, "columnspacing": 1.2}
    ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=9, handlelength=1.2, **look)
    return ax


def places(timeline: Columns) -> dict[str, tuple[float, float]]:
    """Return (top, height) of the bars of each activity within the row of an NPU."""
    activities = [name for number, name in enumerate(ACTIVITIES) if (timeline["doing"] == number).any()]
    layout = _THREE if "memory" in activities else _PLACES
    return {name: layout[name] for name in activities}


def shown(result: Result) -> tuple[list[int], bool]:
    """Return the NPUs of the plot, and whether the critical path visits others."""
    work = result.work
    if work is None:
        return [], False
    like = work.npus["like"]
    kinds = np.unique(like)
    npus = (kinds if len(kinds) <= MOST_SHOWN else np.unique(work.timeline["npu"])).tolist()
    return npus, bool(set(np.unique(like[work.path["npu"]]).tolist()) - set(npus))


def _critical(ax: Axes, clock: Clock, path: Columns, like: IntArray, row: dict[int, int], others: int) -> None:
    """Draw the critical path along the bars of its steps."""
    from matplotlib.collections import LineCollection

    steps = np.argsort(path["begin"] - path["end"], kind="stable")[:MOST_STEPS]
    steps = np.sort(steps[path["end"][steps] > path["begin"][steps]])
    places = [row.get(npu, others) + 0.59 for npu in like[path["npu"][steps]].tolist()]
    begin, end = clock.at(path["begin"][steps]).tolist(), clock.at(path["end"][steps]).tolist()
    along = [[(left, y), (right, y)] for left, right, y in zip(begin, end, places, strict=True)]
    across = [[(left, y), (left, next_y)] for left, (y, next_y) in zip(begin[1:], pairwise(places), strict=True)]
    ax.add_collection(LineCollection(along, colors=_PATH, linewidths=1.8, zorder=4))
    across = [y for y in across if y[0] != y[1]]
    ax.add_collection(LineCollection(across, colors=_PATH, linewidths=0.6, zorder=4))
