"""Panels of the Ethernet backend: flow completion times, slowdowns, queues over time, pauses."""

from __future__ import annotations

import numpy as np

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import NAME, figure, plain, share_axis, tint, unlike
from pyxsim.reports.html.time_windows import edges
from pyxsim.reports.plots.flow_plots import (
    MAX_COLUMNS,
    FlowPoints,
    PauseTree,
    QueueMap,
    has_flows,
    has_pauses,
    has_queues,
    slowdown_classes,
)
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text.facts import plural
from pyxsim.results.result import Result

MOST_POINTS = 4000  # of a scatter plot
MOST_STEPS = 400  # of a distribution
ROW = 18  # pixels
SECTION = "Messages and queues"


@html_panel("flows", section=SECTION, applies=has_flows)
def flows(result: Result, detail: Detail) -> list[Panel]:
    """Completion times against size, and the distribution of slowdowns."""
    points = FlowPoints.of(result, detail.most(MOST_POINTS))
    hover = "%{y:.4g} " + points.unit + ", %{x} bytes, slowdown %{customdata:.3g}<extra></extra>"
    scatter = {
        "type": "scattergl" if len(points.time) > 1000 else "scatter",
        "mode": "markers",
        "x": points.nbytes,
        "y": points.time,
        "customdata": points.slowdown,
        "marker": {"size": 5, "opacity": 0.45, "color": tint(0)},
        "name": "message",
        "hovertemplate": hover,
    }
    sizes, where = np.unique(points.nbytes, return_inverse=True)
    least = np.full(len(sizes), np.inf)
    np.minimum.at(least, where.ravel(), points.ideal)
    ideal = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": sizes,
        "y": least,
        "name": "ideal",
        "line": {"color": tint(4), "width": 1.4},
        "marker": {"symbol": "line-ew-open", "size": 9},
        "hovertemplate": "ideal %{y:.4g} " + points.unit + "<extra></extra>",
    }
    sketch = {
        "xaxis": {"type": "log", "title": {"text": "size (bytes)"}},
        "yaxis": {"type": "log", "title": {"text": f"completion time ({points.unit})"}},
    }
    text = "Each point is a message; the line is the time of a message alone on the network, between the nearest NPUs."
    notes = [f"Shortened: {plural(points.left_out, 'message')} left out."] if points.left_out else []
    times = Panel("Flow completion time", text, figure([scatter, ideal], sketch), 300, notes=notes, wide=False)
    traces = []
    for number, (label, values) in enumerate(slowdown_classes(result)):
        chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), detail.most(MOST_STEPS))).astype(int))
        line = {"type": "scatter", "mode": "lines", "name": label, "x": values[chosen]}
        look = {"line": {"color": tint(number), "shape": "hv", "width": 1.8}, "hovertemplate": "%{y:.1%}: %{x:.4g}"}
        traces.append({**line, **look, "y": (chosen + 1) / len(values)})
    sketch = {"xaxis": {"type": "log", "title": {"text": "slowdown"}}, "yaxis": share_axis("share of messages", 1.0)}
    text = "Completion time over the ideal time, by size of the message."
    return [times, Panel("Slowdown", text, figure(traces, sketch), 300, wide=False)]


@html_panel("queues", section=SECTION, applies=has_queues)
def queues(result: Result, detail: Detail) -> Panel:
    """The depth of the deepest queues over time."""
    shown, clock = QueueMap.of(result, columns=detail.most(MAX_COLUMNS)), Clock.of(result)
    names = unlike([plain(cut(result.links.name[link], NAME)) for link in shown.links])
    trace = {
        "type": "heatmap",
        "x": edges(result, shown.starts),
        "y": np.arange(len(names) + 1),
        "z": shown.depth.T.astype(np.float32),
        "coloraxis": "coloraxis",
        "hovertemplate": "<b>%{z:.4g} KiB</b><br>%{x:.4g} " + clock.unit + "<extra></extra>",
    }
    bar = {"len": 1.04, "title": {"text": "KiB"}, "tickformat": ",.4~g"}
    sketch = {
        "xaxis": {"title": {"text": clock.label}, "range": [0, clock.end], "showgrid": False},
        "yaxis": {
            "range": [len(names), 0],
            "showgrid": False,
            "zeroline": False,
            "tickvals": np.arange(len(names)) + 0.5,
            "ticktext": names,
        },
        "coloraxis": {"cmin": 0, "cmax": float(shown.depth.max()), "colorbar": bar},
        "margin": {"t": 12},
    }
    notes = [f"Shortened: {plural(shown.left_out, 'link')} with shorter queues left out."] if shown.left_out else []
    text = "Most bytes in the queue of one class of each link, in each time window."
    return Panel("Queues over time", text, figure([trace], sketch), 120 + ROW * len(names), notes=notes)


@html_panel("pauses", section=SECTION, applies=has_pauses)
def pauses(result: Result, detail: Detail) -> Panel:
    """The links that were paused longest, each behind the link that caused its last pause."""
    shown = PauseTree.of(result)
    names = unlike(
        [
            "\u203a " * depth + plain(cut(result.links.name[link], NAME))
            for link, depth in zip(shown.links.tolist(), shown.depth.tolist(), strict=True)
        ]
    )
    bar = {
        "type": "bar",
        "orientation": "h",
        "x": shown.share,
        "y": names,
        "text": shown.notes(),
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": [tint(int(dim)) for dim in result.links.dim[shown.links]]},
        "hovertemplate": "%{x:.2%}, %{text}<extra></extra>",
    }
    sketch = {
        "xaxis": share_axis("share of the run in which the link was paused", 1.2 * float(shown.share.max())),
        "yaxis": {"autorange": "reversed", "showgrid": False},
    }
    notes = [f"Shortened: {plural(shown.left_out, 'further link')} left out."] if shown.left_out else []
    text = (
        "Links whose receiver asked them to pause a class (PFC), below the link whose queue caused their last pause. "
        "The root of a chain of pauses is a link that was not paused itself when they began."
    )
    if len(victims := np.flatnonzero(result.flows["victim_time"] > 0)):
        text += f" {plural(len(victims), 'message')} waited although they do not use the root."
    return Panel("Pause tree", text, figure([bar], sketch), 110 + ROW * len(names), notes=notes)
