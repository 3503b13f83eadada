"""Panel of the energy of a run."""

from __future__ import annotations

from typing import Any

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.plotly_style import figure
from pyxsim.reports.text.energy_facts import amount
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

_HEAD = ["part", "count", "traffic, work", "idle", "energy", "low", "high"]


@html_panel("energy", section="Energy", applies=lambda result: len(result.energy) > 0)
def energy(result: Result, detail: Detail) -> list[Panel]:
    """Bars of the energy by kind of parts, and their numbers."""
    rows = result.energy
    names = [row["part"] for row in rows]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [row["high"] - row["energy"] for row in rows],
        "arrayminus": [row["energy"] - row["low"] for row in rows],
    }
    bars: list[dict[str, Any]] = [
        {"type": "bar", "name": "traffic, work", "x": names, "y": [row["dynamic"] for row in rows]},
        {"type": "bar", "name": "idle", "x": names, "y": [row["idle"] for row in rows], "error_y": error},
    ]
    layout = {"barmode": "stack", "yaxis": {"title": {"text": "J"}, "rangemode": "tozero"}}
    cells = [
        [
            row["part"],
            f"{row['count']:,}",
            *(amount(row[key], "J") for key in ("dynamic", "idle", "energy", "low", "high")),
        ]
        for row in rows
    ]
    text = "Energy of the parts in the run, typical values with low and high ones, without that of the data centre."
    return [
        Panel("Energy", text, figure(bars, layout), height=280),
        Panel("Energy in numbers", "The same, and its bounds.", sheet=Sheet(_HEAD, cells, ["part"])),
    ]
