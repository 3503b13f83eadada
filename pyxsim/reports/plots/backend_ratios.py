"""Plots of a comparison: every point on every backend, and where the backends differ at one point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.analysis.verdict import SPENT
from pyxsim.reports.plots.attribution_plots import parts, waits
from pyxsim.reports.plots.style import (
    ETHERNET_COLOURS,
    GREY,
    PART_COLOURS,
    STYLE,
    axes,
    colour,
    need_matplotlib,
    nothing,
    save_figure,
    titled,
)
from pyxsim.reports.text.comparison_tables import backends_of, phase_means
from pyxsim.results.comparison import FRAMES, GAPS, KNOWN, LINKS, PACKET, PACKETS, Chain, Compared, Comparison
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

MARKS = {PACKET: "o", "analytical": "v", "analytical-congestion": "s", "flow": "D"}
OTHER_MARK = "X"  # of backends from libraries
FAR = 3  # a ratio beyond that needs a logarithmic axis
ROW = 0.24  # inches of a point
MOST_LETTERS = 56
MOST_PHASES = 8
_WAITS = "Where packets waited: mean number of waiting packets"
FEW = 4  # phases whose names fit in two lines


SHIFT = {"analytical": 3.5, "flow": -3.5}  # points upwards, so that marks of equal times stay visible
SPENT_COLOURS = {
    GAPS: "#B0BEC5",
    KNOWN: "#E3E3E3",
    PACKETS: "#C9C9C9",
    FRAMES: "#C9C9C9",
    **PART_COLOURS,
    **ETHERNET_COLOURS,
}


def _tint(backend: str) -> str:
    known = list(MARKS)
    return "black" if backend == PACKET else colour((known.index(backend) if backend in known else len(known)) - 1)


def ratios(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Marks: the time of each point on each backend relative to packets; the shade marks the tolerance.

    The right axis shows the time of a ratio of 1.
    """
    from matplotlib.ticker import LogLocator, NullFormatter
    from matplotlib.transforms import offset_copy

    points = comparison.points
    ax = axes(ax, 7, 1.2 + ROW * len(points))
    whole = [point.cycles(PACKET) or point.lower_bound for point in points]
    if not any(whole):
        return nothing(ax, "no point has a simulated time")
    places = _places(points)
    values: list[float] = [1.0]
    for name in [*backends_of(comparison), LINKS]:
        cycles = [point.lower_bound if name == LINKS else point.cycles(name) for point in points]
        shown = np.array([float(c / w) if c and w else np.nan for c, w in zip(cycles, whole, strict=True)])
        look: dict[str, Any] = {"marker": "|", "color": GREY, "ms": 9, "mew": 2}
        if name != LINKS:
            look = {"marker": MARKS.get(name, OTHER_MARK), "color": _tint(name), "ms": 5, "alpha": 0.9}
        moved = offset_copy(ax.transData, ax.figure, y=SHIFT.get(name, 0), units="points")  # type: ignore[arg-type]
        ax.plot(shown, places, ls="", label=name, transform=moved, **look)
        values += shown[np.isfinite(shown)].tolist()
    packets = PACKET in comparison.backends
    if packets:
        ax.axvspan(1 - comparison.within, 1 + comparison.within, color=GREY, alpha=0.12, lw=0)
    ax.axvline(1, color=GREY, lw=0.8)
    low, high = min(values), max(values)
    if high / low > FAR:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlim(low / 1.3, high * 1.3)
    else:
        ax.set_xlim(0, high * 1.08)
    ax.set_yticks(places, [_short(point.label) for point in points])
    size = 7.5 if len(points) <= 30 else 5.5
    ax.tick_params(axis="y", length=0, labelsize=size)
    for place, point, unit in zip(places, points, whole, strict=True):
        look = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": size, "color": GREY}
        ax.text(1.01, place, format_time_ns(Fraction(point.ns(unit))) if unit else "", **look)
    ax.set_ylim(places[-1] + 0.7, places[0] - 0.7)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="y", color=GREY, alpha=0.15, lw=0.6)
    of = "that of packets" if packets else "the lower bound"
    ax.set_xlabel(f"time, over {of}" + (f" (shade: within {comparison.within:.0%})" if packets else ""))
    titled(ax, "The time on each backend")
    _legend(ax, 5)
    return ax


def _places(points: Sequence[Compared]) -> list[float]:
    """The x position of each point, with a gap between variants."""
    positions, at = [], 0.0
    for before, point in zip([None, *points[:-1]], points, strict=True):
        at += 0.0 if before is None else 1.0 if before.variant == point.variant else 1.6
        positions.append(at)
    return positions


def _short(label: str) -> str:
    return label if len(label) <= MOST_LETTERS else f"{label[: MOST_LETTERS - 1]}\u2026"


def times(point: Compared, ax: Axes | None = None) -> Axes:
    """Bars: the time of one point on each backend, and the bounds of its links."""
    ax = axes(ax, 7, 2.5)
    entries = sorted((entry for entry in point.entries if entry.cycles), key=lambda each: each.backend != PACKET)
    rows = [(entry.backend, float(point.ns(entry.cycles or 0)), _tint(entry.backend)) for entry in entries]
    rows.append((LINKS, point.ns(point.lower_bound), GREY))
    packet = point.cycles(PACKET)
    drawn: set[str] = set()
    for place, (name, time, tint) in enumerate(rows):
        if name in point.chains:
            _stacked(ax, point, place, point.chains[name], drawn)
        else:
            ax.barh(place, time, height=0.6, color=tint, alpha=0.85)
        ratio = f", {time / point.ns(packet):.3f} x" if packet and place else ""
        ax.annotate(
            f"{format_time_ns(Fraction(time))}{ratio}",
            (time, place),
            (4, 0),
            va="center",
            fontsize=8,
            textcoords="offset points",
        )
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, 1.3 * max(time for _, time, _ in rows)))
    _time_axis(ax)
    ax.spines["left"].set_visible(False)
    has_chain = bool(drawn)
    titled(ax, "Time of each backend; for packets, by part" if has_chain else "The time on each backend")
    if has_chain:
        _legend(ax, 2)
    return ax


