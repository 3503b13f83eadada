"""The measurement of open traffic as lines of the summary."""

from __future__ import annotations

from typing import Any

from pyxsim.reports.text.facts import Fact, plural
from pyxsim.results.result import Result

STOPPED = {
    "precision": "until precise enough",
    "measured": "as long as the settings say",
    "saturated": "until saturation was clear",
    "limit": "up to traffic.max_cycles",
    "finished": "to the last arrival",
    "interrupted": "until interrupted",
    "failed": "until it failed",
}


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
