"""Memory of the engine: large pages for the records of large networks, and none for records that others have.

A router visit touches some fifteen places in different arrays. With pages of 4 KiB a network of some megabytes exceeds
the processor's TLB, and each miss costs a page walk; pages of 2 MiB are few. Linux provides them on request
(transparent huge pages); elsewhere these are plain pages.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = 2**21
AT_LEAST = 4  # pages requested at once
LINE = 64


class Pages:
    """Allocator of zeroed buffers: consecutive in large pages if `large`, else one by one."""

    def __init__(self, *, large: bool) -> None:
        self._large = large and hasattr(mmap, "MADV_HUGEPAGE")
        self._left = np.zeros(0, np.uint8)

    def room(self, nbytes: int) -> NDArray[np.uint8]:
        """Return zeros, uint8[nbytes], that begin with a cache line. The memory lives as long as the array."""
        if not self._large:
            return _from(np.zeros(nbytes + LINE, np.uint8), LINE)[:nbytes]
        if len(self._left) < nbytes:
            self._left = _mapped(nbytes)
        taken, self._left = self._left[:nbytes], self._left[-(-nbytes // LINE) * LINE :]
        return taken


def _mapped(nbytes: int) -> NDArray[np.uint8]:
    """Map whole pages, at least `nbytes`. Untouched pages take no memory."""
    size = max(-(-nbytes // PAGE), AT_LEAST) * PAGE
    area = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # the kernel has no large pages: use plain ones
        area.madvise(mmap.MADV_HUGEPAGE)
    return _from(np.frombuffer(area, np.uint8), PAGE)[:size]


def _from(room: NDArray[np.uint8], multiple: int) -> NDArray[np.uint8]:
    """The buffer from the next multiple of `multiple` bytes on."""
    return room[-room.ctypes.data % multiple :]


def release(records: NDArray[Any], held: NDArray[np.bool_]) -> None:
    """Zero the records that are not held, and return their memory to the system.

    Only whole pages are returned, and only on Linux, where `madvise` zeroes them.
    """
    records[~held] = np.zeros(1, records.dtype)
    if sys.platform != "linux":
        return
    bounds = np.flatnonzero(np.diff(np.concatenate([[True], held, [True]]).astype(np.int8)))
    address = records.ctypes.data
    for first, end in bounds.reshape(-1, 2).tolist():
        begin = -(-(address + first * records.itemsize) // mmap.PAGESIZE) * mmap.PAGESIZE
        size = (address + end * records.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE - begin
        if size > 0:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
