"""Minimal adaptive routing with an escape (Duato)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.grid import all_ways_round
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
    """A packet may take any dimension in which it must still move, over the last VC class; the base is its escape.

    Duato, "A new theory of deadlock-free adaptive routing in wormhole networks", IEEE TPDS 4(12), 1993. The classes of
    the base have one VC each, the adaptive class `adaptive_vcs` or (0) all others. `sticky`: a packet with an escape VC
    stays on the escape. `equal`: escape VCs are as good as others. `ties`: where both ways round a ring are equally
    long, an adaptive packet may go either way, or that of one plane of the base; for the escape it is drawn.
    `dimensions`: an adaptive packet may go in any that it must go in, or ("first", as BookSim2 has it) in the first.

    A sticky packet that entered the escape keeps its class round a ring as on the base. One that may leave it again,
    and come back anywhere, has its class read anew at every hop: 1 before the end of the ring is crossed, 0 behind it,
    which is Dally and Seitz's dateline.
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
            allowed="0 (all that are left) or more",
        )
    escape = plane(base, number) if number else all_ways_round(base, "minimal-adaptive")
    own = escape if ties == "both" else plane(base, "+-".index(ties))
    switched = (escape.own == ALWAYS).any(axis=0)
    if switched.any() and escape.own.shape[1] > 1:
        dim = int(np.argmax(switched))
        raise InputError(
            f"minimal-adaptive needs direct links: in dimension {dim} packets go over a switch, where they have no"
            " escape that keeps the order of the dimensions",
            key=ROUTING,
        )
    classes = base.classes
    adaptive = replace(
        own,
        vc_class=np.full_like(own.vc_class, classes),
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
