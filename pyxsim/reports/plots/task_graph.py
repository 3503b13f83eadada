"""The plot of a Chakra trace: nodes from left to right by level; nodes depend on earlier levels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.chakra.trace_graph import Graph, type_name
from pyxsim.reports.plots.style import GREY, axes, colour, nothing, titled
from pyxsim.reports.text.facts import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NODES = 150  # nodes that are drawn one by one; more are counted per level
MAX_BARS = 300
MAX_LETTERS = 14  # of a name in the picture


def trace_graph(graph: Graph, ax: Axes | None = None) -> Axes:
    """Draw each node with its dependencies, or for large traces the number of nodes per type and level.

    Nodes that depend on a cycle come after all levels.
    """
    if not len(graph):
        return nothing(axes(ax, 6.5, 2.5), "the trace has no nodes")
    level = graph.levels[0]
    level = np.where(level < 0, level.max() + 1, level)
    draw = _in_full if len(graph) <= MAX_NODES else _by_levels
    ax = draw(graph, level, ax)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    titled(ax, f"{Path(graph.file).name}: {plural(len(graph), 'node')}, {plural(int(level.max()) + 1, 'level')}")
    return ax


def _in_full(graph: Graph, level: np.ndarray, ax: Axes | None) -> Axes:
    import networkx as nx

    drawn = nx.DiGraph()
    drawn.add_nodes_from(range(len(graph)))
    for row in range(len(graph)):
        drawn.add_edges_from((int(earlier), row) for earlier in graph.before[graph.ptr[row] : graph.ptr[row + 1]])
    per_level = np.bincount(level)
    ax = axes(ax, min(16.0, 3.0 + 1.1 * len(per_level)), min(12.0, 1.2 + 0.6 * int(per_level.max())))
    seen = np.zeros(len(per_level), dtype=int)
    place = {}
    for row, depth in enumerate(level.tolist()):
        place[row] = (depth, (per_level[depth] - 1) / 2 - seen[depth])  # about the middle, from top to bottom
        seen[depth] += 1
    nx.draw_networkx_edges(drawn, place, ax=ax, edge_color=GREY, width=0.7, arrowsize=7, node_size=120)
    for turn, kind in enumerate(np.unique(graph.type).tolist()):
        rows = np.flatnonzero(graph.type == kind).tolist()
        tint = colour(turn)
        nx.draw_networkx_nodes(drawn, place, rows, ax=ax, node_color=tint, node_size=120, label=type_name(kind))
    names = {row: _short(graph.names[row] or str(graph.ids[row])) for row in range(len(graph))}
    above = {row: (x, y + 0.32) for row, (x, y) in place.items()}
    nx.draw_networkx_labels(drawn, above, names, ax=ax, font_size=6)
    ax.set_ylim(-per_level.max() / 2, per_level.max() / 2 + 0.1)
    ax.set_axis_off()
    return ax


def _short(name: str) -> str:
    # A dollar would start a formula.
    text = name if len(name) <= MAX_LETTERS else f"{name[: MAX_LETTERS - 2]}.."
    return text.replace("$", r"\$")


def _by_levels(graph: Graph, level: np.ndarray, ax: Axes | None) -> Axes:
    ax = axes(ax, 10.0, 4.0)
    levels = int(level.max()) + 1
    width = -(-levels // MAX_BARS)  # levels of a bar
    bars = -(-levels // width)
    bottom = np.zeros(bars)
    for turn, kind in enumerate(np.unique(graph.type).tolist()):
        count = np.bincount(level[graph.type == kind] // width, minlength=bars)
        left = np.arange(bars) * width
        ax.bar(left, count, width, bottom, align="edge", color=colour(turn), label=type_name(kind))
        bottom += count
    ax.set(xlim=(0, bars * width), xlabel="level", ylabel="nodes" if width == 1 else f"nodes of {width} levels")
    return ax
