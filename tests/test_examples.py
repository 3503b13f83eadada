"""The share of their examples that property tests draw: a sixth, but some of each; with --slow all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.examples import draw, part_of


@pytest.fixture(autouse=True)
def as_before(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    draw(whole=pytestconfig.getoption("--slow"))


def test_it_is_what_pytest_was_told(pytestconfig: pytest.Config) -> None:
    assert part_of(120) == (120 if pytestconfig.getoption("--slow") else 20)


@pytest.mark.parametrize(("number", "part"), [(300, 50), (100, 16), (60, 10), (40, 8), (15, 8), (6, 6)])
def test_part_and_whole(number: int, part: int) -> None:
    draw(whole=False)
    assert part_of(number) == part
    draw(whole=True)
    assert part_of(number) == number
