"""Panels of latency: packets of open traffic, their course over time and per node; messages of collectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel, sheet_of
from pyxsim.reports.html.plotly_style import NAME, faded, figure, plain, quiet_line, tint
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.summary import class_table
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.result import Result

MOST_BARS = 160
MOST_CLASSES = 8
MOST_BATCHES = 600
BROAD = 20.0  # the slowest over the median, beyond which an axis of latencies is drawn in decades
MARKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@html_panel("latency", section="latency")
def latency(result: Result, detail: Detail) -> list[Panel]:
    """Latencies of packets, or of messages."""
    if result.traffic is None:
        return _messages(result)
    panels = []
    if len(result.traffic.latency):
        panels.append(_packets(result))
    if len(result.traffic.batches.get("latency", ())):
        panels.append(_course(result, detail))
    if len(result.traffic.accepted) > 1:
        panels.append(_nodes(result))
    if len(result.traffic.classes.get("name", ())) > 1:
        panels.append(Panel("Classes of traffic", "Latencies in cycles.", sheet=sheet_of(class_table(result.traffic))))
    return panels


def _packets(result: Result) -> Panel:
    traffic = result.traffic
    assert traffic is not None
    names = [str(name) for name in traffic.classes.get("name", ["packets"])]
    groups = [(name, traffic.latency, counts) for name, counts in zip(names, traffic.packets, strict=True)]
    return histogram("Latency of packets", "measured packets", groups, "packet latency (cycles)", 1.0, "cycles")


def _messages(result: Result) -> list[Panel]:
    """The latency of messages of collectives, where they are recorded."""
    table = result.latency
    if not len(table.get("message", ())):
        return []
    clock = Clock.of(result)
    took = table["arrived"] - table["sent"]
    groups = []
    for i, name in enumerate(result.traffic_names):
        values, counts = np.unique(took[table["traffic"] == i], return_counts=True)
        if len(values):
            groups.append((name, values, counts))
    label = f"time from sending a message to its arrival ({clock.unit})"
    return [histogram("Latency of messages", "messages", groups, label, clock.per_cycle, clock.unit)]


Group = tuple[str, IntArray, IntArray]


def histogram(title: str, what: str, groups: list[Group], label: str, per_cycle: float, unit: str) -> Panel:
    """Return a histogram, a colour per group, with the percentiles of all groups.

    `groups` are (name, latencies in cycles, counts).
    """
    values, counts = together(groups)
    marks = percentiles(values, counts)
    broad = values[-1] > BROAD * max(1, marks["p50"]) and values[0] > 0
    edges = _edges(values, broad=broad)
    notes = []
    if len(groups) > MOST_CLASSES:
        notes.append(f"Shortened: {MOST_CLASSES} of {len(groups)} have a color of their own; the others are summed.")
        rest = together(groups[MOST_CLASSES - 1 :])
        groups = [*groups[: MOST_CLASSES - 1], ("others", *rest)]
    traces: list[Any] = []
    middles = np.sqrt(edges[1:] * edges[:-1]) if broad else (edges[1:] + edges[:-1]) / 2
    for i, (name, positions, many) in enumerate(groups):
        heights = np.histogram(positions, edges, weights=many)[0] / counts.sum()
        traces.append(
            {
                "type": "bar",
                "name": plain(cut(name, NAME)),
                "x": middles * per_cycle,
                "y": heights,
                "width": np.diff(edges) * per_cycle,
                "customdata": np.stack([edges[:-1], edges[1:]], axis=1) * per_cycle,
                "marker": {"color": tint(i)},
                "hovertemplate": f"%{{y:.3p}} took %{{customdata[0]:.5~g}} to %{{customdata[1]:.5~g}} {unit}",
            }
        )
    lines = [
        {
            "type": "line",
            "x0": value * per_cycle,
            "x1": value * per_cycle,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": quiet_line(),
        }
        for value in marks.values()
    ]
    sketch = {
        "barmode": "stack",
        "bargap": 0,
        "xaxis": {"title": {"text": label}, **_axis(values[0] * per_cycle, values[-1] * per_cycle, broad=broad)},
        "yaxis": {"title": {"text": f"share of the {what}"}, "tickformat": ".3~p"},
        "shapes": lines,
        "annotations": list(_named(marks, per_cycle, values[-1], broad=broad)),
        # The names of the percentiles are between the bars and the legend.
        "showlegend": len(groups) > 1,
        "legend": {"y": 1.09, "traceorder": "normal"},
        "margin": {"t": 64 if len(groups) > 1 else 30},
    }
    percentile_text = ", ".join(f"{name} {number(value * per_cycle)}" for name, value in marks.items())
    mean = float((values * counts).sum() / counts.sum()) * per_cycle
    text = f"{plural(int(counts.sum()), what.rstrip('s'))}; mean {number(mean)}, {percentile_text}, at most "
    text += f"{number(float(values[-1]) * per_cycle)} {unit}. Dotted: the percentiles."
    return Panel(title, text, figure(traces, sketch), 300, notes=notes)


def _axis(low: float, high: float, *, broad: bool) -> dict[str, Any]:
    """The x axis, with space at the right for the name of a percentile."""
    if broad:
        return {"type": "log", "range": [float(np.log10(low)) - 0.05, float(np.log10(high)) + 0.1]}
    return {"range": [0, 1.03 * float(high)]}


def _named(marks: dict[str, int], per_cycle: float, end: float, *, broad: bool) -> Any:
    """The names of the percentiles above their lines, without overlaps."""
    last = -1.0
    for name, value in marks.items():
        place = np.log10(value * per_cycle) if broad else value * per_cycle
        share = np.log(max(1, value)) / np.log(end) if broad else value / end
        if share - last < _ROOM:
            continue
        last = share
        yield {"x": float(place), "yref": "paper", "y": 1, "yanchor": "bottom", "text": name, "showarrow": False}


_ROOM = 0.045  # of the axis: the name of a percentile


def together(groups: list[Group]) -> tuple[IntArray, IntArray]:
    """Return (distinct latencies, counts) of all groups."""
    values, inverse = np.unique(np.concatenate([group[1] for group in groups]), return_inverse=True)
    counts = np.bincount(inverse, np.concatenate([group[2] for group in groups]), len(values))
    present = counts > 0
    return values[present], counts[present].astype(np.int64)


def percentiles(values: IntArray, counts: IntArray) -> dict[str, int]:
    """Return the percentiles of MARKS."""
    reached = np.cumsum(counts)
    return {name: int(values[np.searchsorted(reached, share * reached[-1])]) for name, share in MARKS.items()}


def _edges(values: IntArray, *, broad: bool) -> Any:
    """Edges of bins: whole cycles, or equal ratios for a broad range."""
    low, high = int(values[0]), int(values[-1])
    if broad:
        return np.geomspace(max(low, 1) * 0.999, high * 1.001, MOST_BARS // 2)
    width = max(1, -(-(high - low + 1) // MOST_BARS))
    return np.arange(low, high + 2 * width, width) - 0.5


def _course(result: Result, detail: Detail) -> Panel:
    """The mean latency of packets by time of creation, and the backlog."""
    traffic = result.traffic
    assert traffic is not None
    summary, batches = traffic.summary, traffic.batches
    step = -(-len(batches["start"]) // detail.most(MOST_BATCHES))
    start = np.asarray(batches["start"])[::step]
    notes = [f"Shortened to every {step}th batch of {len(batches['start']):,}."] if step > 1 else []
    begin = int(summary["warmup_cycles"] or 0)
    end = begin + int(summary["measured_cycles"] or 0)
    means = np.where(start < end, np.asarray(batches["latency"], dtype=float)[::step], np.nan)
    line = {"type": "scatter", "mode": "lines", "x": start, "hovertemplate": "%{y:.4g}"}
    traces = [
        {**line, "y": means, "name": "mean packet latency", "line": {"shape": "hv", "color": tint(0), "width": 1.8}},
        {
            **line,
            "y": np.asarray(batches["backlog"], dtype=float)[::step],
            "name": "flits created and not yet delivered",
            "yaxis": "y2",
            "line": {"shape": "hv", "color": tint(1), "width": 1.2},
        },
    ]
    shapes: list[dict[str, Any]] = [
        {
            "type": "rect",
            "x0": begin,
            "x1": end,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": faded(tint(0), 0.08),
            "layer": "below",
        }
    ]
    if summary["packet_latency"] is not None:
        shapes.append(
            {
                "type": "line",
                "x0": begin,
                "x1": end,
                "y0": summary["packet_latency"],
                "y1": summary["packet_latency"],
                "line": quiet_line(),
            }
        )
    sketch = {
        "xaxis": {"title": {"text": "cycle of creation"}},
        "yaxis": {"title": {"text": "cycles"}, "rangemode": "tozero"},
        "yaxis2": {"title": {"text": "flits"}, "overlaying": "y", **_RIGHT},
        "shapes": shapes,
        "hovermode": "x unified",
        "margin": {"r": 64},
    }
    text = "Mean latency of the packets created in each batch, and the backlog. "
    text += "Shaded: the measured interval; dotted: its mean."
    return Panel("Course of the run", text, figure(traces, sketch), 300, notes=notes, wide=len(traffic.accepted) < 2)


_RIGHT = {"side": "right", "showgrid": False, "rangemode": "tozero"}


def _nodes(result: Result) -> Panel:
    """The accepted load of the nodes, sorted."""
    traffic = result.traffic
    assert traffic is not None
    accepted = np.sort(traffic.accepted)[::-1]
    most = accepted[:: -(-len(accepted) // MOST_BATCHES)]
    share = np.linspace(0, 1, len(most))
    line = {"type": "scatter", "mode": "lines", "line": {"color": tint(2), "width": 1.8}}
    traces = [{**line, "x": share, "y": most, "hovertemplate": "%{y:.4g} flits per cycle<extra></extra>"}]
    sketch = {
        "xaxis": {"title": {"text": "nodes, in descending order"}, "tickformat": ".0%"},
        "yaxis": {"title": {"text": "flits per cycle"}, "rangemode": "tozero"},
        "shapes": [
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": accepted.mean(),
                "y1": accepted.mean(),
                "line": quiet_line(),
            }
        ],
    }
    text = (
        f"Flits received by each of {plural(len(accepted), 'node')}; with fair shares the line is flat. Dotted: mean."
    )
    return Panel("Accepted load of the nodes", text, figure(traces, sketch), 300, wide=False)
