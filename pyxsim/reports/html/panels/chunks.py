"""Panels of chunks: a bar for each chunk in each dimension of an NPU, and the tables of collectives and phases."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel, sheet_of
from pyxsim.reports.html.plotly_style import NAME, buttons, figure, plain, shades
from pyxsim.reports.plots.chunk_bars import by_dimension
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text import chunk_tables
from pyxsim.reports.text.facts import dimension_names, plural
from pyxsim.results.result import Result

MOST_NPUS = 6  # in the menu
MOST_BARS = 1500  # of an NPU
LANE, LEAST, MOST = 15, 220, 620  # pixels
GAP = 0.6  # lanes between two dimensions
WAIT = 0.16  # how high a wait is, of a lane


@html_panel("chunks", section="chunks")
def chunks(result: Result, detail: Detail) -> list[Panel]:
    """The chunks of some NPUs over time, and tables of collectives and phases."""
    panels = []
    npus = _npus(result)
    if npus:
        panels.append(_gantt(result, npus, detail))
    for table in chunk_tables.tables(result):
        sheet = sheet_of(table)
        title, text = _ABOUT[sheet.head[0]]
        panels.append(Panel(title, text, sheet=sheet))
    return panels


_ABOUT = {
    "collective": (
        "Collectives and messages",
        "Time from issue to end, and its ratio to the lower bound; for several calls, mean size and time.",
    ),
    "phase": (
        "Phases of the collective",
        "Means over chunks and NPUs: time of a chunk in the phase, its wait before the phase, and time of a message.",
    ),
    "chunks in dimension": (
        "Chunks in each dimension",
        "At work: share of the run in which an NPU has an active chunk in the dimension. Means: wait of a chunk, and "
        "time of a message.",
    ),
}
"""Titles and descriptions of the tables, by the title of their first column."""


def _npus(result: Result) -> list[int]:
    """NPU 0, the first and the last to finish, and some between."""
    started = result.chunks["start"] >= 0
    ranks = np.unique(result.chunks["rank"][started])
    if not len(ranks):
        return []
    done = np.zeros(int(ranks.max()) + 1, np.int64)
    ends = np.where(result.chunks["end"] < 0, result.time_cycles, result.chunks["end"])
    np.maximum.at(done, result.chunks["rank"][started], ends[started])
    order = ranks[np.argsort(done[ranks], kind="stable")]
    between = order[np.linspace(0, len(order) - 1, MOST_NPUS - 1).round().astype(int)]
    return list(dict.fromkeys([int(ranks[0]), *sorted(between.tolist())]))


def _gantt(result: Result, npus: list[int], detail: Detail) -> Panel:
    clock, names, notes = Clock.of(result), dimension_names(result), []
    several = len(np.unique(result.chunks["collective"])) > 1
    hue = "collective" if several else "chunk"
    traces: list[Any] = []
    ticks: dict[int, tuple[list[float], list[str]]] = {}
    tops: dict[int, float] = {}
    most_left = 0
    for npu in npus:
        top, places, texts = 0.0, [], []
        rows, left = _rows(result, npu, detail.most(MOST_BARS))
        most_left = max(most_left, left)
        lanes = np.zeros(len(rows["start"]))
        for dim, mine in by_dimension(rows):
            high = int(mine["lane"].max()) + 1
            lanes[mine["row"]] = top + mine["lane"] + 0.5
            places.append(top + high / 2)
            texts.append(plain(cut(f"dim {names.get(dim, dim)}" if dim >= 0 else "all dims", NAME)))
            top += high + GAP
        ticks[npu], tops[npu] = (places, texts), top - GAP
        shown = npu == npus[0]
        traces += [
            _waits(clock, rows, lanes, shown=shown),
            _bars(result, clock, rows, lanes, hue, shown=shown),
        ]
    first = npus[0]
    sketch = {
        "xaxis": {"title": {"text": clock.label}, "range": [0, clock.end]},
        "yaxis": _rows_axis(*ticks[first], tops[first]),
        "barmode": "overlay",
        "showlegend": False,
        "margin": {"t": 40 if len(npus) > 1 else 10},
    }
    if len(npus) > 1:
        sketch["updatemenus"] = [buttons([_entry(i, npu, npus, ticks, tops) for i, npu in enumerate(npus)])]
    if most_left:
        notes.append(f"Shortened to the longest bars of each NPU, without up to {plural(most_left, 'shorter one')}.")
    ranks = len(np.unique(result.chunks["rank"]))
    if ranks > len(npus):
        notes.append(f"Shortened to {len(npus)} of {plural(ranks, 'NPU')} in the menu.")
    what = "one color per collective" if several else "one color per chunk, from dark to light"
    text = "Bars: a chunk is active in a dimension. Thin lines: it waits for the dimension. "
    text += f"{what.capitalize()}."
    height = int(np.clip(LANE * max(tops.values()) + 110, LEAST, MOST))
    return Panel("Chunks over time", text, figure(traces, sketch), height, notes=notes)


def _rows(result: Result, npu: int, most: int) -> tuple[dict[str, IntArray], int]:
    """The longest rows of an NPU, and how many are left out."""
    mine = np.flatnonzero((result.chunks["rank"] == npu) & (result.chunks["start"] >= 0))
    table = {name: column[mine] for name, column in result.chunks.items()}
    table["end"] = np.where(table["end"] < 0, result.time_cycles, table["end"])
    long = np.sort(np.argsort(table["start"] - table["end"], kind="stable")[:most])
    kept = {name: column[long] for name, column in table.items()}
    return {**kept, "row": np.arange(len(long))}, len(mine) - len(long)


def _bars(
    result: Result, clock: Clock, rows: dict[str, IntArray], lanes: Any, hue: str, *, shown: bool
) -> dict[str, Any]:
    start, end = clock.at(rows["start"]), clock.at(rows["end"])
    numbers, hues = np.unique(rows[hue], return_inverse=True)
    tints = shades(len(numbers))
    collectives = {i: str(row.get("name") or row.get("kind") or "") for i, row in enumerate(result.collectives)}
    hover_texts = [
        f"chunk {chunk}, phase {phase} of {plain(cut(collectives.get(of) or 'a collective', NAME))}<br>"
        f"{begin:.5g} to {stop:.5g} {clock.unit}, after waiting {begin - ready:.4g}"
        for chunk, phase, of, ready, begin, stop in zip(
            rows["chunk"].tolist(),
            rows["phase"].tolist(),
            rows["collective"].tolist(),
            clock.at(rows["ready"]).tolist(),
            start.tolist(),
            end.tolist(),
            strict=True,
        )
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "base": start,
        "x": end - start,
        "y": lanes,
        "width": 0.86,
        # Colours, and no numbers on a scale: plotly asks each for a colour of its text.
        "marker": {"color": [tints[i] for i in hues.tolist()], "line": {"width": 0}},
        "text": [str(chunk) for chunk in rows["chunk"].tolist()] if len(start) <= _NUMBERED else None,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 9},
        "constraintext": "none",
        "customdata": hover_texts,
        "hovertemplate": "%{customdata}<extra></extra>",
        "visible": shown,
    }


_NUMBERED = 60  # bars that have room for their numbers


def _waits(clock: Clock, rows: dict[str, IntArray], lanes: Any, *, shown: bool) -> dict[str, Any]:
    ready, start = clock.at(rows["ready"]), clock.at(rows["start"])
    return {
        "type": "bar",
        "orientation": "h",
        "base": ready,
        "x": start - ready,
        "y": lanes,
        "width": WAIT,
        "marker": {"color": "#8A93A0", "line": {"width": 0}},
        "hoverinfo": "skip",
        "visible": shown,
    }


def _rows_axis(places: list[float], texts: list[str], top: float) -> dict[str, Any]:
    return {"tickvals": places, "ticktext": texts, "range": [top, 0], "showgrid": False, "zeroline": False}


def _entry(number: int, npu: int, npus: list[int], ticks: Any, tops: Any) -> tuple[str, list[Any]]:
    """The menu entry that shows the bars of one NPU."""
    places, texts = ticks[npu]
    visible = [position == number for position in range(len(npus)) for _ in range(2)]
    axis = {f"yaxis.{name}": value for name, value in _rows_axis(places, texts, tops[npu]).items()}
    return f"NPU {npu}", [{"visible": visible}, axis]
