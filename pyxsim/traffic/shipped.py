"""The patterns that ship."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.traffic.draws import PERMUTATION, Floats, Longs, below, stream, weighted
from pyxsim.traffic.matrix import Matrix, read_matrix
from pyxsim.traffic.pattern import Drawn, Pattern, Permutation, Place, patterns


@patterns.register("uniform")
def uniform(place: Place) -> Pattern:
    """Any node, itself included."""
    npus = place.npus
    return Drawn(lambda rng, src: below(rng, npus, len(src)), lambda: np.full((npus, npus), 1 / npus), even=True)


@patterns.register("uniform-other")
def uniform_other(place: Place) -> Pattern:
    """Any node but itself."""
    npus = _at_least(place, 2)

    def draw(rng: np.random.Generator, src: Longs) -> Longs:
        other = below(rng, npus - 1, len(src))
        return other + (other >= src)

    return Drawn(draw, lambda: (1 - np.eye(npus)) / (npus - 1))


@patterns.register("transpose")
def transpose(place: Place) -> Pattern:
    """Node (x, y) of a square to (y, x). Where the side is a power of two: the halves of the number's bits swapped."""
    side = isqrt(place.npus)
    if side * side != place.npus:
        raise InputError(f"transpose needs a square number of NPUs, and there are {place.npus}")
    low, high = _nodes(place) % side, _nodes(place) // side
    return Permutation(low * side + high)


@patterns.register("bit-complement")
def bit_complement(place: Place) -> Pattern:
    """Every bit of the number inverted."""
    _bits(place, "bit-complement")
    return Permutation(place.npus - 1 - _nodes(place))


@patterns.register("bit-reverse")
def bit_reverse(place: Place) -> Pattern:
    """The bits of the number in reverse order."""
    bits, nodes = _bits(place, "bit-reverse"), _nodes(place)
    return Permutation(_sum([((nodes >> bit) & 1) << (bits - 1 - bit) for bit in range(bits)], nodes))


@patterns.register("shuffle")
def shuffle(place: Place) -> Pattern:
    """The bits of the number rotated to the left by one."""
    bits, nodes = _bits(place, "shuffle"), _nodes(place)
    return Permutation((nodes << 1 & (place.npus - 1)) | (nodes >> (bits - 1) if bits else nodes))


