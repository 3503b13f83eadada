"""The chapter of a sweep: numbers over the swept keys, its points, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyxsim.reports.html import load_panels
from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section, cut
from pyxsim.reports.html.panels import settings_table
from pyxsim.reports.html.plotly_style import NAME, buttons, figure, plain, tint
from pyxsim.reports.text.facts import Fact, plural
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.sweep import Point, Sweep

MOST_ROWS, MOST_FAILED = 400, 60
MOST_LINES = 14
LOAD = "traffic.load"
FIRST = ("packet_latency", "accepted_load", "packet_latency_p99", "network_latency"), ("time_ns", "lower_bound_ns")
"""The most important numbers of open traffic, and of other runs."""
MOST_NUMBERS = 24  # in the menu
MOST_COLUMNS = 6  # numbers in the table


def chapter(sweep: Sweep, name: str) -> Chapter:
    """Return the chapter of a sweep."""
    counts = sweep.counts
    alarms = []
    if counts["missing"]:
        alarms.append(
            f"{counts['missing']} of {plural(len(sweep), 'point')} have not run yet; `pyxsim sweep` runs them."
        )
    if counts["failed"]:
        alarms.append(f"{counts['failed']} of {plural(len(sweep), 'point')} failed; see the reasons below.")
    alarms += shortened([f"warning: {text}" for text in sweep.warnings], MAX_WARNINGS, "warnings")
    return Chapter(
        sweep.title or name,
        f"pyxsim {sweep.provenance.get('version', '')}, {sweep.backend}",
        list(_cards(sweep)),
        lambda detail: _sections(sweep, detail),
        lead=[f"Swept: {', '.join(f'{axis} ({len(values)})' for axis, values in sweep.axes.items())}."],
        alarms=alarms,
        files=[name],
    )


def _cards(sweep: Sweep) -> Iterator[Fact]:
    yield Fact("points", f"{len(sweep)}", f"{sweep.counts['done']} done")
    for key in _first(sweep)[:2]:
        values = [value for value in sweep.columns([key])[key] if value is not None] if key in sweep.numbers else []
        if values and min(values) != max(values):
            yield Fact(key, f"{number(min(values))} to {number(max(values))}", "over the points")


def _sections(sweep: Sweep, detail: Detail) -> Iterator[Section]:
    done = [point for point in sweep.points if point.state == "done"]
    if sweep.answers:
        yield Section("answers", "Answers", [_answers(sweep)])
    if done and sweep.axes:
        panels = []
        if LOAD in sweep.axes:
            panels += load_panels.panels(_load_lines(sweep, done))
        if chosen := _numbers(sweep, done):
            panels.append(_curves(sweep, done, chosen))
        if panels:
            yield Section("curves", "Curves", panels)
    yield Section("points", "Points", [_table(sweep, detail)])
    if failed := [point for point in sweep.points if point.state == "failed"]:
        yield Section("failed", "Failed points", [_failed(failed)])
    rows = [["experiment", sweep.experiment or "from Python"], *settings_table.known(sweep.provenance)]
    provenance = Panel("Provenance", sheet=Sheet(("", "value"), rows, ("value",)))
    yield Section("settings", "Settings", [_settings(sweep), provenance])


def _settings(sweep: Sweep) -> Panel:
    panel = settings_table.settings(sweep.settings)
    if not sweep.settings:
        return panel
    others = (
        f"Settings of the first of {plural(len(sweep.points), 'point')}; the others differ in {', '.join(sweep.axes)}."
    )
    return replace(panel, notes=[others, *panel.notes])


def _numbers(sweep: Sweep, done: Sequence[Point]) -> list[str]:
    """The numbers that differ between points, most important first."""
    varied = [key for key in sweep.numbers if len({point.values.get(key) for point in done}) > 1]
    first = [key for key in _first(sweep) if key in varied]
    return [*first, *(key for key in varied if key not in first)][:MOST_NUMBERS]


def _first(sweep: Sweep) -> tuple[str, ...]:
    return FIRST[0] if FIRST[0][0] in sweep.numbers else FIRST[1]


def _hues(sweep: Sweep, done: Sequence[Point], without: str) -> dict[str, list[Point]]:
    """The points of each line: those that differ in one axis only."""
    others = [axis for axis in sweep.axes if axis != without and len(sweep.axes[axis]) > 1]
    lines: dict[str, list[Point]] = {}
    for point in done:
        short = (axis.rpartition(".")[2] for axis in others)
        name = ", ".join(f"{word} {_word(point.changed.get(axis))}" for word, axis in zip(short, others, strict=True))
        lines.setdefault(name, []).append(point)
    return lines


def _load_lines(sweep: Sweep, done: Sequence[Point]) -> list[tuple[str, list[Any]]]:
    lines = _hues(sweep, done, LOAD)
    return [
        (name, sorted((dict(point.values) for point in points), key=lambda each: float(each.get("offered_load", 0))))
        for name, points in list(lines.items())[:MOST_LINES]
    ]


def _curves(sweep: Sweep, done: Sequence[Point], chosen: Sequence[str]) -> Panel:
    """Each number over one axis, a line per combination of the others, or bars; a menu selects the number."""
    axis = _across(sweep)
    lines = _hues(sweep, done, axis)
    shown = list(lines.items())[:MOST_LINES]
    places = [_word(value) for value in sweep.axes[axis]]
    numeric = _is_number(sweep.axes[axis])
    ordered = numeric or axis in sweep.quantities
    traces, tables = [], []
    for i, (name, points) in enumerate(shown):
        by_word = {_word(point.changed.get(axis)): point for point in points}
        words = [word for word in places if word in by_word]
        x = [by_word[word].changed[axis] if numeric else plain(word) for word in words]
        tables.append([[_value(by_word[word], key) for word in words] for key in chosen])
        look: dict[str, Any] = {"type": "bar", "marker": {"color": tint(i)}}  # values without an order
        if ordered:
            look = {"type": "scatter", "mode": "lines+markers", "line": {"color": tint(i), "width": 2}}
        hover = "%{x}: %{y:.5g}"
        traces.append({**look, "name": plain(cut(name, NAME)), "x": x, "y": tables[-1][0], "hovertemplate": hover})
    entries = [
        (key, [{"y": [table[i] for table in tables]}, {"yaxis.title.text": key}]) for i, key in enumerate(chosen)
    ]
    sketch = {
        "xaxis": {"title": {"text": plain(axis)}, **({} if numeric else {"type": "category"})},
        "yaxis": {"title": {"text": chosen[0]}, "rangemode": "tozero"},
        "updatemenus": [buttons(entries)],
        "showlegend": len(shown) > 1,
        "legend": {"y": -0.16, "yanchor": "top"},
    }
    notes = [f"Shortened to {MOST_LINES} of {len(lines)} lines."] if len(lines) > MOST_LINES else []
    text = f"Plotted against {axis}; the menu selects the number (docs/output.md describes each)."
    return Panel("Numbers against the swept settings", text, figure(traces, sketch), 420, notes=notes)


def _across(sweep: Sweep) -> str:
    """The axis from left to right: that with most values, numbers and quantities preferred."""
    ordered = [axis for axis in sweep.axes if _is_number(sweep.axes[axis]) or axis in sweep.quantities]
    return max(ordered or sweep.axes, key=lambda axis: (_is_number(sweep.axes[axis]), len(sweep.axes[axis])))


def _is_number(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _value(point: Point, key: str) -> float | None:
    value = point.values.get(key)
    return None if value is None else float(value)


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " x ".join(_word(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(sweep: Sweep, detail: Detail) -> Panel:
    shown = sweep.points[: detail.most(MOST_ROWS)]
    keys = _numbers(sweep, [point for point in sweep.points if point.state == "done"])[:MOST_COLUMNS]
    rows = [
        [
            ", ".join(_word(point.changed.get(axis)) for axis in sweep.axes) or point.label,
            *(number(point.values.get(key)) for key in keys),
            point.state,
        ]
        for point in shown
    ]
    marked = frozenset((i, len(keys) + 1) for i, point in enumerate(shown) if point.state != "done")
    notes = [] if len(shown) == len(sweep) else [f"Shortened to {len(shown)} of {plural(len(sweep), 'point')}."]
    head = (", ".join(sweep.axes) or "point", *keys, "state")
    return Panel(
        "Every point",
        "The table in the folder contains all numbers.",
        sheet=Sheet(head, rows, ("state",), marked),
        notes=notes,
    )


def _failed(points: Sequence[Point]) -> Panel:
    rows = [
        [point.label or ", ".join(f"{k} = {_word(v)}" for k, v in point.changed.items()), cut(point.reason, 400)]
        for point in points[:MOST_FAILED]
    ]
    notes = [f"Shortened to {MOST_FAILED} of {plural(len(points), 'point')}."] if len(points) > MOST_FAILED else []
    return Panel("Failures", "", sheet=Sheet(("point", "why"), rows, ("why",)), notes=notes)


def _answers(sweep: Sweep) -> Panel:
    """The results of a search for each combination of the axes."""
    head = list(dict.fromkeys(key for row in sweep.answers for key in row))
    rows = [[_answer(row.get(key)) for key in head] for row in sweep.answers[:MOST_ROWS]]
    goal = ", ".join(f"{key} = {cut(str(value), 60)}" for key, value in sweep.goal.items())
    return Panel("Search results", f"The goal: {goal}.", sheet=Sheet(head, rows))


def _answer(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if value is None or isinstance(value, int | float) else str(value)
