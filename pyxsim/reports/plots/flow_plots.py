"""Plots of the Ethernet backend: flow completion times against size, queues over time, pauses of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.reports.plots.plot_registry import plot
from pyxsim.reports.plots.style import Clock, axes, colour, heat, nothing, titled
from pyxsim.results.result import Result
from pyxsim.units import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 20_000
MAX_LINKS = 32  # rows of the heat map
MAX_BARS = 16
MAX_COLUMNS = 600
NO_FLOWS = "only the Ethernet backend measures messages and queues"


def has_flows(result: Result) -> bool:
    """Whether a message has ended, and the backend measured it."""
    return "flows" in result.backend_tables and bool((result.flows["fct"] >= 0).any())


def has_queues(result: Result) -> bool:
    """Whether the backend measured a queue."""
    return "port_windows" in result.backend_tables and bool(result.port_windows["depth"].any())


def has_pauses(result: Result) -> bool:
    """Whether a link was paused."""
    return "ports" in result.backend_tables and bool(result.ports["pauses"].any())


@dataclass(frozen=True)
class FlowPoints:
    """Messages that ended: size in bytes, completion time and ideal time in `unit`, slowdown; at most so many."""

    nbytes: IntArray
    time: FloatArray
    ideal: FloatArray
    slowdown: FloatArray
    unit: str
    left_out: int

    @classmethod
    def of(cls, result: Result, most: int = MAX_POINTS) -> FlowPoints:
        """Return the points of a result: every n-th message if there are too many, and always the slowest one."""
        flows = result.flows
        ended = np.flatnonzero(flows["fct"] >= 0)
        kept = ended[:: max(1, -(-len(ended) // most))]
        kept = np.union1d(kept, ended[[flows["slowdown"][ended].argmax(), flows["fct"][ended].argmax()]])
        unit, size = time_unit(float(flows["fct"].max()) / 1000)
        time, ideal = (flows[name][kept] / 1000 / size for name in ("fct", "ideal"))
        return cls(flows["bytes"][kept], time, ideal, flows["slowdown"][kept], unit, len(ended) - len(kept))


@plot("fct", height=2.8, applies=has_flows)
def fct(result: Result, ax: Axes | None = None) -> Axes:
    """Points: the completion time of each message against its size, and its ideal time (line)."""
    ax = axes(ax, 6, 3)
    if not has_flows(result):
        return nothing(ax, NO_FLOWS)
    points = FlowPoints.of(result)
    ax.scatter(points.nbytes, points.time, s=9, color=colour(0), alpha=0.35, lw=0, label="message")
    sizes, first = np.unique(points.nbytes, return_inverse=True)
    least = np.full(len(sizes), np.inf)
    np.minimum.at(least, first.ravel(), points.ideal)
    ax.plot(sizes, least, color=colour(4), lw=1.2, marker="_", ms=9, label="ideal")
    ax.set(xscale="log", yscale="log", xlabel="size of the message (bytes)", ylabel=f"completion time ({points.unit})")
    titled(ax, "Message time against size")
    _legend(ax, 2)
    return ax


@plot("slowdown", height=2.4, applies=has_flows)
def slowdown(result: Result, ax: Axes | None = None) -> Axes:
    """Lines: the share of messages with at most a slowdown, by size (up to four classes with as many messages)."""
    ax = axes(ax, 6, 3)
    if not has_flows(result):
        return nothing(ax, NO_FLOWS)
    for number, (label, values) in enumerate(slowdown_classes(result)):
        share = np.arange(1, len(values) + 1) / len(values)
        ax.step(values, share, where="post", color=colour(number), lw=1.5, label=label)
    top = max(float(np.nanmax(result.flows["slowdown"])), 1.01)
    ax.set(xscale="log", xlim=(min(1.0, float(np.nanmin(result.flows["slowdown"]))) * 0.98, top * 1.05), ylim=(0, 1.02))
    ax.set(xlabel="slowdown (completion time over ideal time)", ylabel="share of messages")
    titled(ax, "Slowdown, by size of the message")
    _legend(ax, 4)
    return ax


def _legend(ax: Axes, columns: int) -> None:
    """Place the legend above the axes, next to the title."""
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.2, handlelength=1, frameon=False)


def slowdown_classes(result: Result) -> list[tuple[str, FloatArray]]:
    """Return (label, sorted slowdowns) of up to four classes of sizes; one class per size if these are few."""
    flows = result.flows
    ended = flows["fct"] >= 0
    sizes, values = flows["bytes"][ended], flows["slowdown"][ended]
    distinct = np.unique(sizes)
    if len(distinct) <= 4:
        return [(_bytes(int(size)), np.sort(values[sizes == size])) for size in distinct]
    edges = np.unique(np.quantile(sizes, (0.25, 0.5, 0.75, 1), method="lower"))
    classes, low = [], -1
    for edge in edges.tolist():
        inside = (sizes > low) & (sizes <= edge)
        classes.append((f"to {_bytes(int(edge))}", np.sort(values[inside])))
        low = edge
    return classes


def _bytes(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"


@dataclass(frozen=True)
class QueueMap:
    """Most bytes in the queue of each of the links with the deepest queues, by spans of windows.

    `depth`: float64[spans, links], KiB; `starts`: the first window of each span; `left_out`: links with shorter queues.
    """

    links: IntArray
    depth: FloatArray
    starts: IntArray
    left_out: int

    @classmethod
    def of(cls, result: Result, links: int = MAX_LINKS, columns: int = MAX_COLUMNS) -> QueueMap:
        """Return the queues of a result; a span has the maximum of its windows."""
        depth = result.port_windows["depth"]
        peak = depth.max(axis=0)
        order = np.argsort(-peak.astype(np.int64), kind="stable")[:links]
        chosen = np.sort(order[peak[order] > peak.max() / 100])  # others look empty
        starts = np.arange(0, len(depth), max(1, -(-len(depth) // columns)))
        spans = np.maximum.reduceat(depth[:, chosen], starts, axis=0) / 1024
        return cls(chosen, spans, starts, int(np.count_nonzero(peak)) - len(chosen))


@plot("queues", height=lambda result: 1.2 + 0.13 * len(QueueMap.of(result).links), applies=has_queues)
def queues(result: Result, ax: Axes | None = None) -> Axes:
    """Heat map: the depth of the deepest queues over time, a row per link."""
    ax = axes(ax, 9, 4)
    if not has_queues(result):
        return nothing(ax, NO_FLOWS)
    shown, clock = QueueMap.of(result), Clock.of(result)
    edges = np.append(clock.at(result.windows.start[shown.starts]), clock.end)
    rows = np.arange(len(shown.links) + 1)
    mesh = ax.pcolormesh(edges, rows, shown.depth.T, cmap=heat(), vmin=0, shading="flat")
    names = [result.links.name[link] for link in shown.links]
    ax.set_yticks(rows[:-1] + 0.5, names, fontsize=8 if len(names) <= 12 else 6.5)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, clock.end), ylim=(len(names), 0), xlabel=clock.label)
    more = f"; {shown.left_out} shorter ones left out" if shown.left_out else ""
    titled(ax, f"Depth of the queues over time (KiB){more}")
    ax.spines[["left", "bottom"]].set_visible(False)
    if (figure := ax.get_figure()) is not None:
        bar = figure.colorbar(mesh, cax=ax.inset_axes((1.012, 0, 0.014, 1)))
        bar.outline.set_visible(False)
    return ax


@dataclass(frozen=True)
class PauseTree:
    """The links that were paused longest, each behind the link whose queue its last pause is due to.

    `depth`: number of links from the root of the tree; `share`: of the run in which the link was paused; `count`: its
    pauses; `caused`: paused time of other links that it is the root of, over that of all links.
    """

    links: IntArray
    depth: IntArray
    share: FloatArray
    count: IntArray
    caused: FloatArray
    left_out: int

    @classmethod
    def of(cls, result: Result, most: int = MAX_BARS) -> PauseTree:
        """Return the tree of the `most` links that were paused longest, and of their causes."""
        paused, count, cause = (result.ports[name] for name in ("paused", "pauses", "cause"))
        order = np.argsort(-paused, kind="stable")
        order = order[count[order] > 0]
        behind: dict[int, list[int]] = {}
        known: set[int] = set()
        for link in order[:most].tolist():
            while link not in known:
                known.add(link)
                if cause[link] < 0:
                    break
                behind.setdefault(int(cause[link]), []).append(link)
                link = int(cause[link])
        links, depth, seen = [], [], set()
        roots = sorted(known, key=lambda link: (cause[link] >= 0, -result.ports["caused"][link]))
        for root in roots:  # the others are in cycles
            waiting = [(root, 0)]
            while waiting:
                link, level = waiting.pop()
                if link not in seen:
                    seen.add(link)
                    links.append(link)
                    depth.append(level)
                    waiting += [
                        (each, level + 1) for each in sorted(behind.get(link, []), key=lambda each: paused[each])
                    ]
        rows = np.array(links)
        whole, caused = max(1.0, float(result.time_ns) * 1000), result.ports["caused"]
        left_out = int(np.count_nonzero(~np.isin(order, rows)))
        share = caused[rows] / max(1, int(caused.sum()))
        return cls(rows, np.array(depth), paused[rows] / whole, count[rows], share, left_out)

    def names(self, result: Result) -> list[str]:
        """Return the names of the links, behind the depth in the tree."""
        return [f"{'   ' * depth}{result.links.name[link]}" for link, depth in zip(self.links, self.depth, strict=True)]

    def notes(self) -> list[str]:
        """Return the text behind each bar."""
        texts = []
        for count, caused in zip(self.count.tolist(), self.caused.tolist(), strict=True):
            parts = [f"{count:,} x"] if count else []
            texts.append(", ".join([*parts, f"root of {caused:.0%}"] if caused > 0.005 else parts))
        return texts


@plot("pauses", height=lambda result: 0.9 + 0.16 * len(PauseTree.of(result).links), applies=has_pauses)
def pauses(result: Result, ax: Axes | None = None) -> Axes:
    """Bars: the share of the run in which each link was paused (PFC), below the link that caused its last pause."""
    ax = axes(ax, 6, 3)
    if not has_pauses(result):
        return nothing(ax, "no link was paused" if "ports" in result.backend_tables else NO_FLOWS)
    shown = PauseTree.of(result)
    places = np.arange(len(shown.links))
    tints = [colour(int(dim)) for dim in result.links.dim[shown.links]]
    ax.barh(places, 100 * shown.share, height=0.7, color=tints)
    for place, share, note in zip(places, shown.share, shown.notes(), strict=True):
        ax.annotate(f" {note}", (100 * share, place), va="center", fontsize=6.5)
    names = shown.names(result)
    width = max(map(len, names))
    ax.set_yticks(places, [name.ljust(width) for name in names], fontsize=7.5 if len(names) <= 12 else 6.5)
    for label in ax.get_yticklabels():
        label.set_fontfamily("monospace")
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(names) - 0.5, -0.5), xlabel="share of the run in which the link was paused (%)")
    ax.margins(x=0.08)
    more = f"; {shown.left_out} further links left out" if shown.left_out else ""
    titled(ax, f"Paused links behind their causes, with the number of pauses{more}")
    return ax


FLOW_PLOTS = (fct, slowdown, queues, pauses)
