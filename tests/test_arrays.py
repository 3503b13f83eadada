"""Objects that many share."""

from __future__ import annotations

from fractions import Fraction

from pyxsim.arrays import unique_by_identity


def test_each_object_once_in_order() -> None:
    a, b = Fraction(1, 3), Fraction(2, 3)
    kinds, which = unique_by_identity([b, a, b, b, a])
    assert [kind is wanted for kind, wanted in zip(kinds, (b, a), strict=True)] == [True, True]
    assert which.tolist() == [0, 1, 0, 0, 1]


def test_of_nothing() -> None:
    kinds, which = unique_by_identity([])
    assert (kinds, which.tolist()) == ([], [])
