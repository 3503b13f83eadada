"""Routings that many networks share, by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.adaptive import minimal_adaptive
from pyxsim.routing.graph import FAR, adaptive_up_down, shortest, up_down
from pyxsim.routing.grid import Kind, adaptive_xy_yx, balanced, steps, tie_random, xy_yx
from pyxsim.routing.planes import plane
from pyxsim.routing.relation import ALWAYS, Relation
from pyxsim.routing.via import romm, ugal, valiant
from pyxsim.topology.topology import Routing, same
from pyxsim.topology.wires import Wires, WiresRouting

__all__ = ["Kind", "graph_routings", "grid_routings", "kinds_of", "minimal", "over", "table"]


def kinds_of(base: Relation) -> list[Kind]:
    """How the NPUs of each dimension of a grid are joined."""
    return steps(base, plane(base, 0)).kinds()


def grid_routings(base: Relation, kinds: Sequence[Kind]) -> dict[str, Routing]:
    """What a network offers whose routers stand in a grid of digits, from its tables in dimension order.

    Planes, if there are several, must differ only in which of two equally long ways round a ring they take.
    """
    found: dict[str, Routing] = {"dimension-order": partial(same, tie_random(base))}
    if "ring" in kinds:
        found["dimension-order-balanced"] = partial(balanced, base)
    if (base.digits.max(axis=0, initial=0) > 0).sum() > 1:
        found |= {"xy-yx": partial(xy_yx, base), "adaptive-xy-yx": partial(adaptive_xy_yx, base)}
    if len(kinds) == 1 or not (base.own == ALWAYS).any():  # over switches there is no escape in order
        found["minimal-adaptive"] = partial(minimal_adaptive, base)
    found["valiant"] = partial(valiant, base)
    # A via in the box is an NPU that is named by its digits.
    if set(kinds) <= {"ring", "line"} and (base.stride.any() or base.npus == 1):
        found["romm"] = partial(romm, base)
    return {**found, "ugal": partial(ugal, base)}


def graph_routings(first: str = "up-down") -> dict[str, WiresRouting]:
    """What any graph can do whose links go both ways; `first` is the routing that comes first, which is the default."""
    every: Mapping[str, WiresRouting] = {
        "up-down": up_down,
        "minimal": minimal,
        "minimal-adaptive": adaptive_up_down,
        **over(minimal),
        "table": table,
    }
    if first not in every:
        raise InputError(f"graphs have no routing '{first}'", allowed=list(every), given=first)
    return {first: every[first], **every}


def over(base: WiresRouting) -> dict[str, WiresRouting]:
    """Routings over an NPU between, each way by a base."""

    def by_valiant(wires: Wires) -> Relation:
        return valiant(base(wires))

    def by_ugal(wires: Wires, bias: int = 0) -> Relation:
        return ugal(base(wires), bias)

    return {"valiant": by_valiant, "ugal": by_ugal}


def minimal(wires: Wires, select: str = "random") -> Relation:
    """All shortest ways; the VC class counts the hops, so that no packet ever waits for one that has more to go.

    A link from which n more lead to the end is in class (diameter - 1 - n): classes only grow (Gunther 1981).
    """
    away = wires.distances()
    diameter = max(1, int(away[wires.homes].max()))
    if diameter >= FAR:
        shortest(wires)  # raises: some pair is unreachable
    # Routers farther off than any with an NPU are on no route.
    level = np.maximum(diameter - away[wires.src], 0)
    return wires.relation(wires.shortest(), level, classes=diameter, select=select)


def table(wires: Wires) -> Relation:
    """One shortest way each, by the first listed link of equals, without VC classes: it may be able to deadlock."""
    return shortest(wires, "first")
