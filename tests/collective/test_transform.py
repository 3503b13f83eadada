"""A renamed schedule is the same schedule between other ranks, and still does what its kind says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.transform import mirrored, renamed

KINDS = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]
ALGORITHMS = ["ring", "direct", "halving-doubling"]


def test_the_other_way_round() -> None:
    c = get_schedule("reduce-scatter", "ring", 5)
    assert ((c.dst - c.src) % 5 == 1).all()
    other = mirrored(c)
    assert ((other.src - other.dst) % 5 == 1).all()
    # Rank r sends the block of rank r-1 first; the other way round, that of rank r+1.
    assert ((c.src - c.block_ids) % 5)[:5].tolist() == [1] * 5
    assert ((other.block_ids - other.src) % 5)[:5].tolist() == [1] * 5
    prove(other)
    assert mirrored(c) is other
    assert get_schedule("reduce-scatter", "ring", 5, mirror=True) is other


def test_twice_the_other_way_round_is_the_first() -> None:
    for kind in KINDS:
        c = get_schedule(kind, "direct", 6)
        back = mirrored(mirrored(c))
        for name in ("src", "dst", "block_ids", "reduce", "gate", "need"):
            assert getattr(back, name).tolist() == getattr(c, name).tolist()


def test_blocks_go_with_their_ranks() -> None:
    c = get_schedule("all-to-all", "direct", 4)
    other = mirrored(c)
    assert other.block_ids.tolist() == (other.src * 4 + other.dst).tolist()


@given(st.sampled_from(sorted(KINDS)), st.sampled_from(ALGORITHMS), st.permutations(range(6)), st.data())
def test_any_names_will_do(kind: str, algorithm: str, names: list[int], data: st.DataObject) -> None:
    if (kind, algorithm) == ("all-to-all", "halving-doubling"):
        return
    c = get_schedule(kind, algorithm, 6)
    sizes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=c.blocks, max_size=c.blocks)))
    for schedule in (c, c.without_empty(sizes)):
        other = renamed(schedule, np.array(names))
        prove(other)
        assert [names[r] for r in schedule.src] == other.src.tolist()
        assert [names[r] for r in schedule.dst] == other.dst.tolist()


def test_only_permutations() -> None:
    with pytest.raises(ValueError, match="not a permutation of 3 ranks"):
        renamed(get_schedule("all-reduce", "ring", 3), np.array([0, 0, 1]))
