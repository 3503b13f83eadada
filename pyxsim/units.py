"""Parse and format quantities with units as exact numbers: "4 KiB", "100 GB/s", "500 ns", "1 GHz", "312 TFLOP/s".

Values are int or fractions.Fraction in base units (bytes, bytes per second, seconds, hertz, operations per second),
never float, so the simulated value is exactly the written one. kB, MB, GB, TB are powers of 1000 and KiB, MiB, GiB, TiB
powers of 1024 (IEC 80000-13). In a rate, b is a bit ("800 Gb/s"); in a size, where it is usually a typing error, bits
are spelled out ("128 bit"). Invalid texts raise InputError (a ValueError).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pyxsim.errors import InputError, nearest

MAX_BYTES = 2**62  # sizes and their sums stay inside a signed 64-bit integer
MAX_CYCLES = 2**40  # about 18 minutes at 1 GHz, longer than any hardware delay
_MAX_RATE = Fraction(MAX_BYTES)
_MAX_HERTZ = Fraction(10**15)
_MAX_SECONDS = Fraction(10**9)
_MAX_FLOPS = Fraction(10**24)
_MOST_OF_OTHERS = Fraction(10**15)


@dataclass(frozen=True, order=True)
class Cycles:
    """A duration in clock cycles instead of seconds."""

    count: int


Duration = Fraction | Cycles

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = {**_DECIMAL, **_BINARY}

_BYTES: dict[str, Fraction] = {f"{p}B": Fraction(f) for p, f in _PREFIXES.items()}
_BITS: dict[str, Fraction] = {f"{p}bit": Fraction(f, 8) for p, f in _PREFIXES.items()}
_LETTERS: dict[str, Fraction] = {f"{p}b": Fraction(f, 8) for p, f in _PREFIXES.items()}
_SIZES = {**_BYTES, **_BITS}
_RATES = {f"{u}{per}": f for per in ("/s", "ps") for u, f in (_SIZES | _LETTERS).items()}
_TIMES: dict[str, Fraction] = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "\u00b5s": Fraction(1, 10**6),  # micro sign
    "\u03bcs": Fraction(1, 10**6),  # Greek mu, which looks the same
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15),
}
_FREQUENCIES: dict[str, Fraction] = {f"{p}Hz": Fraction(f) for p, f in _DECIMAL.items()}
_FLOPS = {f"{p}{unit}": Fraction(f) for p, f in _DECIMAL.items() for unit in ("FLOP/s", "FLOPS")}
_CYCLE_WORDS = ("cycle", "cycles")

# Digits with optional decimals and power of ten; or a ratio of integers, which can express 1/3 exactly.
_QUANTITY = re.compile(
    r"\s*(?P<sign>[+-]?)(?P<digits>\d(?:_?\d)*)"
    r"(?:(?:\.(?P<decimals>\d(?:_?\d)*))?(?:[eE](?P<power>[+-]?\d{1,3}))?|/(?P<below>\d(?:_?\d)*))"
    r"\s*(?P<unit>[^\d\s+\-._/].*?)?\s*",
    re.ASCII,
)
_MAX_TEXT = 200  # limits the cost of exact arithmetic on hostile input
_MAX_POWER = 60
_MAX_PLACES = 15  # more decimals are written as a power of ten


def _shown(text: object) -> str:
    shown = repr(text) if isinstance(text, str) else str(text).lower() if isinstance(text, bool) else f"{text}"
    return shown if len(shown) <= 60 else f"{shown[:56]}..."


def _split(text: object, what: str, example: str) -> tuple[Fraction, str]:
    """Split a text into number and unit (may be ""). Raises InputError for other or negative texts."""
    allowed = f"a number with a unit such as '{example}'"
    if not isinstance(text, str):
        if isinstance(text, int | float) and not isinstance(text, bool):
            raise InputError(f"{_shown(text)} has no unit", allowed=allowed)
        raise InputError(f"{_shown(text)} is not a {what}", allowed=allowed)
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise InputError(f"{_shown(text)} is not a {what}", allowed=allowed)
    power = int(match["power"] or 0)
    if abs(power) > _MAX_POWER:
        raise InputError(f"the power of ten of {_shown(text)} is out of range", allowed=allowed)
    if match["below"] is not None and int(match["below"]) == 0:
        raise InputError(f"{_shown(text)} divides by zero", allowed=allowed)
    number = Fraction(int(match["digits"]), int(match["below"] or 1))
    if match["decimals"]:
        decimals = match["decimals"].replace("_", "")
        number += Fraction(int(decimals), 10 ** len(decimals))
    number *= Fraction(10) ** power
    if match["sign"] == "-" and number:
        raise InputError(f"{_shown(text)} is negative", allowed=allowed)
    return number, match["unit"] or ""


def _scale(unit: str, text: object, units: Mapping[str, Fraction], what: str, example: str) -> Fraction:
    if unit in units:
        return units[unit]
    allowed = f"a number with a unit such as '{example}'"
    if not unit:
        raise InputError(f"{_shown(text)} has no unit", allowed=allowed)
    if units is _SIZES and unit in _LETTERS:
        byte = f"{unit[:-1]}B"
        either = f"'{byte}' (bytes) or '{unit}it' (bits)"
        meant = f"; did you mean '{str(text).strip().removesuffix(unit)}{byte}'?" if len(str(text)) <= 60 else ""
        raise InputError(f"the unit '{unit}' in {_shown(text)} stands for bits", allowed=either + meant)
    if unit[0] == "K" and "k" + unit[1:] in units:
        # KB is 1000 in some programs and 1024 in others.
        either = f"'k{unit[1:]}' (1000) or 'Ki{unit[1:]}' (1024)"
        raise InputError(f"the unit '{unit}' in {_shown(text)} is ambiguous", allowed=either)
    near = nearest(unit, [u for u in units if len(u) > 1 and not u.endswith(("Bps", "bps", "bit", "bitps", "bit/s"))])
    hint = f"; did you mean '{near}'?" if near is not None else ""
    raise InputError(f"'{unit}' in {_shown(text)} is not a unit of {what}", allowed=allowed + hint)


def _parse(text: object, units: Mapping[str, Fraction], what: str, example: str, most: Fraction) -> Fraction:
    number, unit = _split(text, what, example)
    value = number * _scale(unit, text, units, what, example)
    if value > most:
        raise InputError(f"{_shown(text)} is too large", allowed=f"a {what} of at most {_format(most, units)}")
    return value


def parse_bytes(text: object) -> int:
    """Return a size in bytes: parse_bytes("1.5 KiB") == 1536. Bits must fill whole bytes ("64 bit" is 8)."""
    value = _parse(text, _SIZES, "size", "4 KiB", Fraction(MAX_BYTES))
    if value.denominator != 1:
        raise InputError(f"{_shown(text)} is not a whole number of bytes", allowed="a size such as '4 KiB'")
    return value.numerator


def parse_bandwidth(text: object) -> Fraction:
    """Return bytes per second: parse_bandwidth("800 Gb/s") == parse_bandwidth("100 GB/s") == 10**11."""
    return _parse(text, _RATES, "bandwidth", "100 GB/s", _MAX_RATE)


def parse_time(text: object) -> Fraction:
    """Return seconds: parse_time("500 ns") == Fraction(1, 2_000_000)."""
    return _parse(text, _TIMES, "time", "500 ns", _MAX_SECONDS)


def parse_duration(text: object) -> Duration:
    """Return seconds as `parse_time`, or Cycles for a text such as "1 cycle"."""
    if isinstance(text, str) and text.rstrip().endswith(_CYCLE_WORDS):
        number, unit = _split(text, "time", "500 ns' or '1 cycle")
        if unit in _CYCLE_WORDS:
            if number.denominator != 1:
                raise InputError(f"{_shown(text)} is not a whole number of cycles", allowed="such as '1 cycle'")
            if number > MAX_CYCLES:
                raise InputError(f"{_shown(text)} is too large", allowed=f"at most {MAX_CYCLES} cycles")
            return Cycles(number.numerator)
    return _parse(text, _TIMES, "time", "500 ns' or '1 cycle", _MAX_SECONDS)


def parse_frequency(text: object) -> Fraction:
    """Return hertz: parse_frequency("1 GHz") == 10**9."""
    return _parse(text, _FREQUENCIES, "frequency", "1 GHz", _MAX_HERTZ)


def parse_flops(text: object) -> Fraction:
    """Return operations (additions, multiplications) per second: parse_flops("312 TFLOP/s") == 312 * 10**12."""
    return _parse(text, _FLOPS, "computing speed", "312 TFLOP/s", _MAX_FLOPS)


def parse_quantity(text: object, units: Mapping[str, Fraction], what: str, example: str) -> Fraction:
    """Return a quantity of another kind in its base unit; `units`: value of each unit, `what`: name of the kind."""
    return _parse(text, units, what, example, _MOST_OF_OTHERS)


def format_quantity(value: Fraction, units: Mapping[str, Fraction]) -> str:
    """Exact inverse of `parse_quantity`: the shortest text."""
    return _format(Fraction(value), units) if value else f"0 {next(iter(units))}"


_KINDS: tuple[Mapping[str, Fraction], ...] = (
    *(_SIZES, _RATES, _TIMES, _FREQUENCIES, _FLOPS),
    dict.fromkeys(_CYCLE_WORDS, Fraction(1)),
)


def in_one_unit(first: str, *others: object) -> tuple[str, list[Fraction]]:
    """Convert quantities of one kind to the unit of the first: ("4 KiB", "1 MiB") is ("KiB", [4, 1024])."""
    _, unit = _split(first, "quantity", "4 KiB")
    kind = next((kind for kind in _KINDS if unit in kind), None)
    if kind is None:
        raise InputError(f"{_shown(first)} has no known unit", allowed="a number with a unit such as '4 KiB'")
    numbers = []
    for text in (first, *others):
        number, own = _split(text, "quantity like " + _shown(first), first)
        numbers.append(number * _scale(own, text, kind, f"the kind of {_shown(first)}", first) / kind[unit])
    return unit, numbers


_BASE_UNITS = (("B", _SIZES), ("B/s", _RATES), ("ns", _TIMES), ("Hz", _FREQUENCIES), ("FLOP/s", _FLOPS))


def base_numbers(texts: Iterable[str]) -> tuple[str, list[int | float]]:
    """Return quantities of one kind as numbers with their unit: B, B/s, ns, Hz, FLOP/s or cycles.

    base_numbers(["4 KiB", "1 MiB"]) is ("B", [4096, 1048576]). Raises InputError.
    """
    unit, numbers = in_one_unit(*texts)
    base, scale = next(((base, kind[unit] / kind[base]) for base, kind in _BASE_UNITS if unit in kind), ("cycles", 1))
    exact = [number * scale for number in numbers]
    return base, [number.numerator if number.denominator == 1 else float(number) for number in exact]


def decimal(number: Fraction) -> str:
    """Return an exact text: "1.5", or "1/3" where no decimal fraction is exact."""
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{number.numerator}/{number.denominator}"
    places = max(twos, fives)
    if places > _MAX_PLACES:
        return f"{number.numerator * 10**places // number.denominator}e-{places}"
    digits = str(number.numerator * 10**places // number.denominator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def nine_places(number: Fraction) -> str:
    """Return a number rounded to nine places after the point, without trailing zeros, for files of other tools."""
    return f"{float(number):.9f}".rstrip("0").rstrip(".") or "0"


def _format(value: Fraction, units: Mapping[str, Fraction]) -> str:
    """The shortest exact text with a number of at least 1; among equals that with the larger unit."""
    fitting = [u for u in units if value >= units[u]] or [min(units, key=lambda u: units[u])]
    numbers = {u: decimal(value / units[u]) for u in fitting}
    best = min(fitting, key=lambda u: (len(numbers[u].replace(".", "")), -units[u]))
    return f"{numbers[best]} {best}"


def quantity(number: Fraction, unit: str) -> str:
    """Return a short exact text: (1024, "KiB") is "1 MiB". Uncommon units are kept."""
    shown = next((table for table in (_BYTES, _SHOWN_RATES, _SHOWN_TIMES) if unit in table), None)
    return f"{decimal(number)} {unit}" if shown is None or not number else _format(number * shown[unit], shown)


_SHOWN_RATES = {f"{p}B/s": Fraction(f) for p, f in _PREFIXES.items()}
_SHOWN_FLOPS = {f"{p}FLOP/s": Fraction(f) for p, f in _DECIMAL.items()}
_SHOWN_TIMES = {u: f for u, f in _TIMES.items() if u.isascii()}


def format_bytes(nbytes: int) -> str:
    """Exact inverse of parse_bytes: 4096 -> "4 KiB"."""
    return _format(Fraction(nbytes), _BYTES)


def format_bandwidth(bandwidth: Fraction) -> str:
    """Exact inverse of parse_bandwidth: 10**11 -> "100 GB/s"."""
    return _format(Fraction(bandwidth), _SHOWN_RATES)


def format_time(seconds: Fraction) -> str:
    """Exact inverse of parse_time: 1/2_000_000 -> "500 ns"."""
    return _format(Fraction(seconds), _SHOWN_TIMES) if seconds else "0 ns"


def format_duration(duration: Duration) -> str:
    """Exact inverse of parse_duration."""
    if isinstance(duration, Cycles):
        return f"{duration.count} cycle{'' if duration.count == 1 else 's'}"
    return format_time(duration)


def format_frequency(hertz: Fraction) -> str:
    """Exact inverse of parse_frequency: 10**9 -> "1 GHz"."""
    return _format(Fraction(hertz), _FREQUENCIES)


def format_flops(flops: Fraction) -> str:
    """Exact inverse of parse_flops: 312 * 10**12 -> "312 TFLOP/s"."""
    return _format(Fraction(flops), _SHOWN_FLOPS)


def time_unit(nanoseconds: float) -> tuple[str, float]:
    """Return the unit in which a time is between 1 and 1000, and its nanoseconds."""
    units = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
    return next(((unit, size) for unit, size in units if nanoseconds >= size), ("ns", 1.0))


def format_time_ns(nanoseconds: int | Fraction) -> str:
    """Return a time to four digits for tables and reports: 1234567 -> "1.235 ms"."""
    value = Fraction(nanoseconds) / 10**9
    if not value:
        return "0 ns"
    smallest_first = sorted(_SHOWN_TIMES, key=lambda u: _SHOWN_TIMES[u])
    # Values that would round to 1000 use the next larger unit.
    unit = next((u for u in smallest_first if value < Fraction("999.95") * _SHOWN_TIMES[u]), "s")
    number = value / _SHOWN_TIMES[unit]
    places = max(0, 4 - len(str(int(number)))) if number.denominator != 1 else 0
    digits = str(round(number * 10**places)).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]} {unit}" if places else f"{digits} {unit}"


def to_cycles(duration: Duration, clock: Fraction) -> tuple[int, bool]:
    """Return a duration in cycles of a clock (Hz), rounded up, and whether rounding increased it by more than 1 %."""
    if isinstance(duration, Cycles):
        return duration.count, False
    exact = duration * clock
    cycles = -(-exact.numerator // exact.denominator)
    return cycles, (cycles - exact) * 100 > exact


def rounding_warnings(times: Iterable[tuple[str, Duration]], clock: Fraction) -> list[str]:
    """Return one line per (name, time) that `to_cycles` increases by more than 1 %."""
    lines = []
    for name, time in times:
        cycles, changed = to_cycles(time, clock)
        if changed:
            counted = format_duration(Cycles(cycles))
            lines.append(
                f"{name}: {format_duration(time)} is simulated as {counted} of the {format_frequency(clock)} clock"
            )
    return lines


def to_seconds(duration: Duration, clock: Fraction) -> Fraction:
    """Return a duration in seconds; Cycles are converted by the clock (Hz)."""
    return duration.count / clock if isinstance(duration, Cycles) else duration


def rounded(value: float, unit: str, base: int = 1000) -> str:
    """Return a number with a prefix, to about three digits: 8.49e9, "B/s" -> "8.49 GB/s"; base 1024 -> "8 KiB"."""
    prefixes = ("", "k", "M", "G", "T", "P") if base == 1000 else ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    for prefix in prefixes:
        if abs(value) < 999.5 or prefix == prefixes[-1]:
            break
        value /= base
    places = 0 if float(value).is_integer() or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{places}f} {prefix}{unit}".rstrip()


def percent(share: float) -> str:
    """0.4567 -> "45.7 %"."""
    return f"{100 * share:.1f} %"


def plural(count: int, word: str) -> str:
    """1 -> "1 link", 2000 -> "2,000 links"."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def rough_seconds(value: float) -> str:
    """Return an estimated time with two digits: "0.1 seconds", "3.5 minutes"."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if value >= 2 * length:
            return f"{float(f'{value / length:.2g}'):g} {unit}"
    return f"{float(f'{value:.2g}'):g} seconds" if value >= 0.1 else "0.1 seconds"
