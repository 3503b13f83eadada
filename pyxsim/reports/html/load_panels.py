"""Panels of load-latency curves: latency and accepted load over offered load, one line per network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Panel, cut
from pyxsim.reports.html.plotly_style import NAME, faded, figure, plain, quiet_line, tint
from pyxsim.reports.plots.load_latency import FAR, HEADROOM
from pyxsim.reports.plots.style import GREY, PART_COLOURS
from pyxsim.reports.text.attribution_tables import WORDS
from pyxsim.results.attribution import PARTS

MOST_TAILS = 3  # maximum lines with intervals; of more only means are drawn

Points = Sequence[Mapping[str, Any]]
Lines = Sequence[tuple[str, Points]]
"""A name, and the numbers of its points in order of the load (keys: output/traffic.py)."""


def panels(lines: Lines, bound: float | None = None) -> list[Panel]:
    """Return the panels; `bound` is the maximum load of links and lanes."""
    known = [(name, [point for point in points if "offered_load" in point]) for name, points in lines]
    known = [(name, points) for name, points in known if points]
    return [_latency(known, bound), _accepted(known, bound)] if known else []


def column(points: Points, key: str) -> Any:
    """Return a number of every point, NaN where missing."""
    values = [point.get(key) for point in points]
    return np.array([np.nan if value is None else float(value) for value in values])


def _latency(lines: Lines, bound: float | None) -> Panel:
    traces: list[Any] = []
    tops: list[float] = []
    for i, (name, points) in enumerate(lines):
        loads, means, full = (column(points, key) for key in ("offered_load", "packet_latency", "saturated"))
        steady = full == 0
        known = np.where(steady, means, np.nan)
        if np.isfinite(known).any():
            tops += [float(np.nanmin(known)) * HEADROOM, float(np.nanmax(known)) * 1.05]
        label = plain(cut(name, NAME)) or "mean"
        look = {"type": "scatter", "x": loads, "legendgroup": label}
        traces.append(
            {
                **look,
                "mode": "lines+markers",
                "name": label,
                "y": known,
                "error_y": {"array": np.nan_to_num(column(points, "packet_latency_interval")), "thickness": 1},
                "line": {"color": tint(i), "width": 2},
                "hovertemplate": "load %{x:.4g}: %{y:.4g} cycles",
            }
        )
        traces += _marks(points, tint(i), i == 0)
        if len(lines) > MOST_TAILS:
            continue
        tail = np.where(steady, column(points, "packet_latency_p99"), np.nan)
        traces.append(
            {
                **look,
                "mode": "lines",
                "name": "p99",
                "y": tail,
                "showlegend": len(lines) == 1,
                "line": {"color": tint(i), "width": 1, "dash": "dot"},
                "hovertemplate": "load %{x:.4g}: p99 %{y:.4g} cycles",
            }
        )
    if len(lines) == 1:
        traces = [*_parts(lines[0][1]), *traces]
    top = max(tops, default=1.0)
    sketch = {
        **_bounds(lines, bound, top),
        "yaxis": {"title": {"text": "packet latency (cycles)"}, "range": [0, top]},
    }
    dotted = "; dotted: the 99th percentile" if len(lines) <= MOST_TAILS else ""
    text = f"Mean packet latency, including the wait at the source, with its 95 % confidence interval{dotted}. "
    text += f"Crosses at the axis mark saturated loads.{_saturation(lines)}"
    return Panel("Latency against load", text, figure(traces, sketch), 400)


def _marks(points: Points, colour: str, legend: bool) -> Iterator[dict[str, Any]]:
    """Mark saturated and failed loads at the axis."""
    loads = column(points, "offered_load")
    failed = np.array(["error" in point for point in points])
    for name, which, symbol in (("saturated", column(points, "saturated") == 1, "x"), ("failed", failed, "x-open")):
        if which.any():
            yield {
                "type": "scatter",
                "mode": "markers",
                "x": loads[which],
                "y": np.zeros(int(which.sum())),
                "name": name,
                "cliponaxis": False,
                "showlegend": legend,
                "marker": {"symbol": symbol, "size": 8, "color": colour},
                "hovertemplate": f"load %{{x:.4g}}: {name}<extra></extra>",
            }


def _parts(points: Points) -> list[dict[str, Any]]:
    """The parts of the latency as areas, with attribution."""
    steady = column(points, "saturated") == 0
    known = {part: column(points, f"latency_{part}")[steady] for part in PARTS}
    if not np.nan_to_num(known["fault"]).any():  # or it is unknown, in a curve of an earlier version
        del known["fault"]
    if not all(len(values) and np.isfinite(values).all() for values in known.values()):
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": column(points, "offered_load")[steady],
            "y": values,
            "stackgroup": "parts",
            "name": WORDS.get(part, part),
            "line": {"width": 0},
            "fillcolor": PART_COLOURS[part],
            "hovertemplate": "%{y:.4g}",
        }
        for part, values in known.items()
    ]


def saturation(points: Points) -> tuple[float | None, float | None]:
    """Return (the highest load below saturation, the lowest saturated load)."""
    loads, full = column(points, "offered_load"), column(points, "saturated")
    high = min(loads[full == 1].tolist(), default=None)
    low = max((load for load in loads[full == 0].tolist() if high is None or load < high), default=None)
    return low, high


def _saturation(lines: Lines) -> str:
    sentences = []
    for name, points in lines:
        low, high = saturation(points)
        if high is not None:
            interval = f"at {high:.4g} or below" if low is None else f"between {low:.4g} and {high:.4g}"
            sentences.append(f"{cut(name, NAME)} saturates {interval}" if name else f"It saturates {interval}")
    return f" {'; '.join(sentences[:4])}." if sentences else ""


def _accepted(lines: Lines, bound: float | None) -> Panel:
    traces: list[Any] = []
    most = 0.0
    for i, (name, points) in enumerate(lines):
        loads, mean = column(points, "offered_load"), column(points, "accepted_load")
        lowest, highest = column(points, "accepted_load_min"), column(points, "accepted_load_max")
        most = max(most, float(np.nanmax([*mean, *highest, 0.0])))
        label = plain(cut(name, NAME)) or "mean over the nodes"
        if len(lines) == 1 and np.isfinite(lowest).all():
            shade = {"type": "scatter", "mode": "lines", "x": loads, "line": {"width": 0}, "hoverinfo": "skip"}
            traces.append({**shade, "y": lowest, "showlegend": False})
            traces.append(
                {**shade, "y": highest, "fill": "tonexty", "fillcolor": faded(tint(i), 0.16), "name": "all nodes"}
            )
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label,
                "x": loads,
                "y": mean,
                "line": {"color": tint(i), "width": 2},
                "hovertemplate": "offered %{x:.4g}: %{y:.4g}",
            }
        )
    sketch = _bounds(lines, bound, None)
    right = float(sketch["xaxis"]["range"][1])
    end = min(right, 1.1 * max(most, 1e-9))
    sketch["shapes"] = [
        *sketch["shapes"],
        {"type": "line", "x0": 0, "y0": 0, "x1": end, "y1": end, "line": quiet_line(), "layer": "below"},
    ]
    sketch["yaxis"] = {"title": {"text": "accepted load"}, "range": [0, 1.1 * most or 1.0]}
    text = "Accepted against offered load, in flits per node and cycle. Dotted: accepted equals offered load."
    return Panel("Accepted load", text, figure(traces, sketch), 320)


def _bounds(lines: Lines, bound: float | None, top: float | None) -> dict[str, Any]:
    """Shade saturated loads of a single network; draw the bound of links and lanes."""
    last = max(float(column(points, "offered_load").max()) for _, points in lines)
    near = bound is not None and bound < FAR * last
    right = 1.05 * max(last, bound if bound is not None and near else 0.0)
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    plane = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    if len(lines) == 1 and (high := saturation(lines[0][1])[1]) is not None:
        shade = {"line": {"width": 0}, "fillcolor": faded(GREY, 0.14)}
        shapes.append({"type": "rect", "x0": high, "x1": right, **plane, **shade})
        annotations.append(
            {"x": (high + right) / 2, "yref": "paper", "y": 0.06, "text": "saturated", "showarrow": False}
        )
    if bound is not None and near:
        shapes.append({"type": "line", "x0": bound, "x1": bound, **plane, "line": {"dash": "dash", "width": 1.5}})
        above = {"yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False}
        annotations.append({"x": bound, "text": "throughput bound", **above})
    return {
        "xaxis": {"title": {"text": "offered load (flits per node and cycle)"}, "range": [0, right]},
        "shapes": shapes,
        "annotations": annotations,
    }
