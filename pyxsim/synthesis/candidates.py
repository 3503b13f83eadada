"""The methods that synthesize forests, and the paths of an all-to-all, and what they found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from pyxsim.collective.custom.forest import Forest
from pyxsim.collective.custom.paths import Paths
from pyxsim.collective.custom.slices import MOST_BLOCKS, MOST_MESSAGES
from pyxsim.synthesis.balanced import UnreachedError, gather_trees, reduce_trees
from pyxsim.synthesis.balanced_paths import balanced_paths, fewest_messages
from pyxsim.synthesis.bounds import Bounds
from pyxsim.synthesis.estimate import forest_time, plan_time
from pyxsim.synthesis.exact import exact_forest
from pyxsim.synthesis.link_graph import LinkGraph
from pyxsim.synthesis.matching import matched_forest
from pyxsim.synthesis.scipy_extra import INSTALL, has_scipy
from pyxsim.synthesis.symmetric import symmetric_forest
from pyxsim.synthesis.timing import timed, timed_paths
from pyxsim.synthesis.trees import MOST_NPUS, packed_forest

METHODS = ("auto", "paths", "trees", "matching", "exact")
MATCHING_UNITS = (1, 2, 4)
MOST_MATCHED = 2**22  # chunks times NPUs of a matching with several units
SMALL = 10  # NPUs up to which `auto` tries integer programming
ATTEMPTS = 3  # matchings with different random numbers
REACHED = 1.02  # of the bound: what is so close ends the search of `auto`
BALANCED = 1.02  # of the bound: balanced trees that end so early, one after the other, are enough
WORTH = Fraction(98, 100)  # of the time: more balanced trees that end no earlier than that are not tried
REDUCE_TREES = 512  # at least, of an all-reduce: while links return some, they add up others
MOST_TREES = 2048  # of an all-reduce, or of an NPU
MOST_TREE_MESSAGES = 180_000  # of balanced trees
MOST_PATH_MESSAGES = 200_000  # of an all-to-all with one part for each pair
ENOUGH_PATH_MESSAGES = 60_000  # of one with several
LEAST_SLICE = 64 * 1024  # bytes of a message
MOST_SLICED = 60_000  # messages of a pipeline


Plan = Forest | Paths


@dataclass
class Synthesized:
    """A forest, or paths, that a method found.

    Attributes
    ----------
    time
        Of the busiest link, in units of the graph, for data of 1 at every NPU.
    note
        What the method says about it: the trees, or whether it is optimal.
    cpu_s
        CPU seconds that it took.
    """

    method: str
    forest: Plan
    time: Fraction
    note: str
    cpu_s: float


@dataclass
class Attempts:
    """What the methods found, and why others found nothing.

    `interrupted`: whether Ctrl-C ended the search.
    """

    found: list[Synthesized] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


def attempt(graph: LinkGraph, kind: str, size: int, bounds: Bounds, method: str, seconds: float) -> Attempts:
    """Return the forests of the methods, each within `seconds` of CPU time."""
    attempts = Attempts()
    if kind == "all-reduce":
        graph = graph.both_ways()
    # A reduce-scatter is an all-gather on the reversed links, backwards.
    worked = graph if kind != "reduce-scatter" or graph.same_both_ways else graph.reversed()
    try:
        for name, run in _Methods(worked, kind, size, bounds, seconds).runs(method):
            begin = time.process_time()
            forest, note = run()
            took = time.process_time() - begin
            if forest is None:
                attempts.without[name] = note
                continue
            attempts.found.append(Synthesized(name, forest, plan_time(graph, forest, kind), note, took))
    except KeyboardInterrupt:
        attempts.interrupted = True
    attempts.found.sort(key=lambda each: (each.time, len(each.forest.first)))
    return attempts


Run = Callable[[], tuple[Plan | None, str]]


class _Methods:
    """The methods for a collective, in the order in which they are tried."""

    def __init__(self, graph: LinkGraph, kind: str, size: int, bounds: Bounds, seconds: float) -> None:
        self.graph, self.kind, self.bounds, self.seconds = graph, kind, bounds, seconds
        self.share = size if kind == "all-gather" else size / graph.npus  # bytes of an NPU
        self.size = size
        self.reached = False

    def runs(self, method: str) -> Iterator[tuple[str, Run]]:
        """Yield the methods; `auto` and `trees` end with the first one that comes within REACHED of the bound."""
        if method == "paths" or (method == "auto" and self.kind == "all-to-all"):
            yield "balanced paths", self.paths
        if method == "trees" or (method == "auto" and not self.reached):
            yield "symmetric trees", self.symmetric
            if not self.reached:
                yield "balanced trees", self.balanced
            if not self.reached:
                yield "packed trees", self.packed
        if method == "matching" or (method == "auto" and not self.reached):
            for units in MATCHING_UNITS:
                if units == 1 or self.graph.npus**2 * units <= MOST_MATCHED:
                    for seed in range(ATTEMPTS if self.graph.npus <= MOST_NPUS else 1):
                        yield f"matching {units}.{seed}", partial(self.matching, units, seed)
        if method == "exact" or (method == "auto" and self.graph.npus <= SMALL and not self.reached):
            yield "exact", self.exact

    def paths(self) -> tuple[Paths | None, str]:
        """Between boxes first over few routes, as then no messages collide; if that is too slow, over all."""
        if self.bounds.exchange is None:
            return None, f"{self.kind} does not send to each NPU what no other one needs"
        npus = self.graph.npus
        count = npus * (npus - 1)
        if count <= MOST_PATH_MESSAGES:
            count = fewest_messages(self.graph)
        if count > MOST_PATH_MESSAGES:
            return None, f"sends {count} messages or more, of at most {MOST_PATH_MESSAGES}"
        best: tuple[Fraction, Paths] | None = None
        why = f"no paths within {self.seconds:g} s of CPU time"
        for graph in dict.fromkeys([self.graph.with_few_partners(), self.graph.with_rails(), self.graph]):
            try:
                found = self._paths(graph, self.bounds.exchange)
            except UnreachedError as error:
                why = str(error)
                continue
            if found is not None and (best is None or found[0] < best[0]):
                best = found
            if best is not None and best[0] <= self.bounds.exchange * BALANCED:
                self.reached = True
                break
        if best is None:
            return None, why
        parts, hops = best[1].units, int(best[1].hops.max(initial=0))
        counted = f"{parts} part{'s' if parts > 1 else ''} for each pair, at most {hops} hop{'s' if hops > 1 else ''}"
        return best[1], counted

    def _paths(self, graph: LinkGraph, bound: Fraction) -> tuple[Fraction, Paths] | None:
        """Paths of as many units as end within BALANCED of the bound, and when they end; None without time."""
        deadline = time.process_time() + self.seconds
        best: tuple[Fraction, Paths] | None = None
        most = units = 1
        while units <= most:
            paths = balanced_paths(graph, units, bound, seconds=deadline - time.process_time())
            if paths is None:
                break
            most = min(ENOUGH_PATH_MESSAGES * units // paths.messages(self.kind), int(self.share / LEAST_SLICE))
            paths, ends = timed_paths(graph, paths, self.share / units)
            worth = best is None or ends <= best[0] * WORTH
            best = min(best or (ends, paths), (ends, paths), key=lambda each: each[0])
            if best[0] <= bound * BALANCED or not worth or units >= most:
                break
            units = min(4 * units, most)
        return best

    def symmetric(self) -> tuple[Forest | None, str]:
        forest = symmetric_forest(self.graph, self.bounds.gather)
        if forest is None:
            return None, "the network does not look the same from every NPU"
        self._compare(forest)
        return forest, _trees(forest)

    def balanced(self) -> tuple[Forest | None, str]:
        """Over switches with few partners first, as then no messages collide; if that is too slow, with all."""
        few = self.graph.with_few_partners()
        found = self._balanced(few)
        if few is not self.graph and not self.reached:
            every = self._balanced(self.graph)
            if found[0] is None or (every[0] is not None and self._ratio(every[0]) < self._ratio(found[0])):
                return every
        return found

    def _balanced(self, graph: LinkGraph) -> tuple[Forest | None, str]:
        deadline = time.process_time() + self.seconds
        best: tuple[Fraction, Forest] | None = None
        for units in self._unit_counts():
            left = deadline - time.process_time()
            try:
                if self.kind == "all-reduce":
                    forest = reduce_trees(graph, units, self.bounds.trees, seconds=left)
                else:
                    forest = gather_trees(graph, units, self.bounds.gather, seconds=left)
            except UnreachedError as error:
                return None, str(error)
            if forest is None:
                break
            forest, ends = timed(graph, forest, (self.share if forest.up is None else self.size) / units)
            if ends <= self.bounds.trees * BALANCED or (best is not None and ends > best[0] * WORTH):
                best = min(best or (ends, forest), (ends, forest), key=lambda each: each[0])
                break
            best = ends, forest
        if best is None:
            return None, f"no trees within {self.seconds:g} s of CPU time"
        self._compare(best[1])
        return best[1], _trees(best[1])

    def _unit_counts(self) -> list[int]:
        """Numbers of trees, of each NPU or in all: more even out the links better, but their messages are smaller."""
        if self.kind == "all-reduce":
            edges, least, factor, data = 2 * (self.graph.npus - 1), REDUCE_TREES, 2, float(self.size)
        else:
            edges, least, factor, data = self.graph.npus * (self.graph.npus - 1), 1, 4, self.share
        most = min(MOST_TREE_MESSAGES // edges, int(data / LEAST_SLICE), MOST_TREES)
        counts = []
        while least * factor <= most:
            counts.append(least)
            least *= factor
        return [*counts, max(most, 1)]

    def packed(self) -> tuple[Forest | None, str]:
        if not has_scipy():
            return None, INSTALL
        if self.graph.npus > MOST_NPUS:
            return None, f"packs trees of at most {MOST_NPUS} NPUs"
        forest = packed_forest(self.graph, self.graph.npus / self.bounds.gather, seconds=self.seconds)
        if forest is None:
            return None, f"no packing within {self.seconds:g} s of CPU time"
        return timed(self.graph, forest, self.share / forest.units)[0], _trees(forest)

    def matching(self, units: int, seed: int) -> tuple[Forest | None, str]:
        forest = matched_forest(self.graph, units, size=self.share / units, seed=seed, seconds=self.seconds)
        if forest is None:
            return None, f"not complete within {self.seconds:g} s of CPU time"
        return forest, f"{units} chunk{'s' if units > 1 else ''} of each NPU"

    def exact(self) -> tuple[Forest | None, str]:
        if not has_scipy():
            return None, INSTALL
        least = math.ceil(self.bounds.gather * int(self.graph.rate.max()))
        result = exact_forest(self.graph, least, seconds=self.seconds)
        if result.forest is None:
            return None, f"no schedule of {result.steps} steps within {self.seconds:g} s of CPU time, or too large"
        proof = "optimal for one chunk of each NPU" if result.optimal else "not proved optimal"
        return result.forest, f"{result.steps} steps, {proof}"

    def _ratio(self, forest: Forest) -> float:
        """The time of the busiest link over the bound."""
        kind = "all-reduce" if self.kind == "all-reduce" else "all-gather"
        return float(forest_time(self.graph, forest, kind) / self.bounds.trees)

    def _compare(self, forest: Forest) -> None:
        self.reached = self.reached or self._ratio(forest) <= REACHED


def _trees(forest: Forest) -> str:
    count = len(forest.root)
    if forest.up is not None:
        return f"{count} trees that add up and return, at most {int(forest.depth.max(initial=0))} deep"
    return f"{forest.units} tree{'s' if forest.units > 1 else ''} of each NPU, {count} different ones"


def slice_counts(plan: Plan, kind: str, size: int) -> list[int]:
    """Return the numbers of slices to try: whole trees, and pipelines of messages of 64 KiB or more."""
    if plan.pipelined:
        return [1]
    unit = size / plan.units / (1 if kind == "all-gather" else plan.n)
    counts = []
    for slices in (1, 4, 16):
        fits = plan.units * slices <= MOST_BLOCKS and plan.messages(kind, slices) <= min(MOST_MESSAGES, MOST_SLICED)
        if slices == 1 or (fits and unit / slices >= LEAST_SLICE):
            counts.append(slices)
    return counts
