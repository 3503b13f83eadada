"""Routings that many networks share, by their names."""

from __future__ import annotations

from functools import partial

from pyxsim.routing.relation import Relation
from pyxsim.topology.graph import Wires
from pyxsim.topology.topology import Routing, same


def grid_routings(relation: Relation) -> dict[str, Routing]:
    """What a network can do whose routers stand in a grid of digits, from its routes in dimension order."""
    return {"dimension-order": partial(same, relation)}


def graph_routings(default: str) -> dict[str, Routing]:
    """What any graph can do; `default` is the routing that comes first."""
    every: dict[str, Routing] = {"minimal": minimal}
    return {default: every[default], **every} if default in every else every


def minimal(wires: Wires) -> Relation:
    """All shortest ways; the VC class counts the hops, so that no packet ever waits for one that has more to go.

    A link whose way has `n` more links to go is in class (diameter - n): classes only grow (Gunther 1981).
    """
    away = wires.distances()
    diameter = max(1, int(away.max()))
    return wires.relation(wires.shortest(), diameter - away[wires.src], classes=diameter)
