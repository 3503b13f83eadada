"""Mean channel loads and hops of a traffic matrix without contention.

They are exact for oblivious routing: traffic divides evenly over the candidates of a set, the route options and the
vias. The load of adaptive routing depends on the state of the network; only the hops of its minimal paths are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pyxsim.arrays import FloatArray, Int32Array, IntArray
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing.explore import BATCH, decide
from pyxsim.routing.journeys import check_routes
from pyxsim.routing.planes import distinct, ranges
from pyxsim.routing.relation import EACH, RANDOM, Relation, Way

_NONE = np.zeros(0, np.int64)


def expected_loads(relation: Relation, matrix: ArrayLike, plane: int = -1) -> tuple[FloatArray | None, float]:
    """Return the mean load of each link and the mean hops of a traffic matrix.

    Parameters
    ----------
    relation
        The routes.
    matrix
        Flits per cycle from each NPU (row) to each NPU (column).
    plane
        A plane, or -1 for the route options of the relation.

    Returns
    -------
    loads
        float64[links], flits per cycle; None if packets choose their routes by load.
    hops
        Mean number of links, weighted with the matrix; for adaptive routing, of minimal routes with equal use of all
        candidates.

    Raises
    ------
    UnreachableError
        If a pair with traffic has no route.
    """
    traffic = np.asarray(matrix, np.float64)
    if traffic.shape != (relation.npus, relation.npus):
        raise InputError(f"traffic matrix has shape {traffic.shape}; expected ({relation.npus}, {relation.npus})")
    ways = ways_of(relation, plane)
    load = np.zeros(relation.links)
    for number, part in _parts(relation, ways, traffic):
        load += _plane_loads(relation, number, part)
    hops = float(load.sum() / traffic.sum()) if traffic.any() else 0.0
    return (load if oblivious(relation, plane) else None), hops


def expected_hops(relation: Relation, plane: int = -1) -> FloatArray:
    """Return float64[npus, npus]: mean hops (links) from each NPU to each other, on a plane or (-1) the route options.

    For adaptive routing these are the hops of minimal routes with equal use of all candidates.
    """
    ways = ways_of(relation, plane)
    known: dict[int, FloatArray] = {}
    for way in ways:
        for number in {way.last, way.first} - {-1}:
            if number not in known:
                known[number] = _plane_hops(relation, number)
    total = np.zeros((relation.npus, relation.npus))
    for way in ways:
        if way.via == "none":
            total += known[way.last]
        elif way.via in ("any", "aligned"):
            total += known[way.first].mean(axis=1)[:, None] + known[way.last].mean(axis=0)[None, :]
        else:
            # The mean, over the vias v between s and d, of the hops from s to v and from v to d.
            total += _in_box(relation, known[way.first], "abv,av...->ab...")
            total += _in_box(relation, known[way.last], "abv,vb...->ab...")
    return total / len(ways)


def oblivious(relation: Relation, plane: int = -1) -> bool:
    """Return whether the routes do not depend on the state of the network."""
    ways = relation.ways if plane < 0 else (Way(plane),)
    if len(ways) > 1 and relation.choose != "random":
        return False
    planes = {number for way in ways for number in (way.first, way.last)} - {-1}
    if relation.sets == 0 and not relation.plane_any.any():
        return not any(relation.plane_select[p] == EACH and relation.plane_escape[p] >= 0 for p in planes)
    return all(relation.plane_select[p] == RANDOM for p in planes)


def ways_of(relation: Relation, plane: int) -> tuple[Way, ...]:
    """Return the route options to count: those without a via if packets choose by load, else all."""
    if plane >= 0:
        return (Way(plane),)
    if len(relation.ways) > 1 and relation.choose != "random":
        return tuple(way for way in relation.ways if way.via == "none") or relation.ways
    return relation.ways


def _parts(relation: Relation, ways: tuple[Way, ...], traffic: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """(plane, matrix) of the traffic on each plane."""
    share = traffic / len(ways)
    for way in ways:
        if way.via == "none":
            yield way.last, share
        elif way.via == "any":
            spread = np.full(relation.npus, 1 / relation.npus)
            yield way.first, np.outer(share.sum(axis=1), spread)
            yield way.last, np.outer(spread, share.sum(axis=0))
        else:
            # The traffic from s to d divides evenly over the vias v between them.
            yield way.first, _in_box(relation, share, "abv,ab...->av...")
            yield way.last, _in_box(relation, share, "abv,ab...->vb...")


def _plane_loads(relation: Relation, plane: int, traffic: FloatArray) -> FloatArray:
    load = np.zeros(relation.links)
    for paths, sent in _problems(relation, plane, traffic):
        load += paths.loads(sent, relation.links)
    return load


def _plane_hops(relation: Relation, plane: int) -> FloatArray:
    """float64[npus, npus]: mean hops from each NPU to each other on one plane."""
    targets = _Targets(relation)
    hops = np.zeros((relation.npus, relation.npus))
    for begin, end in targets.batches():
        paths = Paths(relation, plane, targets.digits[begin:end], targets.home[begin:end], targets.starts(begin, end))
        by_target = paths.hops().reshape(end - begin, relation.routers)
        columns = np.flatnonzero((targets.number >= begin) & (targets.number < end))
        hops[:, columns] = by_target[targets.number[columns] - begin][:, relation.starts].T
    return hops


def _problems(relation: Relation, plane: int, traffic: FloatArray) -> Iterator[tuple[Paths, FloatArray]]:
    """(paths, traffic from each place): for all destinations, or by dimension if the relation is separable."""
    simple = relation.plane_select[plane] != EACH and not relation.plane_any[plane]
    if relation.separable and simple and relation.stride.any():
        yield from _by_dimension(relation, plane, traffic)
        return
    targets = _Targets(relation)
    for begin, end in targets.batches():
        sent = np.zeros((end - begin, relation.routers))
        columns = np.flatnonzero((targets.number >= begin) & (targets.number < end))
        to_target = np.zeros((end - begin, relation.npus))
        np.add.at(to_target, targets.number[columns] - begin, traffic[:, columns].T)
        np.add.at(sent.T, relation.starts, to_target.T)
        # Traffic to the router itself crosses no link.
        sent[np.arange(end - begin), targets.home[begin:end]] = 0
        starts = np.flatnonzero(sent)
        yield Paths(relation, plane, targets.digits[begin:end], targets.home[begin:end], starts), sent.ravel()


def _by_dimension(relation: Relation, plane: int, traffic: FloatArray) -> Iterator[tuple[Paths, FloatArray]]:
    """(paths, traffic) in each dimension i, where packets start at routers with the digits before i corrected."""
    size = _sizes(relation)
    dims = len(size)
    # Axes: digits of the source from the last one down to digit 0, then those of the destination.
    grid = traffic.reshape(*size[::-1], *size[::-1])
    for dim in range(dims):
        if size[dim] == 1:
            continue
        corrected = [dims - 1 - i for i in range(dim)]  # digits of the source
        uncorrected = [2 * dims - 1 - i for i in range(dim + 1, dims)]  # digits of the destination
        part = grid.sum(axis=tuple(corrected + uncorrected))
        # Remaining axes: the source's digits dims-1 .. dim, then the destination's dim .. 0. A place is a digit of the
        # destination in this dimension, and a router: the source's digits from dim on, the destination's before.
        axis = dims - dim  # the destination's digit of this dimension
        sent = np.moveaxis(part, axis, 0).reshape(size[dim], -1)
        at = np.zeros((size[dim], relation.routers))
        at[:, relation.home] = sent
        digits = np.arange(size[dim], dtype=np.int32)[:, None]
        yield Paths(relation, plane, digits, None, np.flatnonzero(at), dims=(dim,)), at.ravel()


class _Targets:
    """NPUs as targets; those with the same digits and the same router are one."""

    def __init__(self, relation: Relation) -> None:
        table = np.column_stack([relation.digits, relation.home])
        _, first, number = np.unique(table, axis=0, return_index=True, return_inverse=True)
        self.number = number.reshape(relation.npus)
        self.digits, self.home = relation.digits[first], relation.home[first]
        self.routers = relation.routers
        self.homes = np.unique(relation.home).astype(np.int64)

    def batches(self) -> Iterator[tuple[int, int]]:
        rows = max(1, BATCH // self.routers)
        for begin in range(0, len(self.home), rows):
            yield begin, min(begin + rows, len(self.home))

    def starts(self, begin: int, end: int) -> IntArray:
        return (np.arange(end - begin)[:, None] * self.routers + self.homes[None, :]).ravel()


@dataclass(frozen=True, eq=False)
class _Step:
    """Edges between places: the link, and the share of the traffic at `src` that takes it."""

    src: IntArray
    dst: IntArray
    link: Int32Array
    share: FloatArray


class Paths:
    """All paths of a plane to a batch of targets. A place is target * routers + router; paths begin at `starts`."""

    def __init__(
        self,
        relation: Relation,
        plane: int,
        digits: Int32Array,
        home: Int32Array | None,
        starts: IntArray,
        dims: tuple[int, ...] | None = None,
    ) -> None:
        self.routers = relation.routers
        self.size = len(digits) * relation.routers
        dims = tuple(range(relation.digits.shape[1])) if dims is None else dims
        seen = np.zeros(self.size, np.bool_)
        seen[starts] = True
        front = starts
        steps: list[_Step] = []
        while len(front):
            target, router = np.divmod(front, relation.routers)
            if home is not None:
                not_home = router != home[target]
                front, target, router = front[not_home], target[not_home], router[not_home]
            who, link = self._candidates(relation, plane, router, digits[target], dims, home is None)
            ahead = target[who] * relation.routers + relation.link_dst[link].astype(np.int64)
            count = np.bincount(who, minlength=len(front))
            steps.append(_Step(front[who], ahead, link, 1 / count[who]))
            front = distinct(ahead[~seen[ahead]])
            seen[front] = True
        self.steps = list(self._in_order(relation, steps)) if steps else []

    def _candidates(
        self,
        relation: Relation,
        plane: int,
        router: IntArray,
        digits: Int32Array,
        dims: tuple[int, ...],
        open_end: bool,
    ) -> tuple[IntArray, Int32Array]:
        who, link, _, differs = decide(relation, plane, router, digits, dims)
        present = np.zeros(len(router), np.bool_)
        present[who] = True
        lost = differs & ~present if open_end else ~present
        escape = int(relation.plane_escape[plane]) if relation.plane_select[plane] == EACH else -1
        if lost.any() and escape >= 0:
            places = np.flatnonzero(lost)
            escaping, escape_link, _, _ = decide(relation, escape, router[places], digits[places], dims)
            who, link = np.concatenate([who, places[escaping]]), np.concatenate([link, escape_link])
            lost[places[escaping]] = False
        if lost.any():
            check_routes(relation)  # raises, with the pair
            raise UnreachableError(f"plane {plane} has no route at router {int(router[np.argmax(lost)])}")
        return who, link

    def _in_order(self, relation: Relation, steps: list[_Step]) -> Iterator[_Step]:
        """The edges in topological order: all edges into a place come before those out of it."""
        src, dst = np.concatenate([step.src for step in steps]), np.concatenate([step.dst for step in steps])
        link, share = np.concatenate([step.link for step in steps]), np.concatenate([step.share for step in steps])
        order = np.argsort(src, kind="stable")
        degree = np.bincount(src, minlength=self.size)
        first = np.cumsum(degree) - degree
        pending = np.bincount(dst, minlength=self.size)
        front = np.flatnonzero((pending == 0) & (degree > 0))
        done = 0
        while len(front):
            edge = order[ranges(first[front], degree[front])]
            yield _Step(src[edge], dst[edge], link[edge], share[edge])
            done += len(edge)
            np.subtract.at(pending, dst[edge], 1)
            reached = distinct(dst[edge])
            front = reached[(pending[reached] == 0) & (degree[reached] > 0)]
        if done < len(src):
            check_routes(relation, cycles=True)
            raise UnreachableError("a route contains a cycle")

    def loads(self, sent: FloatArray, links: int) -> FloatArray:
        """Return float64[links]: the load of each link if `sent`, float64[places], starts at each place."""
        passing = sent.copy()
        load = np.zeros(links)
        for step in self.steps:
            amount = passing[step.src] * step.share
            load += np.bincount(step.link, amount, links)
            np.add.at(passing, step.dst, amount)
        return load

    def amounts(self, sent: FloatArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """Return (target, link, amount) for every edge if `sent`, float64[places], starts at each place."""
        passing = sent.copy()
        target, link, amounts = [_NONE], [_NONE.astype(np.int32)], [np.zeros(0)]
        for step in self.steps:
            amount = passing[step.src] * step.share
            np.add.at(passing, step.dst, amount)
            target.append(step.src // self.routers)
            link.append(step.link)
            amounts.append(amount)
        return np.concatenate(target), np.concatenate(link), np.concatenate(amounts)

    def longest(self, lengths: IntArray) -> IntArray:
        """Return int64[places]: the largest sum of `lengths`, int64[links], over a path to the target."""
        total = np.zeros(self.size, np.int64)
        for step in reversed(self.steps):
            np.maximum.at(total, step.src, lengths[step.link] + total[step.dst])
        return total

    def hops(self) -> FloatArray:
        """Return float64[places]: mean number of links to the target."""
        mean = np.zeros(self.size)
        for step in reversed(self.steps):
            np.add.at(mean, step.src, step.share * (1 + mean[step.dst]))
        return mean


def _sizes(relation: Relation) -> list[int]:
    sizes: list[int] = (relation.digits.max(axis=0, initial=0).astype(np.int64) + 1).tolist()
    return sizes


def _box(relation: Relation) -> list[FloatArray]:
    """For each dimension float64[n, n, n]: the probability of each via digit (last axis) between two digits."""
    chances = []
    for dim, size in enumerate(_sizes(relation)):
        a, b = np.indices((size, size))
        n = int(relation.wrap[dim])
        up, down = (b - a) % n if n else b - a, (a - b) % n if n else a - b
        upward = up <= down if n else b >= a
        count, step = np.where(upward, up, down), np.where(upward, 1, -1)
        chance = np.zeros((size, size, size))
        for i in range(int(count.max()) + 1):
            inside = i <= count
            digit = (a + step * i) % n if n else a + step * i
            chance[a[inside], b[inside], digit[inside]] += 1 / (count[inside] + 1)
        chances.append(chance)
    return chances


def _in_box(relation: Relation, matrix: FloatArray, rule: str) -> FloatArray:
    """A matrix [npus, npus] multiplied with the probabilities of vias, dimension by dimension.

    `rule` is the subscript string of einsum; a, b and v are the digits of source, destination and via.
    """
    size = _sizes(relation)
    if int(np.prod(size)) != relation.npus:
        raise InputError("vias in a box require NPUs that are numbered by their coordinates")
    dims = len(size)
    grid = matrix.reshape(*size[::-1], *size[::-1])
    for dim, chance in enumerate(_box(relation)):
        # Move the two digits of this dimension to the front, and back.
        axes = (dims - 1 - dim, 2 * dims - 1 - dim)
        grid = np.moveaxis(np.einsum(rule, chance, np.moveaxis(grid, axes, (0, 1))), (0, 1), axes)
    return grid.reshape(relation.npus, relation.npus)
