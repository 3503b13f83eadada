"""Data carried by plans over dimensions, among subsets of NPUs, and by concurrent collectives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

from pyxsim.settings.algorithms import ROOTED, algorithm_key
from validation.case import Case, Found, Picture, Series
from validation.machines import WIRES, Tables, simulated

SOURCE = "NumPy's result for the same random data"
GRIDS = ((2, 3), (4, 4), (3, 1, 5), (2, 2, 3), (4, 2, 4), (3, 3, 3), (2, 3, 2, 2))
BLOCKS = ("ring", "switch", "fully-connected", "mesh")
# By kind: the algorithms that support a dimension of any size.
ALONG = {
    "all-reduce": ("ring", "bidirectional-ring", "multi-ring:2", "direct", "direct:2", "halving-doubling", "bruck"),
    "reduce-scatter": ("ring", "bidirectional-ring", "direct", "halving-doubling", "bruck", "pairwise"),
    "all-gather": ("ring", "bidirectional-ring", "direct", "halving-doubling", "bruck", "recursive-doubling"),
    "all-to-all": ("ring", "bidirectional-ring", "direct", "bruck", "pairwise", "hierarchical"),
    "broadcast": ("ring", "direct", "halving-doubling", "binomial-tree", "double-binary-tree"),
    "reduce": ("ring", "direct", "halving-doubling", "binomial-tree", "double-binary-tree"),
    "gather": ("ring", "direct", "binomial-tree", "hierarchical"),
    "scatter": ("ring", "direct", "binomial-tree", "hierarchical"),
    "barrier": ("ring", "direct", "binomial-tree", "bruck", "recursive-doubling"),
}
SIZES = (1, 7, 100, 4099, 65536)
# Bytes that all NPUs send if no dimension sends a byte twice, as a multiple of the buffer:
# a byte is reduced, or forwarded, in one message for each other NPU.
CROSSINGS: dict[str, int] = {"all-reduce": 2, "reduce-scatter": 1}
OPTIMAL = frozenset({"ring", "bidirectional-ring", "multi-ring:2", "direct", "direct:2", "bruck", "pairwise"})


def picture(sizes: list[float], times: list[float]) -> Picture:
    return Picture("bytes delivered", "ns", [Series("runs", sizes, times, "points")], log=True)


def collective(rng: random.Random, kind: str, npus: list[int]) -> Tables:
    """Draw a table [collective] without its members; the root, if any, is a member."""
    told: Tables = {"kind": kind}
    if kind != "barrier":
        told["size"] = f"{rng.choice(SIZES)} B"
    if kind in ROOTED:
        told["root"] = rng.choice(npus)
    return told


def scheduling(rng: random.Random) -> Tables:
    """Draw chunks, queues and schedulers; with none of them may a chunk wait forever."""
    return {
        "chunks": rng.choice([1, 2, 3, 8]),
        "active_chunks": rng.choice([1, 1, 2, 5]),
        "scheduling": rng.choice(["LIFO", "FIFO"]),
        "intra_dimension": rng.choice(["FIFO", "RG", "smallest-first", "fewest-phases-first"]),
        "inter_dimension": rng.choice(["ascending", "round-robin", "themis", "themis-flex"]),
        "optimization": rng.choice(["baseline", "localBWAware"]),
        "queues": rng.choice([1, 2, 3]),
        "endpoint_delay": rng.choice(["0 ns", "10 ns"]),
        "reduction_delay": rng.choice(["0 ns", "25 ns"]),
    }


def grid(rng: random.Random, shape: tuple[int, ...]) -> Tables:
    """A network of one block for each dimension, of unequal widths."""
    dims = []
    for npus in shape:
        latency = f"{rng.choice([1, 3, 40])} cycles"
        dims.append({"block": rng.choice(BLOCKS), "npus": npus, "bandwidth": "32 GB/s", "latency": latency})
    return {"flit": WIRES["flit"], "packet": WIRES["packet"], "dims": dims}


def plans(backend: str) -> Iterator[tuple[Tables, int, float | None]]:
    """Grids with an algorithm for each dimension: tables, NPUs, and bytes where there is a closed form."""
    rng = random.Random(f"plans {backend}")
    for kind, names in ALONG.items():
        for _ in range(12):
            shape = rng.choice(GRIDS)
            chosen = [rng.choice(names) for _ in shape]
            told = collective(rng, kind, list(range(prod(shape))))
            system = {**scheduling(rng), algorithm_key(kind): chosen}
            if kind != "all-reduce":
                system["optimization"] = "localBWAware"
            nbytes = None
            aware = system["optimization"] == "localBWAware" or "themis" in system["inter_dimension"]
            if kind in CROSSINGS and aware and OPTIMAL.issuperset(chosen):
                nbytes = CROSSINGS[kind] * (prod(shape) - 1) * int(told["size"].split()[0])
            yield {"network": grid(rng, shape), "system": system, "collective": told}, prod(shape), nbytes


def groups(backend: str) -> Iterator[tuple[Tables, int, float | None]]:
    """Subsets of NPUs: any list, a named group, or all groups along some dimensions."""
    rng = random.Random(f"groups {backend}")
    for kind, names in ALONG.items():
        for how in ("npus", "group", "dims") * 4:
            shape = rng.choice(GRIDS)
            npus = rng.sample(range(prod(shape)), rng.randint(2, prod(shape)))
            system: Tables = {**scheduling(rng), algorithm_key(kind): rng.choice(names)}
            told = collective(rng, kind, npus)
            concerned = len(npus)
            if how == "dims":
                told.pop("root", None)
                told["dims"] = rng.sample(range(len(shape)), rng.randint(1, len(shape) - 1))
                concerned = prod(shape)
            elif how == "group":
                system["groups"] = [{"name": "some", "npus": npus}]
                told["group"] = "some"
            else:
                told["npus"] = npus
            yield {"network": grid(rng, shape), "system": system, "collective": told}, concerned, None


ROUTES: tuple[tuple[Tables, int], ...] = (
    ({"topology": "torus", "shape": [4, 4], "router": {"vcs": 8, "routing": "valiant"}}, 16),
    (
        {
            "topology": "torus",
            "shape": [4, 4],
            "router": {"vcs": 8, "routing": "minimal-adaptive", "vc_reuse": "drained"},
        },
        16,
    ),
    ({"topology": "fat-tree", "options": {"children": [4, 4], "parents": [4]}}, 16),
    (
        {"topology": "dragonfly", "options": {"p": 2, "a": 4, "h": 2, "g": 3}, "router": {"vcs": 8, "routing": "ugal"}},
        24,
    ),
    ({"topology": "switch", "shape": [12]}, 12),
    ({"topology": "ring", "shape": [12], "router": {"vcs": 4, "buffer": 2}}, 12),
)


def at_once(backend: str) -> Iterator[tuple[Tables, int, float | None]]:
    """Eight collectives and four messages, with late and slow NPUs and messages that overtake each other."""
    rng = random.Random(f"at once {backend}")
    for network, npus in ROUTES:
        for _ in range(5):
            told = []
            for number in range(8):
                kind = rng.choice(list(ALONG))
                some = sorted(rng.sample(range(npus), rng.randint(2, npus)))
                each = collective(rng, kind, some) | {"npus": some, "at": f"{rng.randint(0, 400)} ns"}
                told.append(each | {"algorithm": rng.choice(ALONG[kind]), "name": f"c{number}"})
            pairs = [rng.sample(range(npus), 2) for _ in range(4)]
            system: Tables = {**scheduling(rng), "inter_dimension": "ascending", "start_skew": "200 ns"}
            system["scheduling"] = rng.choice(["LIFO", "FIFO", "explicit"])
            if system["scheduling"] == "explicit":
                told = [each | {"priority": number % 3} for number, each in enumerate(told)]
            system["stragglers"] = [{"npus": rng.sample(range(npus), 2), "start": "1 us"}]
            tables: Tables = {"network": {**WIRES, **network}, "system": system, "collective": told}
            tables["message"] = [{"src": src, "dst": dst, "size": "3000 B", "at": "100 ns"} for src, dst in pairs]
            concerned = len({npu for each in told for npu in each["npus"]})
            yield tables, concerned, None


Runs = Callable[[str], Iterator[tuple[Tables, int, float | None]]]


def carried(runs: Runs, backend: str) -> Found:
    """Count the runs that do not carry the data of all members, or send the wrong number of bytes."""
    faults = formulas = 0
    sizes: list[float] = []
    times: list[float] = []
    for number, (tables, npus, wanted) in enumerate(runs(backend)):
        told: dict[str, Any] = {**tables, "output": {"carry": True, "seed": number}}
        result = simulated(told, backend)
        nbytes = result.counts["bytes_delivered"]
        formulas += wanted is not None
        faults += result.carried != npus or wanted not in (None, nbytes)
        sizes.append(nbytes)
        times.append(float(result.time_ns))
    note = f"bytes by formula in {formulas} of them" if formulas else ""
    return Found(faults, picture(sizes, times), {"runs": str(len(times)), "kinds": "all"}, note)


CLAIMS: dict[str, tuple[str, Runs]] = {
    "plans": ("The carried data are correct in plans over several dimensions, with any queues and schedulers", plans),
    "groups": ("The carried data are correct among any list of NPUs, in named groups and along dimensions", groups),
    "at-once": (
        "The carried data are correct with eight concurrent collectives and messages, with stragglers, congestion and "
        "routing that lets messages overtake each other",
        at_once,
    ),
}


def cases() -> Iterator[Case]:
    for name, (claim, runs) in CLAIMS.items():
        for backend in ("packet", "analytical"):
            run = partial(carried, runs, backend)
            yield Case(f"collectives/{name}-{backend}", claim, SOURCE, 0, "wrong runs", run, 10)
