"""Panels of a workload: activities of NPUs over time, the critical path, and its layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel, sheet_of
from pyxsim.reports.html.plotly_style import NAME, figure, plain, unlike
from pyxsim.reports.plots import gantt
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text import layer_tables, workload_tables
from pyxsim.reports.text.facts import plural
from pyxsim.results.result import Result
from pyxsim.results.work import ACTIVITIES, alike

MOST_SPANS = 6000
MOST_STEPS = 1500  # of the critical path
MOST_LAYERS = 40
ROW, LEAST, MOST = 34, 230, 760  # pixels
PATH = "#8A93A0"


@html_panel("workload", section="workload")
def workload(result: Result, detail: Detail) -> list[Panel]:
    """Activities, layers and the critical path."""
    panels = []
    if result.work is not None and len(result.work.timeline["npu"]):
        panels.append(_timeline(result, detail))
    panels += _layers(result)
    for table in (*layer_tables.tables(result), *workload_tables.tables(result)):
        sheet = sheet_of(table)
        title = sheet.head[0].partition(" (")[0].removeprefix("its ")
        panels.append(Panel(title[:1].upper() + title[1:], _ABOUT.get(title, ""), sheet=sheet))
    return panels


_ABOUT = {
    "longest steps": "Steps of the critical path; steps whose names differ only in a number are added up.",
    "critical path": "Parts of the critical path, as shares of the run.",
}


def _timeline(result: Result, detail: Detail) -> Panel:
    clock, work = Clock.of(result), result.work
    assert work is not None
    npus, others = gantt.shown(result)
    places = gantt.places(work.timeline)
    row = {npu: place for place, npu in enumerate(npus)}
    table, notes = work.timeline, []
    shown = np.isin(table["npu"], npus)
    length = np.where(shown, table["end"] - table["begin"], -1)
    kept = np.sort(np.argsort(-length, kind="stable")[: min(detail.most(MOST_SPANS), int(shown.sum()))])
    if len(kept) < shown.sum():
        notes.append(f"Shortened to the {len(kept):,} longest of {int(shown.sum()):,} intervals.")
    traces = []
    for name, (top, high) in places.items():
        mine = kept[table["doing"][kept] == ACTIVITIES.index(name)]
        begin, end = clock.at(table["begin"][mine]), clock.at(table["end"][mine])
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "base": begin,
                "x": end - begin,
                "y": [row[npu] + top + high / 2 for npu in table["npu"][mine].tolist()],
                "width": high,
                "marker": {"color": gantt.COLOURS[name], "line": {"width": 0}},
                "hovertemplate": f"{name}: %{{base:.5g}} {clock.unit}, for %{{x:.4g}}<extra></extra>",
            }
        )
    traces.append(_critical(result, clock, row, len(npus), detail))
    same = np.bincount(work.npus["like"], minlength=len(work.npus["like"])) - 1
    texts = [f"NPU {npu}" + (f" and {same[npu]} equal ones" if same[npu] else "") for npu in npus]
    texts += ["others"] if others else []
    sketch = {
        "xaxis": {"title": {"text": clock.label}, "range": [0, clock.end]},
        "yaxis": {
            "tickvals": [i + 0.5 for i in range(len(texts))],
            "ticktext": texts,
            "range": [len(texts), 0],
            "showgrid": False,
            "zeroline": False,
        },
        "barmode": "overlay",
    }
    text = (
        "Bars: computation, memory accesses and communication of an NPU; communication is drawn below the computation "
        "that overlaps it. "
    )
    text += "Line: the critical path, which determines the end."
    if len(npus) < len(np.unique(work.npus["like"])):
        notes.append(f"Shortened to {plural(len(npus), 'NPU')} of {len(work.npus['like']):,}.")
    height = int(np.clip(ROW * len(texts) + 120, LEAST, MOST))
    return Panel("What NPUs do", text, figure(traces, sketch), height, notes=notes)


def _critical(result: Result, clock: Clock, row: dict[int, int], others: int, detail: Detail) -> dict[str, Any]:
    """The longest steps of the critical path as a line, with gaps at short ones."""
    assert result.work is not None
    path, names, kinds = result.work.path, result.work.names, result.work.kinds
    steps = np.argsort(path["begin"] - path["end"], kind="stable")[: detail.most(MOST_STEPS)]
    steps = np.sort(steps[path["end"][steps] > path["begin"][steps]])
    places = [row.get(npu, others) + 0.55 for npu in result.work.npus["like"][path["npu"][steps]].tolist()]
    x, y, texts = [], [], []
    begin, end = clock.at(path["begin"][steps]).tolist(), clock.at(path["end"][steps]).tolist()
    for i, step in enumerate(steps.tolist()):
        kind = kinds[path["kind"][step]]
        name = names[path["name"][step]] if path["name"][step] >= 0 else ""
        label = plain(cut(kind if name in ("", kind) else f"{kind}: {name}"))
        x += [begin[i], end[i]]
        y += [places[i]] * 2
        texts += [f"{label}<br>NPU {path['npu'][step]}, {end[i] - begin[i]:.4g} {clock.unit}"] * 2
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "critical path",
        "x": x,
        "y": y,
        "text": texts,
        "line": {"color": PATH, "width": 2},
        "hovertemplate": "critical path: %{text}<extra></extra>",
    }


def _layers(result: Result) -> list[Panel]:
    """Bars: computation and exposed communication of each layer; similar blocks of a model are merged."""
    table = result.layers
    names = table["name"].tolist() if "name" in table else []
    if len(names) < 2:
        return []
    parts = [part for part in layer_tables.PARTS if f"{part}_compute" in table]
    sums = {what: np.sum([table[f"{part}_{what}"] for part in parts], axis=0) for what in ("compute", "exposed")}
    notes, what = [], "layer"
    if len(names) > MOST_LAYERS:
        kinds = list(dict.fromkeys(alike(name) for name in names))
        of = np.array([kinds.index(alike(name)) for name in names])
        sums = {key: np.bincount(of, values, len(kinds)) for key, values in sums.items()}
        notes.append(f"Shortened: {len(names):,} layers; layers whose names differ only in a number are added up.")
        names, what = kinds, "kind of layers"
    most = np.sort(np.argsort(-(sums["compute"] + sums["exposed"]), kind="stable")[:MOST_LAYERS])
    if len(most) < len(names):
        notes.append(f"Shortened to the {len(most)} of {len(names):,} that take longest.")
    scale = Clock.of(result)
    shown = unlike([plain(cut(names[i], NAME)) for i in most.tolist()])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": shown,
            "x": scale.at(sums[key][most]),
            "marker": {"color": tint},
            "hovertemplate": f"{title}: %{{x:.4g}} {scale.unit}<extra></extra>",
        }
        for key, title, tint in (
            ("compute", "computing", gantt.COLOURS["compute"]),
            ("exposed", "exposed communication", gantt.COLOURS["communication"]),
        )
    ]
    sketch = {
        "barmode": "stack",
        "legend": {"traceorder": "normal"},
        "xaxis": {"title": {"text": f"time of an NPU, all passes ({scale.unit})"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
    }
    text = f"Computation and exposed communication of each {what}: mean time over the NPUs."
    return [Panel("Layers", text, figure(traces, sketch), int(np.clip(22 * len(most) + 120, 200, 900)), notes=notes)]
