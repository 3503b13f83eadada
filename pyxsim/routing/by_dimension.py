"""A short proof for adaptive routing on grids whose escape is dimension order: one dimension at a time.

On a grid an escape channel of dimension i is taken when the digits before i are right, and whatever a packet does from
there on, they stay right. So what it waits for on the escape later is of dimension i or of a later one, and a circle
could only close inside one dimension. There it is enough to look at digits: all lines of a dimension are laid over
each other, which may add circles but cannot hide any. Packets on other planes are of the same kind.

Adaptive packets that stay on the escape once they took it are simpler still: all that they can do to others they do on
the escape plane, as if they had started there.

So a network of any size is proved from its tables, without a walk. Where this proof fails, the full one decides.
"""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.routing.grid import Steps, steps
from pyxsim.routing.journeys import behind_cycles
from pyxsim.routing.planes import Plane, plane, rebuilt
from pyxsim.routing.relation import ALWAYS, EACH, SKIP, Relation, Way


def without_sticky(relation: Relation) -> Relation | None:
    """A relation whose proof is one for this relation, too; None where there is none as simple."""
    planes = [plane(relation, number) for number in range(relation.planes)]
    if not _fits(relation, planes) or not all(at.sticky for at in planes if _adaptive(at)):
        return None
    rest = [at for at in planes if not _adaptive(at)]
    # In a group of links classes are kept, whatever the tables say: so they must be other classes on all links.
    waited = {number for at in rest for number in np.unique(at.vc_class).tolist()}
    own = {number for at in planes if _adaptive(at) for number in np.unique(at.vc_class).tolist()}
    return None if waited & own else rebuilt(relation, rest, ways=(Way(0),))


def proves(relation: Relation) -> bool:
    """Whether all pairs on all planes are safe, by this proof. VCs hold packets of one at a time, or whole ones."""
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
    """A grid of routers without switches or vias, whose escapes are in dimension order and lead on from everywhere."""
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
        # An entry of its own digit is never looked at.
        empty = np.diff(at.start) == 0
        mine = np.concatenate([np.repeat(at.own[:, i], n) for i, n in enumerate(sizes)])
        if (mine[empty] != goal[empty]).any():
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
        found: Steps = steps(relation, at)
        used = found.mine != found.goal
        self.dim, self.mine, self.goal = found.dim[used], found.mine[used], found.goal[used]
        self.size = found.size
        self.after = (self.mine + found.step[used]) % self.size[self.dim]
        self.vc_class = at.vc_class[used].astype(np.int64)
        self.channel: IntArray = at.link[used].astype(np.int64) * self.classes + self.vc_class

    def edges(self, dim: int, parts: list[_Part]) -> tuple[IntArray, IntArray]:
        """In one dimension: (from, to), between channels (digit, next digit, class) and states (plane, digit, goal)."""
        here = self.dim == dim
        n = int(self.size[dim])
        states = n * n * self.classes  # states are numbered behind the channels
        mine, goal, after = self.mine[here], self.goal[here], self.after[here]
        base = states + self.number * n * n
        at, then = base + mine * n + goal, base + after * n + goal
        if not self.adaptive:
            return self._over(dim, base)
        src, dst = parts[self.at.escape]._over(dim, base)
        return np.concatenate([at, src]), np.concatenate([then, dst])

    def _over(self, dim: int, base: int) -> tuple[IntArray, IntArray]:
        """The candidates of this plane, taken by packets whose states are numbered from `base` on."""
        here = self.dim == dim
        n = int(self.size[dim])
        mine, goal, after = self.mine[here], self.goal[here], self.after[here]
        channel = (mine * n + after) * self.classes + self.vc_class[here]
        return np.concatenate([base + mine * n + goal, channel]), np.concatenate([channel, base + after * n + goal])
