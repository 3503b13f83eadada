"""Intervals hold as often as they say, and transients are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyxsim.analysis.statistics import Interval, interval, percentile, settled, student_t
from pyxsim.arrays import FloatArray


@pytest.mark.parametrize(
    ("freedom", "number"),
    # Tables of the t distribution, two-sided 95 %.
    [
        (1, 12.7062047),
        (2, 4.3026527),
        (3, 3.1824463),
        (9, 2.2621572),
        (10, 2.2281389),
        (38, 2.0243942),
        (120, 1.9799304),
    ],
)
def test_student_t(freedom: int, number: float) -> None:
    assert student_t(freedom) == pytest.approx(number, rel=1e-7)


def test_student_t_of_other_confidences() -> None:
    assert student_t(10, 0.99) == pytest.approx(3.16927, rel=2e-6)
    assert student_t(5, 0.9) == pytest.approx(2.01505, rel=2e-6)


def test_an_interval_by_hand() -> None:
    # Few batches are taken as they are. Residuals -1, 1, 1, -1, 1, -1, -1, 1: correlation -3/8.
    values = np.array([9, 11, 11, 9, 11, 9, 9, 11.0])
    found = interval(values)
    assert found.mean == 10
    assert found.correlation == pytest.approx(-3 / 8)
    assert found.half == pytest.approx(student_t(7) * math.sqrt(8 / 7 / 8))
    assert (found.low, found.high) == (10 - found.half, 10 + found.half)
    assert found.relative == found.half / 10


def test_the_ratio_of_two_sums() -> None:
    sums, counts = np.array([10.0, 0.0, 60.0, 20.0]), np.array([1.0, 0.0, 6.0, 2.0])
    found = interval(sums, counts)
    assert found.mean == 10
    assert found.half == 0
    assert found.relative == 0
    many = interval(np.array([30.0, 10.0]), np.array([1.0, 1.0]))
    assert many.mean == 20


def test_what_has_no_interval() -> None:
    assert interval(np.array([5.0])) == Interval(5, math.inf, 1, 0)
    assert math.isnan(interval(np.zeros(0)).mean)
    assert math.isnan(interval(np.zeros(3), np.zeros(3)).mean)


def test_batches_are_merged_until_neighbours_are_independent() -> None:
    rng = np.random.default_rng(1)
    assert interval(rng.normal(size=100)).batches == 39
    # A slow wave: neighbours have much in common, whatever is done.
    slow = interval(np.sin(np.arange(400) / 40))
    assert slow.batches < 39
    trend = interval(np.arange(400.0))
    assert trend.batches < 20
    assert not trend.independent


def autoregressive(share: float, count: int, rng: np.random.Generator) -> FloatArray:
    """AR(1): each value has a share of the one before, from the steady state on."""
    noise = rng.normal(size=count)
    noise[0] /= math.sqrt(1 - share * share)
    found = np.empty(count)
    value = 0.0
    for i, each in enumerate(noise.tolist()):
        value = share * value + each
        found[i] = value
    return found


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_coverage_of_correlated_series(share: float) -> None:
    # 400 intervals of 95 %: 380 hold on average, and 362 with a chance of 1 in 100 000 or so fewer.
    rng = np.random.default_rng(20)
    intervals = [interval(10 + autoregressive(share, 600, rng)) for _ in range(400)]
    held = sum(found.low <= 10 <= found.high for found in intervals)
    assert held >= 362
    # And they are not much wider than they need to be: the true one is 1.96 / (1 - share) / sqrt(600).
    needed = 1.96 / (1 - share) / math.sqrt(600)
    assert np.mean([found.half for found in intervals]) < 1.25 * needed


def waits(load: float, count: int, rng: np.random.Generator, last: float = 0.0) -> FloatArray:
    """Waiting times of an M/M/1 queue with service time 1 after a wait of `last` (Lindley's recursion)."""
    walk = last + np.cumsum(rng.exponential(1, count) - rng.exponential(1 / load, count))
    return walk - np.minimum(np.minimum.accumulate(walk), 0)


def test_coverage_of_a_queue_from_empty_when_stopped_by_precision() -> None:
    # As a run is measured: the transient cut off by MSER, and looks until 5 % twice in a row. The mean is known:
    # 0.7 / 0.3. Stopping when it looks good costs some coverage: 9 of 10 at least.
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(150):
        series = waits(0.7, 60 * 200, rng)
        good = 0
        while True:
            batches = series.reshape(-1, 200).sum(axis=1)
            looks = len(batches)
            cut = settled(batches[:looks] / 200)
            if cut is not None:
                found = interval(batches[cut:looks], np.full(looks - cut, 200.0))
            good = good + 1 if cut is not None and found.relative <= 0.05 and found.independent else 0
            if good == 2:
                break
            more = math.ceil(1.25 * looks) - looks
            assert looks + more < 3000
            series = np.append(series, waits(0.7, more * 200, rng, series[-1]))
        held += found.low <= 0.7 / 0.3 <= found.high
    assert held >= 135


def test_a_transient_is_found() -> None:
    rng = np.random.default_rng(5)
    series = rng.normal(size=200)
    series[:40] += np.linspace(8, 0, 40)
    cut = settled(series)
    assert cut is not None
    assert 20 <= cut <= 50
    assert settled(np.ones(50)) == 0
    assert settled(rng.normal(size=19)) is None, "too short to tell"


def test_a_trend_never_settles() -> None:
    assert settled(np.arange(100.0)) is None
    rng = np.random.default_rng(6)
    assert settled(np.arange(400.0) + 10 * rng.normal(size=400)) is None


def test_percentiles() -> None:
    values, counts = np.array([3, 5, 8]), np.array([50, 49, 1])
    assert [percentile(values, counts, share) for share in (0.01, 0.5, 0.51, 0.99, 0.991, 1)] == [3, 3, 5, 5, 8, 8]
    assert math.isnan(percentile(values[:0], counts[:0], 0.5))
