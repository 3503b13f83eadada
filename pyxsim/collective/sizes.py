"""Exact sizes: how bytes are cut in chunks and blocks. Whole numbers only; nothing is lost, nothing rounded up."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I64
from pyxsim.collective.kinds import Kind


def boundary(size: int | I64, parts: int, index: int | npt.NDArray[np.integer]) -> I64:
    """Where part `index` begins when `size` bytes are cut in `parts`: size * index // parts, for arrays, too.

    Without the large product: size = q * parts + r, so size * index // parts = q * index + r * index // parts.
    """
    quotient, rest = np.divmod(size, parts)
    return cast(I64, np.asarray(quotient * index + rest * index // parts))


def split(size: int, parts: int) -> I64:
    """Bytes of each part, int64[parts]: size*(i+1)//parts - size*i//parts. They differ by one byte at most."""
    return np.diff(boundary(size, parts, np.arange(parts + 1, dtype=np.int64)))


def chunk_sizes(size: int, chunks: int) -> tuple[int, ...]:
    """Bytes of the chunks that a collective of `size` bytes is cut in; chunks without bytes are left out."""
    return tuple(int(part) for part in split(size, chunks) if part)


def block_sizes(kind: Kind, n: int, blocks: int, whole: int, copies: int = 1) -> I64:
    """Bytes of every block of a schedule, int64[blocks].

    `whole` is what the blocks are a cut of: the buffer for all-reduce and reduce-scatter, the gathered buffer (n
    shards) for all-gather, the buffer of one source for all-to-all. `copies`: how many such buffers travel together.
    """
    per_home = blocks // kind.units(n)
    if kind.homes == 0:
        return split(whole, blocks) * copies
    units = split(whole, n)
    if per_home > 1:
        at = boundary(units[:, None], per_home, np.arange(per_home + 1, dtype=np.int64)[None, :])
        units = np.diff(at, axis=1).ravel()
    return np.tile(units, n ** (kind.homes - 1)) * copies
