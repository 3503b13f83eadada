"""The chapter of a search: the best points, the Pareto front, how sure they are, and what more of a resource gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section
from pyxsim.reports.html.plotly_style import figure, plain, tint
from pyxsim.reports.text.facts import Fact, plural
from pyxsim.reports.text.search_text import point_sheet, sensitivity_sheet, value_text
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.search import DECIDED, SCREENED, SearchResult

MOST_ROWS, MOST_DOTS, MOST_LINES = 200, 4000, 40


def chapter(found: SearchResult, name: str) -> Chapter:
    """Return the chapter of a search."""
    never = found.counts["never simulated"]
    return Chapter(
        found.title or name,
        f"pyxsim {found.provenance.get('version', '')}, screened by {found.screen}, decided by {found.decide}",
        list(_cards(found)),
        lambda detail: _sections(found, detail),
        lead=[found.confidence.get("text", "")] if found.confidence else [],
        alarms=[f"{plural(never, 'point')} that can run were never simulated."] if never else [],
        files=[name],
    )


def _cards(found: SearchResult) -> Iterator[Fact]:
    for objective in found.objectives:
        yield Fact(f"best {objective}", value_text(objective, found.best[objective]), found.best["state"])
    yield Fact("points", f"{found.counts['can run']}", f"of {found.counts['combinations']}; the others are cut")
    yield Fact("screened", f"{found.counts['screened']}", f"by {found.screen}")
    yield Fact("decided", f"{found.counts['decided']}", f"by {found.decide}")


def _sections(found: SearchResult, detail: Detail) -> Iterator[Section]:
    most = detail.most(MOST_ROWS)
    panels = [Panel("Best points", _method(found), sheet=point_sheet(found, most), notes=_shortened(found, most))]
    if len(found.objectives) > 1:
        panels.insert(0, _front(found, detail))
    yield Section("best", "Best points", [*panels, _parallel(found, detail)])
    if found.counts["decided"] > 1:
        yield Section("confidence", "How sure is this?", [_screened_and_decided(found)])
    if found.sensitivities:
        text = "The best point estimated again with one resource 10 % larger; latencies are divided by 1.1."
        panel = Panel("What would 10 % more of a resource give?", text, sheet=sensitivity_sheet(found))
        yield Section("sensitivities", "Sensitivities", [panel])
    rows = [[cut["cause"], cut["reason"], str(cut["points"])] for cut in found.cuts]
    if rows:
        sheet = Sheet(("cause", "reason", "points"), rows, ("cause", "reason"))
        yield Section("cuts", "Points that cannot run", [Panel("Cut before anything ran", sheet=sheet)])


def _method(found: SearchResult) -> str:
    seed = f", seed {found.seed}" if found.method not in ("exhaustive",) else ""
    return f"Points were chosen by the method {found.method}{seed}. Decided points come first."


def _shortened(found: SearchResult, most: int) -> list[str]:
    return [f"Shortened to {most} of {plural(len(found), 'point')}."] if len(found) > most else []


def _dots(found: SearchResult, x: str, y: str, state: str, most: int, number: int) -> dict[str, Any]:
    rows = [row for row in found.rows if row["state"] == state and row.get(x) is not None and row.get(y) is not None]
    rows = rows[:most]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": state,
        "x": [row[x] for row in rows],
        "y": [row[y] for row in rows],
        "text": [plain(_label(found, row)) for row in rows],
        "marker": {"color": tint(number), "size": 9 if state == DECIDED else 5},
        "hovertemplate": "%{text}<br>%{x:.5g}, %{y:.5g}",
    }


def _label(found: SearchResult, row: dict[str, Any]) -> str:
    return ", ".join(f"{name.rpartition('.')[2]} {row[name]}" for name in found.axes)


def _front(found: SearchResult, detail: Detail) -> Panel:
    """Two objectives of all points, and the Pareto front."""
    x, y = found.objectives[:2]
    most = detail.most(MOST_DOTS)
    traces = [_dots(found, x, y, state, most, number) for number, state in enumerate((SCREENED, DECIDED))]
    front = sorted((row[x], row[y]) for row in found.front)
    line = {"type": "scatter", "mode": "lines", "name": "Pareto front", "line": {"color": tint(1), "width": 2}}
    traces.append({**line, "x": [one for one, _ in front], "y": [other for _, other in front]})
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    text = f"{x} and {y} of all points; no point is better than those of the front in all objectives."
    return Panel("Pareto front", text, figure(traces, layout), 420)


def _parallel(found: SearchResult, detail: Detail) -> Panel:
    """The best points as lines across the axes."""
    rows = [row for row in found.rows if row["rank"] is not None][: detail.most(MOST_LINES)]
    objective = found.objectives[0]
    dimensions = []
    for name, values in found.axes.items():
        words = [str(value) for value in values]
        places = [words.index(str(row[name])) if str(row[name]) in words else 0 for row in rows]
        ticks = list(range(len(words)))
        label = plain(name.rpartition(".")[2])
        dimensions.append({"label": label, "values": places, "tickvals": ticks, "ticktext": list(map(plain, words))})
    dimensions.append({"label": objective, "values": [row[objective] for row in rows]})
    colours = {"color": [row["rank"] for row in rows], "colorscale": "Viridis", "showscale": False}
    text = f"Each line is one of the {len(rows)} best points; darker ones are better."
    trace = {"type": "parcoords", "line": colours, "dimensions": dimensions}
    return Panel("Settings of the best points", text, figure([trace], {"margin": {"l": 70, "r": 70}}), 380)


def _screened_and_decided(found: SearchResult) -> Panel:
    """Screened and decided values of the decided points."""
    name = found.objectives[0]
    rows = [row for row in found.rows if row["state"] == DECIDED and row[f"screen.{name}"] is not None]
    x, y = [row[f"screen.{name}"] for row in rows], [row[f"decide.{name}"] for row in rows]
    ends = [min([*x, *y]), max([*x, *y])]
    dots = {"type": "scatter", "mode": "markers", "name": "points", "x": x, "y": y, "marker": {"color": tint(0)}}
    dots["text"] = [plain(_label(found, row)) for row in rows]
    equal = {"type": "scatter", "mode": "lines", "name": "equal", "x": ends, "y": ends, "line": {"color": tint(1)}}
    layout = {"xaxis": {"title": {"text": found.screen}}, "yaxis": {"title": {"text": found.decide}}}
    text = f"{name} by both models. {found.confidence.get('text', '')}."
    return Panel("Screened and decided", text, figure([dots, equal], layout), 380)
