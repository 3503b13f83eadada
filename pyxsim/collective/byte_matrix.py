"""The bytes of an all-to-all whose pairs exchange different amounts (all-to-all-v)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I64, frozen
from pyxsim.collective.sizes import boundary
from pyxsim.errors import InputError

_SMALL = 5  # bytes of an entry of a matrix that stands for a larger one in a proof
MOST_BYTES = 2**62  # of all entries together


class ByteMatrix:
    """What each rank sends to each rank; the diagonal stays where it is. Immutable and hashable.

    Parameters
    ----------
    rows
        int64[n, n]: entry (i, j) is the number of bytes from rank i to rank j.

    Raises
    ------
    InputError
        If it is not square, or an entry is negative or too large.
    """

    __slots__ = ("_key", "rows")

    def __init__(self, rows: npt.ArrayLike) -> None:
        given = np.asarray(rows)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.size:
            shape = "x".join(map(str, given.shape))
            raise InputError(f"the matrix is {shape}", allowed="one row and one column per NPU of the collective")
        if (given < 0).any() or float(given.sum(dtype=np.float64)) > MOST_BYTES:
            raise InputError("an entry is negative, or all together are too large", allowed=f"0 to {MOST_BYTES} bytes")
        self.rows: I64 = np.array(given, np.int64)
        frozen(self.rows)
        self._key = self.rows.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteMatrix) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> tuple[type[ByteMatrix], tuple[I64]]:
        return ByteMatrix, (self.rows,)

    @property
    def size(self) -> int:
        """Bytes of the largest buffer of a rank, its own part included: before or after the exchange."""
        return int(max(self.rows.sum(axis=1).max(), self.rows.sum(axis=0).max()))

    @property
    def total(self) -> int:
        """Bytes that ranks send to others."""
        return int(self.rows.sum() - np.trace(self.rows))

    @property
    def transposed(self) -> ByteMatrix:
        """The way back: rank j returns to rank i what it got from it."""
        return ByteMatrix(self.rows.T)

    def part(self, index: int, parts: int) -> ByteMatrix:
        """Return one of the chunks: each entry is cut as `sizes.boundary` cuts a buffer."""
        first, end = (boundary(self.rows, parts, np.asarray(at)) for at in (index, index + 1))
        return ByteMatrix(end - first)

    def small(self, npus: int) -> ByteMatrix:
        """Return a matrix of few ranks and bytes with the same kind of entries: empty and uneven ones."""
        return ByteMatrix(self.rows[:npus, :npus] % _SMALL)

    def lower_bound_bytes(self) -> int:
        """Return the bytes that the busiest rank must send or receive, whatever the algorithm."""
        off = self.rows - np.diag(np.diag(self.rows))
        return int(max(off.sum(axis=1).max(), off.sum(axis=0).max()))

    def between(self, shape: tuple[int, ...], cuts: tuple[tuple[int, ...], ...], dims: tuple[int, ...]) -> I64:
        """Return what the members of each group exchange in a phase along `dims`, int64[groups, n, n].

        Before the phase each rank holds what the ranks that differ from it along `cuts` have for the ranks that
        share its coordinates there. Groups and members are in the order of `Phase.groups`.
        """
        return _between(self, shape, cuts, dims)


@lru_cache(maxsize=256)
def _between(
    matrix: ByteMatrix, shape: tuple[int, ...], cuts: tuple[tuple[int, ...], ...], dims: tuple[int, ...]
) -> I64:
    count = len(shape)
    done = [d for cut in cuts for d in cut]
    rest = [d for d in range(count) if d not in done and d not in dims]
    # Dimension d of the sources is axis count-1-d, that of the destinations 2*count-1-d.
    source, target = {d: count - 1 - d for d in range(count)}, {d: 2 * count - 1 - d for d in range(count)}
    grid = matrix.rows.reshape(*shape[::-1], *shape[::-1])
    # A group has fixed coordinates along `done` (of destinations) and `rest` (of sources); all else is summed.
    keep = [target[d] if d in done else source[d] for d in range(count - 1, -1, -1) if d not in dims]
    inside = [*(source[d] for d in reversed(dims)), *(target[d] for d in reversed(dims))]
    summed = [*(source[d] for d in done), *(target[d] for d in rest)]
    moved = grid.transpose([*keep, *inside, *summed])
    n = math.prod(shape[d] for d in dims)
    kept = moved.sum(axis=tuple(range(len(keep) + len(inside), 2 * count))) if summed else moved
    blocks: I64 = np.ascontiguousarray(kept).reshape(-1, n, n)
    frozen(blocks)
    return blocks


def byte_matrix(rows: Sequence[Sequence[int]]) -> ByteMatrix:
    """Return the matrix of some rows of bytes. Raises InputError, also for rows of different lengths."""
    lengths = {len(row) for row in rows}
    if lengths != {len(rows)}:
        problem = f"{len(rows)} rows with {' or '.join(map(str, sorted(lengths)))} entries"
        raise InputError(problem, allowed="as many entries in each row as there are rows")
    return ByteMatrix(rows)
