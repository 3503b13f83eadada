"""The text about systems of the shelf, for `pyxsim list` and `pyxsim topology`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim.network.capacity import Capacity
from pyxsim.settings.named import NamedSystem, read_system
from pyxsim.units import format_bandwidth

_MEASURES = {"npu": "per NPU", "all": "in all", "bisection": "bisection"}


def system_facts(files: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return the systems of the shelves. Raises InputError for an invalid file."""
    return [_facts(name, path, read_system(path)) for name, path in files.items()]


def system_notes(facts: dict[str, Any]) -> list[str]:
    """Return the details of a system in addition to its help."""
    npu = facts["published"].get("npu")
    rate = f", {format_bandwidth(Fraction(npu))} each" if npu else ""
    sources = "; ".join(f"{source['title']} ({source['year']})" for source in facts["sources"][:1])
    return [f"{facts['npus']:,} NPUs{rate}; {facts['shape']}", sources]


def system_rows(facts: dict[str, Any], npus: int, capacity: Capacity) -> Iterator[tuple[str, str]]:
    """Return rows about a system: its links compared with published figures, all sources and assumptions.

    `npus`: the NPUs of the simulated part; published totals apply to the whole system only.
    """
    yield "system", facts["help"]
    exact = "" if capacity.exact else " at most"
    rates = [f"{rounded_rate(getattr(capacity, key))} {words}" for key, words in _MEASURES.items()]
    yield "bandwidth", f"{', '.join(rates)}{exact}; both directions together"
    published = facts["published"]
    keys = _MEASURES if npus == facts["npus"] else ("npu",)
    if figures := [f"{rounded_rate(published[key])} {_MEASURES[key]}" for key in keys if published[key]]:
        payload = published["payload"]
        yield "published", ", ".join(figures) + (f"; {100 * payload:.3g} % of it is payload" if payload < 1 else "")
    for source in facts["sources"]:
        remark = f": {source['says']}" if source["says"] else ""
        yield "source", f"{source['title']} ({source['year']}){remark}\n{source['url']}"
    for assumption in facts["assumed"]:
        yield "assumed", f"{assumption['key']}: {assumption['why']}"


def rounded_rate(value: int) -> str:
    """Return a rounded rate: 129600000000000 -> "129.6 TB/s"."""
    step = 10 ** max(0, len(str(value)) - 4)
    return format_bandwidth(Fraction(round(value / step) * step))


def _facts(name: str, path: Path, system: NamedSystem) -> dict[str, Any]:
    published = system.published
    return {
        "name": name,
        "help": system.help,
        "npus": system.npus,
        "shape": _shape(system),
        "published": {
            "payload": float(published.payload),
            **{key: None if (rate := getattr(published, key)) is None else int(rate) for key in _MEASURES},
        },
        "sources": [source.model_dump() for source in system.source],
        "assumed": [assumption.model_dump() for assumption in system.assumed],
        "file": str(path),
    }


def _shape(system: NamedSystem) -> str:
    network = system.network
    if network.dims is not None:
        return " x ".join(f"{dim.block} {dim.npus}" for dim in network.dims)
    if network.shape is not None:
        return f"{network.topology} {' x '.join(map(str, network.shape))}"
    options = ", ".join(f"{key} = {value}" for key, value in network.options.items())
    return f"{network.topology} ({options})" if options else str(network.topology)
