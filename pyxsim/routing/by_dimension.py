"""A fast deadlock proof for grids, one dimension at a time: for dimension order, and for adaptive routing with it.

On a grid, a packet takes a channel of dimension i when its digits before i are correct, and they stay correct. It later
waits only for channels of dimension i or above, so every cycle lies within one dimension. There the proof considers
digits only: it merges all lines of a dimension, which may add cycles but cannot hide one. The same holds for packets on
other planes, and for the escape channels of adaptive packets.

An adaptive packet that stays on the escape after it entered (sticky) affects others only as a packet of the escape
plane, as if it had started there.

Switches that connect a dimension count as one more digit of it, the same for all of them.

The proof reads the tables only, so it suits networks of any size. It covers all pairs, so it holds for some of them
too. Where it fails, the full proof decides (`pyxsim/routing/deadlock.py`).
"""

from __future__ import annotations

import math

import numpy as np

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.routing.journeys import behind_cycles
from pyxsim.routing.planes import candidates, distinct, plane, ranges, rebuilt, table_parts
from pyxsim.routing.relation import ALWAYS, EACH, SKIP, Relation, Way

# Pairs of digits on all planes, in all and per NPU: with more of both, the full proof takes less time and memory.
MOST_CASES = 1 << 16
MOST_CASES_PER_NPU = 8


def without_sticky(relation: Relation) -> Relation | None:
    """Return a relation without adaptive planes whose proof holds for this one too; None if there is none."""
    adaptive = [_adaptive(relation, number) for number in range(relation.planes)]
    sticky = relation.plane_sticky.astype(bool)
    if not _fits(relation) or not sticky[adaptive].all():
        return None
    if not all(_Part(relation, number).complete for number in range(relation.planes) if not adaptive[number]):
        return None
    planes = [(plane(relation, number), own) for number, own in enumerate(adaptive)]
    # Within a group of links packets keep their class whatever the tables contain, so the classes must be disjoint on
    # all links.
    escape_classes = {number for at, own in planes if not own for number in np.unique(at.vc_class).tolist()}
    adaptive_classes = {number for at, own in planes if own for number in np.unique(at.vc_class).tolist()}
    if escape_classes & adaptive_classes:
        return None
    return rebuilt(relation, [at for at, own in planes if not own], ways=(Way(0),))


def proves(relation: Relation) -> bool:
    """Return whether this proof shows that no pair on any plane can deadlock.

    With adaptive planes it requires that a VC holds one packet at a time, or whole packets.
    """
    if not _fits(relation):
        return False
    adaptive = any(_adaptive(relation, number) for number in range(relation.planes))
    if adaptive and (relation.link_group >= 0).any():
        return False
    sizes = relation.digits.max(axis=0, initial=0).astype(np.int64) + 1
    if not adaptive and relation.planes * int((sizes**2).sum()) > max(MOST_CASES, MOST_CASES_PER_NPU * relation.npus):
        return False
    parts = [_Part(relation, number) for number in range(relation.planes)]
    if not all(part.complete for part in parts):
        return False
    # No packet may wait for a channel that an adaptive packet takes on its own plane.
    waited = np.logical_or.reduce([part.channels for part in parts if not part.adaptive])
    if any((part.channels & waited).any() for part in parts if part.adaptive):
        return False
    for dim in range(relation.digits.shape[1]):
        # A packet keeps its class where it stays in a group; here all links of a dimension must be in one, or in none.
        groups = {number for part in parts for number in part.groups[dim]}
        if len(groups) > 1:
            return False
        edges = [part.edges(dim, parts, keeps=max(groups, default=-1) >= 0) for part in parts]
        src, dst = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        if not len(src):
            continue
        # Renumber: the numbers are sparse.
        nodes, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
        if behind_cycles(ends[: len(src)], ends[len(src) :], len(nodes)).any():
            return False
    return True


def _fits(relation: Relation) -> bool:
    """Whether the network is a grid without vias, in dimension order, or without switches and with such escapes."""
    if not relation.separable or relation.bubble or any(way.via != "none" for way in relation.ways):
        return False
    home = np.unique(relation.home)
    sizes = relation.digits.max(axis=0, initial=0).astype(np.int64) + 1
    if len(relation.entry) or len(home) != math.prod(sizes.tolist()):
        return False
    own = relation.own.reshape(relation.planes, relation.routers, -1)
    if (own[:, relation.home] != relation.digits).any():
        return False
    switches = np.delete(own, home, axis=1)
    if ((switches == ALWAYS).sum(axis=2) != 1).any() or ((switches == SKIP).sum(axis=2) != len(sizes) - 1).any():
        return False
    if switches.size and any(_adaptive(relation, number) for number in range(relation.planes)):
        return False
    for number in range(relation.planes):
        if _adaptive(relation, number):
            if _adaptive(relation, int(relation.plane_escape[number])):
                return False
        elif relation.plane_any[number] or relation.plane_select[number] == EACH:
            return False
    return True


def _adaptive(relation: Relation, number: int) -> bool:
    return bool(relation.plane_select[number] == EACH and relation.plane_escape[number] >= 0)


