"""Panels of several jobs: their times and slowdowns, and who disturbed whom."""

from __future__ import annotations

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import figure, plain, unlike
from pyxsim.reports.text.facts import percent
from pyxsim.reports.text.job_tables import jobs_sheet
from pyxsim.results.interference import interference
from pyxsim.results.result import Result

MOST_NAMED = 16  # jobs whose share is written in the cell


@html_panel("jobs", section="workload", applies=lambda result: bool(result.jobs))
def jobs(result: Result, detail: Detail) -> list[Panel]:
    """The times of the jobs, and the matrix of their interference."""
    about = "Arrival, first task, last task, and the time from arrival to end of each job."
    if any(row["alone"] >= 0 for row in result.jobs):
        about += " The slowdown is this time over the time alone on the same NPUs."
    panels = [Panel("Jobs", about, sheet=jobs_sheet(result))]
    found = interference(result.attribution, len(result.jobs))
    if found is None or not found.cycles.any():
        return panels
    cycles = found.cycles
    shares = cycles / np.maximum(1, cycles.sum(axis=1, keepdims=True))
    named = len(found.victims) <= MOST_NAMED
    heat = {
        "type": "heatmap",
        "x": unlike([plain(cut(name, 20)) for name in found.culprits]),
        "y": unlike([plain(cut(name, 24)) for name in found.victims]),
        "z": shares,
        "customdata": cycles,
        "text": [[percent(share) if share and named else "" for share in row] for row in shares.tolist()],
        "texttemplate": "%{text}",
        "coloraxis": "coloraxis",
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": "%{y} waited %{customdata:,} cycles for %{x}: %{z:.1%}<extra></extra>",
    }
    sketch = {
        "coloraxis": {"cmin": 0, "cmax": 1, "showscale": False},
        "xaxis": {"title": {"text": "waited for"}, "showgrid": False, "type": "category"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "margin": {"t": 10},
    }
    text = "The share of each culprit in the cycles that the packets of a job waited in the network."
    height = 110 + 32 * max(3, len(found.victims))
    return [*panels, Panel("Who disturbed whom", text, figure([heat], sketch), height)]
