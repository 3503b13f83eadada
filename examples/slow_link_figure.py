"""The figure of docs/fabric_studies.md: by how much one link at half speed slows each collective down.

`python examples/slow_link_figure.py results/slow_link slow_link.png` draws the points of
inputs/studies/fabric/slow_link.toml, whose variants have names such as "ring: 1 MiB".
"""

from __future__ import annotations

import sys

from matplotlib.figure import Figure

from pyxsim.reports.plots.style import GREY, colour, save_figure
from pyxsim.results.sweep import Sweep, read
from pyxsim.units import base_numbers

KINDS = {"level1": "between a leaf and a spine", "host": "of an NPU"}
HEIGHT = 0.4  # of a bar, where two stand in a row
Curves = dict[str, dict[str, float]]  # name of a collective -> size -> time or slowdown


def in_bytes(size: str) -> float:
    """Return a size such as "1 MiB" in bytes."""
    return float(base_numbers([size])[1][0])


def times(sweep: Sweep) -> dict[str, Curves]:
    """Return the times in ns, by the kind of the slow link ("" for none), collective and size."""
    found: dict[str, Curves] = {}
    for point in sweep.points:
        collective, _, size = point.changed["variant"].rpartition(": ")
        kind = str(point.changed["faults"]).partition(":")[0].strip("[]")
        found.setdefault(kind, {}).setdefault(collective, {})[size] = float(point.values["time_ns"])
    return found


def slowdowns(sweep: Sweep) -> dict[str, Curves]:
    """Return the times with a slow link of each kind over those without."""
    found = times(sweep)
    plain = found.pop("")
    return {
        kind: {name: {size: time / plain[name][size] for size, time in of.items()} for name, of in curves.items()}
        for kind, curves in found.items()
    }


def draw(found: dict[str, Curves]) -> Figure:
    """Draw a bar per kind of link for each collective and size."""
    page = Figure(figsize=(6.5, 4.2), dpi=150, layout="constrained")
    ax = page.subplots()
    rows = [(name, size) for name, curve in found["host"].items() for size in sorted(curve, key=in_bytes)]
    for number, (kind, title) in enumerate(KINDS.items()):
        values = [found[kind][name][size] for name, size in rows]
        places = [row + HEIGHT * (number - 0.5) for row in range(len(rows))]
        ax.barh(places, [value - 1 for value in values], 0.9 * HEIGHT, left=1, color=colour(number), label=title)
        for place, value in zip(places, values, strict=True):
            ax.text(value + 0.015, place, f"{value:.2f}", va="center", fontsize=7.5)
    ax.axvline(1, color=GREY, lw=0.8)
    ax.axvline(2, color=GREY, lw=0.8, ls=":", zorder=0)
    ax.set_yticks(range(len(rows)), [f"{name}, {size}" for name, size in rows])
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set_xlabel("time with one link at half speed / time with all links at full speed")
    ax.margins(x=0.08)
    page.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=len(KINDS), title="slow link")
    return page


if __name__ == "__main__":
    folder, file = sys.argv[1:]
    found = slowdowns(read(folder))
    save_figure(file, lambda: draw(found))
    for kind, curves in found.items():
        for name, curve in curves.items():
            print(f"{kind:8}{name:24}", *(f"{size} {slowdown:.3f}" for size, slowdown in curve.items()), sep="  ")
