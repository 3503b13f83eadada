"""Names of algorithms: windows, ASTRA-sim's spellings, and what is said when a name or its algorithm is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives


@pytest.mark.parametrize(
    ("name", "proper", "window", "over_all"),
    [
        ("ring", "ring", None, False),
        ("direct", "direct", None, False),
        ("direct:4", "direct:4", 4, False),
        ("direct4", "direct:4", 4, False),
        ("halving-doubling", "halving-doubling", None, False),
        ("halvingDoubling", "halving-doubling", None, False),
        ("oneRing", "one-ring", None, True),
        ("one-ring", "one-ring", None, True),
        ("oneDirect16", "one-direct:16", 16, True),
        ("one-direct:16", "one-direct:16", 16, True),
        ("oneHalvingDoubling", "one-halving-doubling", None, True),
        ("one-halvingDoubling", "one-halving-doubling", None, True),
    ],
)
def test_names(name: str, proper: str, window: int | None, over_all: bool) -> None:
    algorithm = get_algorithm(name)
    assert (algorithm.name, algorithm.window, algorithm.over_all) == (proper, window, over_all)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rnig", "unknown collective algorithm 'rnig'.*did you mean 'ring'"),
        ("", "unknown collective algorithm ''"),
        ("one", "unknown collective algorithm 'one'"),
        ("ring:4", "ring has no window; allowed: ring"),
        ("direct:0", "'direct:0' has a window of 0 messages"),
        ("direct:x", "unknown collective algorithm 'direct:x'.*did you mean 'direct'"),
    ],
)
def test_wrong_names(name: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"^system.all_reduce: {problem}"):
        get_algorithm(name, key="system.all_reduce")


def test_what_an_algorithm_cannot_do() -> None:
    with pytest.raises(InputError, match="halving-doubling cannot do all-to-all; allowed: all-reduce, reduce-scatter"):
        get_schedule("all-to-all", "halving-doubling", 4)


def test_schedules_are_built_once() -> None:
    assert get_schedule("all-reduce", "direct:4", 8) is get_schedule("all-reduce", "direct4", 8)
    assert get_schedule("all-reduce", "oneRing", 8) is get_schedule("all-reduce", "ring", 8)
    assert get_schedule("all-reduce", "direct:4", 8) is not get_schedule("all-reduce", "direct:3", 8)
    assert str(get_schedule("all-reduce", "direct:4", 8)) == "direct:4 all-reduce on 8 ranks"


@pytest.fixture
def mine() -> Iterator[None]:
    """Algorithms of a user's: one whose name ends with a digit, and three that go wrong."""

    @collectives.register("mine2")
    def mine2(kind: str, n: int) -> Schedule:
        return Schedule(kind, n)

    @collectives.register("fails")
    def fails(kind: str, n: int) -> Schedule:
        schedules: dict[str, Schedule] = {}
        return schedules[kind]

    @collectives.register("other")
    def other(kind: str, n: int) -> Schedule:
        return Schedule("all-gather", n + 1)

    @collectives.register("nothing")
    def nothing(kind: str, n: int) -> None:
        return None

    yield
    collectives.discard(__name__)


@pytest.mark.usefixtures("mine")
def test_a_registered_name_means_itself() -> None:
    assert get_algorithm("mine2").name == "mine2"
    assert get_algorithm("mine2").kinds == ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fails", r"test_lookup.py:\d+: the collective algorithm 'fails' failed for all-reduce on 4 ranks: KeyError"),
        ("other", r"'other' was asked for all-reduce on 4 ranks and gave all-gather on 5"),
        ("nothing", r"'nothing' gave NoneType; allowed: a Schedule"),
    ],
)
def test_algorithms_that_go_wrong(name: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        get_schedule("all-reduce", name, 4)
