"""Costs of the shelf's algorithms in closed form: steps, bytes, and time if a message takes alpha + beta*m.

The formulas come from the literature that the files of the shelf cite, and from docs/collectives.md, not from the
schedules: tests compare the two. All numbers are exact; blocks are equal (N divides the size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, isqrt, prod
from typing import NamedTuple

from pyxsim.collective.kinds import get_kind
from pyxsim.collective.lookup import get_algorithm

Number = int | Fraction


class Round(NamedTuple):
    """A step on the critical path: bytes that pass before its message is complete, and whether they are added."""

    bytes: Fraction
    adds: bool = False


@dataclass(frozen=True)
class Cost:
    """The cost of one collective on one group.

    Attributes
    ----------
    steps
        Messages that must follow one another.
    busiest
        The most bytes that one rank sends, or receives.
    total
        Bytes that all ranks send.
    rounds
        Terms of the time; None without a closed form.
    """

    steps: int
    busiest: Fraction
    total: Fraction
    rounds: tuple[Round, ...] | None = None

    def time(self, alpha: Number, beta: Number, *, endpoint: Number = 0, reduction: Number = 0) -> Fraction | None:
        """Return the time if only the ports are shared; None without a closed form.

        A rank sends one message at a time and receives one at a time, m bytes in beta*m; a message arrives alpha after
        it left. Ranks of a ring have such ports in each direction, of several rings for each ring. `endpoint` is paid
        before the first message and after each, `reduction` after each that is added.
        """
        if self.rounds is None:
            return None
        steps = (alpha + beta * round_.bytes + endpoint + (reduction if round_.adds else 0) for round_ in self.rounds)
        return sum(steps, Fraction(endpoint)) if self.rounds else Fraction(0)

    def times(self, size: int) -> Cost:
        """Return the cost of `size` bytes, if this is that of one."""
        rounds = (
            None if self.rounds is None else tuple(Round(round_.bytes * size, round_.adds) for round_ in self.rounds)
        )
        return Cost(self.steps, self.busiest * size, self.total * size, rounds)


def cost(kind: str, name: str, n: int, size: int) -> Cost | None:
    """Return the cost of an algorithm ("ring", "direct:4") on n ranks; None for one that is not listed.

    `size`: the buffer of one NPU; its shard for all-gather and gather; a barrier has 1 byte.
    """
    algorithm = get_algorithm(name)
    algorithm.check(kind)
    known = _COSTS.get(algorithm.plain.partition(":")[0])
    if known is None:
        return None
    if n == 1:
        return Cost(0, Fraction(0), Fraction(0), ())
    barrier, shard = get_kind(kind).idempotent, kind in ("all-gather", "gather")
    return known(kind, n, algorithm.number).times(1 if barrier else size * n if shard else size)


# Below, everything is a share of the whole: the buffer, or all shards. B = 1/n.


def _parts(amounts: Sequence[Number], adds: bool = False) -> list[Round]:
    return [Round(Fraction(amount), adds) for amount in amounts]


def _alike(n: int, rounds: list[Round], ways: int = 1) -> Cost:
    """All ranks do the same, one message per round in each direction."""
    sent = ways * sum((round_.bytes for round_ in rounds), Fraction(0))
    return Cost(len(rounds), sent, n * sent, tuple(rounds))


def _both(kind: str, amounts: Sequence[Number]) -> list[Round]:
    """The rounds of a reduce-scatter with these amounts, of the all-gather that is its reverse, or of both."""
    adds, stores = _parts(amounts, True), _parts(amounts[::-1])
    return {"reduce-scatter": adds, "all-gather": stores, "all-reduce": adds + stores}[kind]


def _bits(n: int) -> int:
    """ceil(log2 n)."""
    return (n - 1).bit_length()


def _ring(kind: str, n: int, number: int | None) -> Cost:
    block = Fraction(1, n)
    if kind == "all-to-all":
        return _alike(n, _parts([block] * (n * (n - 1) // 2)))
    if kind == "barrier":
        rounds = _parts([1] * (n - 1), True) + _parts([1] * (n - 1))
        return Cost(2 * (n - 1), Fraction(min(n - 1, 2)), Fraction(2 * (n - 1)), tuple(rounds))
    if kind in ("broadcast", "reduce"):
        # n blocks, one after the other, over n - 1 hops.
        return Cost(n - 1, Fraction(1), Fraction(n - 1), tuple(_parts([1] + [block] * (n - 2), kind == "reduce")))
    if kind in ("scatter", "gather"):
        return Cost(n - 1, (n - 1) * block, Fraction(n - 1, 2), tuple(_parts([block] * (n - 1))))
    return _alike(n, _both(kind, [block] * (n - 1)))


def _bidirectional_ring(kind: str, n: int, number: int | None) -> Cost:
    block, half, even = Fraction(1, n), n // 2, n % 2 == 0
    if kind == "all-to-all":
        amounts = [block / 2 if even and distance == half else block for distance in range(1, half + 1)]
        return _alike(n, [Round(amounts[d]) for d in range(half) for _ in range(d + 1)], ways=2)
    if kind == "barrier":
        rounds = _parts([1] * half, True) + _parts([1] * half)
        return Cost(2 * half, Fraction(min(n - 1, 2)), Fraction(2 * (n - 1)), tuple(rounds))
    if kind in ("broadcast", "reduce"):
        amounts = [Fraction(1, 2)] + [block / 2] * (n - 2)
        return Cost(n - 1, Fraction(1), Fraction(n - 1), tuple(_parts(amounts, kind == "reduce")))
    if kind in ("scatter", "gather"):
        # With an even n the farthest block is a half one, and alpha determines whether it is the last.
        amounts = [block / 2 if even else block] * half
        exact = None if even and n > 2 else tuple(_parts(amounts))
        return Cost(half, (n - 1) * block, half * (half if even else half + 1) * block, exact)
    # The first block of a reduce-scatter travels farthest, and is half a block if n is even.
    return _alike(n, _both(kind, [block / 2 if even else block] + [block] * (half - 1)), ways=2)


def _multi_ring(kind: str, n: int, number: int | None) -> Cost:
    strides = sum(gcd(stride, n) == 1 for stride in range(1, n))
    rings = number or min(strides, 8)
    one = _ring(kind, n, None)
    rounds = tuple(Round(round_.bytes / rings, round_.adds) for round_ in one.rounds or ())
    return Cost(one.steps, one.busiest, one.total, rounds if rings <= strides else None)


def _direct(kind: str, n: int, window: int | None) -> Cost:
    block = Fraction(1, n)
    if kind == "barrier":
        return _alike(n, _parts([n - 1], True))
    if kind in ("broadcast", "reduce"):
        return Cost(1, Fraction(n - 1), Fraction(n - 1), tuple(_parts([n - 1], kind == "reduce")))
    if kind in ("scatter", "gather"):
        return Cost(1, (n - 1) * block, (n - 1) * block, tuple(_parts([(n - 1) * block])))
    taken = min(window or n, n - 1)
    turns = -(-(n - 1) // taken)
    # Between the rounds of a window ranks are idle only if answers take longer than the messages of a round.
    part = _parts([(n - 1) * block]) if turns == 1 else _parts([block] * turns)
    halves = {"all-reduce": (True, False), "reduce-scatter": (True,)}.get(kind, (False,))
    rounds = [Round(round_.bytes, adds) for adds in halves for round_ in part]
    exact = tuple(rounds) if taken in (1, n - 1) else None
    return Cost(len(rounds), len(halves) * (n - 1) * block, Fraction(len(halves) * (n - 1)), exact)


def _power(n: int) -> tuple[int, int]:
    """The largest power of two up to n, and its logarithm."""
    return 1 << (n.bit_length() - 1), n.bit_length() - 1


def _folded(n: int) -> int:
    """Steps from the first of rank P+i's data, over i and all other ranks below P, to the last at a rank P+j.

    The longest path from i to j has log2 P steps; both ends add a step to it only if j can be the complement of i.
    """
    p, steps = _power(n)
    return steps + (n > p) + (2 * n > 3 * p)


def _halving_doubling(kind: str, n: int, number: int | None) -> Cost:
    p, steps = _power(n)
    extra = n - p
    halves = [Fraction(1, 2 << k) for k in range(steps)]
    twice = 2 * Fraction(p - 1, p) + (1 if extra else 0)
    if kind == "all-reduce":
        rounds = _both(kind, halves)
        return Cost(len(rounds) + 2 * (extra > 0), twice, Fraction(2 * (n - 1)), None if extra else tuple(rounds))
    if kind in ("broadcast", "reduce"):
        rounds = _parts(halves, kind == "reduce") + _parts(halves[::-1])
        if kind == "broadcast" and extra:
            rounds.append(Round(Fraction(1)))
        # A rank that receives another one's data at first receives halves of others meanwhile.
        exact = None if kind == "reduce" and extra else tuple(rounds)
        return Cost(2 * steps + (extra > 0), twice, Fraction(steps, 2) + n - 1, exact)
    if not extra:
        return _alike(n, _both(kind, halves))
    # Rank 0 also represents rank P: it receives all blocks from it, or sends it all others, besides its halves.
    blocks = sum(-(-n // (2 << k)) for k in range(steps))
    if kind == "reduce-scatter":
        return Cost(_folded(n), Fraction(n + blocks, n), n - 1 + Fraction(extra, n))
    return Cost(_folded(n), Fraction(n - 1 + blocks, n), Fraction(n - 1))


def _recursive_doubling(kind: str, n: int, number: int | None) -> Cost:
    p, steps = _power(n)
    extra = n - p
    if kind == "all-gather":
        amounts = [Fraction(1 << k, n) for k in range(steps)]
        if not extra:
            return _alike(n, _parts(amounts))
        blocks = sum((1 << k) + min(1 << k, extra) for k in range(steps))
        return Cost(_folded(n), Fraction(n - 1 + blocks, n), Fraction(n - 1))
    total, busiest = Fraction(p * steps + 2 * extra), Fraction(steps + (extra > 0))
    return Cost(_folded(n), busiest, total, None if extra else tuple(_parts([1] * steps, True)))


def _double_binary_tree(kind: str, n: int, segments: int | None) -> Cost:
    passes = 2 if kind == "all-reduce" else 1
    # A rank with two children forwards what both send, and receives the answer: there is one from four ranks on.
    busiest = min(Fraction(n, 2), Fraction(2)) if kind == "all-reduce" else Fraction(1)
    return Cost(passes * _bits(n), busiest, Fraction(passes * (n - 1)))


def pipelined(
    kind: str, n: int, size: int, segments: int, alpha: Number, beta: Number, *, own_links: bool = False
) -> Fraction | None:
    """Return the approximate time of a double binary tree; None where it does not hold.

    The buffer enters and leaves every rank once (twice for an all-reduce), at the rate of a port, and its last segment
    travels ceil(log2 n) levels up or down. A level costs alpha and three segments: a rank takes one from each tree in
    turns, so up to two go before it (Sanders, Speck and Traeff 2009). With a link for every pair (`own_links`) none
    goes before it, and the trees do not share a port: half of the buffer counts.

    Measured on 5 to 33 ranks, most times are within 5 % of it, all within 10 %; over own links within 5 %. The turns
    hold while a segment takes between half of alpha and twice alpha: with shorter ones leaves wait longer than
    necessary, longer ones collide at their receivers all the time. Over own links segments must only not be shorter
    than alpha. With fewer than 32 segments the first collisions matter too much; 3 and 4 ranks may collide all the
    time.
    """
    passes, levels = 2 if kind == "all-reduce" else 1, _bits(n)
    segment = Fraction(size, 2 * segments) * beta
    if own_links:
        return passes * (segments * segment + levels * alpha + (levels - 1) * segment) if alpha <= segment else None
    if n < 5 or segments < 32 or not alpha <= 2 * segment <= 4 * alpha:
        return None
    return passes * (2 * segments * segment + levels * (alpha + 3 * segment))


def _binomial_tree(kind: str, n: int, number: int | None) -> Cost:
    p, steps = _power(n)
    exact = n == p
    if kind in ("scatter", "gather"):
        amounts = [Fraction(1, 2 << k) for k in range(steps)]
        total = Fraction(sum(rank.bit_count() for rank in range(n)), n)
        return Cost(steps, Fraction(n - 1, n), total, tuple(_parts(amounts)) if exact else None)
    down = [] if kind == "reduce" else _parts([1] * steps)
    up = [] if kind == "broadcast" else _parts([1] * steps, True)
    passes = bool(up) + bool(down)
    # The root has ceil(log2 n) children; the longest path to a rank, one step per set bit, is shorter.
    return Cost(passes * steps, Fraction(_bits(n)), Fraction(passes * (n - 1)), tuple(up + down) if exact else None)


def _bruck(kind: str, n: int, number: int | None) -> Cost:
    offsets = [1 << k for k in range(_bits(n))]
    if kind == "barrier":
        return _alike(n, _parts([1] * len(offsets), True))
    if kind == "all-to-all":
        return _alike(n, _parts([Fraction(sum(d & k > 0 for d in range(n)), n) for k in offsets]))
    return _alike(n, _both(kind, [Fraction(min(k, n - k), n) for k in reversed(offsets)]))


def _pairwise(kind: str, n: int, number: int | None) -> Cost:
    return _alike(n, _parts([Fraction(1, n)] * (n - 1), kind == "reduce-scatter"))


def _one_shot(kind: str, n: int, number: int | None) -> Cost:
    # Additions are local steps, after all messages: a time with `reduction` has another form.
    return replace(_alike(n, _parts([n - 1])), rounds=None)


def _two_shot(kind: str, n: int, number: int | None) -> Cost:
    return _direct(kind, n, None)


def _multimem(kind: str, n: int, number: int | None) -> Cost:
    # As messages between ranks; on a network that has no transactions and no switch it would be `direct`.
    return replace(_direct(kind, n, None), rounds=None)


def _in_switch(kind: str, n: int, number: int | None) -> Cost:
    return _alike(n, _parts([1]))


def _factor(n: int, limit: int) -> int:
    return max(f for f in range(1, limit + 1) if n % f == 0)


def _hierarchical(kind: str, n: int, group: int | None) -> Cost:
    group = group or _factor(n, isqrt(n))
    return _grid(kind, (group, n // group))


def _hierarchical_3d(kind: str, n: int, group: int | None) -> Cost:
    group = group or _factor(n, max(root for root in range(1, n + 1) if root**3 <= n))
    middle = _factor(n // group, isqrt(n // group))
    return _grid(kind, (group, middle, n // group // middle))


def _grid(kind: str, shape: tuple[int, ...]) -> Cost:
    """One algorithm along each side of a grid, with pieces that shrink with each side that they were cut along."""
    n, dims = prod(shape), range(len(shape))
    if kind == "all-to-all":
        return _alike(n, _parts([Fraction(side - 1, side) for side in shape if side > 1]))
    if kind in ("scatter", "gather"):
        # The pieces are cut from the last side on.
        order = dims[::-1] if kind == "scatter" else dims
        amounts = [Fraction(1, prod(shape[d:])) for d in order for _ in range(shape[d] - 1)]
        hops = Fraction(sum(shape) - len(shape), 2)
        return Cost(len(amounts), sum(amounts, Fraction(0)), hops, tuple(_parts(amounts)))
    cuts = [Fraction(1, prod(shape[: d + 1])) for d in dims for _ in range(shape[d] - 1)]
    if kind in ("all-reduce", "reduce-scatter", "all-gather"):
        return _alike(n, _both(kind, cuts))
    # Scatter along all sides but the last, broadcast along the last, all-gather back; reduce is the reverse.
    last, piece = shape[-1], Fraction(1, prod(shape[:-1]))
    inner = cuts[: len(cuts) - last + 1]
    across = [piece] + [piece / last] * (last - 2) if last > 1 else []
    sent = 2 * sum(inner, Fraction(0)) + (piece if last > 1 else 0)
    total = Fraction(sum(shape[:-1]) - len(shape) + 1, 2) + last - 1 + n * sum(inner, Fraction(0))
    if kind == "broadcast":
        return Cost(2 * len(inner) + last - 1, sent, total, tuple(_parts([*inner, *across, *inner[::-1]])))
    rounds = _parts(inner, True) + _parts(across, True) + _parts(inner[::-1])
    return Cost(len(rounds), sent, total, tuple(rounds))


_COSTS: dict[str, Callable[[str, int, int | None], Cost]] = {
    "bidirectional-ring": _bidirectional_ring,
    "binomial-tree": _binomial_tree,
    "bruck": _bruck,
    "direct": _direct,
    "double-binary-tree": _double_binary_tree,
    "halving-doubling": _halving_doubling,
    "hierarchical": _hierarchical,
    "hierarchical-3d": _hierarchical_3d,
    "in-switch": _in_switch,
    "multi-ring": _multi_ring,
    "multimem": _multimem,
    "one-shot": _one_shot,
    "pairwise": _pairwise,
    "recursive-doubling": _recursive_doubling,
    "ring": _ring,
    "two-shot": _two_shot,
}