class _Part:
    """The candidates of one plane, by digits.

    Attributes
    ----------
    complete
        Whether each router has a candidate for each digit but its own, whose entry is never read; True if adaptive.
    channels
        bool[channels]: those that a candidate takes.
    steps
        Of each dimension, int64[4, n]: distinct digit of the router, digit of the destination, next digit, VC class;
        in order of the first two.
    groups
        Of each dimension, the lowest and the highest group of its links; empty without candidates.
    """

    def __init__(self, relation: Relation, number: int) -> None:
        self.number, self.classes = number, relation.classes
        self.escape = int(relation.plane_escape[number])
        self.adaptive = _adaptive(relation, number)
        self.complete = True
        self.channels: BoolArray = np.zeros(relation.links * self.classes, np.bool_)
        rows = slice(number * relation.routers, (number + 1) * relation.routers)
        # The digit of switches is one more than those of NPUs.
        digits = relation.digits.max(axis=0, initial=0).astype(np.int64)
        self.size = digits + 1 + (relation.own == ALWAYS).any(axis=0)  # the same on all planes
        own_digits = np.where(relation.own[rows] == ALWAYS, digits + 1, relation.own[rows])
        self.groups: list[set[int]] = [set() for _ in self.size]
        seen = [_Steps(int(n)) for n in self.size]
        for dim, routers, entry in table_parts(relation, number):
            seen[dim].add(*self._read(relation, dim, own_digits[:, dim], routers, entry))
        self.steps = [self._decoded(*steps.all(), int(n)) for steps, n in zip(seen, self.size, strict=True)]

    def _read(
        self, relation: Relation, dim: int, own: IntArray, routers: IntArray, entry: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Read a part of the table of a dimension; return numbers of the first and last two rows of each step."""
        n, classes = int(self.size[dim]), self.classes
        start, link, vc_class = candidates(relation, entry)
        case = (own[routers, None] * n + np.arange(len(entry) // len(routers))).ravel()
        count = np.diff(start)
        needed = case // n != case % n
        self.complete = self.complete and (self.adaptive or bool((count > 0)[needed].all()))
        used = np.repeat(needed, count)
        link, vc_class, case = link[used], vc_class[used], np.repeat(case, count)[used]
        self.channels[link.astype(np.int64) * classes + vc_class] = True
        group = relation.link_group[link]
        self.groups[dim] |= {int(group.min()), int(group.max())} if len(group) else set()
        after = own[relation.link_dst[link]]
        self.complete = self.complete and bool((after >= 0).all())
        return case, after * classes + vc_class

    def _decoded(self, case: IntArray, hop: IntArray, n: int) -> IntArray:
        """int64[4, steps] from the numbers of `_read`."""
        return np.stack([*np.divmod(case, n), *np.divmod(hop, self.classes)])

    def edges(self, dim: int, parts: list[_Part], keeps: bool) -> tuple[IntArray, IntArray]:
        """(from, to) of the edges of one dimension, between channels (digit, next digit, class) and states (plane,
        digit, goal, class).

        The class is 0 where it does not matter. `keeps`: a packet keeps the class of its first channel.
        """
        n = int(self.size[dim])
        states = n * n * self.classes  # number of the first state, after the channels
        base = states * (self.number + 1)
        if not self.adaptive:
            return self._keeping(dim, base) if keeps else self._over(dim, base)
        mine, goal, after, _ = self.steps[dim]
        src, dst = parts[self.escape]._over(dim, base)
        state, next_state = (base + (digit * n + goal) * self.classes for digit in (mine, after))
        return np.concatenate([state, src]), np.concatenate([next_state, dst])

    def _over(self, dim: int, base: int) -> tuple[IntArray, IntArray]:
        """The edges of packets that take the candidates of this plane; their states have numbers from `base`."""
        n = int(self.size[dim])
        mine, goal, after, vc_class = self.steps[dim]
        channel = (mine * n + after) * self.classes + vc_class
        state, next_state = (base + (digit * n + goal) * self.classes for digit in (mine, after))
        return np.concatenate([state, channel]), np.concatenate([channel, next_state])

    def _keeping(self, dim: int, base: int) -> tuple[IntArray, IntArray]:
        """The same of packets that keep their class, which is that of the table where they begin."""
        n, classes = int(self.size[dim]), self.classes
        mine, goal, after, vc_class = self.steps[dim]
        src, dst = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        reached = np.zeros(n * n * classes, np.bool_)
        at = np.arange(len(mine))
        while len(at):
            channel = (mine[at] * n + after[at]) * classes + vc_class
            state = (after[at] * n + goal[at]) * classes + vc_class
            src.append(channel)
            dst.append(base + state)
            front = distinct(state)
            front = front[~reached[front]]
            reached[front] = True
            # All candidates that these packets have next, in their class.
            digits, vc_class = np.divmod(front, classes)
            first = np.searchsorted(mine * n + goal, digits, "left")
            count = np.searchsorted(mine * n + goal, digits, "right") - first
            at, vc_class = ranges(first, count), np.repeat(vc_class, count)
            src.append(base + np.repeat(front, count))
            dst.append((mine[at] * n + after[at]) * classes + vc_class)
        return np.concatenate(src), np.concatenate(dst)


class _Steps:
    """Distinct steps, as (case, hop) with cases below n * n; most cases have one."""

    def __init__(self, n: int) -> None:
        self._first = np.full(n * n, -1)
        self._others = [np.zeros(0, np.int64)]

    def add(self, case: IntArray, hop: IntArray) -> None:
        """Add steps."""
        new = self._first[case] < 0
        self._first[case[new]] = hop[new]
        other = np.flatnonzero(self._first[case] != hop)
        self._others.append(distinct(case[other] << 32 | hop[other]))

    def all(self) -> tuple[IntArray, IntArray]:
        """Return all steps in order."""
        case = np.flatnonzero(self._first >= 0)
        steps = distinct(np.concatenate([case << 32 | self._first[case], *self._others]))
        return steps >> 32, steps & 0xFFFFFFFF
