"""How many examples a property test draws: a tenth of them in `make test`, and other ones every time (in CI always the
same ones); all of them with --slow, as in `make validate`."""

from __future__ import annotations

from types import SimpleNamespace

LEAST = 5

_told = SimpleNamespace(whole=False)


def draw(*, whole: bool) -> None:
    """What pytest was told. Said by tests/conftest.py before the tests are collected, which then ask `part_of`."""
    _told.whole = whole


def part_of(number: int, usual: int | None = None) -> int:
    """Return how many of `number` examples (or pairs, or cycles of a random run) a test that takes seconds checks.

    `usual`: how many in `make test`, where a tenth would take too long.
    """
    if _told.whole:
        return number
    return min(number, max(LEAST, number // 10) if usual is None else usual)
