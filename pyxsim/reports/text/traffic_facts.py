"""What was measured of open traffic, for people: lines of the summary, and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.reports.plots.style import GREY, axes, colour, nothing, titled
from pyxsim.reports.text.facts import Fact, plural
from pyxsim.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STOPPED = {
    "precision": "until precise enough",
    "measured": "as long as the settings say",
    "saturated": "until saturation was clear",
    "limit": "up to traffic.max_cycles",
    "finished": "to the last arrival",
    "interrupted": "until interrupted",
    "failed": "until it failed",
}
MARKS = {"packet_latency_p50": "p50", "packet_latency_p99": "p99"}
MOST_BARS = 120
LEAST_NAMED = 0.15  # of the axis: a part of it that has its name


def number(value: Any, places: int = 4) -> str:
    """A number to some digits, thousands apart, or a dash where there is none: 7996.34 -> "7,996"."""
    if value is None or value != value:
        return "-"
    whole = abs(value) >= 10**places - 0.5
    return f"{value:,.0f}" if whole else f"{value:,.{places}g}"


def _sure(told: dict[str, Any], key: str) -> str:
    """The interval of a number, if there is one: "+- 0.2; "."""
    half = told.get(f"{key}_interval")
    return f"+- {number(half, 2)}; " if half is not None else ""


def traffic_facts(result: Result) -> list[Fact]:
    """The measurement in a few lines; none where there was no open traffic."""
    if result.traffic is None:
        return []
    told = result.traffic.summary
    tail = f"p50 {number(told['packet_latency_p50'])}, p99 {number(told['packet_latency_p99'])}, "
    tail += f"p99.9 {number(told['packet_latency_p999'])}, max {number(told['packet_latency_max'])}"
    lines = [Fact("packet latency", f"{number(told['packet_latency'])} cycles", _sure(told, "packet_latency") + tail)]
    network = f"{_sure(told, 'network_latency')}without the wait at the source"
    if told.get("zero_load_latency") is not None:
        network += f"; in an empty network {number(told['zero_load_latency'])}"
    lines.append(Fact("network latency", f"{number(told['network_latency'])} cycles", network))
    if told.get("round_trip") is not None:
        note = f"{_sure(told, 'round_trip')}from a request to the reply"
        lines.append(Fact("round trip", f"{number(told['round_trip'])} cycles", note))
    loads = f"offered {number(told['offered_load'])}, created {number(told['generated_load'])} flits per node and cycle"
    lines.append(Fact("accepted load", number(told["accepted_load"]), _sure(told, "accepted_load") + loads))
    nodes = f"{number(told['accepted_load_min'])} to {number(told['accepted_load_max'])}"
    lines.append(Fact("hops", number(told["hops"]), f"routers per packet; nodes received {nodes} flits per cycle"))
    if "batch_cycles" in told:
        times = told["batch_cycles"]
        mean = sum(times) / max(1, len(times))
        note = f"on average, {min(times)} to {max(times)}" if len(times) > 1 else "to the last arrival"
        lines.append(Fact("batch", f"{number(mean)} cycles", note))
    measured = f"{plural(told['measured_packets'], 'packet')}"
    if told["warmup_cycles"]:
        measured += f", after a warm-up of {told['warmup_cycles']:,}"
    why = STOPPED.get(told["stopped"], told["stopped"])
    lines.append(Fact("measured", plural(told["measured_cycles"], "cycle"), f"{measured}; {why}"))
    return lines


def latencies(result: Result, ax: Axes | None = None) -> Axes:
    """How many packets took how long: a histogram, all classes together."""
    ax = axes(ax, 6, 2.5)
    traffic = result.traffic
    if traffic is None or not len(traffic.latency):
        return nothing(ax, "no packets were measured")
    counts = traffic.packets.sum(axis=0)
    values = traffic.latency
    # The slowest of a thousand would make the others a line at the left.
    top = float(traffic.summary["packet_latency_p999"] or values[-1]) * 1.1 + 1
    width = -(-int(top - values[0]) // MOST_BARS)  # whole cycles, or some bars hold more of them than others
    edges = np.arange(int(values[0]), int(top) + 2 * width, width) - 0.5
    heights, _ = np.histogram(values, edges, weights=counts / counts.sum())
    ax.stairs(heights, edges, fill=True, color=colour(0), alpha=0.85)
    top = float(heights.max()) * 1.25  # room for the names of the marks
    for key, name in MARKS.items():
        where = float(traffic.summary[key])
        ax.axvline(where, color=GREY, lw=0.8)
        ax.annotate(
            name, (where, 1), (3, -9), xycoords=ax.get_xaxis_transform(), textcoords="offset points", fontsize=8
        )
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, top), xlabel="packet latency (cycles)")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    titled(ax, "Latency of the measured packets")
    return ax


def course(result: Result, ax: Axes | None = None) -> Axes:
    """The mean latency of the packets created in each batch of cycles: of batches all of whose packets have arrived, as
    the ones that have would be the quick ones. Shaded: what was measured, and its mean."""
    ax = axes(ax, 6, 2.5)
    traffic = result.traffic
    if traffic is None or not len(traffic.batches.get("latency", ())):
        return nothing(ax, "nothing was measured")
    told = traffic.summary
    begin = int(told["warmup_cycles"] or 0)
    end = begin + int(told["measured_cycles"] or 0)
    start = np.asarray(traffic.batches["start"])
    whole = start < end  # what is measured ends with the last batch that is complete
    means = np.asarray(traffic.batches["latency"], dtype=float)[whole]
    if not np.isfinite(means).any():
        return nothing(ax, "no time of which all packets have arrived")
    last = max(end, int(start[-1]) + int(start[-1] - start[-2]) if len(start) > 1 else end)
    ax.stairs(means, [*start[whole].tolist(), end], baseline=None, color=colour(0), lw=1.2)
    ax.axvspan(begin, end, color=colour(0), alpha=0.08, lw=0)
    mean, half = told["packet_latency"], told["packet_latency_interval"]
    if mean is not None:
        ax.hlines(mean, begin, end, color=colour(4), lw=1)
        if half is not None:
            ax.fill_between([begin, end], mean - half, mean + half, color=colour(4), alpha=0.2, lw=0)
    ax.set(xlim=(start[0], last), ylim=(0, 1.25 * max(float(np.nanmax(means)), mean or 0.0)))
    ax.set_xlabel("cycle of creation")
    parts = {"warm-up": (start[0], begin), "measured": (begin, end), "not all arrived": (end, last)}
    for name, (left, right) in parts.items():
        if right - left > LEAST_NAMED * (last - start[0]):
            place = ((left + right) / 2, 1)
            look: Any = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
            ax.annotate(name, place, (0, -9), ha="center", fontsize=8, color=GREY, **look)
    titled(ax, "Mean packet latency over time (cycles)")
    return ax
