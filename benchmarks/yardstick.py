"""A fixed piece of work without the simulator: it distinguishes a slow machine from a slow simulator.

bzip2 compresses a megabyte of random words in blocks of 900 kB: it sorts and counts, with unpredictable branches and
more memory than the first cache, on one core without vector instructions, which resembles the engine's use of a
machine. Its code has not changed since 2010, so its speed is that of the machine in its present state, with
its other load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import spread

SIZE = 1 << 20  # bytes to compress
PACKED = 274_387  # their compressed form: the same work everywhere
REPEAT = 5
WORDS = 2000
MB_PER_S = 35.0
"""The speed of the machine of the tables in docs/performance.md, which explains its origin. When you update the page
(`make bench ARGS="--write docs/performance.md"`), update this number; a test compares the two."""

Yardstick = dict[str, Any]


def text() -> bytes:
    """Return words, the first ones of the vocabulary more often. The bytes do not depend on the version of NumPy."""
    state = np.arange(1, SIZE + 1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> np.uint64(31)
    letters = (state[: 8 * WORDS] % np.uint64(26) + np.uint64(97)).astype(np.uint8).reshape(WORDS, 8)
    lengths = (state[8 * WORDS : 9 * WORDS] % np.uint64(7) + np.uint64(2)).astype(np.int64)
    vocabulary = [bytes(row[:length]) for row, length in zip(letters, lengths.tolist(), strict=True)]
    low, high = state[9 * WORDS :] % np.uint64(WORDS), (state[9 * WORDS :] >> np.uint64(32)) % np.uint64(WORDS)
    drawn = np.minimum(low, high).tolist()
    return b" ".join(vocabulary[number] for number in drawn)[:SIZE]


def measure_yardstick(repeat: int = REPEAT, clock: Callable[[], float] = time.process_time) -> Yardstick | None:
    """Return minimum, median and maximum megabytes per CPU second; None without bz2, or with another version of it."""
    try:
        import bz2
    except ImportError:
        return None
    data, rates = text(), []
    for _ in range(repeat):
        begin = clock()
        packed = bz2.compress(data, 9)
        rates.append(SIZE / 1e6 / (clock() - begin))
        if len(packed) != PACKED:
            return None
    return {"mb_per_s": spread(rates)}


def against_table(found: Yardstick) -> float:
    """Return the speed of this machine over that of the tables."""
    ratio: float = found["mb_per_s"]["median"] / MB_PER_S
    return ratio


def said(found: Yardstick | None, before: Mapping[str, Any] | None = None) -> str:
    """Format it in a line; `before`: an earlier session, which may have one. Empty without a yardstick."""
    if found is None:
        return ""
    rate, ratio = found["mb_per_s"]["median"], against_table(found)
    line = f"this machine: {ratio:.2f} of the one of the tables in docs/performance.md ({rate:.1f} MB/s of bzip2)"
    if before and (then := before.get("yardstick")):
        line += f"; {rate / then['mb_per_s']['median']:.2f} of what it was in the session before"
    return line
