"""A fixed piece of work that is none of the simulator, so that a slow machine can be told from a slow simulator.

bzip2 packs a megabyte of made-up words, in blocks of 900 kB: it sorts and counts, branches that cannot be guessed and
memory that the first cache has no room for, one core, no vector instructions, which is what the engine does with a
machine, too. Its code has been the same everywhere since 2010, so its speed is that of the machine: as it is now, with
whatever else it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import spread

SIZE = 1 << 20  # bytes that are packed
PACKED = 274_387  # what they become: the same work everywhere
REPEAT = 5
WORDS = 2000
MB_PER_S = 35.0
"""That of the machine of the tables in docs/performance.md, which tells where it comes from. Who brings the page up to
date (`make bench ARGS="--write docs/performance.md"`) brings this up to date; a test compares the two."""

Yardstick = dict[str, Any]


def text() -> bytes:
    """Words, the first ones of the vocabulary more often. The same bytes whatever the version of NumPy."""
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
    """Megabytes per CPU second, least, median and most; None where this Python has no bz2, or another one."""
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
    """How fast this machine is now over the one of the tables."""
    ratio: float = found["mb_per_s"]["median"] / MB_PER_S
    return ratio


def said(found: Yardstick | None, before: Mapping[str, Any] | None = None) -> str:
    """What it tells in a line; `before`: an earlier session, which may have one. Nothing without a yardstick."""
    if found is None:
        return ""
    rate, ratio = found["mb_per_s"]["median"], against_table(found)
    line = f"this machine: {ratio:.2f} of the one of the tables in docs/performance.md ({rate:.1f} MB/s of bzip2)"
    if before and (then := before.get("yardstick")):
        line += f"; {rate / then['mb_per_s']['median']:.2f} of what it was in the session before"
    return line
