"""Exact division of bytes into chunks and blocks: whole numbers, without loss or rounding up."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I64
from pyxsim.collective.kinds import Kind


def boundary(size: int | I64, parts: int, index: int | npt.NDArray[np.integer]) -> I64:
    """Return the first byte of part `index` when `size` bytes are cut in `parts`: size * index // parts, also for
    arrays.

    Avoids the large product: size = q * parts + r, so size * index // parts = q * index + r * index // parts.
    """
    quotient, rest = np.divmod(size, parts)
    return cast(I64, np.asarray(quotient * index + rest * index // parts))


def split(size: int, parts: int) -> I64:
    """Return the bytes of each part, int64[parts]: size*(i+1)//parts - size*i//parts. They differ by at most one."""
    return np.diff(boundary(size, parts, np.arange(parts + 1, dtype=np.int64)))


def chunk_sizes(size: int, chunks: int) -> tuple[int, ...]:
    """Return the bytes of the chunks of a collective of `size` bytes, without empty chunks."""
    return tuple(int(part) for part in split(size, chunks) if part)


def block_sizes(kind: Kind, n: int, blocks: int, whole: int, copies: int = 1) -> I64:
    """Return the bytes of every block of a schedule, int64[blocks].

    `whole`: what the blocks cut: the buffer for all-reduce and reduce-scatter, the gathered buffer (n shards) for
    all-gather, the buffer of one source for all-to-all. `copies`: how many such buffers travel together.
    """
    per_home = blocks // kind.units(n)
    if kind.homes == 0:
        return split(whole, blocks) * copies
    units = split(whole, n)
    if per_home > 1:
        at = boundary(units[:, None], per_home, np.arange(per_home + 1, dtype=np.int64)[None, :])
        units = np.diff(at, axis=1).ravel()
    return np.tile(units, n ** (kind.homes - 1)) * copies
