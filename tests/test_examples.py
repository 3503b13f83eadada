"""The share of their examples that property tests draw: a tenth, but some of each; with --slow all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.examples import draw, part_of


@pytest.fixture(autouse=True)
def as_before(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    draw(whole=pytestconfig.getoption("--slow"))


def test_the_share_follows_the_option(pytestconfig: pytest.Config) -> None:
    assert part_of(120) == (120 if pytestconfig.getoption("--slow") else 12)


@pytest.mark.parametrize(("number", "part"), [(300, 30), (100, 10), (60, 6), (40, 5), (15, 5), (6, 5), (4, 4)])
def test_part_and_whole(number: int, part: int) -> None:
    draw(whole=False)
    assert part_of(number) == part
    draw(whole=True)
    assert part_of(number) == number
