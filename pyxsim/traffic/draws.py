"""Random numbers that depend only on the name of their stream.

Each stream is a Philox generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011) with the key (seed, class) and a counter that starts at (purpose, block), so no stream depends on how many numbers
another one has drawn. Only `Generator.random` is used: it converts 53 bits to a double, so the numbers are the same on
every host and with every numpy.
"""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray

# Purposes: each has its own streams, so drawing from one does not shift the others.
TRIAL, STATE, DESTINATION, SIZE, START, PERMUTATION = range(6)


def stream(seed: int, klass: int, purpose: int, block: int = 0) -> np.random.Generator:
    """Return the stream of a seed, traffic class, purpose and block, from its beginning."""
    key = np.array([seed % 2**64, klass], dtype=np.uint64)
    counter = np.array([0, 0, purpose, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def random_below(rng: np.random.Generator, limit: int, count: int) -> IntArray:
    """Draw int64[count], each from 0 to limit - 1 with equal probability; limit < 2^53."""
    # The product of the largest double below 1 and an integer below 2^53 does not round up to that integer.
    return (rng.random(count) * limit).astype(np.int64)


def weighted(rng: np.random.Generator, weights: FloatArray, count: int) -> IntArray:
    """Draw int64[count] indices with probabilities proportional to `weights`."""
    if len(weights) == 1:
        return np.zeros(count, dtype=np.int64)
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    # Rounding may put a number on the last edge, which belongs to the last index with a weight.
    indices: IntArray = np.minimum(drawn, int(np.flatnonzero(weights)[-1])).astype(np.int64)
    return indices
