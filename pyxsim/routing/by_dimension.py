"""A fast deadlock proof for adaptive routing on grids with a dimension-order escape, one dimension at a time.

On a grid, a packet takes an escape channel of dimension i when its digits before i are correct, and they stay correct.
It later waits only for escape channels of dimension i or above, so every cycle lies within one dimension. There the
proof considers digits only: it merges all lines of a dimension, which may add cycles but cannot hide one. The same
holds for packets on other planes.

An adaptive packet that stays on the escape after it entered (sticky) affects others only as a packet of the escape
plane, as if it had started there.

The proof reads the tables only, so it suits networks of any size. Where it fails, the full proof decides
(`pyxsim/routing/deadlock.py`).
"""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.routing.grid import Steps, steps
from pyxsim.routing.journeys import behind_cycles
from pyxsim.routing.planes import Plane, plane, rebuilt
from pyxsim.routing.relation import ALWAYS, EACH, SKIP, Relation, Way


def without_sticky(relation: Relation) -> Relation | None:
    """Return a relation without adaptive planes whose proof holds for this one too; None if there is none."""
    planes = [plane(relation, number) for number in range(relation.planes)]
    if not _fits(relation, planes) or not all(at.sticky for at in planes if _adaptive(at)):
        return None
    escapes = [at for at in planes if not _adaptive(at)]
    # Within a group of links packets keep their class whatever the tables contain, so the classes must be disjoint on
    # all links.
    escape_classes = {number for at in escapes for number in np.unique(at.vc_class).tolist()}
    adaptive_classes = {number for at in planes if _adaptive(at) for number in np.unique(at.vc_class).tolist()}
    return None if escape_classes & adaptive_classes else rebuilt(relation, escapes, ways=(Way(0),))


def proves(relation: Relation) -> bool:
    """Return whether this proof shows that no pair on any plane can deadlock.

    It requires that a VC holds one packet at a time, or whole packets.
    """
    planes = [plane(relation, number) for number in range(relation.planes)]
    if not _fits(relation, planes) or (relation.link_group >= 0).any():
        return False
    parts = [_Part(relation, number, at) for number, at in enumerate(planes)]
    # No packet may wait for a channel that an adaptive packet takes on its own plane.
    waited = np.concatenate([part.channel for part in parts if not part.adaptive])
    if any(np.isin(part.channel, waited).any() for part in parts if part.adaptive):
        return False
    for dim in range(relation.digits.shape[1]):
        edges = [part.edges(dim, parts) for part in parts]
        src, dst = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        if not len(src):
            continue
        # Renumber: the numbers are sparse.
        nodes, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
        if behind_cycles(ends[: len(src)], ends[len(src) :], len(nodes)).any():
            return False
    return True


def _fits(relation: Relation, planes: list[Plane]) -> bool:
    """Whether the network is a grid without switches and vias, with dimension-order escapes that cover all pairs."""
    if not relation.separable or any(way.via != "none" for way in relation.ways):
        return False
    if len(np.unique(relation.home)) < relation.routers:
        return False
    sizes = relation.digits.max(axis=0) + 1
    goal = np.concatenate([np.tile(np.arange(n), relation.routers) for n in sizes])
    for at in planes:
        if (at.own == ALWAYS).any() or (at.own == SKIP).any():
            return False
        if _adaptive(at):
            if _adaptive(planes[at.escape]):
                return False
            continue
        if at.any or at.select == EACH:
            return False
        # The entry of a router's own digit is never read.
        empty = np.diff(at.start) == 0
        own_digit = np.concatenate([np.repeat(at.own[:, i], n) for i, n in enumerate(sizes)])
        if (own_digit[empty] != goal[empty]).any():
            return False
    return True


def _adaptive(at: Plane) -> bool:
    return at.select == EACH and at.escape >= 0


class _Part:
    """The candidates of one plane, by digits."""

    def __init__(self, relation: Relation, number: int, at: Plane) -> None:
        self.number, self.at = number, at
        self.adaptive = _adaptive(at)
        self.classes = relation.classes
        moves: Steps = steps(relation, at)
        used = moves.mine != moves.goal
        self.dim, self.mine, self.goal = moves.dim[used], moves.mine[used], moves.goal[used]
        self.size = moves.size
        self.after = (self.mine + moves.step[used]) % self.size[self.dim]
        self.vc_class = at.vc_class[used].astype(np.int64)
        self.channel: IntArray = at.link[used].astype(np.int64) * self.classes + self.vc_class

    def edges(self, dim: int, parts: list[_Part]) -> tuple[IntArray, IntArray]:
        """(from, to) of the edges of one dimension, between channels (digit, next digit, class) and states (plane,
        digit, goal)."""
        in_dim = self.dim == dim
        n = int(self.size[dim])
        states = n * n * self.classes  # number of the first state, after the channels
        mine, goal, after = self.mine[in_dim], self.goal[in_dim], self.after[in_dim]
        base = states + self.number * n * n
        state, next_state = base + mine * n + goal, base + after * n + goal
        if not self.adaptive:
            return self._over(dim, base)
        src, dst = parts[self.at.escape]._over(dim, base)
        return np.concatenate([state, src]), np.concatenate([next_state, dst])

    def _over(self, dim: int, base: int) -> tuple[IntArray, IntArray]:
        """The edges of packets that take the candidates of this plane; their states have numbers from `base`."""
        in_dim = self.dim == dim
        n = int(self.size[dim])
        mine, goal, after = self.mine[in_dim], self.goal[in_dim], self.after[in_dim]
        channel = (mine * n + after) * self.classes + self.vc_class[in_dim]
        return np.concatenate([base + mine * n + goal, channel]), np.concatenate([channel, base + after * n + goal])
