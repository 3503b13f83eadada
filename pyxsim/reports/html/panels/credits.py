"""Panels of credits as messages: the bandwidth that they take over time, and counts of links (docs/credits.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import NAME, figure, plain
from pyxsim.reports.plots.style import Clock, thinned
from pyxsim.reports.text.credit_facts import busiest_links
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

MOST_LINES, MOST_ROWS, MOST_POINTS = 6, 20, 500
_HEAD = ["link", "share of credits", "messages", "riding on flits", "credits", "per message", "lost", "restored"]


@html_panel("credits", section="links", applies=lambda result: "link_credits" in result.backend_tables)
def credits(result: Result, detail: Detail) -> list[Panel]:
    """The share of messages with credits over time on the links where it is highest, and the numbers."""
    links = busiest_links(result, MOST_ROWS)
    if not links:
        return []
    columns = result.backend_tables["link_credits"].columns
    windows = result.backend_tables["link_credit_windows"].columns
    clock, names = Clock.of(result), result.links.name
    shown = links[:MOST_LINES]
    values, starts = thinned(windows["share"][:, shown].astype(np.float64), detail.most(MOST_POINTS))
    times = clock.at(windows["time"][starts]).tolist()
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "name": plain(cut(names[link], NAME)), "x": times, "y": line.tolist()}
        for link, line in zip(shown, values.T, strict=True)
    ]
    layout = {
        "xaxis": {"title": {"text": clock.label}},
        "yaxis": {"title": {"text": "share of the link"}, "rangemode": "tozero", "tickformat": ".1%"},
    }
    text = "Share of the time of a link that messages with credits of the opposite direction take."
    panels = [Panel("Bandwidth of credits", text, figure(traces, layout), height=260)]
    rows = [
        [
            names[link],
            f"{100 * columns['share'][link]:.2f} %",
            *(f"{int(columns[name][link]):,}" for name in ("messages", "riding", "returned")),
            f"{columns['credits_per_message'][link]:.2f}",
            *(f"{int(columns[name][link]):,}" for name in ("lost", "restored")),
        ]
        for link in links
    ]
    text = "Over the whole run; messages, credits and losses are those of the link, which return on the opposite one."
    panels.append(Panel("Credits of links in numbers", text, sheet=Sheet(_HEAD, rows, ["link"])))
    return panels
