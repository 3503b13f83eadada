"""The choice of points: Pareto fronts by brute force, and samplers on functions whose optimum is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.settings.space import Place
from pyxsim.study.search.explore import Explorer, at_random, exhaustive, fronts, sampled

SIZES = (7, 7, 3, 4, 2)
ORDERED = (True, True, True, True, False)
# As with factorizations: a place stands for 2^i x 2^j NPUs, of which there are enough.
PLACES = [place for place in itertools.product(*map(range, SIZES)) if 3 <= place[0] + place[1] <= 8]


def bowl(place: Place) -> float:
    """A function with one minimum, at (2, 5, 1, 0, 1), and interactions."""
    one, other, third, fourth, last = place
    return (
        10 + (one - 2) ** 2 + 2 * abs(other - 5) + 0.5 * abs(one + other - 7) + abs(third - 1) + fourth + 2 * (1 - last)
    )


def run(explorer: Explorer, loss: Callable[[Place], float]) -> list[Place]:
    """Drive an explorer to its end."""
    found: list[Place] = []
    batch = next(explorer, None)
    while batch:
        found += batch
        try:
            batch = explorer.send([(loss(place),) for place in batch])
        except StopIteration:
            break
    return found


def test_all_and_some() -> None:
    assert run(exhaustive(PLACES, 50), bowl) == PLACES
    drawn = run(at_random(PLACES, 30, seed=1), bowl)
    assert len(set(drawn)) == 30
    assert set(drawn) <= set(PLACES)
    assert drawn == run(at_random(PLACES, 30, seed=1), bowl) != run(at_random(PLACES, 30, seed=2), bowl)


@pytest.mark.parametrize("method", ["tpe", "nsga2"])
def test_a_tenth_of_the_points_finds_the_best(method: str) -> None:
    pytest.importorskip("optuna")
    budget = len(PLACES) // 10
    for seed in range(4):
        found = run(sampled(PLACES, SIZES, ORDERED, 1, budget, seed, method), bowl)
        assert len(set(found)) == budget
        assert set(found) <= set(PLACES)
        assert min(map(bowl, found)) == min(map(bowl, PLACES)) == 10


def test_the_same_seed_proposes_the_same_points() -> None:
    pytest.importorskip("optuna")
    one, other = (run(sampled(PLACES, SIZES, ORDERED, 1, 60, 3, "tpe"), bowl) for _ in range(2))
    assert one == other


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20))
def test_fronts(losses: list[tuple[int, int]]) -> None:
    numbers = fronts([tuple(map(float, loss)) for loss in losses])

    def dominates(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one != other and one[0] <= other[0] and one[1] <= other[1]

    for loss, number in zip(losses, numbers, strict=True):
        better = [n for other, n in zip(losses, numbers, strict=True) if dominates(other, loss)]
        assert number == (max(better) + 1 if better else 0)
