"""Every algorithm carries real data, on any group and network, and all NPUs end with numpy's result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from pyxsim.collective.costs import cost
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.plan import whole_bytes
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import KINDS, ROOTED, algorithm_key
from validation.case import Case, Found, Picture, Series
from validation.machines import WIRES, Tables, dimensions, name_of, networks, simulated

ALGORITHMS = (
    "ring",
    "bidirectional-ring",
    "multi-ring:2",
    "direct",
    "direct:3",
    "halving-doubling",
    "recursive-doubling",
    "double-binary-tree",
    "double-binary-tree:3",
    "binomial-tree",
    "bruck",
    "pairwise",
    "hierarchical",
    "hierarchical-3d",
    "in-switch",
)
RANKS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 18, 24, 31, 32, 33)
SIZES = (1, 5, 77, 4096, 30030, 1_000_003)
CHUNKS = (1, 1, 2, 5)
BACKENDS = ("packet", "analytical")
TRIES = 20  # for each kind of collective that an algorithm supports
MOST = {"packet": 10**7, "analytical": 10**8}  # bytes sent at most, so that a run is quick
SOURCE = "NumPy's result for the same random data, and closed forms of the literature for the bytes (costs.py)"


class Try(NamedTuple):
    """One collective on one network."""

    kind: str
    algorithm: str
    npus: int
    size: int
    chunks: int
    root: int | None
    network: Tables
    backend: str

    def tables(self) -> Tables:
        collective: Tables = {"kind": self.kind}
        if self.kind != "barrier":
            collective["size"] = f"{self.size} B"
        if self.root is not None:
            collective["root"] = self.root
        system = {algorithm_key(self.kind): self.algorithm, "chunks": self.chunks}
        output = {"carry": True, "seed": self.npus}
        return {"network": {**WIRES, **self.network}, "system": system, "collective": collective, "output": output}


def draw(rng: random.Random, kind: str, algorithm: str) -> Try:
    """Draw a network, a size, a root and a number of chunks small enough for a test."""
    backend = rng.choice(BACKENDS)
    while True:
        npus, chunks = rng.choice(RANKS), rng.choice(CHUNKS)
        size = 1 if kind == "barrier" else rng.choice(SIZES)
        network = rng.choice(list(networks(npus)))
        if algorithm == "in-switch" and name_of(network) != "switch":
            continue  # where the router reduces
        one = algorithm if dimensions(network) == 1 else f"one-{algorithm}"
        found = cost(kind, one, npus, size)
        if found is not None and found.total <= MOST[backend]:
            root = rng.randrange(npus) if kind in ROOTED else None
            return Try(kind, one, npus, size, 1 if kind == "barrier" else chunks, root, network, backend)


def least_and_most(told: Try) -> tuple[Fraction, Fraction]:
    """Bytes by the closed form if all blocks had the smallest size, and the largest."""
    kind, n, low, high = told.kind, told.npus, Fraction(0), Fraction(0)
    blocks = get_schedule(kind, told.algorithm, n).blocks
    one = cost(kind, told.algorithm, n, 1)
    assert one is not None
    per_byte = one.total / whole_bytes(kind, 1, n)
    if kind == "barrier":
        return one.total, one.total
    blocks = blocks // n if kind == "all-to-all" else blocks
    for part in chunk_sizes(told.size, told.chunks):
        whole = whole_bytes(kind, part, n)
        low += whole // blocks * blocks * per_byte
        high += -(-whole // blocks) * blocks * per_byte
    return low, high


def can(algorithm: str, kind: str) -> bool:
    """Whether an algorithm supports a kind of collective; a window requires one in which messages are answered."""
    try:
        get_schedule(kind, algorithm, max(RANKS))
    except InputError:
        return False
    return True


def carried(algorithm: str) -> Found:
    """All kinds that an algorithm supports, each on some networks."""
    rng = random.Random(algorithm)
    kinds = [kind for kind in KINDS if can(algorithm, kind)]
    faults = 0
    wanted: list[float] = []
    sent: list[float] = []
    ranks, seen = set(), set()
    for kind in kinds:
        for _ in range(TRIES):
            told = draw(rng, kind, algorithm)
            result = simulated(told.tables(), told.backend)
            low, high = least_and_most(told)
            nbytes = result.counts["bytes_delivered"]
            faults += result.carried != told.npus or not low <= nbytes <= high
            wanted.append(float(high))
            sent.append(nbytes)
            ranks.add(told.npus)
            seen.add(name_of(told.network))
    picture = Picture(
        "bytes, by the closed form (blocks rounded up)",
        "bytes, delivered",
        [
            Series("equal", sorted(wanted), sorted(wanted), "limit"),
            Series("runs", wanted, sent, "points"),
        ],
    )
    cells = {"kinds": ", ".join(kinds), "runs": str(len(sent)), "NPUs": f"{min(ranks)} to {max(ranks)}"}
    return Found(faults, picture, {**cells, "networks": str(len(seen))})


def cases() -> Iterator[Case]:
    claim = (
        "The carried data end as NumPy's result on all NPUs, and the bytes sent equal the closed form, "
        "on random networks, sizes, chunks and roots, with both backends"
    )
    for algorithm in ALGORITHMS:
        name = f"collectives/{algorithm.replace(':', '-')}"
        yield Case(name, claim, SOURCE, 0, "wrong runs", partial(carried, algorithm), 8)
