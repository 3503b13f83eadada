"""The panel of the routing tables, which follow the links that are up (docs/faults.md)."""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.text.fault_facts import epoch_rows
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

MOST_ROWS = 50
_HEAD = [
    "changed, cycle",
    "used from",
    "links down",
    "routes",
    "transition",
    "rerouted",
    "lost",
    "pairs without a route",
]


@html_panel("reroutes", section="links", applies=lambda result: "route_epochs" in result.backend_tables)
def reroutes(result: Result, detail: Detail) -> list[Panel]:
    """When links changed, when which routes were used, and the packets rerouted and lost."""
    epochs = len(result.backend_tables["route_epochs"].columns["changed"])
    text = "With the packets that were rerouted to another link, and those lost before the next change."
    if epochs > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {epochs:,}."
    return [Panel("Routing tables", text, sheet=Sheet(_HEAD, epoch_rows(result, MOST_ROWS), ["routes", "transition"]))]
