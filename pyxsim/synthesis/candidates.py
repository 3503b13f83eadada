"""The methods that synthesize forests, and what they found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from pyxsim.collective.custom.forest import MOST_BLOCKS, MOST_MESSAGES, Forest
from pyxsim.errors import InputError
from pyxsim.synthesis.bounds import gather_bandwidth
from pyxsim.synthesis.estimate import forest_time
from pyxsim.synthesis.exact import exact_forest
from pyxsim.synthesis.link_graph import LinkGraph
from pyxsim.synthesis.matching import matched_forest
from pyxsim.synthesis.scipy_extra import INSTALL, has_scipy
from pyxsim.synthesis.symmetric import symmetric_forest
from pyxsim.synthesis.timing import timed
from pyxsim.synthesis.trees import MOST_NPUS, packed_forest

METHODS = ("auto", "trees", "matching", "exact")
MATCHING_UNITS = (1, 2, 4)
MOST_MATCHED = 2**22  # chunks times NPUs of a matching with several units
SMALL = 10  # NPUs up to which `auto` tries integer programming
ATTEMPTS = 3  # matchings with different random numbers


@dataclass
class Synthesized:
    """A forest that a method found.

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
    forest: Forest
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


def attempt(graph: LinkGraph, kind: str, size: int, method: str, seconds: float) -> Attempts:
    """Return the forests of the methods, each within `seconds` of CPU time."""
    attempts = Attempts()
    if kind == "all-reduce" and not graph.reversible:
        problem = "the trees of an all-reduce are used in both directions, but some NPUs are linked in one only"
        raise InputError(problem, key="--collective", allowed="reduce-scatter and all-gather, each with its trees")
    # A reduce-scatter is an all-gather on the reversed links, backwards.
    worked = graph if kind != "reduce-scatter" or graph.same_both_ways else graph.reversed()
    bound = gather_bandwidth(worked)
    try:
        for name, run in _runs(worked, kind, size, method, bound, seconds):
            begin = time.process_time()
            forest, note = run()
            took = time.process_time() - begin
            if forest is None:
                attempts.without[name] = note
                continue
            attempts.found.append(Synthesized(name, forest, forest_time(graph, forest, kind), note, took))
    except KeyboardInterrupt:
        attempts.interrupted = True
    attempts.found.sort(key=lambda each: (each.time, len(each.forest.root)))
    return attempts


Run = Callable[[], tuple[Forest | None, str]]


def _runs(
    graph: LinkGraph, kind: str, size: int, method: str, bound: Fraction, seconds: float
) -> Iterator[tuple[str, Run]]:
    time_ = Fraction(graph.npus) / bound  # data of 1 at every NPU
    reached = list[bool]()

    def symmetric() -> tuple[Forest | None, str]:
        forest = symmetric_forest(graph, time_)
        if forest is None:
            return None, "the network does not look the same from every NPU"
        reached.append(forest_time(graph, forest, "all-gather") <= time_ * Fraction(102, 100))
        return forest, _trees(forest)

    def packed() -> tuple[Forest | None, str]:
        if not has_scipy():
            return None, INSTALL
        if graph.npus > MOST_NPUS:
            return None, f"packs trees of at most {MOST_NPUS} NPUs"
        forest = packed_forest(graph, bound, seconds=seconds)
        if forest is None:
            return None, f"no packing within {seconds:g} s of CPU time"
        return timed(graph, forest), _trees(forest)

    def matching(units: int, seed: int) -> Run:
        def run() -> tuple[Forest | None, str]:
            each = size / units if kind == "all-gather" else size / graph.npus / units
            forest = matched_forest(graph, units, size=each, seed=seed, seconds=seconds)
            if forest is None:
                return None, f"not complete within {seconds:g} s of CPU time"
            return forest, f"{units} chunk{'s' if units > 1 else ''} of each NPU"

        return run

    def exact() -> tuple[Forest | None, str]:
        if not has_scipy():
            return None, INSTALL
        least = math.ceil(time_ * int(graph.rate.max()))
        result = exact_forest(graph, least, seconds=seconds)
        if result.forest is None:
            return None, f"no schedule of {result.steps} steps within {seconds:g} s of CPU time, or too large"
        proof = "optimal for one chunk of each NPU" if result.optimal else "not proved optimal"
        return result.forest, f"{result.steps} steps, {proof}"

    if method in ("auto", "trees"):
        yield "symmetric trees", symmetric
        if not any(reached):
            yield "packed trees", packed
    if method == "matching" or (method == "auto" and not any(reached)):
        for units in MATCHING_UNITS:
            if units == 1 or graph.npus**2 * units <= MOST_MATCHED:
                for seed in range(ATTEMPTS if graph.npus <= MOST_NPUS else 1):
                    yield f"matching {units}.{seed}", matching(units, seed)
    if method == "exact" or (method == "auto" and graph.npus <= SMALL and not any(reached)):
        yield "exact", exact


def _trees(forest: Forest) -> str:
    count = len(forest.root)
    return f"{forest.units} tree{'s' if forest.units > 1 else ''} of each NPU, {count} different ones"


def slice_counts(forest: Forest, kind: str, size: int) -> list[int]:
    """Return the numbers of slices to try: whole trees, and pipelines of messages of 64 KiB or more."""
    unit = size / forest.units / (1 if kind == "all-gather" else forest.n)
    phases = 2 if kind == "all-reduce" else 1
    messages = len(forest.root) * (forest.n - 1) * phases
    counts = []
    for slices in (1, 4, 16):
        fits = forest.units * slices <= MOST_BLOCKS and messages * slices <= min(MOST_MESSAGES, MOST_SLICED)
        if slices == 1 or (fits and unit / slices >= LEAST_SLICE):
            counts.append(slices)
    return counts


LEAST_SLICE = 64 * 1024  # bytes
MOST_SLICED = 60_000  # messages of a pipeline
