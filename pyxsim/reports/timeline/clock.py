"""Convert cycles to whole nanoseconds of a trace."""

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
    """`per_cycle`: nanoseconds; `first`, `last`: the cycles shown; `end`: the last cycle of the run."""

    per_cycle: Fraction
    first: int
    last: int
    end: int

    @classmethod
    def of(cls, result: Result, cycles: tuple[int, int]) -> Clock:
        """Return the clock of a result for a range of its cycles."""
        return cls(Fraction(10**9) / result.clock_hz, *cycles, result.time_cycles)

    @property
    def exact(self) -> bool:
        """Whether every cycle starts at a whole nanosecond."""
        return self.per_cycle.denominator == 1

    def ns(self, cycles: Any) -> IntArray:
        """Return the nanosecond in which each cycle starts, rounded down."""
        num, den = self.per_cycle.numerator, self.per_cycle.denominator
        values = np.asarray(cycles, dtype=np.int64)
        if int(values.max(initial=0)) < _SAFE // num:
            return values * num // den
        return np.array([value * num // den for value in values.tolist()], dtype=np.int64)  # Python's have no limit

    def shown(self, begin: IntArray, end: IntArray) -> IntArray:
        """Return which rows overlap the range; rows of zero length count where they are."""
        visible = (begin >= 0) & (begin < max(self.last, self.first + 1)) & ((end > self.first) | (begin >= self.first))
        return np.flatnonzero(visible)

    def args(self, begin: IntArray, end: IntArray) -> Callable[[int], dict[str, int]]:
        """Return the cycles of a slice, where nanoseconds are not exact."""
        if self.exact:
            return lambda row: {}
        return lambda row: {"begin_cycle": int(begin[row]), "end_cycle": int(end[row])}
