"""The plot of a sweep: a number over a swept key, one line per value of another key."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.reports.plots.load_latency import HEADROOM
from pyxsim.reports.plots.style import GREY, axes, colour, nothing, save_figure, titled
from pyxsim.results.sweep import VARIANT, Point, Sweep
from pyxsim.results.traffic import TRAFFIC_KEYS, unit_of
from pyxsim.units import in_one_unit, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = 7  # lines with distinct colours; more use a colour map
INSIDE = 5  # lines whose legend fits into the axes
TICKS = 12  # values that are all labelled at an axis
WIDE = 10  # times the lowest number: range from which y is logarithmic, with a geometric x
BARS = 0.8  # of the distance between two values: the bars of a value
MARKS = "osD^vPX"
MOST_MARKS = 25  # places on a line that are marked
LARGEST_POWER = 1e-4  # that is labelled as a power of ten
_OF_A_FAULT = re.compile(r"faults\[\d+\]\.(bit_error_rate)")
_LABELS = {
    "traffic.load": "offered load (flits per node and cycle)",
    "offered_load": "offered load (flits per node and cycle)",
    "accepted_load": "accepted load (flits per node and cycle)",
    "network.router.buffer": "buffer (flits per VC)",
    "network.router.vcs": "virtual channels",
    "output.seed": "seed",
    "time_ns": "simulated time (ns)",
    "lower_bound_ns": "lower bound of the time (ns)",
    "compute_ns": "computation (ns)",
    "memory_ns": "accesses to remote memory (ns)",
    "communication_ns": "communication (ns)",
    "exposed_ns": "exposed communication (ns)",
    "cycles": "simulated time (cycles)",
    "packet_latency_p99": "99th percentile of the packet latency (cycles)",
}


def number_over(sweep: Sweep, x: str, y: str, hue: str | None = None, ax: Axes | None = None) -> Axes:
    """Lines: `y` over `x`, one per value of `hue`; bars where the values of `x` have no order.

    Where points also differ in other keys, the line or bar is their mean, and the shade or whisker their range.
    Latencies of saturated networks are omitted, because they depend on the simulated time.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    x, y = _axis(sweep, x), sweep.name_of(y)
    hue = None if hue is None else _axis(sweep, hue)
    ax = axes(ax, 6.5, 4)
    from matplotlib.ticker import LogLocator

    points = [
        point for point in sweep.points if y in point.values and x in point.changed and point.values[y] is not None
    ]
    shown = [point for point in points if not ("latency" in y and point.values.get("saturated"))]
    if not shown:
        return nothing(ax, f"no point has a {label_of(y)}" if not points else "every point is saturated")
    scale = Scale.of([value for value in sweep.axes[x] if any(point.changed[x] == value for point in shown)])
    values = [None] if hue is None else [v for v in sweep.axes[hue] if any(p.changed.get(hue) == v for p in shown)]
    for number, value in enumerate(values):
        mine = [point for point in shown if hue is None or point.changed.get(hue) == value]
        name, look = "" if hue is None else text_of(value), _look(number, len(values))
        if scale.categorical:
            _bars(ax, scale, mine, x, y, look["color"], name, (number, len(values)))
        else:
            _line(ax, scale, mine, x, y, look, name)
    scale.put(ax)
    ax.set(xlabel=label_of(x), ylabel=label_of(y))
    ends = [float(point.values[y]) for point in shown]
    if scale.geometric and min(ends) > 0 and max(ends) > WIDE * min(ends):
        ax.set_yscale("log")
        if label_of(y).endswith("(ns)"):
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            _time_axis(ax, label_of(y), max(ends))
    elif min(ends) >= 0:
        ax.set_ylim(bottom=0)
        if label_of(y).endswith("(ns)"):
            _time_axis(ax, label_of(y), max(ends))
        if "latency" in y and max(ends) > HEADROOM * min(ends):  # latencies beyond are saturated
            ax.set_ylim(top=HEADROOM * min(ends))
    if hue is not None:
        _legend(ax, label_of(hue), len(values))
    _notes(ax, sweep, shown, [x, *([hue] if hue else [])], len(points) - len(shown))
    titled(ax, sweep.title)
    return ax


