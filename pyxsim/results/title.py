"""Titles of experiments: "torus 4x4x4, all-reduce of 1 MiB"."""

from __future__ import annotations

from typing import Any

from pyxsim.errors import InputError
from pyxsim.units import format_bytes, parse_bytes


def title_of(experiment: dict[str, Any]) -> str:
    """Return what an experiment simulates, from its resolved settings."""
    parts = [_network_title(experiment.get("network", {})), _load_title(experiment)]
    return ", ".join(part for part in parts if part) or "experiment"


def _network_title(network: dict[str, Any]) -> str:
    dims, name = network.get("dims") or [], network.get("name")
    if dims and not name:
        return " x ".join(f"{dim.get('block', '?')} {dim.get('npus', '?')}" for dim in dims)
    shape = "x".join(str(n) for n in network.get("shape") or [dim.get("npus", "?") for dim in dims])
    return f"{name or network.get('topology') or ''} {shape}".strip()


def _load_title(experiment: dict[str, Any]) -> str:
    traffic = _traffic_title(experiment["traffic"]) if experiment.get("traffic") else ""
    work = _work_title(experiment)
    return f"{work} beside {traffic}" if work and traffic else work or traffic


def _work_title(experiment: dict[str, Any]) -> str:
    if collective := experiment.get("collective"):
        return _collective_title(collective, len(experiment.get("message", ())))
    if messages := experiment.get("message"):
        return f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
    if jobs := experiment.get("job"):
        return f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
    workload = experiment.get("workload", {})
    return str(workload.get("model") or workload.get("file") or "")


def _collective_title(collective: dict[str, Any] | list[dict[str, Any]], messages: int) -> str:
    rows = collective if isinstance(collective, list) else [collective]
    parts = [f"{len(rows)} collectives"]
    if len(rows) == 1:
        kind, size = rows[0].get("kind", "collective"), rows[0].get("size")
        parts = [kind if size is None else f"{kind} of {_size(size)}"]
    if messages:
        parts.append(f"{messages} message{'' if messages == 1 else 's'}")
    return " and ".join(parts)


def _traffic_title(traffic: dict[str, Any]) -> str:
    if trace := traffic.get("trace"):
        return f"trace {trace}"
    if classes := traffic.get("classes"):
        return f"traffic of {len(classes)} classes"
    pattern = f"{traffic.get('pattern', '')} traffic".strip()
    if batch := traffic.get("batch"):
        return f"{pattern}, {batch.get('count', 1)} x {batch.get('size', '?')} packets each"
    return f"{pattern} at load {traffic.get('load', '?')}"


def _size(value: object) -> str:
    """Format a size from settings: bytes, or text with a unit."""
    try:
        return format_bytes(value if isinstance(value, int) else parse_bytes(value))
    except InputError:
        return str(value)
