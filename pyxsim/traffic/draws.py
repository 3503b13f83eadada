"""Random numbers that depend on nothing but their name.

Every stream is a Philox generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011) with the key (seed, class) and a counter that begins with (purpose, block): no stream depends on how much was
drawn from another one. Only `Generator.random` is used, which turns 53 bits into a double and nothing else, so the
numbers are the same on every machine and with every numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# Purposes of streams: what is drawn from one does not move the others.
TRIAL, STATE, DESTINATION, SIZE, START, PERMUTATION = range(6)


def stream(seed: int, klass: int, purpose: int, block: int = 0) -> np.random.Generator:
    """The stream of that name, from its beginning."""
    key = np.array([seed % 2**64, klass], dtype=np.uint64)
    counter = np.array([0, 0, purpose, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def below(rng: np.random.Generator, limit: int, count: int) -> Longs:
    """`count` whole numbers from 0 to limit - 1."""
    # The product of the largest double below 1 with a whole number below 2^53 is not rounded up to that number.
    return (rng.random(count) * limit).astype(np.int64)


def weighted(rng: np.random.Generator, weights: Floats, count: int) -> Longs:
    """`count` indices, each with a probability in proportion to its weight."""
    if len(weights) == 1:
        return np.zeros(count, dtype=np.int64)
    edges = np.cumsum(weights)
    found = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    # Rounding may put a number on the last edge: it belongs to the last one that has a weight.
    drawn: Longs = np.minimum(found, int(np.flatnonzero(weights)[-1])).astype(np.int64)
    return drawn
