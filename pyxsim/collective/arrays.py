"""Array types of this package, and two operations that numpy lacks.

Lists of different lengths are in CSR form: `ids[ptr[i] : ptr[i + 1]]` is the i-th list.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def pointers(lengths: npt.NDArray[np.integer]) -> I64:
    """Return the CSR pointers of n lists with these lengths, int64[n + 1]."""
    ptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


def ranges(first: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> I64:
    """Return first[0], first[0] + 1, ... (lengths[0] numbers), first[1], ... as one array."""
    ptr = pointers(lengths)
    return np.arange(ptr[-1], dtype=np.int64) + np.repeat(np.asarray(first, dtype=np.int64) - ptr[:-1], lengths)


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array read-only, because many callers share it."""
    array.setflags(write=False)
