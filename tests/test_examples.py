"""The share of their examples that dear property tests draw: a third, but some of each; with --slow all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.examples import draw, part_of


@pytest.fixture(autouse=True)
def as_before(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    draw(whole=pytestconfig.getoption("--slow"))


def test_it_is_what_pytest_was_told(pytestconfig: pytest.Config) -> None:
    assert part_of(120) == (120 if pytestconfig.getoption("--slow") else 40)


@pytest.mark.parametrize(("number", "part"), [(300, 100), (100, 33), (45, 15), (40, 13), (15, 8), (6, 6)])
def test_part_and_whole(number: int, part: int) -> None:
    draw(whole=False)
    assert part_of(number) == part
    draw(whole=True)
    assert part_of(number) == number
