"""The panel of a value of some links over time, one line per link."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut
from pyxsim.reports.html.plotly_style import NAME, figure, plain
from pyxsim.reports.plots.style import Clock, thinned
from pyxsim.results.result import Result

MOST_LINES, MOST_POINTS = 6, 500


def link_lines(
    result: Result,
    detail: Detail,
    table: str,
    column: str,
    links: list[int],
    title: str,
    text: str,
    axis: dict[str, Any],
) -> Panel:
    """Return the panel of a column of a backend's table of windows and links; `axis` describes the y axis.

    The panel has the first `MOST_LINES` of the links.
    """
    windows, clock = result.backend_tables[table].columns, Clock.of(result)
    shown = links[:MOST_LINES]
    values, starts = thinned(windows[column][:, shown].astype(np.float64), detail.most(MOST_POINTS))
    times = clock.at(windows["time"][starts]).tolist()
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "name": plain(cut(result.links.name[link], NAME)), "x": times, "y": line}
        for link, line in zip(shown, values.T.tolist(), strict=True)
    ]
    layout = {"xaxis": {"title": {"text": clock.label}}, "yaxis": {"rangemode": "tozero", **axis}}
    return Panel(title, text, figure(traces, layout), height=260)
