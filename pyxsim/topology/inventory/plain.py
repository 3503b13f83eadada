"""A network as named parts and links in both directions: what other programs' formats can hold."""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import parse_bandwidth, parse_duration, to_seconds


class PlainLink(NamedTuple):
    """A link in both directions: parts by number, bytes per second, seconds."""

    a: int
    b: int
    kind: str
    rate: Fraction
    latency: Fraction


@dataclass
class PlainNetwork:
    """Parts by number; `npus` are those of the NPUs in their order."""

    names: list[str] = field(default_factory=list)
    npus: list[int] = field(default_factory=list)
    links: list[PlainLink] = field(default_factory=list)


def plain(graph: Any, topology: Topology, settings: Network, form: str) -> PlainNetwork:
    """Return the parts and links of a graph that `exported` made.

    NPUs that share a router, or have host links, become parts of their own. Raises InputError for links in one
    direction only, and for lanes of several NPUs, which no inventory has.
    """
    found = PlainNetwork(names=[str(label) for _, label in graph.nodes(data="label")])
    kinds = len(topology.link_kinds)
    usual = list(zip(settings.bandwidths(kinds), settings.latencies(kinds), strict=True))
    home = topology.home.tolist()
    if topology.hosts:
        for npu, router in enumerate(home):
            found.npus.append(len(found.names))
            found.names.append(f"NPU {npu}")
            rate, latency = usual[0]
            seconds = to_seconds(latency, settings.clock)
            found.links.append(PlainLink(found.npus[npu], router, topology.link_kinds[0], rate, seconds))
    elif len(set(home)) < len(home):
        problem = f"{form} has no lanes, by which several NPUs share a router"
        raise InputError(problem, key="--export", allowed="graphml, or a network with host links")
    else:
        found.npus = home
    open_: dict[PlainLink, int] = defaultdict(int)
    for a, b, data in graph.edges(data=True):
        rate, latency = usual[data["dim"]]
        rate = parse_bandwidth(data["bandwidth"]) if "bandwidth" in data else rate
        own = parse_duration(data["latency"]) if "latency" in data else latency
        link = PlainLink(a, b, data["kind"], rate, to_seconds(own, settings.clock))
        back = link._replace(a=b, b=a)
        if open_[back]:
            open_[back] -= 1
        else:
            open_[link] += 1
            found.links.append(link)
    if any(open_.values()):
        link = next(link for link, count in open_.items() if count)
        problem = f"the link {found.names[link.a]} -> {found.names[link.b]} has no equal one back"
        raise InputError(problem, key="--export", allowed=f"graphml; {form} has links in both directions only")
    return found


def lost(form: str, what: str) -> None:
    """Warn of what a format cannot say."""
    warnings.warn(f"{form} cannot say {what}", RuntimeWarning, stacklevel=2)
