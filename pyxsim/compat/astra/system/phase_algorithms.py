"""ASTRA-sim's four algorithms of a phase, as the parameters of streams.pyx.

    ring               all messages go to the neighbor; an all-to-all is forwarded n (n - 1) / 2 times
    direct             a message to each other NPU; a window limits those in flight
    halving-doubling   to the NPU whose place differs in one bit, with half of the remaining bytes each time
    double-binary-tree the whole chunk up a tree and down again; always an all-reduce

A received message may cost a reduction. ASTRA-sim does not consider its contents: it counts rounds of P messages
without and Z messages with reduction (docs/compat.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.lookup import Algorithm
from pyxsim.settings.algorithms import ASTRA_KINDS

RING, DIRECT, HALVING, TREE = range(4)
NEVER, ALWAYS, EVERY_OTHER_ROUND = range(3)
_PAYS = {"all-reduce": EVERY_OTHER_ROUND, "reduce-scatter": ALWAYS, "all-gather": NEVER, "all-to-all": NEVER}


@dataclass(frozen=True)
class Program:
    """The parameters of a phase on groups of `n` members.

    algorithm, kind   of streams.pyx
    pays            when a message costs a reduction
    sends           messages of each member
    parallel        messages sent without waiting for others (P)
    others          messages of a round that may cost a reduction (Z)
    slots           mail slots of each member: the possible senders
    size            of a message, where all are equal
    entering, leaving   bytes of a member before and after the phase
    table           halving: (bytes, bit) per message; tree: (parent, left, right) per place, -1 for none
    """

    algorithm: int
    kind: int
    pays: int
    n: int
    sends: int
    parallel: int
    others: int
    slots: int
    size: int
    entering: int
    leaving: int
    table: tuple[int, ...] = ()

    @cached_property
    def edges(self) -> IntArray:
        """int64[K, 4]: rows (place of the sender, place of the receiver, bytes, count) of a clockwise group."""
        n = self.n
        place = np.arange(n)
        if self.algorithm == TREE:
            family = np.array(self.table).reshape(n, 3)
            pairs = np.stack([np.repeat(place, 3), family.ravel()], axis=1)[family.ravel() >= 0]
            sizes, counts = np.full(len(pairs), self.size), np.ones(len(pairs))
        elif self.algorithm == HALVING:
            table = np.array(self.table[: 2 * self.sends]).reshape(-1, 2)
            pairs = np.concatenate([np.stack([place, place ^ (1 << bit)], axis=1) for bit in table[:, 1]])
            sizes, counts = np.repeat(table[:, 0], n), np.ones(len(pairs))
        else:
            far = n - 1 if self.algorithm == DIRECT else 1
            pairs = np.stack([np.repeat(place, far), (np.repeat(place, far) + np.tile(np.arange(far) + 1, n)) % n], 1)
            sizes, counts = np.full(len(pairs), self.size), np.full(len(pairs), self.sends // far)
        return np.column_stack([pairs, sizes, counts]).astype(np.int64)

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes of the messages; one entry where all are equal."""
        return self.table[0 : 2 * self.sends : 2] if self.algorithm == HALVING else (self.size,)

    def load(self, asking: int) -> int:
        """Return the bytes that all members of a group send, plus `asking` for each message."""
        messages = 2 * (self.n - 1) if self.algorithm == TREE else self.n * self.sends
        return self.total + messages * asking

    @property
    def total(self) -> int:
        """Bytes that all members of a group send."""
        if self.algorithm == TREE:
            return 2 * (self.n - 1) * self.size
        return self.n * (
            sum(self.table[0 : 2 * self.sends : 2]) if self.algorithm == HALVING else self.sends * self.size
        )


def plain(algorithm: Algorithm) -> str:
    """Return the name without prefix and window."""
    return algorithm.name.removeprefix("one-").partition(":")[0]


