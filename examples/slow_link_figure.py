"""The figure of docs/fabric_studies.md: by how much one link at half speed slows each collective down.

`python examples/slow_link_figure.py results/slow_link slow_link.png` draws the points of
inputs/studies/fabric/slow_link.toml, whose variants have names such as "ring: 1 MiB".
"""

from __future__ import annotations

import sys

from matplotlib.figure import Figure

from pyxsim.reports.plots.style import GREY, colour, save_figure
from pyxsim.reports.plots.sweep_lines import MARKS
from pyxsim.results.sweep import Sweep, read
from pyxsim.units import base_numbers

PANELS = {"level1": "Link between a leaf and a spine", "host": "Link of an NPU"}
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
    """Draw a panel per kind of link, a curve per collective."""
    page = Figure(figsize=(7.5, 3.4), dpi=150, layout="constrained")
    panels = page.subplots(1, len(PANELS), sharey=True)
    for ax, (kind, title) in zip(panels, PANELS.items(), strict=True):
        for number, (name, curve) in enumerate(found[kind].items()):
            look = {"color": colour(number), "marker": MARKS[number], "lw": 1.6, "ms": 5}
            sizes = sorted(curve, key=in_bytes)
            ax.plot([in_bytes(size) for size in sizes], [curve[size] for size in sizes], label=name, **look)
        ax.axhline(1, color=GREY, lw=0.8, zorder=0)
        ax.axhline(2, color=GREY, lw=0.8, ls=":", zorder=0)
        every = sorted({size for curve in found[kind].values() for size in curve}, key=in_bytes)
        ax.set_xscale("log", base=2)
        ax.set_xticks([in_bytes(size) for size in every], every)
        ax.minorticks_off()
        ax.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        ax.set_xlabel("bytes per NPU")
        ax.margins(x=0.1)
    panels[0].set_ylabel("time / time with all links at full speed")
    panels[0].set_ylim(0.9, 2.1)
    handles, labels = panels[0].get_legend_handles_labels()
    page.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return page


if __name__ == "__main__":
    folder, file = sys.argv[1:]
    found = slowdowns(read(folder))
    save_figure(file, lambda: draw(found))
    for kind, curves in found.items():
        for name, curve in curves.items():
            print(f"{kind:8}{name:24}", *(f"{size} {slowdown:.3f}" for size, slowdown in curve.items()), sep="  ")