def _stacked(ax: Axes, point: Compared, place: int, chain: Chain, drawn: set[str]) -> None:
    """The time of packets by part, along the chain of messages that ended last. `drawn`: parts with a label."""
    left = 0.0
    for name, cycles in chain.spent.items():
        if cycles > 0:
            time, label = point.ns(cycles), None if name in drawn else SPENT[name]
            ax.barh(place, time, left=left, height=0.6, color=SPENT_COLOURS[name], label=label)
            drawn.add(name)
            left += time


def phases(point: Compared, ax: Axes | None = None) -> Axes:
    """Bars: the mean time of an NPU per phase and chunk, on each backend."""
    ax = axes(ax, 7, 2.5)
    table = list(phase_means(point))[:MOST_PHASES]
    if not table:
        return nothing(ax, "no phases")
    names = [
        name
        for name in sorted((entry.backend for entry in point.entries), key=lambda name: name != PACKET)
        if point.result(name) is not None
    ]
    height = 0.8 / len(names)
    for i, name in enumerate(names):
        means = np.array([point.ns(Fraction(means.get(name, 0.0))) for _, _, means in table])
        places = np.arange(len(table)) - 0.4 + (i + 0.5) * height
        ax.barh(places, means, height=0.9 * height, color=_tint(name), label=name)
    between = "\n" if len(table) <= FEW else ", "
    ax.set_yticks(range(len(table)), [f"{phase}{between}{dimension}" for phase, dimension, _ in table])
    ax.tick_params(axis="y", length=0, labelsize=7.5)
    ax.set_ylim(len(table) - 0.5, -0.5)
    _time_axis(ax)
    ax.spines["left"].set_visible(False)
    titled(ax, "Time of a chunk in each phase, mean over the participating NPUs")
    _legend(ax, 4)
    return ax


def _time_axis(ax: Axes) -> None:
    """Format nanoseconds in a unit that needs few digits."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda time, _: _round(time))


def _round(time: float) -> str:
    unit, size = time_unit(abs(time))
    return f"{time / size:g} {unit}" if time else "0"


def _legend(ax: Axes, columns: int) -> None:
    """Place the legend below the axes."""
    look: dict[str, Any] = {"frameon": False, "handlelength": 1, "columnspacing": 1.2}
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.55 / max(0.5, _inches(ax))), ncols=columns, **look)


def _inches(ax: Axes) -> float:
    figure = ax.get_figure()
    return ax.get_position().height * float(figure.get_size_inches()[1]) if figure is not None else 1.0  # type: ignore[union-attr]


def figure(comparison: Comparison, label: str | None = None) -> Figure:
    """Draw all points, and for one the times by part, the phases, and where packets waited.

    The single point is the one with the given label, by default that with the largest difference.
    """
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    point = comparison.worst if label is None else comparison.point(label)
    several = len(comparison.points) > 1
    packets = point.result(PACKET) if point is not None else None
    with rc_context(STYLE):
        height = max(8.0, 2.2 + ROW * (len(comparison.points) + 2)) if several else 7.0
        page = Figure(figsize=(15, height), dpi=100, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        page.suptitle(comparison.title or "comparison", x=0.01, ha="left", fontsize=14, fontweight="bold")
        halves = page.add_gridspec(1, 2)
        left, right = halves[0], halves[1]
        if several:
            ratios(comparison, page.add_subplot(left))
        if point is None:
            return page
        if not several:
            _only(point, packets, page, left, right)
            return page
        waited = packets is not None and _waited(packets)
        grid = right.subgridspec(2 + waited, 1, height_ratios=(1.2, 1.1, 1.4)[: 2 + waited])
        upper = times(point, page.add_subplot(grid[0]))
        titled(upper, _short(point.label) + ("" if label else "\n(the largest difference)"))
        phases(point, page.add_subplot(grid[1]))
        if packets is not None and waited:
            titled(waits(packets, page.add_subplot(grid[2])), _WAITS)
    return page


def _only(point: Compared, packets: Result | None, page: Figure, left: SubplotSpec, right: SubplotSpec) -> None:
    """Draw the panels of a comparison with one point; the phases take the half that waits do not need."""
    waited = packets is not None and _waited(packets)
    rows = left.subgridspec(2, 1, height_ratios=(1, 1.3) if waited or packets is None else (2, 1))
    times(point, page.add_subplot(rows[0]))
    if packets is None or not waited:
        phases(point, page.add_subplot(right if packets is not None else rows[1]))
        if packets is not None:
            parts(packets, page.add_subplot(rows[1]))
        return
    phases(point, page.add_subplot(rows[1]))
    grid = right.subgridspec(2, 1, height_ratios=(0.8, 1.5))
    parts(packets, page.add_subplot(grid[0]))
    titled(waits(packets, page.add_subplot(grid[1])), _WAITS)


def _waited(packets: Result) -> bool:
    """Whether the attribution has packets that waited in the network, so that their panel is not empty."""
    return packets.attribution is None or bool(len(packets.attribution.waits["cycles"]))


def save(comparison: Comparison, path: str | os.PathLike[str], label: str | None = None) -> None:
    """Write the figure to a file. Raises InputError if that is impossible."""
    save_figure(path, lambda: figure(comparison, label))
