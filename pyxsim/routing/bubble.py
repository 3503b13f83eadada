"""Bubble flow control: rings without datelines.

A packet enters a ring only if a VC has slots for all its flits and one more, and keeps this VC number until it leaves
the ring. So each VC number is a ring of its own, in which a slot stays empty: the flit behind it can move, and with it
the empty slot moves back, until a packet leaves the ring (Carrion et al., "A flow control mechanism to avoid message
deadlock in k-ary n-cube networks", HiPC 1997; Puente et al., "The adaptive bubble router", J. Parallel Distrib. Comput.
61(9), 2001; with flits instead of packets: Ma et al., "Leaving one slot empty", IEEE Trans. Computers 64(3), 2015).

All routers of a ring then do the same: no link differs from the others as the one at the dateline does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.routing.grid import steps, tie_random
from pyxsim.routing.planes import ROUTING, grid_only, main_plane, plane
from pyxsim.routing.relation import Relation

RINGS = ("ring", "one-way ring")


def bubble(base: Relation) -> Relation:
    """Dimension order with bubble flow control in rings, which have one VC class.

    Raises InputError if no dimension is a ring.
    """
    grid_only(base, "bubble")
    base = tie_random(base)
    moves = steps(base, plane(base, main_plane(base, "bubble")))
    rings = [dim for dim, kind in enumerate(moves.kinds()) if kind in RINGS]
    if not rings:
        raise InputError("bubble requires a dimension that is a ring", key=ROUTING)
    in_ring = np.isin(moves.dim, rings)
    dimension = np.full(base.links, -1, np.int32)
    dimension[moves.plane.link[in_ring]] = moves.dim[in_ring]
    ring_link, link = dimension >= 0, np.asarray(base.link)
    return replace(
        base,
        vc_class=np.where(ring_link[link] & (link >= 0), 0, base.vc_class).astype(np.int32),
        set_class=np.where(ring_link[base.set_link], 0, base.set_class).astype(np.int32),
        link_classes=np.where(ring_link, 1, base.link_classes).astype(np.int32),
        link_group=np.where(ring_link, dimension, base.link_group).astype(np.int32),
        fixed_vcs=(),
        bubble=True,
    )


def merged_rings(relation: Relation, src: IntArray, dst: IntArray, classes: int) -> tuple[IntArray, IntArray]:
    """Return the dependencies between channels with those within a ring removed and each ring as one channel.

    Packets within a ring cannot wait for each other for ever, so a deadlock would be a cycle of rings. Links that
    follow each other within a group are a ring only if each has one successor at most; others keep their dependencies.

    Parameters
    ----------
    src, dst
        int64[edges]: channels, link * classes + VC class.
    """
    group = relation.link_group
    inside = (group[src // classes] >= 0) & (group[src // classes] == group[dst // classes])
    follows, precedes = (np.bincount(np.unique(np.column_stack([src, dst])[inside], axis=0)[:, end]) for end in (0, 1))
    if max(follows.max(initial=0), precedes.max(initial=0)) > 1:
        return src, dst
    channels = relation.links * classes
    ring = np.arange(channels)
    while True:  # the smallest number of each ring spreads along it, twice as far in each round
        smaller = ring.copy()
        np.minimum.at(smaller, src[inside], ring[dst[inside]])
        np.minimum.at(smaller, dst[inside], ring[src[inside]])
        smaller = smaller[smaller]
        if np.array_equal(smaller, ring):
            break
        ring = smaller
    return ring[src[~inside]], ring[dst[~inside]]
