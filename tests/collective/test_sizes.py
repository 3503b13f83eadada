"""Sizes are exact: nothing is lost, parts differ by a byte at most, and empty chunks are not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.kinds import KINDS
from pyxsim.collective.sizes import block_sizes, boundary, chunk_sizes, split

SIZES = st.one_of(st.integers(0, 100), st.integers(0, 2**50))


@given(SIZES, st.integers(1, 100))
def test_split(size: int, parts: int) -> None:
    sizes = split(size, parts)
    assert sizes.tolist() == [size * (i + 1) // parts - size * i // parts for i in range(parts)]
    assert sizes.sum() == size
    assert sizes.max() - sizes.min() <= 1
    assert sizes.max() == -(-size // parts)


def test_boundaries_of_huge_sizes_do_not_overflow() -> None:
    # size * index is beyond 64 bits: 2**62 * 999.
    assert int(boundary(2**62 + 5, 1000, np.array([999]))[0]) == (2**62 + 5) * 999 // 1000


@pytest.mark.parametrize(
    ("size", "chunks", "wanted"),
    [
        (1, 4, (1,)),
        (0, 4, ()),
        (10, 4, (2, 3, 2, 3)),
        (8, 4, (2, 2, 2, 2)),
        (3, 4, (1, 1, 1)),
        (2**40 + 1, 2, (2**39, 2**39 + 1)),
    ],
)
def test_chunks(size: int, chunks: int, wanted: tuple[int, ...]) -> None:
    assert chunk_sizes(size, chunks) == wanted


@given(SIZES, st.integers(1, 64))
def test_chunks_are_the_collective(size: int, chunks: int) -> None:
    sizes = chunk_sizes(size, chunks)
    assert sum(sizes) == size
    assert len(sizes) == min(size, chunks)
    assert all(type(part) is int and part > 0 for part in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 9), st.integers(1, 3), st.integers(0, 200), st.integers(1, 3))
def test_blocks(kind: str, n: int, parts: int, whole: int, copies: int) -> None:
    """What belongs to a rank is the same however finely an algorithm cuts it."""
    k = KINDS[kind]
    blocks = k.units(n) * parts
    sizes = block_sizes(k, n, blocks, whole, copies)
    assert len(sizes) == blocks
    assert sizes.sum() == whole * copies * (n if kind == "all-to-all" else 1)
    per_unit = sizes.reshape(-1, parts).sum(axis=1)
    if k.homes:
        wanted = split(whole, n) * copies
        assert per_unit.tolist() == np.tile(wanted, n ** (k.homes - 1)).tolist()
    assert (sizes % copies == 0).all()
