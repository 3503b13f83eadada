"""The registry of plots: `@plot(name)` adds a method to `result.plot`, and optionally a row to the figure of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyxsim.library import used
from pyxsim.registry import Registry
from pyxsim.results.result import Result

plots: Registry[Callable[..., Any]] = Registry("plot")


def plot(
    name: str,
    *,
    height: float | Callable[[Result], float] | None = None,
    applies: Callable[[Result], bool] = lambda result: True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a plot of a result.

    The decorated function takes (result, ax=None, ...), draws on the matplotlib Axes `ax` or on new ones
    (`pyxsim.reports.plots.style.axes`), and returns them.

    Parameters
    ----------
    name
        Name of the method: `result.plot.NAME()`.
    height
        Height in inches of a row of the figure that `--plot` writes, or a function of the result; None for no row.
    applies
        Whether a result has data for the row.
    """
    if not name.isidentifier():
        raise ValueError(f"the name of a plot must be a Python identifier: {name!r}")
    return lambda function: plots.register(name, module=function.__module__, height=height, applies=applies)(function)


def figure_rows(result: Result) -> list[tuple[float, Callable[..., Any]]]:
    """Return (inches, function) of each registered row of the figure that applies to a result."""
    rows = []
    for entry in filter(used, plots.entries):
        height = entry.info["height"]
        if height is not None and entry.info["applies"](result):
            rows.append((float(height(result) if callable(height) else height), entry.value))
    return rows
