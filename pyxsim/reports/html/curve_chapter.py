"""The chapter of a load-latency curve."""

from __future__ import annotations

from collections.abc import Iterator

from pyxsim.reports.html import load_panels
from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section
from pyxsim.reports.html.panels import settings_table
from pyxsim.reports.text.facts import Fact, plural
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.curve import Curve
from pyxsim.results.provenance import settings_sha256

MOST_ROWS = 400
COLUMNS = {
    "offered_load": "offered load",
    "accepted_load": "accepted",
    "packet_latency": "latency",
    "packet_latency_interval": "+-",
    "packet_latency_p50": "p50",
    "packet_latency_p99": "p99",
    "network_latency": "network latency",
    "hops": "hops",
}


def chapter(curve: Curve, name: str) -> Chapter:
    """Return the chapter of a curve."""
    alarms = [] if curve.complete else ["interrupted: only the loads simulated so far are shown"]
    alarms += shortened([f"warning: {text}" for text in curve.warnings], MAX_WARNINGS, "warnings")
    low, high = curve.saturation
    cards = [Fact("loads", f"{len(curve.points)}", "points of the curve")]
    if high is not None:
        saturation = f"{number(low)} to {number(high)}" if low is not None else f"below {number(high)}"
        cards.insert(0, Fact("saturation", saturation, "flits per node and cycle"))
    if curve.throughput_bound is not None:
        cards.append(
            Fact(
                "throughput bound",
                number(curve.throughput_bound),
                "flits per node and cycle, at which the busiest link saturates",
            )
        )
    latencies = [point["packet_latency"] for point in curve.points if point.get("packet_latency") is not None]
    if latencies:
        cards.append(Fact("least latency", f"{number(min(latencies))} cycles", "mean over the packets"))
    by = f"pyxsim {curve.provenance.get('version', '')}"
    return Chapter(curve.title or name, by, cards, lambda detail: _sections(curve, detail), alarms=alarms, files=[name])


def _sections(curve: Curve, detail: Detail) -> Iterator[Section]:
    if panels := load_panels.panels([("", curve.points)], curve.throughput_bound):
        yield Section("curve", "Load and latency", panels)
    yield Section("points", "Points", [_table(curve, detail)])
    rows = [["sha256 of the settings", settings_sha256(curve.experiment_toml)], *settings_table.known(curve.provenance)]
    provenance = Panel("Provenance", sheet=Sheet(("", "value"), rows, ("value",)))
    yield Section("settings", "Settings", [settings_table.settings(curve.experiment_toml), provenance])


def _table(curve: Curve, detail: Detail) -> Panel:
    shown = curve.points[: detail.most(MOST_ROWS)]
    rows = [
        [*(number(point.get(key)) for key in COLUMNS), "failed" if "error" in point else _state(point.get("saturated"))]
        for point in shown
    ]
    notes = (
        []
        if len(shown) == len(curve.points)
        else [f"Shortened to {len(shown)} of {plural(len(curve.points), 'point')}."]
    )
    text = "Loads in flits per node and cycle, latencies in cycles."
    return Panel("Every load", text, sheet=Sheet((*COLUMNS.values(), "state"), rows, ("state",)), notes=notes)


def _state(saturated: object) -> str:
    return "saturated" if saturated else "taken"