def _time_axis(ax: Axes, label: str, longest_ns: float) -> None:
    """Label times in the unit of the longest one instead of ns; the drawn numbers stay ns."""
    unit, size = time_unit(longest_ns)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value / size:g}")
    ax.set_ylabel(label.replace("(ns)", f"({unit})"))


def _axis(sweep: Sweep, name: str) -> str:
    path = sweep.name_of(name)
    if path not in sweep.axes:
        raise InputError(f"'{name}' is not a swept key", key="plot", allowed=short_names(sweep.axes), given=name)
    return path


def short_names(paths: Iterable[str]) -> list[str]:
    """Return the last part of each key path where it is unique: "load"."""
    ends = [path.rpartition(".")[2] for path in paths]
    return [end if ends.count(end) == 1 else path for path, end in zip(paths, ends, strict=True)]


def _look(number: int, count: int) -> dict[str, Any]:
    if count <= COLOURS:
        return {"color": colour(number), "marker": MARKS[number % len(MARKS)]}
    from matplotlib import colormaps

    return {"color": colormaps["viridis"](0.9 * number / (count - 1)), "marker": MARKS[number % len(MARKS)]}


def _line(ax: Axes, scale: Scale, points: Sequence[Point], x: str, y: str, look: dict[str, Any], name: str) -> None:
    """Draw the mean and the range at each x."""
    places: dict[float, list[float]] = {}
    for point in points:
        places.setdefault(scale.at(point.changed[x]), []).append(float(point.values[y]))
    at = sorted(places)
    look = look if len(at) <= MOST_MARKS else {**look, "marker": ""}
    ax.plot(at, [float(np.mean(places[position])) for position in at], lw=1.6, ms=4, label=name, **look)
    if any(len(values) > 1 for values in places.values()):
        low, high = [min(places[position]) for position in at], [max(places[position]) for position in at]
        ax.fill_between(at, low, high, color=look["color"], alpha=0.15, lw=0)


def _bars(
    ax: Axes, scale: Scale, points: Sequence[Point], x: str, y: str, tint: Any, name: str, group: tuple[int, int]
) -> None:
    """Draw the mean and the range at each x as bars; `group`: number of this bar and count of bars at each x."""
    places: dict[float, list[float]] = {}
    for point in points:
        places.setdefault(scale.at(point.changed[x]), []).append(float(point.values[y]))
    number, count = group
    width = BARS / count
    at = [place + (number - (count - 1) / 2) * width for place in places]
    means = [float(np.mean(values)) for values in places.values()]
    ax.bar(at, means, 0.92 * width, color=tint, label=name)
    if any(len(values) > 1 for values in places.values()):
        below = [mean - min(values) for mean, values in zip(means, places.values(), strict=True)]
        above = [max(values) - mean for mean, values in zip(means, places.values(), strict=True)]
        ax.errorbar(at, means, yerr=[below, above], fmt="none", ecolor=GREY, lw=1, capsize=2)


