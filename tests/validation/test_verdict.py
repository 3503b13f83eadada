"""The verdicts on drawn experiments: what is drawn, and how right and wrong are counted."""

from __future__ import annotations

import pytest

from pyxsim.analysis.verdict import BEFORE, MEASURED, NOT_SAFE, SAFE, UNKNOWN, Verdict, by_waiting, measured
from pyxsim.results.comparison import PACKET
from pyxsim.settings import load_experiment
from pyxsim.study.compare import WITHIN, compare
from validation.families.verdict import AWARE, COLUMNS, _found, draw


def test_what_is_drawn_is_always_the_same_and_an_experiment() -> None:
    drawn = [draw(seed) for seed in range(100)]
    assert drawn == [draw(seed) for seed in range(100)]
    for tables in drawn:
        load_experiment(tables)
    assert len({str(tables["network"].get("topology")) for tables in drawn}) >= 8
    assert any("message" in tables for tables in drawn)
    assert any(isinstance(tables["collective"], list) for tables in drawn)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_experiments_run_everywhere(seed: int) -> None:
    point = compare(draw(seed)).points[0]
    assert not any(entry.reason for entry in point.entries)
    assert point.lower_bound <= (point.cycles(PACKET) or 0)
    told = by_waiting(point, WITHIN)
    assert told is not None
    assert told.error == pytest.approx(measured(point, "analytical", WITHIN).error, abs=0.02)
    assert {name for name in AWARE if point.cycles(name)} == set(AWARE)


def test_what_is_told_and_wrong_counts() -> None:
    def pair(true: str, told: str) -> tuple[Verdict, Verdict]:
        return Verdict("flow", true, MEASURED, -0.3), Verdict("flow", told, BEFORE, -0.2)

    pairs = [pair(SAFE, SAFE)] * 4 + [pair(NOT_SAFE, SAFE)] + [pair(NOT_SAFE, UNKNOWN)] * 3 + [pair(SAFE, NOT_SAFE)] * 2
    found = _found(pairs)
    assert found.measured == pytest.approx(30)
    assert [found.cells[column] for column in COLUMNS] == ["5 (1)", "2 (2)", "3 (0)"]
