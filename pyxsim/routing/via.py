"""Routes over an intermediate NPU: Valiant, ROMM and UGAL, derived from a relation with one route option."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.grid import doubled, steps, tie_random
from pyxsim.routing.planes import ROUTING, grid_only, plain_plane, plane, rebuilt
from pyxsim.routing.relation import Relation, Way


def valiant(base: Relation, early: bool = False) -> Relation:
    """Every packet goes first to an NPU drawn from all, then to its destination (Valiant and Brebner 1981).

    Each of the two phases is uniform traffic, whatever the pattern. They use separate VC classes, the second phase
    those above the first. No packet returns to the first phase, so the relation is deadlock-free if the base is.
    `early`: a packet that comes by the router of its destination on the way to the NPU leaves there.
    """
    relation = _two_phases(base, (Way(last=1, first=0, via="any"),), "valiant")
    return replace(relation, early=early)


def romm(base: Relation, wrap: tuple[int, ...] | None = None) -> Relation:
    """Every packet goes first to an NPU drawn from the box between source and destination: the route stays minimal.

    Randomized, oblivious, multi-phase, minimal (Nesson and Johnsson 1995), with two phases, for lines and
    bidirectional rings. `wrap` is the modulus of each digit in a ring, else 0; default: derived from the routes.
    """
    grid_only(base, "romm")
    relation = _two_phases(base, (Way(last=1, first=0, via="box"),), "romm")
    if not base.stride.any() and base.npus > 1:
        raise InputError("romm requires a network whose NPUs are numbered by their coordinates", key=ROUTING)
    if wrap is None:
        moves = steps(base, plane(base, plain_plane(base, "romm")))
        kinds = moves.kinds()
        for dim, kind in enumerate(kinds):
            if kind not in ("line", "ring") and moves.size[dim] > 1:
                raise InputError(
                    f"romm requires lines and bidirectional rings; dimension {dim} is neither",
                    key=ROUTING,
                )
        wrap = tuple(int(n) if kind == "ring" else 0 for n, kind in zip(moves.size, kinds, strict=True))
    return replace(relation, wrap=np.array(wrap, np.int32))


def ugal(base: Relation, bias: int = 0, via: Literal["any", "aligned"] = "any") -> Relation:
    """Each packet takes the minimal or Valiant's route, whichever is cheaper at its source (UGAL-L: Singh 2005).

    The cost of a route is the flits in use on its first link times its number of links; `bias` is added to that of
    Valiant's route. The minimal route uses the classes of the second phase. `via`: any NPU, or one that is in the same
    row, column .. wherever source and destination are.
    """
    if via not in ("any", "aligned"):
        key = f"{ROUTING}_options.via"
        raise InputError(f"unknown value '{via}'", key=key, allowed=["any", "aligned"], given=via)
    ways = (Way(last=1), Way(last=1, first=0, via=via, bias=bias))
    return replace(_two_phases(base, ways, "ugal"), choose="least")


def _two_phases(base: Relation, ways: tuple[Way, ...], what: str) -> Relation:
    """The base as plane 0, and in the VC classes above as plane 1."""
    base = tie_random(base)
    first = plane(base, plain_plane(base, what))
    by, changes = doubled(base)
    changed: dict[str, Any] = {**changes, "ways": ways, "choose": "random"}
    return rebuilt(base, [first, first.raised(by)], **changed)
