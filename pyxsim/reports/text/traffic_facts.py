"""The measurement of open traffic as lines of the summary."""

from __future__ import annotations

from typing import Any

from pyxsim.reports.text.facts import Fact, plural
from pyxsim.results.result import Result

STOPPED = {
    "precision": "to the required precision",
    "measured": "for the configured time",
    "saturated": "until saturation was detected",
    "limit": "up to traffic.max_cycles",
    "finished": "until the last arrival",
    "interrupted": "until interrupted",
    "failed": "until the failure",
    "beside": "until the other work ended",
}


def number(value: Any, places: int = 4) -> str:
    """Return a number to some digits with thousands separators, or a dash for none: 7996.34 -> "7,996"."""
    if value is None or value != value:
        return "-"
    whole = abs(value) >= 10**places - 0.5
    return f"{value:,.0f}" if whole else f"{value:,.{places}g}"


def _interval(summary: dict[str, Any], key: str) -> str:
    """The confidence interval of a number, if any: "+- 0.2; "."""
    half = summary.get(f"{key}_interval")
    return f"+- {number(half, 2)}; " if half is not None else ""


def traffic_facts(result: Result) -> list[Fact]:
    """Return the measurement of open traffic as lines of the summary; empty without open traffic."""
    if result.traffic is None:
        return []
    summary = result.traffic.summary
    what = "background latency" if result.is_background else "packet latency"
    tail = f"p50 {number(summary['packet_latency_p50'])}, p99 {number(summary['packet_latency_p99'])}, "
    tail += f"p99.9 {number(summary['packet_latency_p999'])}, max {number(summary['packet_latency_max'])}"
    lines = [Fact(what, f"{number(summary['packet_latency'])} cycles", _interval(summary, "packet_latency") + tail)]
    network = f"{_interval(summary, 'network_latency')}without the wait at the source"
    if summary.get("zero_load_latency") is not None:
        network += f"; zero-load latency {number(summary['zero_load_latency'])}"
    lines.append(Fact("network latency", f"{number(summary['network_latency'])} cycles", network))
    if summary.get("round_trip") is not None:
        note = f"{_interval(summary, 'round_trip')}from a request to the reply"
        lines.append(Fact("round trip", f"{number(summary['round_trip'])} cycles", note))
    loads = f"offered {number(summary['offered_load'])}, created {number(summary['generated_load'])}"
    loads += " flits per node and cycle"
    lines.append(Fact("accepted load", number(summary["accepted_load"]), _interval(summary, "accepted_load") + loads))
    nodes = f"{number(summary['accepted_load_min'])} to {number(summary['accepted_load_max'])}"
    lines.append(Fact("hops", number(summary["hops"]), f"routers per packet; nodes received {nodes} flits per cycle"))
    if "batch_cycles" in summary:
        times = summary["batch_cycles"]
        mean = sum(times) / max(1, len(times))
        note = f"on average, {min(times)} to {max(times)}" if len(times) > 1 else "to the last arrival"
        lines.append(Fact("batch", f"{number(mean)} cycles", note))
    measured = f"{plural(summary['measured_packets'], 'packet')}"
    if summary["warmup_cycles"]:
        measured += f", after a warm-up of {summary['warmup_cycles']:,}"
    why = STOPPED.get(summary["stopped"], summary["stopped"])
    lines.append(Fact("measured", plural(summary["measured_cycles"], "cycle"), f"{measured}; {why}"))
    return lines
