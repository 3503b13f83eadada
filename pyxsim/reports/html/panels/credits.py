"""Panels of credits as messages: the bandwidth that they take over time, and counts of links (docs/credits.md)."""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.link_lines import link_lines
from pyxsim.reports.text.credit_facts import busiest_links
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

MOST_ROWS = 20
_HEAD = ["link", "share of credits", "messages", "piggybacked on", "credits", "per message", "lost", "restored"]


@html_panel("credits", section="links", applies=lambda result: "link_credits" in result.backend_tables)
def credits(result: Result, detail: Detail) -> list[Panel]:
    """The share of messages with credits over time on the links where it is highest, and counts of links."""
    links = busiest_links(result, MOST_ROWS)
    if not links:
        return []
    columns = result.backend_tables["link_credits"].columns
    names = result.links.name
    text = "Share of the time of a link that messages with credits of the opposite direction take."
    axis = {"title": {"text": "share of the link"}, "tickformat": ".1%"}
    panels = [link_lines(result, detail, "link_credit_windows", "share", links, "Bandwidth of credits", text, axis)]
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
    text = "Over the whole run. All counts are those of the credits of the link, which return on the opposite link."
    panels.append(Panel("Credits of links in numbers", text, sheet=Sheet(_HEAD, rows, ["link"])))
    return panels
