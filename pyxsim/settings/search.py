"""[search]: a space of designs, what a good one is, and how much may be simulated to find it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.sweep import Number, Values
from pyxsim.settings.types import Flag, Table, Word, exact, shown, whole

MOST_COMBINATIONS = 1_000_000  # of the values of all axes; each is checked before anything runs
NPUS = "npus"  # in a constraint: the NPUs of the network
HIGHER = ("tokens_per_s", "tokens_per_s_npu", "samples_per_s", "mfu", "memory_headroom")
LOWER = ("step_time", "cost_per_token", "energy_per_token")
OBJECTIVES = (*LOWER, *HIGHER)
ESTIMATE, PHASES = "estimate", "phases"  # models of a search beside the backends
MOST_PARTS = 64  # of a budget that dimensions divide
_Count = Annotated[int, *whole(1, 2**20)]
_Some = Annotated[int, *whole(0, 2**20)]


def _words(value: object) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not words or not all(isinstance(word, str) for word in words):
        raise InputError(f"{shown(value)} is not a list of names", allowed='such as ["a", "b"]')
    if len(set(words)) < len(words):
        raise InputError("a name occurs twice", allowed="different names")
    return words


def _operand(value: object) -> Any:
    if not isinstance(value, str) and exact(value) is None:
        raise InputError(f"{shown(value)} is not a number", allowed='a number, an axis, or "npus"')
    return value


def _price(value: object) -> Fraction:
    number = exact(value)
    if number is None or number <= 0:
        raise InputError(f"{shown(value)} is not a price", allowed="a number above 0")
    return number


Words = Annotated[
    tuple[str, ...], PlainValidator(_words), WithJsonSchema({"type": "array", "items": {"type": "string"}})
]
Operand = Annotated[Any, PlainValidator(_operand), WithJsonSchema({"type": "string"})]
Price = Annotated[Fraction, PlainValidator(_price), WithJsonSchema({"type": "number"})]


class Constraint(Table):
    """A condition on the values of some axes: their product, or their sum, compared with a number or an axis."""

    product: Words | None = Field(default=None, description='Axes whose values are multiplied, or `"npus"`.')
    sum: Words | None = Field(default=None, description='Axes whose values are added, or `"npus"`.')
    equals: Operand | None = Field(default=None, description='Number, axis or `"npus"` that the result equals.')
    at_most: Operand | None = Field(default=None, description="Number or axis that the result does not exceed.")
    at_least: Operand | None = Field(default=None, description="Number or axis that the result reaches.")
    divides: Operand | None = Field(default=None, description="Number or axis that the result divides.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Constraint:
        faults = []
        if (self.product is None) == (self.sum is None):
            problem = "needs a list of axes" if self.product is None else "excludes `sum`"
            faults.append(InputError(problem, key="product", allowed="`product` or `sum`, one of them"))
        if not list(self.comparisons):
            faults.append(InputError("compares nothing", key="equals", allowed="equals, at_most, at_least or divides"))
        raise_all(faults)
        return self

    @property
    def comparisons(self) -> Iterator[tuple[str, Any]]:
        """The comparisons with their operands."""
        for name in ("equals", "at_most", "at_least", "divides"):
            if (operand := getattr(self, name)) is not None:
                yield name, operand

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of the product or sum."""
        return self.product or self.sum or ()

    @property
    def text(self) -> str:
        """The constraint as one phrase."""
        ends = [name.rpartition(".")[2] for name in self.names]
        left = (" x " if self.product else " + ").join(ends)
        words = {"equals": "=", "at_most": "<=", "at_least": ">=", "divides": "divides"}
        return ", ".join(f"{left} {words[name]} {operand}" for name, operand in self.comparisons)


class BandwidthSplit(Table):
    """A budget that the bandwidths of several links divide: price x bandwidth, added up, equals the budget."""

    axes: Words = Field(description='Key paths of the bandwidths, such as `"network.dims[0].bandwidth"`.')
    budget: Number = Field(description='What all cost together, such as `"600 GB/s"` (pins) at a price of 1 each.')
    prices: tuple[Price, ...] | None = Field(
        default=None, description="Price of each, per unit of bandwidth. Default: 1 each."
    )
    parts: Annotated[int, *whole(2, MOST_PARTS)] = Field(
        default=8, description="Number of equal parts of the budget; each axis gets at least one."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> BandwidthSplit:
        faults = []
        if self.prices is not None and len(self.prices) != len(self.axes):
            problem = f"{len(self.prices)} prices for {len(self.axes)} axes"
            faults.append(InputError(problem, key="prices", allowed="one per axis"))
        if len(self.axes) > self.parts:
            problem = f"{self.parts} parts for {len(self.axes)} axes"
            faults.append(InputError(problem, key="parts", allowed=f"at least {len(self.axes)}"))
        raise_all(faults)
        return self


class Budget(Table):
    """How much a search may simulate."""

    screen: _Count | None = Field(
        default=None, description="Points that are screened. Default: all, or 400 with a sampling method."
    )
    decide: _Some = Field(default=20, description="Best screened points that are simulated by `decide`.")
    sensitivities: Flag = Field(
        default=True, description="Whether the best point is estimated again with 10 % more of each resource."
    )


class Search(Table):
    """A space of designs and what to look for; `pyxsim search` runs it."""

    axes: dict[str, Values] = Field(
        default_factory=dict,
        description="Key paths in quotes with a list of values or a range, as in [sweep]; tables have names.",
    )
    shapes: dict[str, Annotated[int, *whole(2, 2**20)]] = Field(
        default_factory=dict,
        description="Key paths of shapes and the NPUs of each: all factorizations into the `dimensions` are values.",
    )
    dimensions: Annotated[int, *whole(1, 6)] = Field(default=2, description="Dimensions of `shapes`.")
    split: BandwidthSplit | None = Field(default=None, description="Bandwidths that share a budget.")
    constraint: tuple[Constraint, ...] = Field(default=(), description="Conditions that every point meets.")
    objective: Words = Field(
        default=("step_time",),
        description="What is optimized: " + ", ".join(OBJECTIVES) + ", or a number of the summary (lower is better); "
        "several give the Pareto front.",
    )
    method: Literal["auto", "exhaustive", "random", "tpe", "nsga2"] = Field(
        default="auto",
        description="How points are chosen for the screening: all, at random, or by Optuna. auto: all if the budget "
        "allows, else tpe (one objective) or nsga2.",
    )
    seed: _Some = Field(default=0, description="Seed of the choice of points.")
    screen: Word | None = Field(
        default=None,
        description="Model that screens: estimate (training steps), or a backend. Default: estimate for a model, else "
        "analytical.",
    )
    decide: Word = Field(
        default="packet",
        description="Model that decides among the best: a backend, which runs each point, or phases: each "
        "communication of the step by packets, and the step from their times.",
    )
    budget: Budget = Field(default_factory=Budget, description="How much may be simulated.")

    @field_validator("axes")
    @classmethod
    def _check_distinct(cls, axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        for path, values in axes.items():
            if any(value in values[:number] for number, value in enumerate(values)):
                raise InputError("duplicate value", key=path, allowed="different values")
        return axes
