"""Panels of faults and retry: errors, retransmissions and replay buffers over time (docs/faults.md)."""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.link_lines import link_lines
from pyxsim.reports.text.fault_facts import worst_links
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

MOST_ROWS = 20
_HEAD = ["link", "errors", "lost", "retransmitted", "timeouts", "stalls on a full buffer", "buffer: mean", "maximum"]
_COLUMNS = ("errors", "flits_lost", "resent", "timeouts", "stall_replay")


@html_panel("faults", section="links", applies=lambda result: "link_faults" in result.backend_tables)
def faults(result: Result, detail: Detail) -> list[Panel]:
    """Lost and retransmitted flits and replay buffers over time at the worst links, and counts of links."""
    links = worst_links(result, MOST_ROWS)
    if not links:
        return []
    columns = result.backend_tables["link_faults"].columns
    names = result.links.name
    text = "The links with most errors, losses and retransmissions, over time."
    lines = (
        ("flits_lost", "Lost flits", "flits per window"),
        ("resent", "Retransmitted flits", "flits per window"),
        ("replay_mean", "Replay buffers", "flits"),
    )
    panels = [
        link_lines(result, detail, "link_fault_windows", column, links, title, text, {"title": {"text": unit}})
        for column, title, unit in lines
        if columns[column][links].any()
    ]
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
