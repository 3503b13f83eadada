"""The chapter of several results: key figures, links over time, latencies, and settings that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section, cut
from pyxsim.reports.html.panels import latency, network
from pyxsim.reports.html.panels.settings_table import known
from pyxsim.reports.html.plotly_style import NAME, figure, plain, share_axis, tint, unlike
from pyxsim.reports.html.time_windows import beyond, edges, together, top_of
from pyxsim.reports.text import flow_facts, memory_facts, workload_tables
from pyxsim.reports.text.facts import Fact, facts, link_title, percent, plural
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import traffic_facts
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns, time_unit

MOST_POINTS = 400  # of a line
MOST_MAPS = 4
MOST_SETTINGS = 200
ABSENT = "-"
MOST_COLUMNS = 12

Named = Sequence[tuple[str, Result]]


def chapter(named: Named, title: str = "") -> Chapter:
    """Return the chapter of several named results."""
    alarms = [
        f"{name} is incomplete; its numbers cover the simulated part only." for name, r in named if not r.complete
    ]
    return Chapter(
        title or f"{len(named)} results side by side",
        ", ".join(dict.fromkeys(f"pyxsim {result.provenance.get('version', '')}" for _, result in named)),
        _cards(named),
        lambda detail: sections(named, detail),
        lead=list(_lead(named)),
        alarms=alarms,
        files=[cut(name) for name, _ in named],
    )


def _cards(named: Named) -> list[Fact]:
    """The time of each result, and its ratio to the fastest."""
    fastest = min(float(result.time_ns) for _, result in named)
    cards = []
    for name, result in named[:MOST_MAPS]:
        times = float(result.time_ns) / fastest if fastest else 1.0
        note = "the shortest of these" if times == 1 else f"{times:.3f} times the shortest"
        cards.append(Fact(cut(name, 40), format_time_ns(Fraction(result.time_ns)), note))
    return cards


def _lead(named: Named) -> Iterator[str]:
    titles = list(dict.fromkeys(result.title for _, result in named))
    if len(titles) == 1:
        yield f"All results: {titles[0]}."
    order = sorted(named, key=lambda each: float(each[1].time_ns))
    shortest, (last, longest) = order[0][1], order[-1]
    if float(shortest.time_ns) < float(longest.time_ns):
        times = float(longest.time_ns) / float(shortest.time_ns)
        fastest = [name for name, result in order if result.time_ns == shortest.time_ns]
        tie = (
            f"{', '.join(fastest)} were fastest, in the same time" if len(fastest) > 1 else f"{fastest[0]} was fastest"
        )
        yield f"{tie}; {last} took {times:.3f} times as long."
    else:
        yield "All took the same time."


def sections(named: Named, detail: Detail) -> Iterator[Section]:
    """Yield the sections for which the results have data."""
    yield Section("numbers", "Numbers", _numbers(named))
    if overlay := _over_time(named, detail):
        yield Section("links", "Links over time", overlay)
    maps = [map_ for name, result in named[:MOST_MAPS] for map_ in network.still(result, cut(name, NAME), _top(named))]
    if maps:
        yield Section("network", "Network", maps)
    if any(result.traffic is not None for _, result in named):
        yield Section("latency", "Latency", _latencies(named))
    yield Section("settings", "Settings", _settings(named))


def _numbers(named: Named) -> list[Panel]:
    columns = [_facts(result) for _, result in named]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    rows = [[label, *(column.get(label, ABSENT) for column in columns)] for label in labels]
    sheet, notes = _differing(named, rows)
    text = "The summaries; differences from the first column are highlighted."
    panels = [Panel("Side by side", text, sheet=sheet, notes=notes)]
    if len({result.time_ns for _, result in named}) > 1:
        panels.append(_times(named))
    return panels


def _facts(result: Result) -> dict[str, str]:
    of_work = [*workload_tables.facts(result), *memory_facts.facts(result), *flow_facts.facts(result)]
    lines = [*traffic_facts(result), *of_work, *facts(result)]
    values = {fact.label: fact.value for fact in lines}
    if result.ratio is not None and result.complete:
        values["of the lower bound"] = f"{result.ratio:.3f} x"
    if result.has_link_counters:
        values["busiest link"] = percent(float(result.link_utilization.max()))
    return values


def _differing(named: Named, rows: list[list[str]]) -> tuple[Sheet, list[str]]:
    """A table with a column per file; cells that differ from the first file are highlighted."""
    names = [cut(name, 32) for name, _ in named[:MOST_COLUMNS]]
    rows = [row[: MOST_COLUMNS + 1] for row in rows]
    kept = [(i, row) for i, row in enumerate(rows) if row[0] not in _ALWAYS]
    marked = {(i, j) for i, row in kept for j in range(2, len(row)) if row[j] != row[1]}
    notes = [f"Shortened to {MOST_COLUMNS} of {len(named)} files."] if len(named) > MOST_COLUMNS else []
    return Sheet(("", *names), rows, marked=frozenset(marked)), notes


_ALWAYS = ("simulated in", "created")
"""Values that differ between any two runs."""


def _times(named: Named) -> Panel:
    unit, scale = time_unit(max(float(result.time_ns) for _, result in named))
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": unlike([plain(cut(name, NAME)) for name, _ in named]),
        "x": [float(result.time_ns) / scale for _, result in named],
        "marker": {"color": [tint(i) for i in range(len(named))]},
        "hovertemplate": f"%{{x:.5g}} {unit}<extra></extra>",
    }
    sketch: dict[str, Any] = {
        "xaxis": {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "margin": {"t": 10},
        "shapes": [],
    }
    for i, (_, result) in enumerate(named):
        if result.lower_bound_ns:
            x = float(result.lower_bound_ns) / scale
            mark = {
                "type": "line",
                "x0": x,
                "x1": x,
                "y0": i - 0.45,
                "y1": i + 0.45,
                "line": {"width": 2, "dash": "dot"},
            }
            sketch["shapes"].append(mark)
    text = "Simulated time of each result" + ("; dotted: lower bound." if sketch["shapes"] else ".")
    return Panel("Time", text, figure([bars], sketch), 80 + 30 * max(2, len(named)))


def _top(named: Named) -> float:
    return top_of(*(result.link_utilization for _, result in named))


def _over_time(named: Named, detail: Detail) -> list[Panel]:
    """The mean utilization of all links, one line per file; and of each dimension."""
    counted = [(name, result) for name, result in named if result.busy.size and result.has_link_counters]
    if not counted:
        return []
    unit, scale = time_unit(max(float(result.time_ns) for _, result in counted))
    traces: list[Any] = []
    notes: list[str] = []
    means: list[Any] = []
    most = max(1, detail.most(MOST_POINTS) // max(1, len(counted) // 4))
    for i, (name, result) in enumerate(counted):
        use, starts = together(result, most)
        mean = use.mean(axis=1)
        means.append(mean)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(cut(name, NAME)),
                "x": edges(result, starts) * time_unit(float(result.time_ns))[1] / scale,
                "y": np.append(mean, mean[-1]),
                "line": {"shape": "hv", "color": tint(i), "width": 1.8},
                "hovertemplate": "%{y:.1%}",
            }
        )
        if len(use) < len(result.windows) and not notes:
            notes.append(f"Shortened: neighboring windows are averaged to at most {most} per file.")
    sketch = {
        "xaxis": {"title": {"text": f"simulated time ({unit})"}, "rangemode": "tozero"},
        "yaxis": share_axis("share of time spent sending", 1.03 * top_of(*means)),
        "hovermode": "x unified",
    }
    notes += beyond(*means)
    text = "Utilization of the links over time, mean over the links."
    panels = [Panel("All links over time", text, figure(traces, sketch), 320, notes=notes)]
    return [*panels, _dimensions(counted)]


def _dimensions(named: Named) -> Panel:
    """The utilization of the links of each dimension over the whole run."""
    traces = []
    for i, (name, result) in enumerate(named):
        dims = np.unique(result.links.dim).tolist()
        mean = [float(result.link_utilization[result.links.dim == dim].mean()) for dim in dims]
        traces.append(
            {
                "type": "bar",
                "name": plain(cut(name, NAME)),
                "x": [plain(cut(link_title(result, dim), NAME)) for dim in dims],
                "y": mean,
                "marker": {"color": tint(i)},
                "hovertemplate": "%{x}: %{y:.1%}",
            }
        )
    sketch = {
        "barmode": "group",
        "xaxis": {"type": "category", "showgrid": False},
        "yaxis": share_axis("share of the run spent sending"),
    }
    text = "Mean over the links of each dimension or kind, in the whole run."
    return Panel("Dimensions", text, figure(traces, sketch), 280)


def _latencies(named: Named) -> list[Panel]:
    """The cumulative distribution of packet latency, one line per file."""
    traces = []
    for i, (name, result) in enumerate(named):
        if result.traffic is None or not len(result.traffic.latency):
            continue
        groups = [("", result.traffic.latency, counts) for counts in result.traffic.packets]
        values, counts = latency.together(groups)
        reached = np.cumsum(counts) / counts.sum()
        # A step for each thousandth is all that can be seen.
        kept = np.unique(np.searchsorted(reached, np.linspace(0, 1, 1000)).clip(max=len(values) - 1))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(cut(name, NAME)),
                "x": values[kept],
                "y": reached[kept],
                "line": {"shape": "hv", "color": tint(i), "width": 1.8},
                "hovertemplate": "%{y:.1%} took no more than %{x} cycles",
            }
        )
    sketch = {
        "xaxis": {"title": {"text": "packet latency (cycles)"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "share of the packets"}, "tickformat": ".0%", "range": [0, 1.02]},
    }
    text = (
        "Share of the measured packets with at most this latency. The steeper and the further left the curve, the "
        "better."
    )
    return [Panel("Latency of packets", text, figure(traces, sketch), 320)] if traces else []


def _settings(named: Named) -> list[Panel]:
    flat = [flattened(result.experiment) for _, result in named]
    keys = list(dict.fromkeys(key for value in flat for key in value))
    rows = [[key, *(cut(value.get(key, ABSENT), 60) for value in flat)] for key in keys]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    panels = []
    if differ:
        sheet, notes = _differing(named, differ[:MOST_SETTINGS])
        if len(differ) > MOST_SETTINGS:
            notes.append(f"Shortened to {MOST_SETTINGS} of {plural(len(differ), 'setting')}.")
        same = f"{plural(len(rows) - len(differ), 'other setting')} are the same."
        panels.append(
            Panel("Settings that differ", f"Resolved settings, including defaults; {same}", sheet=sheet, notes=notes)
        )
    else:
        panels.append(Panel("Settings that differ", "None; the experiments are the same."))
    columns = [
        {
            "backend": result.backend,
            "seed": str(result.seed),
            "sha256 of the settings": settings_sha256(result.experiment_toml)[:16],
            **{name: cut(value, 32) for name, value in known(result.provenance)},
        }
        for _, result in named
    ]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    sheet, notes = _differing(named, [[label, *(name.get(label, ABSENT) for name in columns)] for label in labels])
    panels.append(Panel("Provenance", "", sheet=sheet, notes=notes))
    return panels


def flattened(settings: Any, path: str = "") -> dict[str, str]:
    """Return settings by key path: "network.dims[0].npus"."""
    if isinstance(settings, dict) and settings:
        inside = [flattened(value, f"{path}.{key}" if path else str(key)) for key, value in settings.items()]
    elif isinstance(settings, list) and any(isinstance(setting, dict) for setting in settings):
        inside = [flattened(value, f"{path}[{i}]") for i, value in enumerate(settings)]
    else:
        return {path: str(settings)} if path else {}
    return {key: value for panel in inside for key, value in panel.items()}


def names_of(paths: Sequence[str]) -> list[str]:
    """Return a distinct name per file: the shortest distinct ends of their paths."""
    parts = [list(reversed(path.replace("\\", "/").split("/"))) for path in paths]
    for depth, _ in enumerate(zip_longest(*parts), 1):
        names = ["/".join(reversed(part[:depth])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]
