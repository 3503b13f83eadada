"""Memory in large pages, for what the cycle loop reads of large networks.

A router visit touches some fifteen places of different arrays. In pages of 4 KiB those of a network of some megabytes
are more than a processor has translations of addresses at hand, and each of the others costs a walk through tables;
pages of 2 MiB are few. Linux gives them to whom asks (transparent huge pages); elsewhere these are plain pages.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
from numpy.typing import NDArray

PAGE = 2**21
AT_LEAST = 4  # pages that are asked for together
LINE = 64


class Pages:
    """Rooms of zeros, one behind the other. Not `large`: each for itself, wherever there is place."""

    def __init__(self, *, large: bool) -> None:
        self._large = large and hasattr(mmap, "MADV_HUGEPAGE")
        self._left = np.zeros(0, np.uint8)

    def room(self, nbytes: int) -> NDArray[np.uint8]:
        """Zeros, uint8[nbytes], that begin with a cache line. Their memory lives as long as they."""
        if not self._large:
            return _from(np.zeros(nbytes + LINE, np.uint8), LINE)[:nbytes]
        if len(self._left) < nbytes:
            self._left = _mapped(nbytes)
        taken, self._left = self._left[:nbytes], self._left[-(-nbytes // LINE) * LINE :]
        return taken


def _mapped(nbytes: int) -> NDArray[np.uint8]:
    """Whole pages, `nbytes` or more. What nobody writes to takes no memory, but for the rest of its page."""
    size = max(-(-nbytes // PAGE), AT_LEAST) * PAGE
    area = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel that was built without them: plain pages
        area.madvise(mmap.MADV_HUGEPAGE)
    return _from(np.frombuffer(area, np.uint8), PAGE)[:size]


def _from(room: NDArray[np.uint8], multiple: int) -> NDArray[np.uint8]:
    """The room from the next multiple of so many bytes on."""
    return room[-room.ctypes.data % multiple :]
