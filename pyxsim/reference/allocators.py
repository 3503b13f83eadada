"""The round-robin arbiter and the matrix allocators of docs/router.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyxsim.core.engine_options import AGE, INPUT_FIRST, ISLIP, WAVEFRONT

Rank = tuple[int, ...]  # less is better
Pair = tuple[int, int]  # (input, output)


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

    kind: int
    inputs: int
    outputs: int
    iterations: int = 1
    accept: list[int] = field(init=False)
    grant: list[int] = field(init=False)
    wave: int = 0
    first: set[Pair] = field(default_factory=set)  # matched in the first iteration of the last call

    def __post_init__(self) -> None:
        self.accept, self.grant = [0] * self.inputs, [0] * self.outputs

    def match(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """Return the matched pairs and remember those of the first iteration."""
        self.first = set()
        if self.kind == INPUT_FIRST:
            return self.input_first(requests)
        if self.kind == ISLIP:
            return self.islip(requests)
        n = max(self.inputs, self.outputs)
        if self.kind == WAVEFRONT:
            order = sorted(requests, key=lambda pair: (requests[pair], (sum(pair) - self.wave) % n, pair[0]))
            self.wave += bool(requests)
        elif self.kind == AGE:
            order = sorted(requests, key=lambda pair: (requests[pair], pair))
        else:
            raise ValueError(f"no matrix allocator {self.kind}")
        pairs: list[Pair] = []
        for i, o in order:
            if all(i != a and o != b for a, b in pairs):
                pairs.append((i, o))
        return pairs

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

    def settle(self, pair: Pair) -> None:
        """Move the pointers past a pair of the first iteration."""
        if pair in self.first:
            i, o = pair
            self.grant[o], self.accept[i] = i + 1, o + 1
