"""The link in the opposite direction of each link."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import AnyIntArray, IntArray


def opposite_links(src: AnyIntArray, dst: AnyIntArray) -> IntArray:
    """Return int64[links]: the link in the opposite direction; -1 for links without one.

    Of parallel links, the n-th in one direction and the n-th in the other are opposite.

    Parameters
    ----------
    src, dst
        Router or NPU at the start and at the end of each link, non-negative; no link leads back to its start.
    """
    count, src, dst = len(src), np.asarray(src, np.int64), np.asarray(dst, np.int64)
    if not count:
        return np.zeros(0, np.int64)
    nodes = 1 + max(int(src.max()), int(dst.max()))
    keys, opposite_keys = (_numbered(ends) for ends in (src * nodes + dst, dst * nodes + src))
    order = np.argsort(keys)
    match = order[np.minimum(np.searchsorted(keys[order], opposite_keys), count - 1)]
    return np.where(keys[match] == opposite_keys, match, -1)


def _numbered(values: IntArray) -> IntArray:
    """Unique keys: each value with its number among equal ones."""
    order = np.argsort(values, kind="stable")
    first = np.flatnonzero(np.diff(values[order], prepend=-1))
    length = np.diff(first, append=len(values))
    number = np.empty(len(values), np.int64)
    number[order] = np.arange(len(values)) - np.repeat(first, length)
    return values * len(values) + number
