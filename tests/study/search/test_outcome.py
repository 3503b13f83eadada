"""How sure a search is: the rank correlation against scipy, and the bounds by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.study.search.outcome import best_places, confidence, kendall_tau, scaled


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15))
def test_rank_correlation(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    one, other = zip(*pairs, strict=True)
    if len(set(one)) > 1 and len(set(other)) > 1:
        assert kendall_tau(pairs) == pytest.approx(stats.kendalltau(one, other).statistic)


def test_what_could_still_win() -> None:
    def row(state: str, screened: float, decided: float | None) -> dict[str, object]:
        shown = {"step_time": screened if decided is None else decided, "rank": 1, "state": state}
        return {**shown, "screen.step_time": screened, "decide.step_time": decided}

    rows = [row("decided", 10, 11), row("decided", 12, 12), row("screened", 12.1, None), row("screened", 10.9, None)]
    rows.append({"state": "never simulated", "rank": None, "step_time": None})
    found = confidence(rows, ["step_time"])
    # Decided over screened: 1.1 and 1. Those that were only screened win below 11 / 12.1 = 0.909 and 11 / 10.9 = 1.009.
    assert (found["least_ratio"], found["largest_ratio"]) == (1, 1.1)
    assert found["ratio_to_win"] == pytest.approx(11 / 10.9)
    assert (found["could_win"], found["not_decided"], found["never_simulated"]) == (1, 2, 1)
    assert found["kendall_tau"] == 1
    assert confidence(rows[2:], ["step_time"]) == {}


def test_order_and_scales() -> None:
    places = [(1, 0), (0, 1), (0, 0), (1, 1)]
    assert best_places([(2.0,), (1.0,), (1.0,), None], places, 3) == [(0, 0), (0, 1), (1, 0)]
    from fractions import Fraction

    assert scaled("450 GB/s", Fraction(11, 10)) == "495 GB/s"
