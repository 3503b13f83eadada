"""Cycles as the whole nanoseconds of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.results.result import Result

_SAFE = 1 << 62


@dataclass(frozen=True)
class Clock:
    """`per_cycle`: nanoseconds. `first`, `last`: the cycles that are shown; `end`: of the run."""

    per_cycle: Fraction
    first: int
    last: int
    end: int

    @classmethod
    def of(cls, result: Result, cycles: tuple[int, int]) -> Clock:
        """The clock of a result, for a range of its cycles."""
        return cls(Fraction(10**9) / result.clock_hz, *cycles, result.time_cycles)

    @property
    def exact(self) -> bool:
        """Whether every cycle begins with a nanosecond."""
        return self.per_cycle.denominator == 1

    def ns(self, cycles: Any) -> IntArray:
        """The nanosecond in which each cycle begins, rounded down."""
        num, den = self.per_cycle.numerator, self.per_cycle.denominator
        values = np.asarray(cycles, dtype=np.int64)
        if int(values.max(initial=0)) < _SAFE // num:
            return values * num // den
        return np.array([value * num // den for value in values.tolist()], dtype=np.int64)  # Python's have no limit

    def shown(self, begin: IntArray, end: IntArray) -> IntArray:
        """Which rows have begun, and are in the range at least in part. Those of no length count where they are."""
        here = (begin >= 0) & (begin < max(self.last, self.first + 1)) & ((end > self.first) | (begin >= self.first))
        return np.flatnonzero(here)

    def args(self, begin: IntArray, end: IntArray) -> Callable[[int], dict[str, int]]:
        """What a slice tells of its time beside the nanoseconds: its cycles, where the nanoseconds are not exact."""
        if self.exact:
            return lambda row: {}
        return lambda row: {"begin_cycle": int(begin[row]), "end_cycle": int(end[row])}
