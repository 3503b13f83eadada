"""Ways over an NPU between: Valiant, ROMM and UGAL, from any relation with one way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.grid import doubled, steps, tie_random
from pyxsim.routing.planes import ROUTING, grid_only, plain_plane, plane, rebuilt
from pyxsim.routing.relation import Relation, Way


def valiant(base: Relation) -> Relation:
    """Every packet goes first to an NPU drawn from all, and from there to its destination (Valiant and Brebner 1981).

    Any traffic becomes uniform traffic twice over. The two phases have VC classes of their own, the second one those
    above the first; as no packet goes back from the second to the first, it is as free of deadlock as the base.
    """
    return _two_phases(base, (Way(last=1, first=0, via="any"),), "valiant")


def romm(base: Relation, wrap: tuple[int, ...] | None = None) -> Relation:
    """Every packet goes first to an NPU drawn from the box between source and destination: the route stays minimal.

    Randomised, oblivious, multi-phase, minimal (Nesson and Johnsson 1995), with two phases. For lines and bidirectional
    rings. `wrap`: the modulus of each digit that goes round, else 0; left out, it is seen from the routes.
    """
    grid_only(base, "romm")
    relation = _two_phases(base, (Way(last=1, first=0, via="box"),), "romm")
    if not base.stride.any() and base.npus > 1:
        raise InputError("romm needs a network whose NPUs are numbered by their coordinates", key=ROUTING)
    if wrap is None:
        moves = steps(base, plane(base, plain_plane(base, "romm")))
        kinds = moves.kinds()
        for dim, kind in enumerate(kinds):
            if kind not in ("line", "ring") and moves.size[dim] > 1:
                raise InputError(
                    f"romm needs lines and bidirectional rings, in which NPUs lie between others; dimension {dim} is"
                    " neither",
                    key=ROUTING,
                )
        wrap = tuple(int(n) if kind == "ring" else 0 for n, kind in zip(moves.size, kinds, strict=True))
    return replace(relation, wrap=np.array(wrap, np.int32))


def ugal(base: Relation, bias: int = 0) -> Relation:
    """Each packet goes the minimal way or Valiant's, whichever costs less at its source (UGAL-L: Singh 2005).

    The cost of a way is what its first link has in use times its links; `bias` is added to that of Valiant's way. Both
    ways share the classes of the second phase.
    """
    ways = (Way(last=1), Way(last=1, first=0, via="any", bias=bias))
    return replace(_two_phases(base, ways, "ugal"), choose="least")


def _two_phases(base: Relation, ways: tuple[Way, ...], what: str) -> Relation:
    """Plane 0 is the base, plane 1 the same in the classes above."""
    base = tie_random(base)
    first = plane(base, plain_plane(base, what))
    by, changes = doubled(base)
    changed: dict[str, Any] = {**changes, "ways": ways, "choose": "random"}
    return rebuilt(base, [first, first.raised(by)], **changed)
