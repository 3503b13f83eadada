"""[sweep]: the values of the points, as lists or ranges, and the goal of a search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from pyxsim.errors import InputError, bundle
from pyxsim.settings.axis_values import Named, is_named
from pyxsim.settings.faults import key_path, translate
from pyxsim.settings.types import Options, Table, Word, exact, plain_list, shown, whole, written
from pyxsim.units import in_one_unit, quantity

MOST = 10_000  # points of a sweep
_RANGE = "{ from = 0.1, to = 0.9, step = 0.1 }"
_DIGITS = 6  # significant digits of geometric values, which become part of the settings


def _number(value: object) -> Any:
    """A number, or a quantity with its unit; the swept setting validates it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{shown(value)} is not a number", allowed="a number, or a quantity such as '4 KiB'")
    return value


def _share(value: object) -> Fraction:
    """A share: "1 %" or 0.01."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value, re.ASCII) if isinstance(value, str) else None
    share = Fraction(match[1]) / 100 if match else None if isinstance(value, str) else exact(value)
    if share is None or not 0 <= share < 1:
        raise InputError(f"{shown(value)} is not a fraction", allowed="from 0 to less than 1, such as '1 %' or 0.01")
    return share


Number = Annotated[Any, PlainValidator(_number), WithJsonSchema({"type": "number"})]
Share = Annotated[
    Fraction, PlainValidator(_share), WithJsonSchema({"type": "string", "format": "share", "examples": ["1 %"]})
]


class Range(Table):
    """A range of values instead of a list: `{ from = "1 KiB", to = "1 GiB", factor = 2 }`."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    begin: Number = Field(alias="from", description="The first value.")
    to: Number = Field(description="Upper limit; included if a step ends there.")
    step: Number | None = Field(default=None, description="Difference between consecutive values.")
    factor: Number | None = Field(default=None, description="Ratio of consecutive values.")
    count: Annotated[int, *whole(2, MOST)] | None = Field(
        default=None, description="Number of values, both ends included."
    )
    spacing: Literal["even", "geometric"] | None = Field(
        default=None,
        description='Spacing of the values, with `count`: "even" (equal differences, the default) or '
        '"geometric" (equal ratios).',
    )

    @model_validator(mode="after")
    def _check_spacing(self) -> Range:
        set_keys = [name for name in ("step", "factor", "count") if getattr(self, name) is not None]
        if len(set_keys) != 1:
            which = f"{' and '.join(set_keys)} are set" if set_keys else "neither step, factor nor count is set"
            raise InputError(which, allowed=f"one of them, such as {_RANGE}")
        if self.spacing is not None and self.count is None:
            raise InputError("has no effect without `count`", key="spacing", allowed="with count")
        return self

    def values(self) -> tuple[Any, ...]:
        """Return the values, of the type of the first. Raises InputError."""
        (begin, to, *step), write = self._read()
        numbers = list(self._numbers(begin, to, *step))
        if len(numbers) > MOST:
            raise InputError("has too many values", allowed=f"at most {MOST}")
        return tuple(dict.fromkeys(write(number) for number in numbers))

    def _read(self) -> tuple[list[Fraction], Callable[[Fraction], Any]]:
        """Both ends and the optional step as numbers, and a function that converts numbers to values."""
        bounds = [self.begin, self.to, *([self.step] if self.step is not None else [])]
        if isinstance(self.begin, str):
            unit, numbers = in_one_unit(*bounds)
            return numbers, lambda number: quantity(number, unit)
        integers = all(isinstance(value, int) for value in (*bounds, self.factor or 2))
        nearest = integers and self.spacing == "geometric"
        return [_exact(value) for value in bounds], lambda number: _plain_number(number, integers, nearest)

    def _numbers(self, begin: Fraction, to: Fraction, step: Fraction | None = None) -> Iterator[Fraction]:
        if to < begin:
            raise InputError(f"ends before it begins: {shown(self.to)} is less than {shown(self.begin)}", key="to")
        if step is not None:
            if step <= 0:
                raise InputError(f"{shown(self.step)} is not a step", key="step", allowed="a number above zero")
            yield from (begin + step * k for k in range(min(MOST + 1, int((to - begin) / step) + 1)))
            return
        if begin <= 0 and (self.factor is not None or self.spacing == "geometric"):
            raise InputError(f"{shown(self.begin)} cannot be multiplied by a factor", key="from", allowed="above zero")
        if self.factor is not None:
            factor = _exact(self.factor)
            if factor <= 1:
                raise InputError(f"{shown(self.factor)} is not a factor", key="factor", allowed="a number above one")
            count = 0
            while begin <= to and count <= MOST:
                yield begin
                begin, count = begin * factor, count + 1
            return
        last = (self.count or 2) - 1
        for k in range(last + 1):
            if self.spacing == "geometric" and 0 < k < last:
                yield Fraction(f"{float(begin) * (float(to) / float(begin)) ** (k / last):.{_DIGITS}g}")
            else:
                yield begin + (to - begin) * k / last


