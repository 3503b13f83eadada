"""Minimal adaptive routing with an escape (Duato)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.grid import all_directions
from pyxsim.routing.planes import ROUTING, plain_plane, plane, rebuilt
from pyxsim.routing.relation import ALWAYS, EACH, Relation, Way

Ties = Literal["both", "+", "-"]
Dimensions = Literal["any", "first"]


def minimal_adaptive(
    base: Relation,
    adaptive_vcs: int = 0,
    sticky: bool = False,
    equal: bool = False,
    ties: Ties = "both",
    dimensions: Dimensions = "any",
) -> Relation:
    """Each packet takes any dimension in which it must still move; the escape is the base relation.

    Adaptive candidates are in the last VC class.

    Duato, "A new theory of deadlock-free adaptive routing in wormhole networks", IEEE TPDS 4(12), 1993.

    A sticky packet that entered the escape keeps its class in a ring, as on the base. A packet that may leave the
    escape and return anywhere takes the class of the table at every hop: 1 before the dateline of the ring, 0 after
    it (Dally and Seitz).

    Parameters
    ----------
    base
        A grid relation without vias and without an escape of its own.
    adaptive_vcs
        VCs of the adaptive class, 0 for all that remain; each class of the base has one VC.
    sticky
        Whether a packet with an escape VC stays on the escape.
    equal
        Whether escape VCs have the same priority as adaptive ones.
    ties
        Directions of an adaptive packet where both directions of a ring are equally long: both, or that of one plane
        of the base. On the escape, the direction is drawn.
    dimensions
        Whether an adaptive packet may move in any dimension in which its digit differs, or only in the first
        (BookSim2).

    Raises
    ------
    InputError
        For an unknown value, or a base without a usable escape.
    """
    number = plain_plane(base, "minimal-adaptive")
    allowed = ["both", "+", "-"] if base.planes > 1 else ["both"]
    if ties not in allowed:
        raise InputError(f"unknown value '{ties}'", key=f"{ROUTING}_options.ties", allowed=allowed, given=ties)
    if dimensions not in ("any", "first"):
        raise InputError(
            f"unknown value '{dimensions}'",
            key=f"{ROUTING}_options.dimensions",
            allowed=["any", "first"],
            given=dimensions,
        )
    if adaptive_vcs < 0:
        raise InputError(
            f"{adaptive_vcs} adaptive VCs",
            key=f"{ROUTING}_options.adaptive_vcs",
            allowed="0 (all that remain) or more",
        )
    escape = plane(base, number) if number else all_directions(base, "minimal-adaptive")
    adaptive_base = escape if ties == "both" else plane(base, "+-".index(ties))
    switched = (escape.own == ALWAYS).any(axis=0)
    if switched.any() and escape.own.shape[1] > 1:
        dim = int(np.argmax(switched))
        raise InputError(
            f"minimal-adaptive requires direct links: dimension {dim} has a switch, which has no escape in dimension "
            "order",
            key=ROUTING,
        )
    classes = base.classes
    adaptive = replace(
        adaptive_base,
        vc_class=np.full_like(adaptive_base.vc_class, classes),
        any=int(dimensions == "any"),
        select=EACH,
        escape=1,
        sticky=int(sticky),
        equal=int(equal),
    )
    return rebuilt(
        base,
        [adaptive, escape],
        ways=(Way(0),),
        link_classes=np.full_like(base.link_classes, classes + 1),
        link_group=base.link_group if sticky else np.full_like(base.link_group, -1),
        fixed_vcs=(1,) * classes + (adaptive_vcs,),
    )
