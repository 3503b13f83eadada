"""The time of every algorithm on its network: closed form and pipeline latencies, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil, prod

from pyxsim.collective.closed_form import message_time
from pyxsim.collective.costs import cost, pipelined
from pyxsim.collective.lookup import get_algorithm
from pyxsim.settings.algorithms import KINDS, algorithm_key
from validation.case import Case, Found, Picture, Series
from validation.machines import Tables, simulated

BYTES_PER_NS = 100
FLIT = 256
LATENCY = 500  # ns, of a link
WIRES: Tables = {"bandwidth": f"{BYTES_PER_NS} GB/s", "latency": f"{LATENCY} ns", "flit": f"{FLIT} B"}
SOURCE = "alpha-beta costs from the literature (pyxsim/collective/costs.py), with alpha from docs/router.md"
SIZES = (2**18, 2**20, 2**22)
ODD = (1000, 1_000_003)
# Endpoint and reduction delay, ns.
DELAYS = ((0, 0), (40, 90))
# The network that each algorithm is designed for, the links of a message on it, and the numbers of NPUs.
MADE_FOR: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "ring": ("ring", 1, (4, 8, 13)),
    "bidirectional-ring": ("ring", 1, (4, 8, 13)),
    "multi-ring": ("fully-connected", 1, (4, 8, 13)),
    "direct": ("switch", 2, (4, 8, 13)),
    "halving-doubling": ("switch", 2, (4, 8, 16)),
    "recursive-doubling": ("switch", 2, (4, 8, 16)),
    "binomial-tree": ("switch", 2, (4, 8, 16)),
    "bruck": ("switch", 2, (4, 8, 13)),
    "pairwise": ("switch", 2, (4, 8, 13)),
    "hierarchical": ("switch", 2, (4, 8, 12)),
    "hierarchical-3d": ("switch", 2, (8, 12, 16)),
    "in-switch": ("switch", 2, (4, 8, 13)),
}
SEGMENTS = 32  # of each of the two trees
SEGMENT_PER_ALPHA = (Fraction(11, 20), Fraction(1), Fraction(19, 10))
TWO_TREES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "double-binary-tree": ("switch", 2, (6, 8, 13, 16)),
    "double-binary-tree-fully-connected": ("fully-connected", 1, (4, 6, 8, 16)),
}
TORI = ((4, 4), (2, 4, 3), (4, 4, 4))


def alpha(links: int) -> Fraction:
    """Cycles from NPU to NPU of a message without length: lanes, links and empty routers between."""
    s = Fraction(FLIT, BYTES_PER_NS)
    # rc, va, sa and st take a cycle each; no delay includes sa, and heads wait for rc and va.
    delays = [1, *[LATENCY + 1] * links, 1 + 1]
    return message_time([1], [s] * len(delays), delays, 2) - s


def closed_form(
    kind: str, algorithm: str, n: int, size: int, links: int, endpoint: int = 0, reduction: int = 0
) -> Fraction | None:
    """ns; None if the algorithm has no closed form."""
    found = cost(kind, algorithm, n, size)
    beta = Fraction(1, BYTES_PER_NS)
    return None if found is None else found.time(alpha(links), beta, endpoint=endpoint, reduction=reduction)


def experiment(network: Tables, kind: str, algorithm: str, size: int, endpoint: int = 0, reduction: int = 0) -> Tables:
    collective = {"kind": kind} if kind == "barrier" else {"kind": kind, "size": f"{size} B"}
    system = {
        algorithm_key(kind): algorithm,
        "endpoint_delay": f"{endpoint} ns",
        "reduction_delay": f"{reduction} ns",
    }
    return {"network": {**WIRES, **network}, "system": system, "collective": collective}


def found_in(pairs: list[tuple[str, float, float]], over: str) -> Found:
    """Return the largest deviation of pairs (label, closed form, simulated)."""
    what, formula, _ = max(pairs, key=lambda pair: abs(pair[2] / pair[1] - 1))
    most = max(100 * abs(took / wanted - 1) for _, wanted, took in pairs)
    forms = sorted(wanted for _, wanted, _ in pairs)
    picture = Picture(
        "ns, by the closed form",
        "ns, simulated",
        [
            Series("equal", forms, forms, "limit"),
            Series("runs", [wanted for _, wanted, _ in pairs], [took for *_, took in pairs], "points"),
        ],
        log=True,
    )
    return Found(most, picture, {"over": over, "runs": str(len(pairs))}, f"most with {what} ({formula:.0f} ns)")


def alone(algorithm: str, shape: str, links: int, ranks: tuple[int, ...]) -> Found:
    """All kinds with a closed form, with several numbers of ranks, sizes, and endpoint delays."""
    pairs = []
    kinds = [kind for kind in KINDS if kind in get_algorithm(algorithm).kinds]
    for kind, n, delays in product(kinds, ranks, DELAYS):
        for size in (*SIZES, *ODD) if kind != "barrier" else (1,):
            # An all-gather's size is a shard.
            size = ceil(size / n) if kind in ("all-gather", "gather") else size
            wanted = closed_form(kind, algorithm, n, size, links, *delays)
            if wanted is None:
                continue
            network = {"topology": shape, "shape": [n]}
            result = simulated(experiment(network, kind, algorithm, size, *delays))
            pairs.append((f"{kind} of {size} B on {n}", float(wanted), float(result.time_ns)))
    return found_in(pairs, f"{shape}, {', '.join(map(str, ranks))} NPUs")


def fully_connected() -> Found:
    """Direct exchange where every message has its own link: all messages of a step at once."""
    pairs = []
    for kind, steps in (("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1), ("all-to-all", 1)):
        for n in (4, 8, 13):
            for size in SIZES:
                block = Fraction(size if kind == "all-gather" else size / n)
                wanted = steps * (alpha(1) + block / BYTES_PER_NS)
                network = {"topology": "fully-connected", "shape": [n]}
                result = simulated(experiment(network, kind, "direct", size))
                pairs.append((f"{kind} of {size} B on {n}", float(wanted), float(result.time_ns)))
    return found_in(pairs, "fully connected, 4, 8, 13 NPUs")


def two_trees(shape: str, links: int, ranks: tuple[int, ...]) -> Found:
    """Pipelined, with segments that take about the latency of a message (`pipelined` explains why)."""
    pairs = []
    for kind, n, part in product(("all-reduce", "broadcast", "reduce"), ranks, SEGMENT_PER_ALPHA):
        size = 2 * SEGMENTS * int(alpha(links) * BYTES_PER_NS * part)
        beta = Fraction(1, BYTES_PER_NS)
        wanted = pipelined(kind, n, size, SEGMENTS, alpha(links), beta, own_links=shape != "switch")
        if wanted is None:
            continue
        name = f"double-binary-tree:{SEGMENTS}"
        result = simulated(experiment({"topology": shape, "shape": [n]}, kind, name, size))
        pairs.append((f"{kind} of {size} B on {n}", float(wanted), float(result.time_ns)))
    return found_in(pairs, f"{shape}, {', '.join(map(str, ranks))} NPUs")


def tori() -> Found:
    """A ring along each dimension: one phase after the other, on ever smaller pieces, and back."""
    pairs = []
    for shape in TORI:
        for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all"):
            for size in SIZES:
                size = ceil(size / prod(shape)) if kind == "all-gather" else size
                wanted = Fraction(0)
                for phase, n, piece in phases(kind, shape, size):
                    wanted += closed_form(phase, "ring", n, piece, 1) or 0
                network = {"topology": "torus", "shape": list(shape)}
                result = simulated(experiment(network, kind, "ring", size))
                what = f"{kind} of {size} B on {'x'.join(map(str, shape))}"
                pairs.append((what, float(wanted), float(result.time_ns)))
    return found_in(pairs, "tori of two and three dimensions")


def phases(kind: str, shape: tuple[int, ...], size: int) -> Iterator[tuple[str, int, int]]:
    """(kind, NPUs, bytes) of the phases of docs/collectives.md, "Several dimensions"."""
    cut = [ceil(size / prod(shape[:dim])) for dim in range(len(shape))]
    if kind == "all-to-all":
        yield from ((kind, n, size) for n in shape)
    elif kind == "all-gather":
        yield from ((kind, shape[dim], size * prod(shape[dim + 1 :])) for dim in reversed(range(len(shape))))
    elif kind == "reduce-scatter":
        yield from ((kind, n, piece) for n, piece in zip(shape, cut, strict=True))
    else:
        inner = list(zip(shape[:-1], cut[:-1], strict=True))
        yield from (("reduce-scatter", n, piece) for n, piece in inner)
        yield kind, shape[-1], cut[-1]
        yield from (("all-gather", n, ceil(piece / n)) for n, piece in reversed(inner))


def cases() -> Iterator[Case]:
    claim = "An algorithm takes the time of its closed form with the pipeline latencies, and never less than its bound"
    for algorithm, told in MADE_FOR.items():
        run = partial(alone, algorithm, *told)
        yield Case(f"times/{algorithm}", claim, SOURCE, 5, "%", run, 10)
    yield Case("times/direct-fully-connected", claim, SOURCE, 5, "%", fully_connected, 5)
    for name, told in TWO_TREES.items():
        yield Case(f"times/{name}", claim, SOURCE, 5, "%", partial(two_trees, *told), 5)
    yield Case("times/tori", claim, SOURCE, 5, "%", tori, 20)


FAMILY = ("times", "Closed forms, packet by packet", ("over", "runs"), cases)
