"""The cost of a router visit and the memory of a network as one parameter changes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.measure import once, spread
from benchmarks.traffic import Open

WORK = 1_000_000  # approximate router visits of a point
LINK_LOAD = 0.4  # load of the links where the network grows: paths are longer in a larger one
BASE = Open(8, 0.2, 0)
MESH = replace(BASE, topology="mesh")  # needs only one VC


class Curve(NamedTuple):
    """`of`: the traffic at a point."""

    label: str
    points: Sequence[float]
    of: Callable[[Any], Open]


def _of_size(side: int) -> Open:
    # Uniform traffic on a k-ary 2-cube loads its links with k / 8 flits for each that a node sends.
    return replace(BASE, side=side, load=min(LINK_LOAD * 8 / side, 0.8))


CURVES = {
    "size": Curve("routers on a side, links busy for 40 %", (4, 8, 16, 32, 64), _of_size),
    "load": Curve("flits per node and cycle", (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), lambda x: replace(BASE, load=x)),
    "vcs": Curve("VCs, on a mesh", (1, 2, 4, 8, 16, 32, 64), lambda x: replace(MESH, vcs=x)),
    "buffer": Curve("flits in the buffer of a VC", (1, 2, 4, 8, 16, 64, 256, 1024), lambda x: replace(BASE, buffer=x)),
    "packet": Curve("flits in a packet", (1, 2, 3, 5, 8, 16, 32, 64), lambda x: replace(BASE, flits=x)),
    "message": Curve("packets of 5 flits in a message", (1, 2, 4, 8, 16, 32), lambda x: replace(BASE, message=x)),
}


def at(name: str, x: float) -> Open:
    """Return the traffic of a point, with enough cycles for about WORK router visits."""
    of = CURVES[name].of(x)
    # Mean links of a route: a quarter of the way round in each of two dimensions, or a third of the way along.
    links = 2 * (of.side / 4 if of.topology == "torus" else (of.side - 1 / of.side) / 3)
    return replace(of, cycles=round(WORK / (of.load * of.side**2 * (links + 1))))


def measure_curves(names: Sequence[str], repeat: int, folder: Path, console: Console) -> dict[str, Any]:
    """Measure curves, print them, and draw them into curves.png in the folder."""
    curves = {name: [_point(name, x, repeat) for x in CURVES[name].points] for name in names}
    for name, points in curves.items():
        console.print(_table(name, points))
    picture = folder / "curves.png"
    _draw(curves, picture)
    console.print(f"drawn: {picture}", highlight=False)
    return {"curves": curves}


def _point(name: str, x: float, repeat: int) -> dict[str, Any]:
    runs, peaks = zip(*(once(at(name, x)) for _ in range(repeat)), strict=True)
    first = runs[0]
    return {
        "x": x,
        "router_visits": first.work,
        "cycles": first.cycles,
        "ns_per_visit": {key: value * 1e9 / first.work for key, value in spread([r.cpu_s for r in runs]).items()},
        "network_mb": statistics.median(run.facts["network_mb"] for run in runs),
        "peak_rss_mb": statistics.median(peaks),
        "packet_latency": first.facts["packet_latency"],
    }


def _table(name: str, points: Sequence[dict[str, Any]]) -> Table:
    found = Table(title=f"{name}: {CURVES[name].label}", box=SIMPLE_HEAD)
    for head in (name, "router visits", "cycles", "latency", "ns per visit", "network MB", "peak MB"):
        found.add_column(head, justify="right")
    for point in points:
        cost = point["ns_per_visit"]
        found.add_row(
            f"{point['x']:g}",
            f"{point['router_visits']:,}",
            f"{point['cycles']:,}",
            f"{point['packet_latency']:.0f}",
            f"{cost['median']:.0f} ({cost['min']:.0f}-{cost['max']:.0f})",
            f"{point['network_mb']:.1f}",
            f"{point['peak_rss_mb']:.0f}",
        )
    return found


def _draw(curves: dict[str, list[dict[str, Any]]], file: Path) -> None:
    """Draw a panel for each curve: median, minimum and maximum."""
    from matplotlib.figure import Figure

    across = min(3, len(curves))
    down = -(-len(curves) // across)
    figure = Figure(figsize=(4.2 * across, 3.2 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for axes, (name, points) in zip(panels, curves.items(), strict=False):
        x = [point["x"] for point in points]
        low, middle, high = ([p["ns_per_visit"][key] for p in points] for key in ("min", "median", "max"))
        axes.fill_between(x, low, high, alpha=0.25, linewidth=0)
        axes.plot(x, middle, marker="o", markersize=3)
        axes.set(xlabel=CURVES[name].label, ylabel="CPU ns per router visit", xscale="log", ylim=(0, None))
        axes.set_xticks(x, labels=[f"{value:g}" for value in x], fontsize=8)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    for axes in list(panels):
        axes.set_axis_off()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
