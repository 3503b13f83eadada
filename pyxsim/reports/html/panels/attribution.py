"""Panels of attribution: parts of the latency, where packets waited, and which traffic delayed which."""

from __future__ import annotations

from typing import Any

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.key_findings import as_point
from pyxsim.reports.html.plotly_style import NAME, figure, plain, unlike
from pyxsim.reports.html.waiting_matrix import waiting_matrix
from pyxsim.reports.plots.style import PART_COLOURS
from pyxsim.reports.text import verdict_tables
from pyxsim.reports.text.attribution_tables import WORDS, blame, rows
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.attribution import PARTS
from pyxsim.results.result import Result

MOST_TRAFFICS = 16
MOST_LINKS = 12
ROW = 30  # pixels


def has_attribution(result: Result) -> bool:
    """Whether a result has attributed messages."""
    return result.attribution is not None and bool(result.attribution.messages.any())


@html_panel("attribution", section="attribution", applies=has_attribution)
def attribution(result: Result, detail: Detail) -> list[Panel]:
    """The parts of message latency, where packets waited, and which traffic delayed which."""
    attributed = result.attribution
    waited = attributed is not None and len(attributed.waits["link"])
    return [_parts(result), *([_links(result), _blame(result), _sentences(result)] if waited else [])]


def _stack(names: list[str], values: dict[str, list[float]], hover: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": WORDS.get(part, part),
            "y": names,
            "x": values[part],
            "marker": {"color": PART_COLOURS[part]},
            "hovertemplate": f"{WORDS.get(part, part)}: {hover}<extra></extra>",
        }
        for part in PARTS
        if any(values[part])
    ]


def _parts(result: Result) -> Panel:
    attributed = result.attribution
    assert attributed is not None
    traffics = rows(attributed)
    shown = traffics[: MOST_TRAFFICS + 1]
    notes = [f"Shortened to {len(shown)} of {len(traffics)} traffics."] if len(shown) < len(traffics) else []
    names = unlike([f"{plain(cut(row.name, NAME))}, {number(row.latency)} cycles" for row in shown])
    values = {part: [row.shares[i] for row in shown] for i, part in enumerate(PARTS)}
    sketch = {
        "barmode": "stack",
        "xaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "share of the latency"}},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "legend": {"traceorder": "normal"},
    }
    what = "measured packet" if result.traffic is not None and not result.is_background else "message"
    text = f"Mean of each part of the latency of {plural(int(attributed.messages.sum()), what)}. "
    text += (
        "Gray and blue: latency without contention, and the wait at the source. Other colors: waiting in the network."
    )
    height = 130 + ROW * max(2, len(shown))
    return Panel("Where the time went", text, figure(_stack(names, values, "%{x:.1%}"), sketch), height, notes=notes)


def _links(result: Result) -> Panel:
    links = result.hot_links(MOST_LINKS)
    names = unlike(
        [plain(cut(f"{link.name} (+{len(link.like):,})" if link.like else link.name, NAME)) for link in links]
    )
    values = {part: [link.causes.get(part, 0) / link.cycles * link.waiting for link in links] for part in PARTS}
    sketch = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "number of waiting packets, mean over the run"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "legend": {"traceorder": "normal"},
    }
    text = (
        "The links and lanes at which packets waited longest, and what they waited for. In brackets: the number of "
        "equivalent links."
    )
    traces = _stack(names, values, "%{x:.3g} packets")
    return Panel("Where packets waited", text, figure(traces, sketch), 130 + 24 * max(3, len(links)))


def _blame(result: Result) -> Panel:
    assert result.attribution is not None
    victims, culprits, cycles = blame(result.attribution)
    text = "Which traffic the packets of each traffic waited for in the network, as shares of their waiting time."
    return waiting_matrix("Delays by traffic", text, victims, culprits, cycles, wide=False)


def _sentences(result: Result) -> Panel:
    """The links where packets waited longest, in words."""
    point = as_point(result)
    sentences = [verdict_tables.sentence(point, link) for link in verdict_tables.hottest(point, 4)]
    return Panel("Causes at the worst links", "", sentences=sentences, wide=False)
