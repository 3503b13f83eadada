"""The plot of chunks: the chunks in each dimension on one NPU, and their waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import GREY, Clock, axes, colour, nothing, strip, titled
from pyxsim.reports.text.facts import dimension_names, plural
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NUMBERED = 16  # maximum chunks with numbers
MAX_LANES = 14  # maximum lanes with numbers
NARROW = 0.004  # of the width of the plot
LETTER = 0.008  # of the width of the plot, in a number
MAX_LEGEND = 52  # characters in the legend, including its colours
ENTRY = 4
MIN_NAME = 6  # minimum characters of a name


@plot("chunks")
def chunks(result: Result, ax: Axes | None = None, npu: int = 0) -> Axes:
    """Bars: the chunks in each dimension on one NPU; a thin line before a bar is its waiting.

    Colours distinguish collectives if there are several, else chunks.
    """
    ax = axes(ax, 9, 2.5)
    # -1: not before the run was interrupted.
    mine = np.flatnonzero((result.chunks["rank"] == npu) & (result.chunks["start"] >= 0))
    if not len(mine):
        return nothing(ax, f"no chunks on NPU {npu}")
    clock, names = Clock.of(result), dimension_names(result)
    table = {name: column[mine] for name, column in result.chunks.items()}
    table["end"] = np.where(table["end"] < 0, result.time_cycles, table["end"])
    chunk_count = len(np.unique(table["chunk"]))
    shown = np.unique(table["collective"]).tolist()
    several = len(shown) > 1
    table["hue"] = np.unique(table["collective" if several else "chunk"], return_inverse=True)[1]
    tints = _tints(table["hue"])
    drawn = [rows for _, rows in by_dimension(table)]
    numbered = sum(int(rows["lane"].max()) + 1 for rows in drawn) <= MAX_LANES
    top, ticks, waits = 0.0, [], False
    for rows in drawn:
        dim, height = int(rows["dimension"][0]), int(rows["lane"].max()) + 1
        waits |= _bars(ax, clock, rows, tints, top)
        if numbered:
            _numbers(ax, clock, rows, tints, top, beside=chunk_count <= MAX_NUMBERED)
        # Colours are those of kinds of links if these are not dimensions.
        strip(ax, top, top + height, GREY if result.link_kinds else colour(dim))
        ticks.append((top + height / 2, f"dim {names.get(dim, dim)}" if dim >= 0 else "all dims"))
        top += height + 0.25
    ax.set_yticks(*zip(*ticks, strict=True))
    ax.tick_params(axis="y", length=0, pad=9, labelsize=8)
    ax.set(xlim=(0, clock.end), ylim=(max(1.5, top - 0.25), 0), xlabel=clock.label)
    named = _named(result, shown) if several else []
    shades = ""
    if several and not named:
        shades = f" ({plural(len(shown), 'collective')}, dark to light)"
    elif not several and chunk_count > MAX_NUMBERED:
        shades = f" ({plural(chunk_count, 'chunk')}, dark to light)"
    titled(ax, f"NPU {npu}: chunks by dimension{shades}")
    ax.spines["left"].set_visible(False)
    _legend(ax, named, tints, waits)
    return ax


def _tints(hues: IntArray) -> Any:
    """The colours of the numbers 0, 1, ..."""
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.15, 0.9, max(2, int(hues.max()) + 1)))


def by_dimension(table: dict[str, IntArray]) -> Iterator[tuple[int, dict[str, IntArray]]]:
    """Yield each dimension with its rows in order of start, with a `lane` column."""
    for dim in np.unique(table["dimension"]).tolist():
        rows = {name: column[table["dimension"] == dim] for name, column in table.items()}
        order = np.lexsort((rows["end"], rows["start"]))
        rows = {name: column[order] for name, column in rows.items()}
        yield dim, {**rows, "lane": _lanes(rows["start"], rows["end"])}


def _lanes(start: IntArray, end: IntArray) -> IntArray:
    """The lowest lane in which each interval, in order of start, does not overlap an earlier one."""
    free: list[int] = []
    lanes = []
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((i for i, time in enumerate(free) if time <= begin), len(free))
        free[lane : lane + 1] = [stop]
        lanes.append(lane)
    return np.array(lanes)


def _bars(ax: Axes, clock: Clock, rows: dict[str, IntArray], tints: Any, top: float) -> bool:
    """Draw bars and waiting lines; return whether a waiting line is visible."""
    seen = False
    ready, start, end = (clock.at(rows[name]) for name in ("ready", "start", "end"))
    tint = tints[rows["hue"]]
    # A white edge would hide a bar that is hardly wider than it.
    edges = np.where((end - start > NARROW * clock.end)[:, np.newaxis], 1.0, tint)
    for lane in np.unique(rows["lane"]).tolist():
        of_lane = rows["lane"] == lane
        ax.broken_barh(
            np.stack([start[of_lane], end[of_lane] - start[of_lane]], axis=1).tolist(),
            (top + lane + 0.07, 0.86),
            facecolors=tint[of_lane],
            edgecolors=edges[of_lane],
            lw=0.4,
        )
        free = start[of_lane] > [0, *end[of_lane][:-1]]
        last_free = np.maximum.accumulate(np.where(free, start[of_lane], 0))
        seen |= bool((last_free - ready[of_lane] > NARROW * clock.end).any())
    ax.hlines(top + rows["lane"] + 0.5, ready, start, colors=tint, lw=0.8, alpha=0.7, zorder=0)
    return seen


def _numbers(ax: Axes, clock: Clock, rows: dict[str, IntArray], tints: Any, top: float, *, beside: bool) -> None:
    """Write the chunk numbers on the bars, or `beside` narrow ones if the lane is free there."""
    place: dict[str, Any] = {"va": "center", "fontsize": 7}
    start, end = (clock.at(rows[name]) for name in ("start", "end"))
    for i, (chunk, lane) in enumerate(zip(rows["chunk"].tolist(), rows["lane"].tolist(), strict=True)):
        text, height = str(chunk), top + lane + 0.5
        width = (LETTER * len(text) + NARROW) * clock.end
        later = start[i + 1 :][rows["lane"][i + 1 :] == lane]
        if end[i] - start[i] > width:
            tint = tints[rows["hue"][i]]
            ink = "black" if tint[1] > 0.6 else "white"  # viridis is light where it is green
            ax.annotate(text, ((start[i] + end[i]) / 2, height), ha="center", color=ink, **place)
        elif beside and min([clock.end, *later]) - end[i] > width:
            box = {"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none"}
            ax.annotate(text, (end[i], height), (2, 0), textcoords="offset points", ha="left", bbox=box, **place)


def _named(result: Result, numbers: list[int]) -> list[str]:
    """The names of collectives in the legend; empty if there is no space for distinct names."""
    rows = [result.collectives[number] for number in numbers]
    names = [str(row.get("name") or row.get("kind") or "collective") for row in rows]
    names = [
        name if names.count(name) == 1 else f"{name} {number}" for name, number in zip(names, numbers, strict=True)
    ]
    most = MAX_LEGEND // len(names) - ENTRY
    if sum(len(name) + ENTRY for name in names) > MAX_LEGEND:
        names = [name if len(name) <= most else f"{name[: max(0, most - 3)]}..." for name in names]
    return names if most >= MIN_NAME and len(set(names)) == len(names) else []


def _legend(ax: Axes, names: list[str], tints: Any, waits: bool) -> None:
    """Place the legend above the axes, next to the title."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=tint, label=name) for name, tint in zip(names, tints, strict=False)]
    if waits:
        handles.append(Line2D([], [], color=GREY, lw=0.8, label="waits"))
    if handles:
        look: dict[str, Any] = {"frameon": False, "fontsize": 8, "borderaxespad": 0.2, "columnspacing": 1.2}
        ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=99, handlelength=1, **look)
