"""Style of the plots: colours, fonts, scales and the time axis."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.results.hdf5 import check_writable, put_file
from pyxsim.results.result import STALLS, Result
from pyxsim.units import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which are safe for the colour-blind; without yellow, which is too light for lines.
DIMENSION_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
# Paul Tol's muted scheme; grey for the harmless cause: the link is busy.
STALL_COLOURS = dict(zip(STALLS, ("#882255", "#CC6677", "#DDCC77", "#BBBBBB"), strict=True))
# Equal causes have equal colours; parts that are not waiting in the network are pale.
PART_COLOURS = {
    "source": "#B3CDE3",
    "serialisation": "#E3E3E3",
    "hops": "#C9C9C9",
    "vc": STALL_COLOURS["stall_vc"],
    "credit": STALL_COLOURS["stall_credit"],
    "link": "#44AA99",
    "arbitration": STALL_COLOURS["stall_arbitration"],
    "queue": "#332288",
    "fault": "#AA4499",
}
ETHERNET_COLOURS = {
    "pause": "#117733",
    "window": "#999933",
    "rate": "#AA7744",
    "resent": "#EE8866",
    "queues": "#6699CC",
    "held": "#999933",
}
"""Waiting on Ethernet (docs/compare.md)."""
GREY = "#666666"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def need_matplotlib() -> None:
    """Raise InputError unless matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("plots require matplotlib: pip install pyxsim[report]") from error


def save_figure(path: str | os.PathLike[str], draw: Callable[[], Figure]) -> None:
    """Draw a figure and write it to a file. Raises InputError if that is impossible."""
    check_writable(path)
    need_matplotlib()
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = draw()
    write_figure(figure, path)


def write_figure(figure: Figure, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a figure to a file; its suffix is the format. Raises InputError if that is impossible."""
    image = io.BytesIO()
    try:
        figure.savefig(image, format=Path(path).suffix.removeprefix(".") or None, **options)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the plot: {error}", file=os.fspath(path)) from error
    put_file(path, image.getbuffer())


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or new ones in a figure of the given size in inches."""
    need_matplotlib()
    import matplotlib.pyplot as plt

    if ax is not None:
        return ax
    with plt.rc_context(STYLE):
        made = plt.subplots(figsize=(width, height), layout="constrained")[1]
        # The first figure of a notebook loads its backend, which turns this on; the end of the context turns it off
        # again, and no later figure would be shown.
        interactive = plt.isinteractive()
    if interactive:
        plt.ion()
    return made


def colour(dim: int) -> str:
    """Return the colour of a dimension."""
    return DIMENSION_COLOURS[dim % len(DIMENSION_COLOURS)]


def heat() -> str:
    """Return the name of the colour map for shares: from nearly white to nearly black, safe for the colour-blind."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    name = "pyxsim_heat"
    if name not in colormaps:
        # magma without its strong yellow, which is too bright for idle links.
        stops = ["#F5F5F4", *colormaps["magma_r"](np.linspace(0.1, 0.95, 12))]
        colormaps.register(LinearSegmentedColormap.from_list(name, stops))
    return name


def nice_top(share: float) -> float:
    """Return the end of a scale for shares up to `share`; above 50 % it is 100 %."""
    steps = (digit * 10.0**power for power in range(-5, 0) for digit in (1, 2, 5))
    return next((top for top in steps if share <= top), max(1.0, share))


def percent_axis(axis: Axis, ticks: int = 5) -> None:
    """Label an axis of shares in percent, with at most `ticks` ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))


@dataclass(frozen=True)
class Clock:
    """Converts cycles of a result to the unit of time in which the run takes 1 to 1000."""

    per_cycle: float
    unit: str
    end: float

    @classmethod
    def of(cls, result: Result) -> Clock:
        """Return the time axis of a result, in the unit that suits its length."""
        total = float(result.time_ns)
        unit, size = time_unit(total)
        per_cycle = float(Fraction(10**9) / result.clock_hz) / size
        return cls(per_cycle, unit, max(total / size, per_cycle))

    def at(self, cycles: IntArray | int) -> Any:
        """Return positions on the time axis."""
        return np.asarray(cycles) * self.per_cycle

    @property
    def label(self) -> str:
        """The label of the axis."""
        return f"simulated time ({self.unit})"


def thinned(values: FloatArray, most: int) -> tuple[FloatArray, IntArray]:
    """Average neighboring rows of values[T, n] to at most `most`; return them and the start of each."""
    starts = np.arange(0, len(values), max(1, -(-len(values) // most)))
    counts = np.diff([*starts.tolist(), len(values)])
    return np.add.reduceat(values, starts, axis=0) / counts[:, np.newaxis], starts


def strip(ax: Axes, start: float, end: float, tint: str) -> None:
    """Draw a coloured strip to the left of the axes, from `start` to `end` on the y axis, that marks a dimension."""
    from matplotlib.patches import Rectangle

    patch = Rectangle(
        (-0.012, start), 0.007, end - start, transform=ax.get_yaxis_transform(), color=tint, lw=0, clip_on=False
    )
    ax.add_patch(patch)


def titled(ax: Axes, text: str) -> None:
    """Set the title, left-aligned."""
    ax.set_title(text, loc="left", fontsize=9.5, fontweight="bold")


def nothing(ax: Axes, why: str) -> Axes:
    """Leave the axes empty but for a reason."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=GREY)
    ax.set_axis_off()
    return ax
