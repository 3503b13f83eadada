"""Bounds against what the shelf really sends, and against brute force where that is small enough."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np
import pytest

from pyxsim.collective.bounds import lower_bound_bytes, rounds
from pyxsim.collective.compiled import compiled
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("all-reduce", Fraction(2 * 3 * 1000, 4)),
        ("reduce-scatter", Fraction(3 * 1000, 4)),
        ("all-gather", Fraction(3 * 1000)),
        ("all-to-all", Fraction(3 * 1000, 4)),
    ],
)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving-doubling"])
def test_the_shelf_reaches_the_bound(kind: str, wanted: Fraction, algorithm: str) -> None:
    assert lower_bound_bytes(kind, 4, 1000) == wanted
    if kind == "all-to-all" and algorithm != "direct":
        return  # a ring forwards, halving-doubling cannot
    schedule = get_schedule(kind, algorithm, 4)
    whole = 4000 if kind == "all-gather" else 1000
    sent = schedule.message_bytes(block_sizes(schedule.kind, 4, schedule.blocks, whole))
    assert [sum(sent[schedule.src == rank]) for rank in range(4)] == [wanted] * 4
    assert [sum(sent[schedule.dst == rank]) for rank in range(4)] == [wanted] * 4


def test_bounds_of_one_npu_and_of_no_kind() -> None:
    assert lower_bound_bytes("all-reduce", 1, 10) == 0
    assert lower_bound_bytes("all-reduce", 3, 10) == Fraction(40, 3)
    with pytest.raises(InputError, match="unknown collective"):
        lower_bound_bytes("all", 4, 1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16])
def test_rounds(n: int) -> None:
    assert rounds(get_schedule("all-reduce", "ring", n)) == 2 * (n - 1)
    assert rounds(get_schedule("reduce-scatter", "ring", n)) == n - 1
    assert rounds(get_schedule("all-gather", "ring", n)) == n - 1
    assert rounds(get_schedule("all-to-all", "ring", n)) == n * (n - 1) // 2
    assert rounds(get_schedule("all-reduce", "direct", n)) == 2
    assert rounds(get_schedule("all-to-all", "direct", n)) == 1
    # A window of w: w messages per round.
    assert rounds(get_schedule("all-to-all", "direct:2", n)) == -(-(n - 1) // 2)
    assert rounds(get_schedule("all-gather", "direct:1", n)) == n - 1
    extra = int(log2(n) != int(log2(n)))
    assert rounds(get_schedule("all-reduce", "halving-doubling", n)) == 2 * int(log2(n)) + 2 * extra
    # Where only some ranks stand for two, folding and halving overlap.
    assert int(log2(n)) <= rounds(get_schedule("reduce-scatter", "halving-doubling", n)) <= int(log2(n)) + 2 * extra


def test_no_rounds_for_nothing() -> None:
    assert rounds(compiled(Schedule("all-reduce", 3))) == 0
    s = get_schedule("all-reduce", "ring", 5)
    assert rounds(s.without_empty(np.array([0, 0, 1, 0, 0]))) == 8  # one block still goes twice round
