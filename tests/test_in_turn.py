"""Tests with several cases carry out all of them, and fail with those that fail."""

from __future__ import annotations

import inspect

import pytest

from tests.in_turn import in_turn


def test_all_cases_are_carried_out_with_the_fixtures_of_the_test() -> None:
    seen = []

    @in_turn("a", [1, 2])
    @in_turn(("b", "c"), [(3, 4), (5, 6)])
    def test(folder: str, a: int, b: int, c: int) -> None:
        seen.append((folder, a, b, c))

    assert list(inspect.signature(test).parameters) == ["folder"]
    test(folder="here")
    assert seen == [("here", 1, 3, 4), ("here", 1, 5, 6), ("here", 2, 3, 4), ("here", 2, 5, 6)]


def test_what_fails_is_named() -> None:
    @in_turn("a", [0, 1, 2])
    def test(a: int) -> None:
        if a == 2:
            pytest.fail("two")
        assert 1 / a

    with pytest.raises(BaseExceptionGroup) as caught:
        test()
    assert [failure.__notes__ for failure in caught.value.exceptions] == [
        ["in the case {'a': 0}"],
        ["in the case {'a': 2}"],
    ]

    @in_turn("a", [0, 1])
    def alone(a: int) -> None:
        assert 1 / a

    with pytest.raises(ZeroDivisionError):
        alone()


def test_a_case_of_another_test_is_refused() -> None:
    with pytest.raises(AssertionError, match="names what the test does not take"):
        in_turn("other", [1])(lambda a: None)
