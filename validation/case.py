"""A validation case: a claim, its measured number and bound, and its plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Series:
    """Points of a picture. `style`: "line", "points" or "limit" (a dashed line that must not be crossed)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Picture:
    """The picture of a case."""

    x: str
    y: str
    series: Sequence[Series]
    log: bool = False  # the y axis
    most: float | None = None  # upper end of the y axis


@dataclass(frozen=True)
class Found:
    """The outcome of a case. `measured` must not exceed the bound of the case.

    cells  further columns of the family's table, by name
    note   one line that explains the number
    """

    measured: float
    picture: Picture
    cells: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Case:
    """A claim that a run can check.

    name     "family/what"
    claim    one sentence
    source   where the expected value comes from
    bound    largest allowed measured number
    unit     of both: "%", "cycles", "faults" ..
    run      measures it
    seconds  estimated run time: the longest cases start first
    """

    name: str
    claim: str
    source: str
    bound: float
    unit: str
    run: Callable[[], Found]
    seconds: float = 1.0

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Outcome:
    """A finished case, as stored. `error`: what stopped it."""

    name: str
    claim: str
    source: str
    bound: float
    unit: str
    measured: float
    seconds: float
    cells: dict[str, str]
    note: str = ""
    error: str = ""

    @property
    def holds(self) -> bool:
        return not self.error and self.measured <= self.bound

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "error" if self.error else "FAILS"

    def json(self) -> dict[str, Any]:
        """Return plain values; NaN becomes null."""
        measured = self.measured if math.isfinite(self.measured) else None
        told = {**vars(self), "measured": measured, "holds": self.holds, "seconds": round(self.seconds, 1)}
        return {key: value for key, value in told.items() if value not in ("", {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        measured = math.nan if known.get("measured") is None else float(known["measured"])
        return cls(**{"cells": {}, **known, "measured": measured})


def must(truth: bool, text: str) -> None:
    """Raise AssertionError unless a precondition of every case holds."""
    if not truth:
        raise AssertionError(text)


def not_too_fast(result: Any) -> None:
    """Check that no run is faster than its links allow, except without congestion, where its result has a warning."""
    bound = result.lower_bound_ns
    warned = any("ignores that messages share links" in line for line in result.warnings)
    must(bound is not None and (bound <= result.time_ns or warned), "the run is faster than its lower bound")


def exact(pairs: Sequence[tuple[float, float]], what: str) -> tuple[float, Picture]:
    """Return the largest difference of (expected, measured) numbers, and a picture of both."""
    worst = max((abs(found - wanted) for wanted, found in pairs), default=0.0)
    wanted = sorted({w for w, _ in pairs})
    picture = Picture(
        f"{what}, by the formula",
        f"{what}, simulated",
        [
            Series("equal", wanted, wanted, "limit"),
            Series("cases", [w for w, _ in pairs], [f for _, f in pairs], "points"),
        ],
    )
    return float(worst), picture