def _exact(value: object) -> Fraction:
    number = None if isinstance(value, str) else exact(value)
    if number is None:
        raise InputError(f"{shown(value)} is not a number", allowed="a number, like the first value")
    return number


def _plain_number(number: Fraction, integers: bool, nearest: bool) -> int | float:
    if nearest or (integers and number.denominator == 1):
        return round(number)
    return float(f"{float(number):.12g}")


def _values(value: object) -> tuple[Any, ...]:
    """A list, a range instead, or a table with a name for each value, which are tables."""
    if isinstance(value, Mapping) and not {"from", "to"} & set(value) and is_named(value):
        return tuple(Named(name, plain_list([item])[0]) for name, item in value.items())
    if not isinstance(value, Mapping):
        try:
            return plain_list(value)
        except InputError as error:
            if isinstance(value, list | tuple) and value:
                raise
            allowed = f"{error.allowed}, or a range such as {_RANGE}"
            raise InputError(error.problem, allowed=allowed) from None
    try:
        return Range.model_validate(value).values()
    except ValidationError as error:
        raise bundle(translate(error, Range)) from None


Values = Annotated[tuple[Any, ...], PlainValidator(_values), WithJsonSchema({"type": "array"})]
SATURATION, SMALLEST = "saturation", "smallest"
LOADS = tuple(round(0.01 * k, 2) for k in range(1, 101))


class Goal(Table):
    """A search by bisection for each combination of the other values; it does not run every value."""

    kind: Literal["saturation", "smallest"] = Field(
        description='"saturation": the highest load below saturation. "smallest": the first value whose metric is '
        "within the tolerance of that of the last value."
    )
    key: Word | None = Field(
        default=None, description='Key path of the setting that is searched; "traffic.load" for a saturation.'
    )
    values: Values | None = Field(
        default=None, description="The values to search, smallest first. Default for a saturation: 0.01, 0.02, .. 1."
    )
    metric: Word | None = Field(default=None, description="Name of a number of the summary, such as `time_ns`.")
    within: Share = Field(default=written("1 %"), description='Tolerance relative to the best value, such as `"1 %"`.')
    best: Literal["lowest", "highest"] = Field(
        default="lowest", description="Whether low or high values of the metric are better."
    )

    @field_validator("values")
    @classmethod
    def _check_distinct(cls, values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if values is not None and any(value in values[:number] for number, value in enumerate(values)):
            raise InputError("duplicate value", allowed="different values, smallest first")
        return values

    @model_validator(mode="after")
    def _check_kind(self) -> Goal:
        required = ("key", "values", "metric")
        faults = []
        if self.kind == SMALLEST:
            missing = [name for name in required if getattr(self, name) is None]
            faults = [InputError("is missing", key=name, allowed=f"with kind = '{SMALLEST}'") for name in missing]
        else:
            set_keys = [name for name in ("metric", "within", "best") if name in self.model_fields_set]
            faults = [
                InputError("has no effect on a saturation", key=name, allowed=f"with kind = '{SMALLEST}'")
                for name in set_keys
            ]
            values = self.values or LOADS
            if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
                faults.append(InputError("a load is a number", key="values", allowed="such as [0.1, 0.2]"))
            elif list(values) != sorted(values):
                faults.append(
                    InputError("the loads are not in ascending order", key="values", allowed="ascending loads")
                )
        if faults:
            raise bundle(faults)
        return self

    @property
    def path(self) -> str:
        """The key path of the searched values."""
        return self.key or "traffic.load"

    @property
    def candidates(self) -> tuple[Any, ...]:
        """The searched values, smallest first."""
        return self.values or LOADS


class Swept(Table):
    """Key paths in quotes with a list of values, such as `"collective.size" = ["1 MiB", "2 MiB"]`, or a range; every
    combination is a point."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Values]

    zip: dict[str, Values] = Field(
        default_factory=dict,
        description="Key paths with lists of equal length, combined element by element.",
    )
    points: tuple[Options, ...] = Field(
        default=(), description="Single points, one table of key paths and values each."
    )
    goal: Goal | None = Field(
        default=None, description="Goal of a search; `pyxsim sweep` runs only the points that the search needs."
    )

    @field_validator("zip")
    @classmethod
    def _check_lengths(cls, lists: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        lengths = {path: len(values) for path, values in lists.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{key_path((path,))} has {count}" for path, count in lengths.items())
            raise InputError(f"the lists have different lengths: {counts}", allowed="lists of equal length")
        return lists

    @property
    def product(self) -> dict[str, tuple[Any, ...]]:
        """The swept keys, whose values are combined."""
        return dict(self.__pydantic_extra__ or {})
