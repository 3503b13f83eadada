"""Memory buffers: zeros, disjoint, cache-line aligned, with large pages or without."""

from __future__ import annotations

import gc
import mmap
from pathlib import Path

import pytest

from pyxsim.core.state.large_pages import AT_LEAST, LINE, PAGE, Pages

SIZES = [1, 64, 65, 4096, 200_000, PAGE + 1, AT_LEAST * PAGE - 3, 2 * AT_LEAST * PAGE, 7]


@pytest.mark.parametrize("large", [False, True])
def test_rooms_are_zeros_that_share_nothing(large: bool) -> None:
    pages = Pages(large=large)
    rooms = [pages.room(size) for size in SIZES]
    del pages
    gc.collect()
    for number, (room, size) in enumerate(zip(rooms, SIZES, strict=True)):
        assert room.shape == (size,)
        assert room.ctypes.data % LINE == 0
        assert not room.any()
        room[:] = number + 1
    for number, room in enumerate(rooms):
        assert (room == number + 1).all()


linux = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="a system without large pages")


@linux
def test_rooms_of_a_large_network_stand_next_to_each_other() -> None:
    pages = Pages(large=True)
    first, second, third = (pages.room(size) for size in (65, 64, 10))
    assert first.ctypes.data % PAGE == 0
    assert second.ctypes.data - first.ctypes.data == 2 * LINE
    assert third.ctypes.data - second.ctypes.data == LINE


@linux
def test_large_pages_are_asked_for() -> None:
    """Large pages of private memory, not shared between processes. Whether one is free is not known beforehand."""
    room = Pages(large=True).room(PAGE)
    flags = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *words = line.split()
        if not name.endswith(":"):
            low, high = (int(each, 16) for each in name.split("-"))
            inside = low <= room.ctypes.data < high
        elif inside and name == "VmFlags:":
            flags = " ".join(words)
    assert "hg" in flags.split()
    assert "sh" not in flags.split()
