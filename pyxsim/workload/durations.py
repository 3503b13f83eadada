"""Recorded times as cycles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.workload.graph import MOST_CYCLES

_PER_SECOND = 10**9


def cycles(ns: IntArray, per_second: Fraction) -> IntArray:
    """Return times in ns as cycles, rounded up. Raises InputError for the first one that is too long."""
    over, under = per_second.numerator, per_second.denominator * _PER_SECOND
    longest = MOST_CYCLES * under // over
    if int(ns.max(initial=0)) > longest:
        problem = f"an activity of {ns[(ns > longest).argmax()]} ns takes too many cycles"
        raise InputError(problem, allowed=f"up to {MOST_CYCLES}")
    return scaled_up(ns, Fraction(over, under))


def scaled_up(values: IntArray, scale: Fraction) -> IntArray:
    """Return values times a scale, rounded up. Raises OverflowError for one beyond 64 bits."""
    over, under, most = scale.numerator, scale.denominator, int(values.max(initial=0))
    if most * over < 2**63 - under:
        return -(-values * over // under)
    return np.array([-(-each * over // under) for each in values.tolist()], np.int64)
