"""Confidence intervals of means by batch means, and the start of a steady state by MSER.

Observations come in *batches*, spans of equal length in time. Neighbors are correlated, so a mean over all of
them is less precise than their number suggests; longer batches are less correlated (Law and Kelton, *Simulation
Modeling and Analysis*, section 9.5.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray

CONFIDENCE = 0.95
MOST, FEWEST = 40, 10  # batches of an interval
KEPT = 0.5  # share of a series that must remain after the transient


@dataclass(frozen=True)
class Interval:
    """A mean, and half the width of its 95 % confidence interval.

    `batches`: their number; `correlation`: that of neighboring batches.
    """

    mean: float
    half: float
    batches: int
    correlation: float

    @property
    def relative(self) -> float:
        """Half the width over the mean."""
        return self.half / abs(self.mean) if self.mean else math.inf if self.half else 0.0

    @property
    def independent(self) -> bool:
        """Whether the correlation of neighboring batches is insignificant (5 %, one-sided)."""
        return self.correlation <= 1.645 / math.sqrt(self.batches)

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half


def settled(series: FloatArray) -> int | None:
    """Return the number of entries at the start of a series that belong to its transient; None if it does not settle.

    MSER (White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997;
    White, Cobb and Spratt, WSC 2000): the cut after which the mean of the rest is most precise, by
    sum((x - mean)^2) / n^2. If the cut is in the second half, the series is too short or has a trend.
    """
    count = len(series)
    if count < 2 * FEWEST:
        return None
    backwards = (series - series.mean())[::-1]
    left = np.arange(1, count + 1)
    sums, squares = np.cumsum(backwards), np.cumsum(backwards * backwards)
    # A few entries at the end can look precise by chance.
    score = np.maximum(squares - sums * sums / left, 0.0)[FEWEST - 1 :] / left[FEWEST - 1 :] ** 2
    # Of equal scores take the longest remainder: a constant series has no transient.
    best = len(score) - 1 - int(np.argmin(score[::-1]))
    cut = count - FEWEST - best
    return cut if cut <= count * (1 - KEPT) else None


def interval(sums: FloatArray, weights: FloatArray | None = None) -> Interval:
    """Return the ratio of two sums over batches, `sums` per `weights` (by default per batch), with its interval.

    The classical ratio estimator: with r the ratio over all, the residuals sums - r * weights are treated as batch
    means. Batches are merged until fewer than 40 remain, then until their lag-1 correlation is insignificant (at
    5 %, one-sided), but not below 10; a remaining correlation widens the interval as for an
    AR(1) process.
    """
    lows = np.ones(len(sums)) if weights is None else weights
    mean = float(sums.sum() / lows.sum()) if lows.any() else math.nan
    batches = min(len(sums), MOST - 1)
    if batches < 2 or not lows.any():
        return Interval(mean, math.inf, batches, 0.0)
    while True:
        merged = _merged(mean, sums, lows, batches)
        if merged.independent or batches // 2 < FEWEST:
            return merged
        batches //= 2


def _merged(mean: float, sums: FloatArray, weights: FloatArray, batches: int) -> Interval:
    edges = np.arange(batches) * len(sums) // batches
    tops, lows = np.add.reduceat(sums, edges), np.add.reduceat(weights, edges)
    rest = tops - mean * lows
    # Exact sums: those of NumPy depend on the alignment of the array.
    square = math.fsum(rest * rest)
    # Equal batches: the residuals are rounding errors.
    if square <= 1e-24 * math.fsum(tops * tops):
        return Interval(mean, 0.0, batches, 0.0)
    correlation = math.fsum(rest[1:] * rest[:-1]) / square
    left = min(max(correlation + 1 / batches, 0.0), 0.9)  # the estimate is too low by about 1/n
    spread = math.sqrt(square / (batches - 1) / batches) / (float(lows.sum()) / batches)
    half = student_t(batches - 1) * spread * math.sqrt((1 + left) / (1 - left))
    return Interval(mean, half, batches, correlation)


@cache
def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return t with P(|T| <= t) = confidence, for Student's t with `freedom` degrees of freedom."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def percentile(values: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> float:
    """Return the smallest value that at least a `share` of the observations do not exceed; NaN without any."""
    total = int(counts.sum())
    if not total:
        return math.nan
    needed = math.ceil(share * total - 1e-9)
    return float(values[int(np.searchsorted(np.cumsum(counts), max(1, needed)))])
