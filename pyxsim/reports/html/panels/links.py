"""Panels of links: utilization over time, stalls, buffers, the busiest links."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import NAME, faded, figure, plain, share_axis, tint, unlike
from pyxsim.reports.html.time_windows import beyond, edges, together, top_of
from pyxsim.reports.plots.link_plots import MAX_NAMED, bands
from pyxsim.reports.plots.network_plot import topology_of
from pyxsim.reports.plots.style import STALL_COLOURS, Clock, thinned
from pyxsim.reports.text.facts import (
    STALL_WORDS,
    dimensions,
    equals,
    hottest,
    link_title,
    percent,
    plural,
    rounded,
    waiting_titles,
)
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import STALLS, Result
from pyxsim.units import format_time_ns

MOST_POINTS = 500  # of a line
MOST_COLUMNS, MOST_CELLS = 400, 120_000  # of the heat map
MOST_DIMENSIONS = 12
MOST_HOT = 20
MOST_TICKS = 16
ROW = 26  # pixels of a bar with its name


@html_panel("links-over-time", section="links", applies=lambda result: result.has_link_counters)
def links_over_time(result: Result, detail: Detail) -> list[Panel]:
    """The utilization of each dimension and of each link over time."""
    return [_dimensions(result, detail), _every_link(result, detail)]


def _dimensions(result: Result, detail: Detail) -> Panel:
    clock, notes = Clock.of(result), []
    use, starts = together(result, detail.most(MOST_POINTS))
    # A step line ends at its last point: the last step is repeated.
    times, again = edges(result, starts), [*range(len(starts)), len(starts) - 1]
    dims = np.unique(result.links.dim).tolist()
    traces: list[dict[str, Any]] = []
    for dim in dims[:MOST_DIMENSIONS]:
        mine = use[again][:, result.links.dim == dim]
        name = plain(cut(link_title(result, dim), NAME))
        step: dict[str, Any] = {"type": "scatter", "x": times, "mode": "lines", "legendgroup": name}
        shape: dict[str, Any] = {"shape": "hv", "color": tint(dim)}
        traces.append(
            {
                **step,
                "y": mine.max(axis=1),
                "line": {**shape, "width": 0},
                "fill": "tozeroy",
                "fillcolor": faded(tint(dim), 0.16),
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
        mean_line = {"name": name, "hovertemplate": "%{y:.1%}", "line": {**shape, "width": 1.8}}
        traces.append({**step, "y": mine.mean(axis=1), **mean_line})
    if len(dims) > MOST_DIMENSIONS:
        notes.append(f"Shortened to {MOST_DIMENSIONS} of {len(dims)} dimensions.")
    if len(use) < len(result.windows):
        notes.append(f"Shortened: the {len(result.windows):,} windows are averaged to {len(use)}.")
    notes += beyond(use)
    sketch = {
        "xaxis": {"title": {"text": clock.label}, "range": [0, clock.end]},
        "yaxis": share_axis("share of time spent sending", 1.03 * top_of(use)),
        "hovermode": "x unified",
    }
    what = "Kinds of links" if result.link_kinds else "Dimensions"
    text = (
        "Utilization of the links of each: the mean over the links (line) and the busiest link (upper edge of the "
        "shade)."
    )
    return Panel(f"{what} over time", text, figure(traces, sketch), 300, notes=notes)


def _every_link(result: Result, detail: Detail) -> Panel:
    clock, rows = Clock.of(result), bands(result)
    ordered = np.concatenate([band.links for band in rows])
    columns, starts = together(result, detail.most(MOST_COLUMNS))
    most = max(1, detail.most(MOST_CELLS) // max(1, len(columns)))
    notes = []
    share, firsts = thinned(columns[:, ordered].T, most)
    heights = np.append(firsts, len(ordered))
    if share.size < result.busy.size:
        windows = -(-len(result.windows) // len(columns))
        cell = f"{plural(-(-len(ordered) // len(share)), 'link')} by {plural(windows, 'window')}"
        notes.append(f"Shortened: a cell is the mean of up to {cell}.")
    heat = {
        "type": "heatmap",
        "x": edges(result, starts),
        "y": heights,
        "z": share.astype(np.float32),
        "coloraxis": "coloraxis",
        "hovertemplate": "<b>%{z:.1%}</b> busy<br>%{x:.4g} " + clock.unit + "<br>row %{y}<extra></extra>",
    }
    ticks = _row_names(result, rows)
    sketch = {
        "xaxis": {"title": {"text": clock.label}, "range": [0, clock.end], "showgrid": False},
        "yaxis": {
            "range": [len(ordered), 0],
            "showgrid": False,
            "zeroline": False,
            "tickvals": [place for place, _ in ticks],
            "ticktext": [plain(cut(text, NAME)) for _, text in ticks],
        },
        "coloraxis": {"cmin": 0, "cmax": top_of(result.utilization), "colorbar": {"len": 1.04}},
        "margin": {"t": 12},
    }
    window = format_time_ns(result.windows.length * 10**9 / result.clock_hz)
    if topology_of(result) is None:
        notes.append(
            "The network is not drawn, because its topology is not on a shelf. `--library DIR` adds a shelf "
            "of your own."
        )
    text = f"Each row is a link and each column a time: the share of each {window} that the link spent sending."
    height = int(np.clip(14 * len(ordered) + 90, 200, 460))
    return Panel("Every link over time", text, figure([heat], sketch), height, notes=notes)


def _row_names(result: Result, rows: list[Any]) -> list[tuple[float, str]]:
    """Labels beside the rows: of links, directions or dimensions, whichever fit."""
    place, placed = 0, []
    for band in rows:
        placed.append((place, band))
        place += len(band.links)
    if len(result.links) <= MAX_NAMED:
        return [(top + i + 0.5, result.links.name[link]) for top, band in placed for i, link in enumerate(band.links)]
    if len(rows) <= MAX_NAMED:
        return [(top + len(b.links) / 2, f"{link_title(result, b.dim)} {b.tag}".strip()) for top, b in placed]
    dims: dict[int, list[tuple[int, Any]]] = {}
    for top, band in placed:
        dims.setdefault(band.dim, []).append((top, band))
    middles = [(d, (mine[0][0] + mine[-1][0] + len(mine[-1][1].links)) / 2) for d, mine in dims.items()]
    return [(middle, link_title(result, dim)) for dim, middle in middles[:MAX_NAMED]]


@html_panel("waiting", section="waiting")
def waiting(result: Result, detail: Detail) -> list[Panel]:
    """Causes of stalls per dimension, and buffer occupancy."""
    panels = []
    if len(result.links) and any(result.totals[name].any() for name in STALLS):
        panels.append(_stalls(result))
    if result.buffer_max is not None and result.buffer_max.any():
        panels.append(_buffers(result))
    return panels


def _stalls(result: Result) -> Panel:
    uses = dimensions(result)[:MOST_DIMENSIONS]
    names = unlike([plain(cut(use.name, NAME)) for use in uses])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": STALL_WORDS[name],
            "y": names,
            "x": [use.stalls[i] for use in uses],
            "marker": {"color": STALL_COLOURS[name]},
            "hovertemplate": f"{STALL_WORDS[name]}: %{{x:.2%}} of the time<extra></extra>",
        }
        for i, name in enumerate(STALLS)
        if name in result.stall_causes
    ]
    sketch = {
        "barmode": "stack",
        "xaxis": share_axis("share of the run, mean over the links"),
        "yaxis": {"autorange": "reversed", "showgrid": False},
        "legend": {"traceorder": "normal"},
    }
    text = (
        "Flits that could not advance, because they had no credit or virtual channel or lost arbitration, or because "
    )
    text += "the link was busy (which is normal)."
    return Panel("What flits waited for", text, figure(traces, sketch), 120 + ROW * max(2, len(uses)), wide=False)


def _buffers(result: Result) -> Panel:
    """The maximum occupancy of the VC buffers of each link, as a histogram over links."""
    assert result.buffer_max is not None
    dims = np.unique(result.links.dim).tolist()[:MOST_DIMENSIONS]
    traces = []
    for dim in dims:
        depth, count = np.unique(result.buffer_max[result.links.dim == dim], return_counts=True)
        name = plain(cut(link_title(result, dim), NAME))
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": depth,
                "y": count,
                "marker": {"color": tint(dim)},
                "hovertemplate": "%{y} links: %{x} flits at most<extra>" + name + "</extra>",
            }
        )
    sketch = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "maximum number of flits in a VC buffer"}, **_whole(int(result.buffer_max.max()))},
        "yaxis": {"title": {"text": "links"}},
    }
    text = "Queue depth at the links: the maximum number of flits in a VC buffer of each link."
    return Panel("Queues", text, figure(traces, sketch), 230, wide=False)


def _whole(most: int) -> dict[str, Any]:
    """An axis of integers from 0."""
    return {"range": [-0.6, most + 0.6], **({"dtick": 1} if most <= MOST_TICKS else {})}


@html_panel("hot-links", section="hot", applies=lambda result: result.has_link_counters)
def hot(result: Result, detail: Detail) -> Panel:
    """The busiest links."""
    uses = hottest(result, MOST_HOT)
    numbers = {name: link for link, name in enumerate(result.links.name)}
    buffers = result.buffer_max if result.buffer_max is not None and result.buffer_max.any() else None
    rows = []
    for use in uses:
        link = numbers[use.name]
        ends = f"{result.links.src[link]} to {result.links.dst[link]}"
        kind = link_title(result, int(result.links.dim[link]))
        waits = ["-" if not share else percent(share) for share in use.waited(result.stall_causes)]
        row = [use.name, ends, kind, rounded(use.bandwidth, "B/s"), percent(use.mean), *waits]
        rows.append([*row, *([f"{buffers[link]:,}"] if buffers is not None else [])])
    titles = waiting_titles(result.stall_causes)
    head = ["link", "routers", "of", "bandwidth", "busy", *titles, *(["fullest VC"] if buffers is not None else [])]
    text = "Utilization and stalls as shares of the run; the fullest VC in flits."
    if not titles:
        text = "Busy time as a share of the run."
    notes = []
    if more := equals(result, MOST_HOT):
        notes.append(f"{plural(more, 'further link')} as busy as the last one.")
    elif len(result.links) > MOST_HOT:
        notes.append(f"Shortened to the {MOST_HOT} busiest of {plural(len(result.links), 'link')}.")
    return Panel("The busiest links", text, sheet=Sheet(head, rows, ("routers", "of")), notes=notes)
