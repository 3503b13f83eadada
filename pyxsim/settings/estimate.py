"""Figures with their uncertainty: a low, a typical and a high value, as `"20 W"` or `["15 W", "20 W", "25 W"]`.

The bounds are bounds, not standard deviations: sums and products of estimates combine low with low and high with high,
as if all figures were wrong in the same direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from pyxsim.errors import InputError
from pyxsim.settings.types import exact, shown
from pyxsim.units import decimal, format_quantity, parse_quantity

_Number = Fraction | float | int

_PREFIXES = {"": Fraction(1), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9)}
_FINE = {"f": Fraction(1, 10**15), "p": Fraction(1, 10**12), "n": Fraction(1, 10**9)}
WATTS = {"W": Fraction(1), "mW": Fraction(1, 1000), **{f"{p}W": f for p, f in _PREFIXES.items() if p}}
JOULES_PER_BIT = {"pJ/bit": _FINE["p"], **{f"{p}J/bit": f for p, f in _FINE.items() if p != "p"}}
DOLLARS = {"$": Fraction(1), "k$": Fraction(10**3), "M$": Fraction(10**6)}
# Per byte and second: 1 Gb/s is 10^9 / 8 bytes per second.
DOLLARS_PER_RATE = {"$/GBps": Fraction(1, 10**9), "$/Gbps": Fraction(8, 10**9)}
DOLLARS_PER_JOULE = {"$/kWh": Fraction(1, 3_600_000), "$/MWh": Fraction(1, 3_600_000_000)}
DOLLARS_PER_BYTE = {"$/GB": Fraction(1, 10**9)}
MILLIMETRES = {"mm": Fraction(1), "um": Fraction(1, 1000), "cm": Fraction(10)}


@dataclass(frozen=True)
class Estimate:
    """A low, a typical and a high value in the base unit of its kind.

    Sums and products with estimates and numbers that are not negative combine the bounds: low with low, high with high.
    `float(estimate)` is the typical value.
    """

    low: _Number
    typical: _Number
    high: _Number

    @classmethod
    def of(cls, value: _Number) -> Estimate:
        """Return an estimate without uncertainty."""
        return cls(value, value, value)

    @classmethod
    def total(cls, estimates: Iterable[Estimate]) -> Estimate:
        """Return the sum; zero without any."""
        return reduce(Estimate.__add__, estimates, cls.of(0))

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.low + other.low, self.typical + other.typical, self.high + other.high)

    def __mul__(self, factor: Estimate | _Number) -> Estimate:
        by = factor if isinstance(factor, Estimate) else Estimate.of(factor)
        return Estimate(self.low * by.low, self.typical * by.typical, self.high * by.high)

    __rmul__ = __mul__

    def __truediv__(self, divisor: _Number) -> Estimate:
        return Estimate(self.low / divisor, self.typical / divisor, self.high / divisor)

    def __float__(self) -> float:
        return float(self.typical)

    def map(self, function: Callable[[_Number], _Number]) -> Estimate:
        """Return the estimate of a function that does not decrease."""
        return Estimate(function(self.low), function(self.typical), function(self.high))

    def json(self) -> dict[str, float]:
        """Return the three values as floats."""
        return {"low": float(self.low), "typical": float(self.typical), "high": float(self.high)}


def _estimate(
    parse: Callable[[object], Fraction], write: Callable[[Fraction], str], what: str, example: str
) -> tuple[PlainValidator, PlainSerializer, WithJsonSchema]:
    allowed = f'one value such as "{example}", or a list of three: low, typical, high'

    def read(value: object) -> Estimate:
        if isinstance(value, Estimate):
            value = [write(Fraction(value.low)), write(Fraction(value.typical)), write(Fraction(value.high))]
        if not isinstance(value, list | tuple):
            return Estimate.of(parse(value))
        if len(value) != 3:
            raise InputError(f"{shown(value)} has {len(value)} values", allowed=allowed)
        numbers = [parse(item) for item in value]
        if sorted(numbers) != numbers:
            raise InputError(f"{shown(value)} does not increase", allowed=allowed)
        return Estimate(*numbers)

    def put(estimate: Estimate) -> str | list[str]:
        texts = [write(Fraction(value)) for value in (estimate.low, estimate.typical, estimate.high)]
        return texts[0] if len(set(texts)) == 1 else texts

    schema: dict[str, Any] = {"type": "string", "format": what, "examples": [example]}
    return PlainValidator(read), PlainSerializer(put), WithJsonSchema(schema)


_Type = tuple[PlainValidator, PlainSerializer, WithJsonSchema]


def _of(units: Mapping[str, Fraction], what: str, example: str) -> _Type:
    def parse(text: object) -> Fraction:
        return parse_quantity(text, units, what, example)

    def write(value: Fraction) -> str:
        return format_quantity(value, units)

    return _estimate(parse, write, f"{what} (or low, typical, high)", example)


def _plain(least: int, most: int, what: str, example: str) -> _Type:
    allowed = f"a number from {least} to {most}, such as {example}"

    def parse(value: object) -> Fraction:
        number = exact(value)
        if number is None or not least <= number <= most:
            raise InputError(f"{shown(value)} is not a {what}", allowed=allowed)
        return number

    return _estimate(parse, decimal, f"{what} (or low, typical, high)", example)


Power = Annotated[Estimate, *_of(WATTS, "power", "20 W")]
EnergyPerBit = Annotated[Estimate, *_of(JOULES_PER_BIT, "energy per bit", "5 pJ/bit")]
Price = Annotated[Estimate, *_of(DOLLARS, "price", "30 k$")]
PricePerRate = Annotated[Estimate, *_of(DOLLARS_PER_RATE, "price per bandwidth", "4 $/GBps")]
PricePerEnergy = Annotated[Estimate, *_of(DOLLARS_PER_JOULE, "price of electricity", "0.08 $/kWh")]
PricePerByte = Annotated[Estimate, *_of(DOLLARS_PER_BYTE, "price per capacity", "5 $/GB")]
IdleShare = Annotated[Estimate, *_plain(0, 1, "share", "0.9")]
Overhead = Annotated[Estimate, *_plain(1, 10, "factor", "1.2")]
