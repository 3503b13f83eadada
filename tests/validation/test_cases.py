"""The cases of `pyxsim validate`: that they are found by name, and that the quick ones hold.

`make validate` runs all of them; docs/validation.md has what they came to.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pyxsim.errors import InputError
from validation import FAMILIES, every_case, find, run_cases
from validation.case import Case, Found, Outcome, Picture, Series, exact
from validation.runner import picture_name, run_case

QUICK = [
    "zero-load/ring",
    "ring/kinds",
    "switch/1MiB",
    "garnet/cal_horiz_64pkt_vc4",
    "garnet/cal_direct_vc1_horiz4",
    "repeat/default",
    "times/in-switch",
    "collectives/broken-forgets",
    "sizes/refused",
    "sizes/analytical-1-chunks",
    "astra/2-stops",
    "loops/dlrm-garnet",
    "pipeline/1f1b",
    "themis/torus-4x4x4",
    "themis/torus-4x4x4-compat",
    "case-studies/remote-memory",
    # Seconds each: with --slow.
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "queue/service-1",
            "zero-load/dragonfly",
            "issue-370/packet",
            "astra/1-files",
            "collectives/at-once-packet",
            "collectives/recursive-doubling",
            "issue-370/compat",
            "pipeline/interleaved",
            "traces/loops-analytical",
            "case-studies/footprints",
            "case-studies/packets-conv-3d",
        )
    ),
]


def test_every_family_has_cases_and_their_names_begin_with_it() -> None:
    names = {family.name for family in FAMILIES}
    assert {case.family for case in every_case().values()} == names


def test_every_case_says_what_it_claims() -> None:
    for case in every_case().values():
        assert case.claim, case.name
        assert case.source, case.name
        assert not case.claim.endswith("."), case.name
        assert case.bound >= 0, case.name


def test_cases_are_found_by_name_family_and_pattern() -> None:
    assert [case.name for case in find(["ring/kinds"])] == ["ring/kinds"]
    assert {case.family for case in find(["garnet", "switch"])} == {"garnet", "switch"}
    assert [case.name for case in find(["switch/*MiB"])] == ["switch/1MiB", "switch/16MiB"]
    assert len(find([])) == len(every_case())
    with pytest.raises(InputError, match=r"no case is called 'rings'.*did you mean 'ring'"):
        find(["rings"])


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_case_holds(name: str, tmp_path: Path) -> None:
    outcome = run_case(name, tmp_path)
    assert outcome.holds, outcome
    picture = (tmp_path / picture_name(name)).read_text(encoding="utf-8")
    assert picture.startswith("<?xml")


@pytest.mark.slow
def test_cases_in_processes_of_their_own(tmp_path: Path) -> None:
    heard: list[str] = []
    cases = find(["ring/kinds", "switch/1MiB"])
    outcomes = run_cases(cases, workers=2, pictures=tmp_path, tick=lambda outcome: heard.append(outcome.name))
    assert [outcome.name for outcome in outcomes] == [case.name for case in cases]
    assert sorted(heard) == sorted(outcome.name for outcome in outcomes)
    assert all(outcome.holds for outcome in outcomes)


def outcome(measured: float, error: str = "") -> Outcome:
    return Outcome("family/case", "A claim", "a source", 3.0, "%", measured, 0.5, {}, error=error)


def test_verdicts() -> None:
    assert outcome(3.0).holds
    assert not outcome(3.1).holds
    assert not outcome(math.nan).holds
    assert outcome(0.0, "it broke").verdict == "error"
    assert Outcome.from_json(outcome(2.5).json()) == outcome(2.5)
    assert math.isnan(Outcome.from_json(outcome(math.nan, "it broke").json()).measured)


def test_exact_numbers() -> None:
    worst, picture = exact([(1, 1), (5, 3), (7, 8)], "cycles")
    assert worst == 2
    assert isinstance(picture, Picture)
    assert exact([], "cycles")[0] == 0


def test_an_error_of_a_case_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Found:
        raise InputError("is not here", file="numbers.json")

    def holds() -> Found:
        return Found(1.0, Picture("x", "y", [Series("s", [0], [1], "points")]))

    cases = {case.name: case for case in (Case("a/b", "C", "s", 0, "%", broken), Case("a/c", "C", "s", 1, "%", holds))}
    monkeypatch.setattr("validation.runner.every_case", lambda: cases)
    assert run_case("a/b").error == "InputError: numbers.json: is not here"
    assert run_case("a/c").holds
