"""The routing relation, and the proof that routes cannot deadlock."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from pyxsim.routing.relation import vc_ranges
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import plural


@dataclass(frozen=True)
class Routing:
    """The routing relation.

    Parameters
    ----------
    ways
        Alternative routes of a pair of NPUs among which a packet chooses one at its source.
    virtual_networks
        VCs of each virtual network.
    vc_ranges
        First and last VC of each class, for each virtual network, on a link with all VCs.
    """

    name: str
    deterministic: bool
    ways: int
    vc_classes: int
    virtual_networks: list[int]
    vc_ranges: list[list[list[int]]]


@checks.register("routing", order=20)
def routing(prepared: Prepared | PreparedTraffic) -> Finding:
    """Describe the routing relation and its VC classes."""
    relation = routing_of(prepared)
    own = prepared.network.own_routing
    return Finding([("routing", own or _line(relation))], {"routing": None if own else asdict(relation)})


@checks.register("routes", order=30)
def routes(prepared: Prepared | PreparedTraffic) -> Finding:
    """Count the pairs of NPUs whose routes `prepare` has proved."""
    unsafe = any("can deadlock" in line for line in prepared.warnings)
    proof = "they CAN deadlock (see below)" if unsafe else "proved free of deadlock"
    cycle: list[str] = []
    if prepared.mode == "closed" and not prepared.network.capabilities.packets:
        proof, cycle = prepared.network.prove_pauses(np.unique(prepared.system.traffic()[:, :2], axis=0))
        proof = "they CAN deadlock under PFC (see below)" if cycle else proof
    if prepared.mode == "open" or prepared.background is not None:
        pairs = prepared.topology.npus**2
    else:
        pairs = len(np.unique(prepared.system.traffic()[:, :3], axis=0))
    text = f"{plural(pairs, 'pair')} of NPUs: all reachable; {proof}"
    return Finding([("routes", text)], {"pairs": pairs, "deadlock_free": not unsafe, "deadlock_cycle": cycle})


def routing_of(prepared: Prepared | PreparedTraffic) -> Routing:
    """Return the routing relation and the VCs of its classes."""
    topology, networks = prepared.topology, prepared.experiment.network.router.networks()
    relation = topology.relation
    ranges, first = [], 0
    for vcs in networks:
        low, high = vc_ranges(vcs, relation.classes, relation.fixed_vcs)
        ranges.append((first + np.stack([low, high], axis=1)).tolist())
        first += vcs
    # Messages of collectives that name a plane have one route.
    planes = prepared.experiment.traffic is None and all(
        queue.plane >= 0 for of_dimension in topology.queues for queue in of_dimension
    )
    ways = 1 if planes else len(relation.ways)
    fixed = planes or relation.deterministic
    return Routing(topology.routing, fixed, ways, relation.classes, list(networks), ranges)


def _line(routing: Routing) -> str:
    """For example "dimension-order: one route for each pair; 2 VC classes, VCs 0-1, 2-3"."""
    kind = "one route for each pair" if routing.deterministic else "packets choose between routes"
    if routing.ways > 1:
        kind += f" one of {routing.ways} route options"
    text = f"{routing.name}: {kind}"
    if routing.vc_classes > 1 or len(routing.virtual_networks) > 1:
        ranges = [
            ", ".join(f"{low}-{high - 1}" if high - low > 1 else f"{low}" for low, high in vc_range)
            for vc_range in routing.vc_ranges
        ]
        classes = f"{routing.vc_classes} VC class{'es' if routing.vc_classes > 1 else ''}"
        text += f"; {classes}, VCs {' and '.join(ranges)}"
    return text
