"""Panels of requests that were served: their times as distributions, and the load of the instances over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.plotly_style import figure, share_axis
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text.serving_facts import TIMES, sheet
from pyxsim.results.result import Result

MOST_POINTS = 4000  # of a line
LINES = {
    "requests": ("requests in the batch", "in batch"),
    "waiting": ("requests that wait", "waiting"),
    "kv_tokens": ("tokens in the KV cache", "KV tokens"),
}
"""Column of an iteration: its name in the legend and at its axis."""


@html_panel("serving", section="workload", applies=lambda result: result.serving is not None)
def serving(result: Result, detail: Detail) -> list[Panel]:
    """Times of requests, iterations and requests over time."""
    assert result.serving is not None
    about = "Mean and percentiles over the requests for which a time is known."
    panels = [Panel("Times of requests", about, sheet=sheet(result))]
    panels.append(_distributions(result, detail))
    if len(result.serving.iterations["begin"]):
        panels += [_over_time(result, detail), _lives(result, detail)]
    return panels


def _distributions(result: Result, detail: Detail) -> Panel:
    assert result.serving is not None
    traces = []
    for name, title in TIMES.items():
        values = np.asarray(result.serving.requests[name], np.float64)
        values = np.sort(values[~np.isnan(values)])
        if not len(values):
            continue
        kept = _some(len(values), detail.most(MOST_POINTS))
        share = (kept + 1) / len(values)
        traces.append({"type": "scatter", "mode": "lines", "name": title, "x": values[kept] * 1e3, "y": share})
    for trace in traces:
        trace["line"] = {"shape": "hv"}
    layout = {"xaxis": {"title": {"text": "ms"}, "type": "log"}, "yaxis": share_axis("requests", 1)}
    about = "Share of the requests with at most this time."
    return Panel("Distribution of the times of requests", about, figure(traces, layout), height=320)


def _over_time(result: Result, detail: Detail) -> Panel:
    """Batch, queue and KV cache at the end of each iteration; one axis for each."""
    assert result.serving is not None
    clock, table = Clock.of(result), result.serving.iterations
    instance, end = np.asarray(table["instance"]), np.asarray(table["end"], np.int64)
    traces: list[dict[str, Any]] = []
    for row, (column, (title, _)) in enumerate(LINES.items()):
        for number in np.unique(instance).tolist():
            mine = np.flatnonzero(instance == number)
            mine = mine[_some(len(mine), detail.most(MOST_POINTS // len(LINES)))]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{title}, instance {number}",
                    "x": clock.at(end[mine]),
                    "y": np.asarray(table[column])[mine],
                    "yaxis": f"y{row + 1}" if row else "y",
                    "line": {"shape": "hv"},
                }
            )
    layout: dict[str, Any] = {"xaxis": {"title": {"text": clock.unit}, "anchor": f"y{len(LINES)}"}}
    for row, (_, title) in enumerate(LINES.values()):
        top = 1 - row / len(LINES)
        domain = [top - 1 / len(LINES) + 0.04, top]
        axis = {"domain": domain, "title": {"text": title}, "rangemode": "tozero"}
        layout[f"yaxis{row + 1}" if row else "yaxis"] = axis
    about = "At the end of each iteration: its requests, those that wait, and tokens for which KV cache is held."
    return Panel("Batches over time", about, figure(traces, layout), height=480)


def _lives(result: Result, detail: Detail) -> Panel:
    """A line for each request: in the queue, until its first token, until its last one."""
    assert result.serving is not None
    clock, table = Clock.of(result), result.serving.requests
    columns = [np.asarray(table[name], np.int64) for name in ("arrival", "scheduled", "first_token", "last_token")]
    kept = _some(len(columns[0]), detail.most(MOST_POINTS // 4))
    traces = []
    for name, begin, end in zip(("queue", "prompt", "output"), columns[:-1], columns[1:], strict=True):
        known = kept[(begin[kept] >= 0) & (end[kept] >= 0)]
        gap = np.full(len(known), np.nan)
        x = np.stack([clock.at(begin[known]), clock.at(end[known]), gap], axis=1).ravel()
        y = np.stack([known, known, gap], axis=1).ravel()
        traces.append({"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": {"width": 3}})
    layout = {
        "xaxis": {"title": {"text": clock.unit}},
        "yaxis": {"title": {"text": "request"}, "autorange": "reversed"},
    }
    notes = [f"Shortened to {len(kept)} of {len(columns[0])} requests."] if len(kept) < len(columns[0]) else []
    about = "From arrival to the first iteration, to the first token, to the last token."
    return Panel("Requests over time", about, figure(traces, layout), height=420, notes=notes)


def _some(count: int, most: int) -> IntArray:
    """At most `most` of the first `count` whole numbers, evenly spread, with both ends."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.linspace(0, count - 1, max(most, 2)).astype(np.int64)
