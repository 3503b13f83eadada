"""Panels of the network: links coloured by utilization over the run and in each time window of a slider.

A link is a region of a choropleth map: its outline is in the page once, and each window adds one number per link. Many
windows fit, links respond to the mouse along their whole length, and lines stay sharp in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice, pairwise
from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray
from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.html.plotly_style import LETTER, figure, plain
from pyxsim.reports.html.time_windows import beyond, edges, together, top_of
from pyxsim.reports.plots.network_layout import Layout, layout
from pyxsim.reports.plots.network_plot import topology_of
from pyxsim.reports.plots.projections import MOST_DRAWN, VIEWS, busiest
from pyxsim.reports.plots.style import Clock
from pyxsim.reports.text.facts import STALL_WORDS, link_title, plural
from pyxsim.results.result import Result
from pyxsim.topology import Topology
from pyxsim.topology.place import Points

MOST_WINDOWS = 120
MOST_VALUES = 160_000  # of links in windows
WHOLE = "whole run"
WIDE, SMALL = 900, 420  # pixels that the picture has for its width, about; beside another one
MOST_STILL = 1500  # links of a picture that stands beside others
HIGHEST, LOWEST = 660, 260
FRAME = 116  # pixels of the slider
PACE = 250  # milliseconds of a window while it plays
DEGREES = 2.0  # of the map: so few that a sphere is flat
DIGITS = 4  # of a degree: a twentieth of a pixel
BENDS = (5, 20)  # points of a curved link, at least and at most
MOST_BENDS = 20_000
CORNERS = (12, 48)  # of a circle, at least and at most
MOST_CORNERS = 2000
LEAST_LINE = 1.1  # pixels
SMALLEST_LETTER = 7


@html_panel("network", section="network")
def network(result: Result, detail: Detail) -> list[Panel]:
    """The drawing of the network, or projections along its dimensions if it has too many links."""
    topology = topology_of(result)
    if topology is None or not result.has_link_counters:
        return []
    if topology.links > detail.most(MOST_DRAWN):
        return [_along_dimensions(result, topology, detail)]
    return [_drawn(result, topology, detail)]


def still(result: Result, title: str, top: float) -> list[Panel]:
    """Return a small drawing without a slider, for a page of several results; `top` is the end of the colour scale."""
    topology = topology_of(result)
    if topology is None or not result.has_link_counters or len(result.links) > MOST_STILL:
        return []
    place = _Map.of(plan := layout(topology), SMALL)
    traces = [_regions(result, plan, place, topology.links), *_routers(topology, plan, place)]
    text = f"Utilization of {plural(topology.links, 'link')} over the whole run.{_not_drawn(topology)}"
    made = _moving(traces, _sketch(place), [], _Windows([], [], top, []), top)
    return [Panel(title, text, made, place.pixels + 24, wide=False)]


def _not_drawn(topology: Topology) -> str:
    hosts = topology.counted_links - topology.links
    return f" The {plural(hosts, 'host link')} are not drawn." if hosts else ""


def _regions(result: Result, plan: Layout, place: _Map, links: int) -> dict[str, Any]:
    return {
        "type": "choropleth",
        "geojson": _outlines(plan, place),
        "locations": list(range(links)),
        "z": result.link_utilization[:links].astype(np.float32),
        "coloraxis": "coloraxis",
        "marker": {"line": {"width": 0}},
        **_hover_texts(result, links),
        "showscale": False,
    }


def _sketch(place: _Map) -> dict[str, Any]:
    return {
        "geo": {
            "projection": {"type": "equirectangular"},
            "lonaxis": {"range": [-place.wide / 2, place.wide / 2]},
            "lataxis": {"range": [-place.high / 2, place.high / 2]},
            "domain": {"x": [0, 0.94], "y": [0, 1]},
        },
        "dragmode": "pan",
    }


def _drawn(result: Result, topology: Topology, detail: Detail) -> Panel:
    plan = layout(topology)
    place = _Map.of(plan)
    windows = _Windows.of(result, topology.links, detail)
    use = result.link_utilization
    height = place.pixels + (FRAME if len(windows) else 24)
    frames = [
        {"type": "choropleth", "z": values[: topology.links].astype(np.float32)} for values in (use, *windows.values)
    ]
    return Panel(
        "The network: utilization of each link",
        f"{plural(topology.links, 'link')} between {plural(topology.routers, 'router')}; the color of a link shows "
        "the share of the time that it spent sending, on the same scale in every window."
        " The two directions of a link are drawn side by side, each on the right of its direction"
        f"{'; a square is a switch' if topology.switches else ''}.{_not_drawn(topology)}",
        _moving(
            [_regions(result, plan, place, topology.links), *_routers(topology, plan, place)],
            _sketch(place),
            [[frame] for frame in frames],
            windows,
            windows.top,
        ),
        height,
        notes=windows.notes,
    )


class _Windows:
    """The steps of the slider: `values` of merged time windows, and their `labels`."""

    def __init__(self, values: Sequence[FloatArray], labels: list[str], top: float, notes: list[str]) -> None:
        self.values, self.labels, self.top, self.notes = values, labels, top, notes

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, result: Result, cells: int, detail: Detail) -> _Windows:
        """Make the steps; `cells` is the number of values per step."""
        use = result.utilization
        top = top_of(result.link_utilization, use)
        most = min(MOST_WINDOWS, detail.most(MOST_VALUES) // max(1, cells))
        if len(use) < 2 or most < 2:
            none = ["Shortened: the page has no space for time windows."] if len(use) > 1 else []
            return cls([], [], top, [*_scale(top), *beyond(result.link_utilization), *none])
        shown, starts = together(result, most)
        unit = Clock.of(result).unit
        labels = [f"{begin:.4g} to {end:.4g} {unit}" for begin, end in pairwise(edges(result, starts).tolist())]
        notes = [*_scale(top), *beyond(result.link_utilization, use)]
        if len(shown) < len(use):
            each = int(starts[1]) if len(starts) > 1 else len(use)
            notes.append(f"Shortened: the slider has {len(shown)} steps for {len(use):,} windows ({each} per step).")
        return cls(list(shown), labels, top, notes)


def _scale(top: float) -> list[str]:
    return [f"The color scale ends at {100 * top:g} %; no link was busier in any window."] if top < 1 else []


def _moving(traces: list[Any], sketch: dict[str, Any], frames: list[list[Any]], windows: _Windows, top: float) -> Any:
    """The figure with its slider: the whole run first, then the windows. `frames` are the changing traces."""
    labels = [WHOLE, *windows.labels]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": label, "args": [[str(i)], at_once]} for i, label in enumerate(labels)]
    slowly = {**at_once, "fromcurrent": True, "frame": {"duration": PACE, "redraw": True}}
    play = {
        "type": "buttons",
        "direction": "left",
        "showactive": False,
        "x": 0.94,
        "xanchor": "right",
        "y": 0,
        "yanchor": "top",
        "pad": {"t": 4, "r": 0},
        "buttons": [
            {"label": "play", "method": "animate", "args": [None, slowly]},
            {"label": "stop", "method": "animate", "args": [[None], at_once]},
        ],
    }
    slider = {
        "steps": steps,
        "active": 0,
        "currentvalue": {"prefix": "", "xanchor": "left"},
        "pad": {"t": 14, "b": 0},
        "len": 0.94,
        "x": 0,
        "ticklen": 0,
        "minorticklen": 0,
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
    }
    shown = {
        **sketch,
        "coloraxis": {"cmin": 0, "cmax": top, "colorbar": {"len": 0.9, "x": 0.96, "xpad": 0}},
        "showlegend": False,
        "margin": {"l": 8, "r": 56, "t": 8, "b": 8},
        **({"sliders": [slider], "updatemenus": [play]} if len(windows) else {}),
    }
    made = [{"name": str(i), "data": data, "traces": list(range(len(data)))} for i, data in enumerate(frames)]
    return figure(traces, shown, made if len(windows) else ())


class _Map:
    """Maps layout positions to degrees from the map's center; `wide` and `high` in degrees, height in `pixels`."""

    def __init__(self, low: Points, high: Points, pixels: int) -> None:
        size = np.maximum(high - low, 1e-9)
        self.middle = (low + high) / 2
        self.scale = DEGREES / float(size.max())
        self.wide, self.high = (size * self.scale).tolist()
        fits = pixels * self.high / self.wide
        self.pixels = round(float(np.clip(fits, LOWEST, HIGHEST)))
        self.per_degree = min(pixels / self.wide, self.pixels / self.high)

    @classmethod
    def of(cls, plan: Layout, pixels: int = WIDE) -> _Map:
        points = np.concatenate([plan.at - plan.radius, plan.at + plan.radius, *plan.strokes])
        low, high = points.min(axis=0), points.max(axis=0)
        if plan.notes:
            high = np.maximum(high, [high[0], max(y for _, y, _ in plan.notes) + 0.4])
        edge = 0.6 * plan.radius
        return cls(low - edge, high + edge, pixels)

    def at(self, points: Points) -> Points:
        return np.asarray((points - self.middle) * self.scale)

    def length(self, pixels: float) -> float:
        """Convert pixels to steps of the layout."""
        return float(pixels / self.per_degree / self.scale)


