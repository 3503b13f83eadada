"""Where nothing is in the way of anything: every backend's time is known beforehand."""

from __future__ import annotations

import pytest

from validation import find
from validation.families.contention_free import ALONE, alone, crowded_switch, steps
from validation.runner import run_case


@pytest.mark.parametrize("algorithm", ALONE)
@pytest.mark.parametrize(("npus", "size"), [(4, 2**20), (8, 2**22)])
def test_in_short(algorithm: str, npus: int, size: int) -> None:
    assert alone(algorithm, npus, size).measured < 2


def test_a_crowded_switch_in_short() -> None:
    assert crowded_switch(16, 2**20).measured < 2


@pytest.mark.parametrize("algorithm", ALONE)
def test_what_an_all_reduce_sends(algorithm: str) -> None:
    """An NPU sends 2(N-1)/N of the size, over all its links together."""
    links = 7 if algorithm == "direct" else 1
    assert links * sum(steps(algorithm, 8, 800)) == 2 * 700


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in find(["contention-free"])])
def test_in_full(name: str) -> None:
    assert run_case(name).holds
