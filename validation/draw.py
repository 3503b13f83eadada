"""Plots of validation cases with matplotlib."""

from __future__ import annotations

from pathlib import Path

from pyxsim.reports.plots.style import DIMENSION_COLOURS, GREY, STYLE, need_matplotlib
from validation.case import Outcome, Picture


def draw(picture: Picture, outcome: Outcome, path: Path) -> None:
    """Write a picture: .svg, .png or .pdf."""
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**STYLE, "svg.hashsalt": outcome.name}):
        figure = Figure(figsize=(5.2, 3.4), layout="constrained")
        ax = figure.subplots()
        tints = iter(DIMENSION_COLOURS * 9)
        for series in picture.series:
            limit = series.style == "limit"
            colour = GREY if limit else next(tints)
            line = "" if series.style == "points" else "--" if limit else "-"
            ax.plot(
                series.x,
                series.y,
                line,
                color=colour,
                label=series.label,
                marker="" if limit else "o",
                markersize=3,
                linewidth=1,
            )
            if series.low is not None and series.high is not None:
                ax.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
        ax.set_xlabel(picture.x)
        ax.set_ylabel(picture.y)
        if picture.log:
            ax.set_yscale("log")
        if picture.most is not None:
            ax.set_ylim(top=picture.most)
        ax.set_title(f"{outcome.name}\n{_verdict(outcome)}", fontsize=8, loc="left")
        if len(picture.series) > 1:
            ax.legend()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _verdict(outcome: Outcome) -> str:
    return f"{number(outcome.measured)} {outcome.unit} of {number(outcome.bound)} allowed: {outcome.verdict}"


def number(value: float) -> str:
    """Format a number for readers."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"