@lru_cache(maxsize=1024)
def make_program(kind: str, algorithm: Algorithm, n: int, size: int, *, group: bool = False, tree: int = 0) -> Program:
    """Return the program of a phase that n members enter with `size` bytes each.

    `group`: a communicator group, whose direct messages have longer rounds of reductions. `tree`: 0 or 1, for trees.
    """
    return _MAKERS[plain(algorithm)](kind, algorithm, n, size, group, tree)


def _ring(kind: str, algorithm: Algorithm, n: int, size: int, group: bool, tree: int) -> Program:
    sends = {"all-reduce": 2 * (n - 1), "all-to-all": n * (n - 1) // 2}.get(kind, n - 1)
    return _exchange(RING, kind, n, size, sends=sends, parallel=1, others=n - 1, slots=1)


def _direct(kind: str, algorithm: Algorithm, n: int, size: int, group: bool, tree: int) -> Program:
    window = min(algorithm.number or n - 1, n - 1)
    sends = 2 * (n - 1) if kind == "all-reduce" else n - 1
    others = window * (n - 1) if group else window
    return _exchange(DIRECT, kind, n, size, sends=sends, parallel=window, others=others, slots=n)


def _exchange(
    algorithm: int, kind: str, n: int, size: int, *, sends: int, parallel: int, others: int, slots: int
) -> Program:
    number = ASTRA_KINDS.index(kind)
    message = size if kind == "all-gather" else size // n
    return Program(
        algorithm,
        number,
        _PAYS[kind],
        n,
        sends,
        parallel,
        others,
        slots,
        message,
        size,
        _after(kind, n, size),
    )


def _after(kind: str, n: int, size: int) -> int:
    return {"reduce-scatter": size // n, "all-gather": size * n}.get(kind, size)


def _halving(kind: str, algorithm: Algorithm, n: int, size: int, group: bool, tree: int) -> Program:
    rounds = n.bit_length() - 1
    down, up = range(rounds), range(rounds - 1, -1, -1)
    bits = {"all-reduce": [*down, *up], "reduce-scatter": [*down]}.get(kind, [*up])
    sizes, message = [], size if kind == "all-gather" else size // 2
    for number in range(len(bits)):
        sizes.append(message)
        # Truncated to whole bytes at every step, so doubling may give less than was halved.
        message = message * 2 if kind == "all-gather" or number >= rounds else message // 2
        if kind == "all-reduce" and number == rounds - 1:
            message *= 2
    table = [value for pair in zip([*sizes, message], [*bits, 0], strict=True) for value in pair]
    return Program(
        HALVING,
        ASTRA_KINDS.index(kind),
        _PAYS[kind],
        n,
        len(bits),
        1,
        rounds - 1,
        max(rounds, 1),
        0,
        size,
        _after(kind, n, size),
        tuple(table),
    )


def _tree(kind: str, algorithm: Algorithm, n: int, size: int, group: bool, tree: int) -> Program:
    table = [-1] * (3 * n)

    def family(first: int, count: int, parent: int) -> int:
        """Arrange the places first .. first + count - 1 as a tree, from left to right; return its root."""
        top = first + count // 2
        table[3 * top] = parent
        if count > 1:
            table[3 * top + 1] = family(first, count // 2, top)
            table[3 * top + 2] = family(top + 1, count // 2, top)
        return top

    # One place more than a full tree: the last one, in the second tree the first one, is a root with one child.
    root = 0 if tree % 2 else n - 1
    table[3 * root + (2 if tree % 2 else 1)] = family(1 if tree % 2 else 0, n - 1, root)
    return Program(TREE, ASTRA_KINDS.index("all-reduce"), NEVER, n, 0, 0, 0, 3, size, size, size, tuple(table))


_MAKERS = {"ring": _ring, "direct": _direct, "halving-doubling": _halving, "double-binary-tree": _tree}
ALGORITHMS = tuple(_MAKERS)
