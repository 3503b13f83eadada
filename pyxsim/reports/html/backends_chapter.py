"""The chapter of a comparison of backends: the times of each, and points side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import h5py

from pyxsim.reports.html import side_by_side
from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section, cut
from pyxsim.reports.html.plotly_style import NAME, figure, plain, tint, unlike
from pyxsim.reports.text.facts import Fact, percent, plural
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.comparison import ETHERNET, LINKS, PACKET
from pyxsim.results.comparison_file import read_summary
from pyxsim.results.result_file import read_result
from pyxsim.units import format_time_ns, time_unit

MOST_POINTS = 60
ROW = 16  # pixels of a bar


def chapters(file: h5py.File, name: str) -> list[Chapter]:
    """Return the comparison, and the results of the point with the largest difference side by side.

    Raises
    ------
    KeyError, ValueError, TypeError
        If the file contains no comparison.
    """
    comparison = read_summary(file)
    points = comparison["points"]
    worst = max(points, key=_apart, default=None)
    chapters_made = [_overview(comparison, points, name)]
    if worst is not None:
        label = worst["label"]
        groups = [group for group in file["points"].values() if group.attrs["label"] == label]
        results = [(backend, read_result(part)) for backend, part in groups[0].items() if "record" in part.attrs]
        if len(results) > 1:
            results.sort(key=lambda each: each[0] != PACKET)
            what = "the models" if len(points) == 1 else f"{label}, which has the largest difference"
            chapters_made.append(side_by_side.chapter(results, f"Side by side: {what}"))
    return chapters_made


def _times(point: Mapping[str, Any]) -> dict[str, float]:
    timed = [backend for backend in point["backends"] if backend.get("complete") and backend.get("time_ns") is not None]
    return {backend["backend"]: float(backend["time_ns"]) for backend in timed}


def _apart(point: Mapping[str, Any]) -> float:
    times = [time for time in _times(point).values() if time > 0]
    return max(times) / min(times) if times else 1.0


def _overview(comparison: Mapping[str, Any], points: Sequence[Mapping[str, Any]], name: str) -> Chapter:
    within = float(comparison["within"])
    cards = [
        Fact("points", f"{len(points)}", "experiments"),
        Fact("models", f"{len(comparison['backends'])}", "network models"),
    ]
    lead = []
    for backend in comparison["backends"]:
        errors = [error for point in points if (error := _error(point, backend)) is not None]
        if backend == ETHERNET and errors:
            least, most = (f"{1 + error:.3g}" for error in (min(errors), max(errors)))
            times = least if least == most else f"{least} to {most}"
            lead.append(f"{backend}, another fabric, takes {times} times as long as packets.")
        elif backend != PACKET and errors:
            worst = max(map(abs, errors))
            relation = "within" if worst <= within else "not within"
            lead.append(
                f"{backend} differs from packets by at most {percent(worst)}, which is {relation} {percent(within)}."
            )
    alarms = [] if comparison["complete"] else ["interrupted: only the points compared so far are shown"]
    texts = {text: None for point in points for row in point["backends"] for text in row.get("warnings", ())}
    alarms += shortened([f"warning: {text}" for text in texts], MAX_WARNINGS, "warnings")
    by = f"pyxsim {comparison.get('version', '')}, seed {comparison.get('seed', '')}"
    title = f"{comparison['title']}: {plural(len(comparison['backends']), 'network model')}"
    return Chapter(title, by, cards, lambda detail: _sections(comparison, points, detail), lead, alarms, [name])


def _error(point: Mapping[str, Any], backend: str) -> float | None:
    times = _times(point)
    return times[backend] / times[PACKET] - 1 if backend in times and times.get(PACKET) else None


def _sections(comparison: Mapping[str, Any], points: Sequence[Mapping[str, Any]], detail: Detail) -> Iterator[Section]:
    shown = points[: detail.most(MOST_POINTS)]
    notes = [] if len(shown) == len(points) else [f"Shortened to {len(shown)} of {len(points)} points."]
    yield Section("models", "Models", [_bars(comparison, shown, notes), _table(comparison, shown, notes)])


def _bars(comparison: Mapping[str, Any], points: Sequence[Mapping[str, Any]], notes: list[str]) -> Panel:
    times = [_times(point) for point in points]
    unit, scale = time_unit(max((t for time in times for t in time.values()), default=1.0))
    labels = unlike([plain(cut(str(point["label"]), NAME)) for point in points])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": backend,
            "y": labels,
            "x": [time[backend] / scale if backend in time else None for time in times],
            "marker": {"color": tint(i)},
            "hovertemplate": f"{backend}: %{{x:.4g}} {unit}<extra>%{{y}}</extra>",
        }
        for i, backend in enumerate(comparison["backends"])
    ]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "links alone",
            "y": labels,
            "x": [float(point["lower_bound_ns"]) / scale for point in points],
            "marker": {"symbol": "line-ns-open", "size": 14, "color": "#8A93A0", "line": {"width": 2}},
            "hovertemplate": f"{LINKS}: %{{x:.4g}} {unit}<extra>%{{y}}</extra>",
        }
    )
    sketch = {
        "barmode": "group",
        "xaxis": {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "legend": {"traceorder": "normal"},
    }
    text = "Simulated time of each experiment on each backend, and the lower bound of its time on these links."
    height = 120 + len(points) * (ROW * len(comparison["backends"]) + 12)
    return Panel("Times", text, figure(traces, sketch), height, notes=notes)


def _table(comparison: Mapping[str, Any], points: Sequence[Mapping[str, Any]], notes: list[str]) -> Panel:
    rows, marked = [], set()
    for i, point in enumerate(points):
        times, row = _times(point), [str(point["label"])]
        reasons = {backend["backend"]: backend.get("reason") for backend in point["backends"]}
        for backend in comparison["backends"]:
            error = _error(point, backend)
            if error is not None and abs(error) > float(comparison["within"]):
                marked.add((i, len(row)))
            if backend not in times:
                row.append(str(reasons.get(backend) or "-"))
                continue
            part = "" if error is None or backend == PACKET else f" ({100 * error:+.1f} %)"
            row.append(format_time_ns(Fraction(times[backend])) + part)
        rows.append([*row, format_time_ns(Fraction(point["lower_bound_ns"]))])
    within = percent(float(comparison["within"]))
    text = f"In brackets: difference from packets; differences above {within} are highlighted."
    sheet = Sheet(("point", *comparison["backends"], LINKS), rows, marked=frozenset(marked))
    return Panel("Every time", text, sheet=sheet, notes=notes)