def _legend(ax: Axes, title: str, count: int) -> None:
    outside: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
    ax.legend(title=title, title_fontsize=8, ncols=-(-count // 20), **(outside if count > INSIDE else {}))


def _notes(ax: Axes, sweep: Sweep, shown: Sequence[Point], drawn: Sequence[str], saturated: int) -> None:
    """Note the keys that a mean covers, and what is omitted."""
    more = [label_of(name) for name in sweep.axes if name not in drawn and _differs(name, shown, drawn)]
    notes = [f"mean and range over {' and '.join(more)}"] if more else []
    notes += [f"saturated: {saturated} point{'s' if saturated > 1 else ''} left out"] if saturated else []
    failed = sweep.counts["failed"]
    notes += [f"{failed} failed"] if failed else []
    if notes:
        ax.annotate(
            "; ".join(notes), (1, 0), (0, -34), "axes fraction", "offset points", ha="right", fontsize=7, color=GREY
        )


def _differs(name: str, points: Sequence[Point], drawn: Sequence[str]) -> bool:
    """Whether points with the same values of the drawn keys have several values of another key."""
    first: dict[str, Any] = {}
    places = [(repr([point.changed.get(key) for key in drawn]), point.changed.get(name)) for point in points]
    return any(first.setdefault(place, value) != value for place, value in places)


@dataclass(frozen=True)
class Scale:
    """Positions of values on an axis: numbers and quantities by size, others equally spaced."""

    values: list[Any]
    places: list[float]
    geometric: bool
    named: bool
    categorical: bool = False

    @classmethod
    def of(cls, values: Sequence[Any]) -> Scale:
        """Make the scale of the distinct `values`."""
        numbers = _numbers(values)
        if numbers is None:
            return cls(list(values), [float(place) for place in range(len(values))], False, True, True)
        named = any(isinstance(value, str) for value in values)
        return cls(list(values), numbers, _is_geometric(sorted(numbers)), named)

    def at(self, value: Any) -> float:
        """Return the position of one of the values."""
        return self.places[self.values.index(value)]

    def put(self, ax: Axes) -> None:
        """Apply the scale to the x axis."""
        from matplotlib.ticker import NullLocator

        if self.geometric:
            ax.set_xscale("log")
        if len(self.values) > TICKS or not (self.geometric or self.named):
            return
        powers = [power for value in self.values if (power := _power_of_ten(value))]
        texts = powers if len(powers) == len(self.values) else [text_of(value) for value in self.values]
        ax.set_xticks(self.places, texts)
        ax.xaxis.set_minor_locator(NullLocator())
        longest = max(len(text_of(value)) for value in self.values)
        if longest * len(self.values) > 70:
            for label in ax.get_xticklabels():
                label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")


def _power_of_ten(value: Any) -> str | None:
    """A small share as a power of ten, for a label; None if it is none."""
    exponent = round(math.log10(value)) if isinstance(value, float) and 0 < value <= LARGEST_POWER else 0
    return f"$10^{{{exponent}}}$" if exponent and math.isclose(value, 10.0**exponent) else None


def _numbers(values: Sequence[Any]) -> list[float] | None:
    """Values as numbers, quantities in the unit of the first; None for other values."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values]
    if not all(isinstance(value, str) for value in values):
        return None
    try:
        return [float(number) for number in in_one_unit(*values)[1]]
    except InputError:
        return None


def _is_geometric(numbers: Sequence[float]) -> bool:
    """Whether values are spaced more evenly in logarithms."""
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < 6 * numbers[0]:
        return False
    steps = (np.diff(np.log(numbers)), np.diff(numbers))
    spread = [float(np.std(step) / np.mean(step)) for step in steps]
    return spread[0] < min(0.35, 0.5 * spread[1])


def label_of(name: str) -> str:
    """Return the axis label of a column, with its unit."""
    if name in _LABELS:
        return _LABELS[name]
    if name == VARIANT:
        return "variant"
    if fault := _OF_A_FAULT.fullmatch(name):
        return fault[1].replace("_", " ")
    if name not in TRAFFIC_KEYS:
        return name if "." in name else name.replace("_", " ")
    unit = unit_of(name)
    return name.replace("_", " ") + (f" ({unit})" if unit not in ("", "1") else "")


def text_of(value: Any) -> str:
    """Return a value for a legend or axis: 4, 1 MiB, 4x4; of a long path, the name of the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(item, int | str) for item in value):
        return "x".join(map(str, value))
    text = str(value)
    if len(text) > 24 and "/" in text and " " not in text:
        text = PurePath(text).stem
    return text if len(text) <= 24 else f"{text[:21]}..."


def save(sweep: Sweep, path: str | os.PathLike[str], x: str, y: str, hue: str | None = None) -> None:
    """Write the plot to a file. Raises InputError if that is impossible."""

    def draw() -> Figure:
        from matplotlib.figure import Figure

        page = Figure(figsize=(6.5, 4), dpi=150, layout="constrained")
        number_over(sweep, x, y, hue, page.subplots())
        return page

    save_figure(path, draw)


def file_name(names: Iterable[str | None]) -> str:
    """Return the file name for some columns: "packet_latency-over-load-by-vcs.png"."""
    x, y, hue = (
        None
        if name is None
        else "".join(c if c.isalnum() or c in "_-" else "_" for c in name.rpartition(".")[2] or name)
        for name in names
    )
    return f"{y}-over-{x}{'' if hue is None else f'-by-{hue}'}.png"
