"""Panels of faults and retry: errors, flits sent again, and replay buffers over time (docs/faults.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import NAME, figure, plain
from pyxsim.reports.plots.style import Clock, thinned
from pyxsim.reports.text.fault_facts import worst_links
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

MOST_LINES, MOST_ROWS, MOST_POINTS = 6, 20, 500
_HEAD = ["link", "errors", "lost", "sent again", "timeouts", "stalled by the buffer", "buffer: mean", "most"]
_COLUMNS = ("errors", "flits_lost", "resent", "timeouts", "stall_replay")


@html_panel("faults", section="links", applies=lambda result: "link_faults" in result.backend_tables)
def faults(result: Result, detail: Detail) -> list[Panel]:
    """Flits sent again over time at the worst links, their replay buffers, and the numbers."""
    links = worst_links(result, MOST_ROWS)
    if not links:
        return []
    columns = result.backend_tables["link_faults"].columns
    windows = result.backend_tables["link_fault_windows"].columns
    clock, names = Clock.of(result), result.links.name
    shown = links[:MOST_LINES]
    panels = []
    for column, title, unit in (
        ("resent", "Flits sent again", "flits per window"),
        ("replay_mean", "Replay buffers", "flits"),
    ):
        values, starts = thinned(windows[column][:, shown].astype(np.float64), detail.most(MOST_POINTS))
        times = clock.at(windows["time"][starts]).tolist()
        traces: list[dict[str, Any]] = [
            {"type": "scatter", "mode": "lines", "name": plain(cut(names[link], NAME)), "x": times, "y": line.tolist()}
            for link, line in zip(shown, values.T, strict=True)
        ]
        layout = {"xaxis": {"title": {"text": clock.label}}, "yaxis": {"title": {"text": unit}, "rangemode": "tozero"}}
        text = "The links with most errors, losses and flits sent again, over time."
        panels.append(Panel(title, text, figure(traces, layout), height=260))
    rows = [
        [
            names[link],
            *(f"{int(columns[name][link]):,}" for name in _COLUMNS),
            f"{columns['replay_mean'][link]:.2f}",
            f"{int(columns['replay_max'][link]):,}",
        ]
        for link in links
    ]
    panels.append(Panel("Faults of links in numbers", "Over the whole run.", sheet=Sheet(_HEAD, rows, ["link"])))
    return panels
