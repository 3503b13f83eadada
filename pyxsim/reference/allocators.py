"""The round-robin arbiter and the matrix allocators of docs/router.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyxsim.core.user_allocator import UserAllocator
from pyxsim.reference import draws

Rank = tuple[int, ...]  # less is better
Pair = tuple[int, int]  # (input, output)
Pointer = Callable[[int, int], int]  # of an iteration and an output or input
PRIORITY_SHIFT, PENALTY_SHIFT = 50, 60  # of the parts of a rank in one number (docs/extending_allocator.md)


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
    seed: int = 0
    router: int = 0
    stage: str = "sa"
    wave: int = 0
    first: set[Pair] = field(default_factory=set)  # matched in the first iteration of the last call
    user: UserAllocator | None = None

    def __post_init__(self) -> None:
        self.accept, self.grant = [0] * self.inputs, [0] * self.outputs

    def match(self, requests: Mapping[Pair, Rank], wasted: Collection[Pair] = ()) -> list[Pair]:
        """Return the matched pairs and remember those of the first iteration.

        `wasted`: pairs whose grant would move no flit.
        """
        self.first = set()
        if not requests:
            return []
        if self.name in MATCHINGS:
            return MATCHINGS[self.name](self, requests)
        if self.user is None:
            shape = self.inputs, self.outputs, self.iterations
            self.user = UserAllocator(self.name, self.stage, self.router, *shape, self.seed)
        pairs, rows = sorted(requests), []
        for pair in pairs:
            penalty, priority, age = requests[pair]  # as one number in the same order
            rows.append((*pair, (penalty << PENALTY_SHIFT) + (priority << PRIORITY_SHIFT) + age, pair in wasted))
        return [pairs[number] for number in self.user.grant(rows)]

    def input_first(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """Separable, input first: each input picks an output, each output one of these inputs."""
        picks: dict[int, dict[int, Rank]] = {}  # output -> ranks of the inputs that picked it
        for i in {i for i, _ in requests}:
            outputs = {o: rank for (a, o), rank in requests.items() if a == i}
            o = best(outputs, self.accept[i])
            picks.setdefault(o, {})[i] = outputs[o]
        pairs = [(best(ranks, self.grant[o]), o) for o, ranks in picks.items()]
        self.first = set(pairs)
        return pairs

    def islip(
        self, requests: Mapping[Pair, Rank], grant: Pointer | None = None, accept: Pointer | None = None
    ) -> list[Pair]:
        """iSLIP: request, grant, accept, for some iterations; `grant`, `accept`: where the arbiters begin."""
        pairs: list[Pair] = []
        for iteration in range(self.iterations):
            inputs, outputs = {i for i, _ in pairs}, {o for _, o in pairs}
            left = {pair: rank for pair, rank in requests.items() if pair[0] not in inputs and pair[1] not in outputs}
            grants: dict[int, dict[int, Rank]] = {}  # input -> ranks of the outputs that granted it
            for o in {o for _, o in left}:
                requesters = {i: rank for (i, b), rank in left.items() if b == o}
                i = best(requesters, grant(iteration, o) if grant else self.grant[o])
                grants.setdefault(i, {})[o] = requesters[i]
            accepted = [
                (i, best(ranks, accept(iteration, i) if accept else self.accept[i])) for i, ranks in grants.items()
            ]
            if iteration == 0:
                self.first = set(accepted)
            pairs += accepted
        return pairs

    def wavefront(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """In order of rank, then of diagonals; the first diagonal moves on."""
        n = max(self.inputs, self.outputs)
        order = sorted(requests, key=lambda pair: (requests[pair], (sum(pair) - self.wave) % n, pair[0]))
        self.wave += 1
        return in_order(order)

    def rr_wavefront(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """The next cycle begins behind the diagonal of the first grant."""
        pairs = self.wavefront(requests)
        self.wave = sum(pairs[0]) + 1
        return pairs

    def pim(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """Request, grant, accept without ranks, with arbiters that begin at drawn places."""
        key = draws.key(self.seed, self.wave, 2 * self.router + (self.stage == "va"))
        self.wave += 1
        return self.islip(
            dict.fromkeys(requests, ()),
            lambda iteration, o: draws.draw(key, iteration * self.outputs + o, draws.SELECT) % self.inputs,
            lambda iteration, i: draws.draw(key, iteration * self.inputs + i, draws.OTHER) % self.outputs,
        )

    def loa(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """Each input picks its output with the fewest requests, each output one of these inputs."""
        count = Counter(o for _, o in requests)
        picks: dict[int, list[int]] = {}
        for i in {i for i, _ in requests}:
            outputs = [o for a, o in requests if a == i]
            least = min(count[o] for o in outputs)
            picks.setdefault(rotate([o for o in outputs if count[o] == least], self.accept[i]), []).append(i)
        pairs = [(rotate(inputs, self.grant[o]), o) for o, inputs in picks.items()]
        for i, o in pairs:
            self.grant[o], self.accept[i] = (self.grant[o] + 1) % self.inputs, (self.accept[i] + 1) % self.outputs
        return pairs

    def max_size(self, requests: Mapping[Pair, Rank]) -> list[Pair]:
        """A matching of maximum size, by shortest augmenting paths."""
        of_input: dict[int, int] = {}
        of_output: dict[int, int] = {}
        while path := self.augmenting_path(requests, of_input, of_output):
            for i, o in path:
                of_input[i], of_output[o] = o, i
        self.wave = (self.wave + 1) % self.inputs
        return list(of_input.items())

    def augmenting_path(
        self, requests: Mapping[Pair, Rank], of_input: Mapping[int, int], of_output: Mapping[int, int]
    ) -> list[Pair]:
        """Return the first path that a search in breadth from the unmatched inputs finds, as pairs to match."""
        starts = {i for i, _ in requests if i not in of_input}
        queue = sorted(starts, key=lambda i: (i - self.wave) % self.inputs)
        reached: dict[int, int] = {}  # output: from which input
        for i in queue:  # which grows
            for o in sorted(o for a, o in requests if a == i and of_input.get(i) != o and o not in reached):
                reached[o] = i
                if o in of_output:
                    queue.append(of_output[o])
                    continue
                path = [(i, o)]
                while path[-1][0] in of_input:
                    o = of_input[path[-1][0]]
                    path.append((reached[o], o))
                return path
        return []

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
    "age": lambda _, requests: in_order(sorted(requests, key=lambda pair: (requests[pair], pair))),
    "islip-unranked": lambda matrix, requests: matrix.islip(dict.fromkeys(requests, ())),
    "rr-wavefront": Matrix.rr_wavefront,
    "pim": Matrix.pim,
    "loa": Matrix.loa,
    "max-size": Matrix.max_size,
}