@patterns.register("tornado")
def tornado(place: Place) -> Pattern:
    """ceil(k/2) - 1 further in every dimension of k nodes: nearly half way round, all the same way."""
    return _shift(place, [(k + 1) // 2 - 1 for k in _shape(place)])


@patterns.register("neighbor", aliases=("neighbour",))
def neighbor(place: Place) -> Pattern:
    """One further in every dimension."""
    return _shift(place, [1] * len(_shape(place)))


@patterns.register("diagonal")
def diagonal(place: Place) -> Pattern:
    """To itself with probability 2/3, else to the node with the next number."""
    npus = place.npus

    def draw(rng: np.random.Generator, src: Longs) -> Longs:
        found: Longs = (src + (below(rng, 3, len(src)) == 0)) % npus
        return found

    def chances() -> Floats:
        return (2 * np.eye(npus) + np.roll(np.eye(npus), 1, axis=1)) / 3

    return Drawn(draw, chances)


@patterns.register("asymmetric")
def asymmetric(place: Place) -> Pattern:
    """To its own number modulo N/2, in the first half of the nodes or in the second, equally likely."""
    npus, half = place.npus, _at_least(place, 2) // 2

    def draw(rng: np.random.Generator, src: Longs) -> Longs:
        return src % half + half * below(rng, 2, len(src))

    def chances() -> Floats:
        matrix = np.zeros((npus, npus))
        for part in (0, half):
            matrix[np.arange(npus), np.arange(npus) % half + part] += 0.5
        return matrix

    return Drawn(draw, chances)


@patterns.register("hotspot")
def hotspot(place: Place, nodes: Sequence[int], rates: Sequence[float] | None = None, share: float = 1.0) -> Pattern:
    """A `share` of all packets to a few `nodes`, in proportion to `rates`; the others to any node."""
    npus = place.npus
    spots = np.array(_whole(nodes, "nodes", 0, npus - 1), dtype=np.int64)
    weights = np.array(_positive([1] * len(spots) if rates is None else rates, "rates"))
    if len(weights) != len(spots):
        raise InputError(
            f"{len(weights)} rates for {len(spots)} nodes", key="pattern_options.rates", allowed="one for each node"
        )
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InputError(f"{share!r} is no share", key="pattern_options.share", allowed="a number from 0 to 1")

    def draw(rng: np.random.Generator, src: Longs) -> Longs:
        hot = spots[weighted(rng, weights, len(src))]
        if share == 1:
            return hot
        return np.where(rng.random(len(src)) < share, hot, below(rng, npus, len(src)))

    def chances() -> Floats:
        row = np.full(npus, (1 - share) / npus)
        np.add.at(row, spots, share * weights / weights.sum())
        return np.tile(row, (npus, 1))

    return Drawn(draw, chances)


@patterns.register("random-permutation")
def random_permutation(place: Place, seed: int | None = None) -> Pattern:
    """One destination for each node, drawn once from all permutations; `seed` is that of the experiment if left out."""
    number = place.seed if seed is None else _whole([seed], "seed", 0, 2**63 - 1)[0]
    draws = stream(number, 0, PERMUTATION).random(place.npus)
    return Permutation(np.argsort(draws, kind="stable").astype(np.int64))


@patterns.register("adversarial")
def adversarial(place: Place, group: int | None = None, offset: int = 1) -> Pattern:
    """Every node of a group to any node of the group `offset` further: all of it wants the same few links.

    `group`: nodes of a group. Left out: those that share their coordinate in the last dimension, which is what a group
    of a dragonfly is.
    """
    npus = place.npus
    size = npus // _shape(place)[-1] if group is None else _whole([group], "group", 1, npus)[0]
    if npus % size:
        raise InputError(f"{npus} NPUs are no whole number of groups of {size}", key="pattern_options.group")
    step = _whole([offset], "offset", 0, npus)[0]
    if size == npus:
        allowed = "nodes of a group, fewer than all"
        raise InputError("all NPUs are in one group: there is no other", key="pattern_options.group", allowed=allowed)
    if step * size % npus == 0:
        groups = npus // size
        problem = f"{step} groups further is the own group again, of {groups}"
        raise InputError(problem, key="pattern_options.offset", allowed=f"no multiple of {groups}")

    def start(src: Longs) -> Longs:
        return (src // size + step) * size % npus

    def draw(rng: np.random.Generator, src: Longs) -> Longs:
        return start(src) + below(rng, size, len(src))

    def chances() -> Floats:
        matrix, nodes = np.zeros((npus, npus)), _nodes(place)
        matrix[nodes[:, None], start(nodes)[:, None] + np.arange(size)] = 1 / size
        return matrix

    return Drawn(draw, chances)


@patterns.register("matrix")
def matrix(place: Place, file: str) -> Pattern:
    """As a file says: row i holds how much node i sends to each node, in any unit; the load scales all of it."""
    if not isinstance(file, str) or not file.strip():
        raise InputError(f"{file!r} is no file", key="pattern_options.file", allowed="a text in quotes")
    try:
        return Matrix(read_matrix(place.folder / file, place.npus))
    except InputError as error:
        raise error.named_by("pattern_options.file") from None


def _nodes(place: Place) -> Longs:
    return np.arange(place.npus, dtype=np.int64)


def _sum(parts: list[Longs], like: Longs) -> Longs:
    return sum(parts, np.zeros_like(like))


def _bits(place: Place, name: str) -> int:
    if place.npus & (place.npus - 1):
        raise InputError(f"{name} needs a power of two of NPUs, and there are {place.npus}")
    return place.npus.bit_length() - 1


def _shape(place: Place) -> tuple[int, ...]:
    shape = place.shape or (place.npus,)
    if prod(shape) != place.npus:
        sizes = "x".join(map(str, shape))
        raise InputError(f"this pattern needs dimensions, and {place.npus} NPUs are not laid out as {sizes}")
    return shape


def _shift(place: Place, steps: Sequence[int]) -> Pattern:
    nodes, stride = _nodes(place), 1
    found = np.zeros_like(nodes)
    for size, step in zip(_shape(place), steps, strict=True):
        found += (nodes // stride % size + step) % size * stride
        stride *= size
    return Permutation(found)


def _at_least(place: Place, npus: int) -> int:
    if place.npus < npus:
        raise InputError(f"this pattern needs at least {npus} NPUs, and there are {place.npus}")
    return place.npus


def _list(values: Any, key: str) -> list[Any]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InputError(f"{values!r} is no list", key=f"pattern_options.{key}", allowed="a list such as [0, 5]")
    return list(values)


def _whole(values: Any, key: str, least: int, most: int) -> list[int]:
    for value in _list(values, key):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            allowed = f"whole numbers from {least} to {most}"
            raise InputError(f"{value!r} is out of range", key=f"pattern_options.{key}", allowed=allowed)
    return list(values)


def _positive(values: Any, key: str) -> list[float]:
    for value in _list(values, key):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise InputError(
                f"{value!r} is out of range", key=f"pattern_options.{key}", allowed="numbers above zero, below 1e9"
            )
    return [float(value) for value in values]
