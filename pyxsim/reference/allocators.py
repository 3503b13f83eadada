"""The round-robin arbiter and the matrix allocators of docs/router.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyxsim.core.user_allocator import UserAllocator

Rank = tuple[int, ...]  # less is better
Pair = tuple[int, int]  # (input, output)
PRIORITY_SHIFT, PENALTY_SHIFT = 50, 60  # of the parts of a rank in one number


def rotate(candidates: Collection[int], pointer: int) -> int:
    """Round robin: the first candidate at or after the pointer, else the first of all."""
    return min((c for c in candidates if c >= pointer), default=min(candidates))


def best(ranks: Mapping[int, Rank], pointer: int) -> int:
    """The best rank; of equals the first at or after the pointer."""
    top = min(ranks.values())
    return rotate([c for c, rank in ranks.items() if rank == top], pointer)


@dataclass(eq=False)
class Matrix:
    """A matrix allocator with its pointers. `match` returns pairs; `settle` moves the pointers for a used pair."""

    name: str
    inputs: int
    outputs: int
    iterations: int = 1
    user: UserAllocator | None = None
    accept: list[int] = field(init=False)
    grant: list[int] = field(init=False)
    wave: int = 0
    first: set[Pair] = field(default_factory=set)  # matched in the first iteration of the last call

    def __post_init__(self) -> None:
        self.accept, self.grant = [0] * self.inputs, [0] * self.outputs

    def match(self, requests: Mapping[Pair, Rank], wasted: Collection[Pair] = ()) -> list[Pair]:
        """Return the matched pairs and remember those of the first iteration.

        `wasted`: pairs whose grant would move no flit.
        """
        self.first = set()
        if self.user is None:
            return MATCHINGS[self.name](self, requests)
        if not requests:
            return []
        pairs = sorted(requests)
        rows = [(*pair, rank_number(requests[pair]), pair in wasted) for pair in pairs]
        return [pairs[number] for number in self.user.grant(rows)]

    def input_first(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """Separable, input first: each input picks an output, each output one of these inputs."""
        picks: dict[int, dict[int, Rank]] = {}  # output -> ranks of the inputs that picked it
        for i in {i for i, _ in requests}:
            wanted = {o: rank for (a, o), rank in requests.items() if a == i}
            o = best(wanted, self.accept[i])
            picks.setdefault(o, {})[i] = wanted[o]
        pairs = [(best(ranks, self.grant[o]), o) for o, ranks in picks.items()]
        self.first = set(pairs)
        return pairs

    def islip(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """iSLIP: request, grant, accept, for some iterations."""
        pairs: list[Pair] = []
        for iteration in range(self.iterations):
            inputs, outputs = {i for i, _ in pairs}, {o for _, o in pairs}
            left = {pair: rank for pair, rank in requests.items() if pair[0] not in inputs and pair[1] not in outputs}
            grants: dict[int, dict[int, Rank]] = {}  # input -> ranks of the outputs that granted it
            for o in {o for _, o in left}:
                asking = {i: rank for (i, b), rank in left.items() if b == o}
                i = best(asking, self.grant[o])
                grants.setdefault(i, {})[o] = asking[i]
            accepted = [(i, best(ranks, self.accept[i])) for i, ranks in grants.items()]
            if iteration == 0:
                self.first = set(accepted)
            pairs += accepted
        return pairs

    def wavefront(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """In order of rank, then of diagonals; the first diagonal moves on."""
        n = max(self.inputs, self.outputs)
        order = sorted(requests, key=lambda pair: (requests[pair], (sum(pair) - self.wave) % n, pair[0]))
        self.wave += bool(requests)
        return in_order(order)

    def by_age(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """In order of rank, which includes the age, then of input and output."""
        return in_order(sorted(requests, key=lambda pair: (requests[pair], pair)))

    def settle(self, pair: Pair) -> None:
        """Move the pointers past a pair of the first iteration."""
        if pair in self.first:
            i, o = pair
            self.grant[o], self.accept[i] = i + 1, o + 1


def in_order(order: Collection[Pair]) -> list[Pair]:
    """Match pairs in this order while their input and output are free."""
    pairs: list[Pair] = []
    for i, o in order:
        if all(i != a and o != b for a, b in pairs):
            pairs.append((i, o))
    return pairs


MATCHINGS: dict[str, Callable[[Matrix, Mapping[Pair, Rank]], list[Pair]]] = {
    "separable-input-first": Matrix.input_first,
    "separable-output-first": Matrix.islip,
    "islip": Matrix.islip,
    "wavefront": Matrix.wavefront,
    "age": Matrix.by_age,
}


def rank_number(rank: Rank) -> int:
    """A rank as one number in the same order: penalty, priority, age (docs/extending_allocator.md)."""
    penalty, priority, age = rank
    return (penalty << PENALTY_SHIFT) + (priority << PRIORITY_SHIFT) + age