def _outlines(plan: Layout, place: _Map) -> dict[str, Any]:
    """Each link as a narrow arrow along its line; both parts of a cut link."""
    half = max(0.75 * plan.lane, place.length(LEAST_LINE) / 2)
    bends = int(np.clip(MOST_BENDS // max(1, len(plan.strokes)), *BENDS))
    shapes: dict[int, list[Any]] = {}
    for stroke, link in zip(plan.strokes, plan.stroke_link, strict=True):
        shapes.setdefault(link, []).append([_ring(place.at(_arrow(stroke, half, bends)))])
    return _features({link: {"type": "MultiPolygon", "coordinates": rings} for link, rings in shapes.items()})


def _features(shapes: dict[int, Any]) -> dict[str, Any]:
    rows = [
        {"type": "Feature", "id": key, "properties": {}, "geometry": indices} for key, indices in sorted(shapes.items())
    ]
    return {"type": "FeatureCollection", "features": rows}


def _arrow(stroke: Points, half: float, bends: int) -> Points:
    """The outline of a line of width 2 * `half` that ends in a point."""
    line = stroke[np.linspace(0, len(stroke) - 1, min(bends, len(stroke))).round().astype(int)]
    ahead = np.gradient(line, axis=0)
    ahead /= np.maximum(np.hypot(*ahead.T), 1e-9)[:, np.newaxis]
    side = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1) * half
    tip = min(2.5 * half, 0.5 * float(np.hypot(*(line[-1] - line[-2]))))
    neck = line.copy()
    neck[-1] -= ahead[-1] * tip
    return np.concatenate([neck + side, line[-1:], (neck - side)[::-1]])


def _ring(points: Points) -> list[list[float]]:
    """A closed clockwise ring; on a sphere the other direction is its complement."""
    x, y = points.T
    if float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) > 0:
        points = points[::-1]
    rounded = points.round(DIGITS).tolist()
    return [*rounded, rounded[0]]


