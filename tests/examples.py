"""How many examples a property test draws: a sixth of them in `make test`, and other ones every time (in CI always the
same ones); all of them with --slow, as in `make validate`."""

from __future__ import annotations

from types import SimpleNamespace

LEAST = 8

_told = SimpleNamespace(whole=False)


def draw(*, whole: bool) -> None:
    """What pytest was told. Said by tests/conftest.py before the tests are collected, which then ask `part_of`."""
    _told.whole = whole


def part_of(number: int) -> int:
    """For `max_examples` of a test that takes seconds: how many of so many."""
    return number if _told.whole else min(number, max(LEAST, number // 6))
