"""Types of the arrays of this floor, and the two operations on them that numpy does not have.

Lists of different lengths are kept in CSR form: `ids[ptr[i] : ptr[i + 1]]` is the i-th list.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def pointers(lengths: npt.NDArray[np.integer]) -> I64:
    """int64[n + 1], the CSR pointers of n lists with these lengths."""
    ptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


def ranges(first: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> I64:
    """The numbers first[0], first[0] + 1, ... (lengths[0] of them), first[1], ... in one array."""
    ptr = pointers(lengths)
    return np.arange(ptr[-1], dtype=np.int64) + np.repeat(np.asarray(first, dtype=np.int64) - ptr[:-1], lengths)


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array that many callers share read-only."""
    array.setflags(write=False)