def _routers(topology: Topology, plan: Layout, place: _Map) -> list[dict[str, Any]]:
    """NPUs as circles and switches as squares, with names where they fit."""
    count, r = topology.routers, plan.radius
    is_switch = ~np.isin(np.arange(count), topology.home)
    turn = np.linspace(0, 2 * np.pi, int(np.clip(MOST_CORNERS // count, *CORNERS)), endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1) * r
    square = np.array([[-r, -r], [-r, r], [r, r], [r, -r]])
    shapes = {
        i: {"type": "Polygon", "coordinates": [_ring(place.at(plan.at[i] + (square if is_switch[i] else circle)))]}
        for i in range(count)
    }
    npus = _npus_at(topology)
    names = [f"switch {i - count + int(is_switch.sum())}" if is_switch[i] else f"NPU {npus[i]}" for i in range(count)]
    depth = plan.depth if plan.depth is not None else np.zeros(count)
    nodes = {
        "type": "choropleth",
        "geojson": _features(shapes),
        "locations": list(range(count)),
        "z": np.where(is_switch, 1.0, 0.35 * depth),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "#FFFFFF"], [0.35, "#C3D3E2"], [0.36, "#FFE9A8"], [1, "#FFE9A8"]],
        "showscale": False,
        "marker": {"line": {"width": 0.7, "color": "#5B6675"}},
        "text": [plain(name) for name in names],
        "hovertemplate": "%{text}<extra></extra>",
    }
    traces = [nodes]
    size = _letters(plan, place, npus, int(is_switch.sum()))
    if size >= SMALLEST_LETTER:
        short = [f"S{i - count + int(is_switch.sum())}" if is_switch[i] else npus[i] for i in range(count)]
        traces.append(_label_trace(place.at(plan.at), short, size, "#2B3440"))
    if plan.notes:
        at = place.at(np.array([[x, y] for x, y, _ in plan.notes]))
        traces.append(_label_trace(at, [text for *_, text in plan.notes], LETTER, "#7A8696"))
    return traces


def _letters(plan: Layout, place: _Map, npus: dict[int, str], switches: int) -> float:
    """The font size in pixels that fits into the circles."""
    longest = max([*map(len, npus.values()), len(f"S{switches}") if switches else 1])
    wide = 2 * plan.radius * place.scale * place.per_degree
    return float(min(LETTER, 0.92 * wide / max(1.2, 0.6 * longest)))


def _label_trace(at: Points, texts: list[str], size: float, colour: str) -> dict[str, Any]:
    return {
        "type": "scattergeo",
        "lon": at[:, 0].round(DIGITS),
        "lat": at[:, 1].round(DIGITS),
        "mode": "text",
        "text": [plain(text) for text in texts],
        "textfont": {"size": size, "color": colour},
        "hoverinfo": "skip",
    }


def _npus_at(topology: Topology) -> dict[int, str]:
    """The NPUs of each router: "0", or "0-3"."""
    order = np.argsort(topology.home, kind="stable")
    starts = np.flatnonzero(np.diff(topology.home[order], prepend=-1))
    groups = np.split(order, starts[1:])
    return {
        int(topology.home[group[0]]): str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
        for group in groups
    }


def _hover_texts(result: Result, count: int) -> dict[str, Any]:
    """The hover texts of the first `count` links: words, and numbers of the whole run."""
    links, cycles = result.links, max(1, result.time_cycles)
    kinds = {dim: plain(link_title(result, dim)) for dim in np.unique(links.dim).tolist()}
    columns = links.name, links.src.tolist(), links.dst.tolist(), links.dim.tolist()
    ends = zip(*(column[:count] for column in columns), strict=True)
    causes = result.stall_causes
    shares = [result.link_utilization, *(result.totals[name] / cycles for name in causes)]
    waits = ", ".join(f"{STALL_WORDS[name]} %{{customdata[{i}]:.1%}}" for i, name in enumerate(causes, 1))
    return {
        "text": [f"{plain(cut(name))}<br>router {src} to {dst}, {kinds[dim]}" for name, src, dst, dim in ends],
        "customdata": np.stack(shares, axis=1)[:count].astype(np.float32),
        "hovertemplate": "<b>%{z:.1%}</b> busy<br>%{text}<br>whole run: busy %{customdata[0]:.1%}"
        + (f", flits waited for {waits}" if waits else "")
        + "<extra></extra>",
    }


def _along_dimensions(result: Result, topology: Topology, detail: Detail) -> Panel:
    """Heat maps for pairs of dimensions, with the same slider: a cell is the busiest link at the routers there."""
    real = [dim for dim, size in enumerate(topology.shape) if size > 1] or [0]
    pairs: list[tuple[int, int | None]] = list(islice(combinations(real, 2), VIEWS)) or [(real[0], None)]
    cells = sum(topology.shape[a] * (1 if b is None else topology.shape[b]) for a, b in pairs)
    # Windows are taken together before they are projected: the mean of the busiest is not the busiest of the means.
    windows = _Windows.of(result, cells, detail)
    seen = [[_cells(topology, values, pair) for pair in pairs] for values in (result.link_utilization, *windows.values)]
    sketch: dict[str, Any] = {}
    wide = 0.92 / len(pairs)
    for i, (across, up) in enumerate(pairs):
        end = "" if i == 0 else str(i + 1)
        axis_style = {"showgrid": False, "zeroline": False}
        place = [i * wide, (i + (0.84 if len(pairs) > 1 else 1)) * wide]
        sketch[f"xaxis{end}"] = {
            "title": {"text": f"coordinate {across}"},
            "domain": place,
            "anchor": f"y{end}",
            **axis_style,
        }
        sketch[f"yaxis{end}"] = {
            "title": {"text": f"coordinate {up}"},
            "anchor": f"x{end}",
            "visible": up is not None,
            **axis_style,
        }
    traces = [
        {
            "type": "heatmap",
            "z": z,
            "coloraxis": "coloraxis",
            "hoverongaps": False,
            "xaxis": f"x{i + 1 if i else ''}",
            "yaxis": f"y{i + 1 if i else ''}",
            "hovertemplate": "<b>%{z:.1%}</b> busy at most<br>coordinates %{x}, %{y}<extra></extra>",
        }
        for i, z in enumerate(seen[0])
    ]
    frames = [[{"type": "heatmap", "z": z} for z in views] for views in seen]
    made = _moving(traces, sketch, frames, windows, windows.top)
    made.update_layout(margin={"l": 60, "t": 16, "b": 30})
    made.update_layout(sliders=[{"pad": {"t": 54}}] * len(made.layout.sliders))
    made.update_layout(updatemenus=[{"pad": {"t": 46}}] * len(made.layout.updatemenus))
    text = (
        f"{plural(topology.links, 'link')} are too many to draw one by one. A cell shows the busiest link at the "
        "routers with these coordinates; its color is the share of the time that this link spent sending."
    )
    bounded = f"Shortened: {plural(topology.links, 'link')} are drawn as {cells:,} cells."
    return Panel("The network along its dimensions", text, made, 460, notes=[bounded, *windows.notes])


def _cells(topology: Topology, values: FloatArray, pair: tuple[int, int | None]) -> FloatArray:
    share, present = busiest(topology, values, *pair)
    return np.where(present, share, np.nan).T.astype(np.float32)
