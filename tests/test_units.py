"""Units: exact both ways for every number, and a clear refusal for everything else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.units import (
    MAX_BYTES,
    MAX_CYCLES,
    Cycles,
    format_bandwidth,
    format_bytes,
    format_duration,
    format_flops,
    format_frequency,
    format_time,
    format_time_ns,
    parse_bandwidth,
    parse_bytes,
    parse_duration,
    parse_flops,
    parse_frequency,
    parse_time,
    to_cycles,
    to_seconds,
)
from tests.examples import part_of
from tests.in_turn import in_turn

PARSERS: list[Callable[[object], Any]] = [
    parse_bytes,
    parse_bandwidth,
    parse_time,
    parse_duration,
    parse_frequency,
    parse_flops,
]
GHZ = Fraction(10**9)


@in_turn(
    ("parse", "text", "value"),
    [
        (parse_bytes, "1 B", 1),
        (parse_bytes, "1 kB", 1000),
        (parse_bytes, "1 MB", 1000**2),
        (parse_bytes, "1 GB", 1000**3),
        (parse_bytes, "1 TB", 1000**4),
        (parse_bytes, "1 KiB", 1024),
        (parse_bytes, "1 MiB", 1024**2),
        (parse_bytes, "1 GiB", 1024**3),
        (parse_bytes, "1 TiB", 1024**4),
        (parse_bytes, "1.5KiB", 1536),
        (parse_bytes, " 1_000 B ", 1000),
        (parse_bytes, "64 bit", 8),
        (parse_bytes, "1 Mbit", 125_000),
        (parse_bytes, "0 B", 0),
        (parse_bandwidth, "100 GB/s", 10**11),
        (parse_bandwidth, "800 Gb/s", 10**11),
        (parse_bandwidth, "800 Gbps", 10**11),
        (parse_bandwidth, "1 GiB/s", 2**30),
        (parse_bandwidth, "8 Mib/s", 2**20),
        (parse_bandwidth, "8 kbit/s", 1000),
        (parse_bandwidth, "1/3 B/s", Fraction(1, 3)),
        (parse_time, "500 ns", Fraction(1, 2 * 10**6)),
        (parse_time, "1.5 us", Fraction(3, 2 * 10**6)),
        (parse_time, "2 \u00b5s", Fraction(2, 10**6)),
        (parse_time, "2 \u03bcs", Fraction(2, 10**6)),
        (parse_time, "3 ps", Fraction(3, 10**12)),
        (parse_time, "7 fs", Fraction(7, 10**15)),
        (parse_time, "4 ms", Fraction(4, 10**3)),
        (parse_time, "1e-9 s", Fraction(1, 10**9)),
        (parse_duration, "1 cycle", Cycles(1)),
        (parse_duration, "12 cycles", Cycles(12)),
        (parse_duration, "1 ns", Fraction(1, 10**9)),
        (parse_frequency, "1 GHz", 10**9),
        (parse_frequency, "1.2e3 MHz", 12 * 10**8),
        (parse_flops, "312 TFLOP/s", 312 * 10**12),
        (parse_flops, "2.25 PFLOPS", 225 * 10**13),
    ],
)
def test_texts_mean_exactly_this(parse: Callable[[object], Any], text: str, value: object) -> None:
    assert parse(text) == value
    assert not isinstance(parse(text), float)


@in_turn(
    ("parse", "text", "message"),
    [
        (parse_bytes, "5", "has no unit"),
        (parse_bytes, 5, "5 has no unit"),
        (parse_bytes, 5.0, "has no unit"),
        (parse_bytes, True, "true is not a size"),
        (parse_bytes, None, "None is not a size"),
        (parse_bytes, [], "is not a size"),
        (parse_bytes, "", "is not a size"),
        (parse_bytes, "B", "is not a size"),
        (parse_bytes, "1.3 B", "not a whole number of bytes"),
        (parse_bytes, "1 bit", "not a whole number of bytes"),
        (parse_bytes, "64 b", "stands for bits; allowed: 'B' (bytes) or 'bit' (bits); did you mean '64 B'?"),
        (parse_bytes, "1 Mib", "allowed: 'MiB' (bytes) or 'Mibit' (bits); did you mean '1 MiB'?"),
        (parse_bytes, "1.5Gb ", "did you mean '1.5GB'?"),
        (parse_bytes, "1 Mb/s", "is not a unit of size"),
        (parse_bytes, "1 KB", "'kB' (1000) or 'KiB' (1024)"),
        (parse_bytes, "1 kib", "did you mean 'KiB'?"),
        (parse_bytes, "1 ns", "'ns' in '1 ns' is not a unit of size"),
        (parse_bytes, "-1 B", "negative"),
        (parse_bytes, "nan B", "is not a size"),
        (parse_bytes, "inf B", "is not a size"),
        (parse_bytes, "1 000 B", "is not a size"),
        (parse_bytes, "1__0 B", "is not a size"),
        (parse_bytes, "\u0663 B", "is not a size"),  # a digit, but not one that this format knows
        (parse_bytes, "1e999 B", "power of ten"),
        (parse_bytes, "1e9999 B", "is not a unit of size"),
        (parse_bytes, "9" * 10_000 + " B", "is not a size"),
        (parse_bytes, f"{2**62 + 1} B", "too large"),
        (parse_bandwidth, "fast", "'fast' is not a bandwidth"),
        (parse_bandwidth, "100 GB", "did you mean 'GB/s'?"),
        (parse_bandwidth, "100 gb/s", "did you mean 'GB/s'?"),
        (parse_bandwidth, "1/0 B/s", "divides by zero"),
        (parse_bandwidth, "inf GB/s", "is not a bandwidth"),
        (parse_time, "1 cycle", "'cycle' in '1 cycle' is not a unit of time"),
        (parse_time, "5 GHz", "is not a unit of time"),
        (parse_time, "1e10 s", "too large"),
        (parse_duration, "1.5 cycles", "not a whole number of cycles"),
        (parse_duration, f"{MAX_CYCLES + 1} cycles", "too large"),
        (parse_duration, "2 bicycles", "is not a unit of time"),
        (parse_frequency, "1 ns", "is not a unit of frequency"),
        (parse_frequency, "1 PHz", None),
        (parse_frequency, "1.1 PHz", "at most 1 PHz"),
        (parse_flops, "1 TB/s", "is not a unit of computing speed"),
    ],
)
def test_refusals_say_why(parse: Callable[[object], Any], text: object, message: str | None) -> None:
    if message is None:  # the largest value that is allowed
        parse(text)
        return
    with pytest.raises(InputError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


def parsed_or_error(parse: Callable[[object], Any], text: str) -> object:
    try:
        return parse(text)
    except InputError as error:
        return error


@given(st.text(), st.sampled_from(PARSERS))
def test_any_text_is_parsed_or_refused_as_input(text: str, parse: Callable[[object], Any]) -> None:
    # Anything but a value or an InputError fails here by itself.
    assert isinstance(parsed_or_error(parse, text), int | Fraction | Cycles | InputError)


@given(
    st.from_regex(r"\s*[0-9_.eE+\-/]{1,12} ?[kMGKTi]{0,2}[Bbscp/Hznu]{0,4}", fullmatch=True), st.sampled_from(PARSERS)
)
def test_almost_quantities_are_parsed_or_refused_as_input(text: str, parse: Callable[[object], Any]) -> None:
    result = parsed_or_error(parse, text)
    assert isinstance(result, int | Fraction | Cycles) or "allowed" in str(result)


@given(st.integers(0, MAX_BYTES))
def test_every_size_reads_back(nbytes: int) -> None:
    assert parse_bytes(format_bytes(nbytes)) == nbytes


FRACTIONS = st.fractions(min_value=0, max_value=10**9, max_denominator=10**12)


@given(FRACTIONS)
def test_every_rational_quantity_reads_back(value: Fraction) -> None:
    assert parse_bandwidth(format_bandwidth(value)) == value
    assert parse_time(format_time(value)) == value
    assert parse_duration(format_duration(value)) == value
    assert parse_frequency(format_frequency(value)) == value
    assert parse_flops(format_flops(value)) == value


@given(st.integers(0, MAX_CYCLES))
def test_cycles_read_back(count: int) -> None:
    assert parse_duration(format_duration(Cycles(count))) == Cycles(count)


@settings(max_examples=part_of(100))
@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(["B", "kB", "MB", "KiB", "MiB"]))
def test_decimals_are_read_without_rounding(whole: int, thousandths: int, unit: str) -> None:
    # Independent reading: all digits as one integer of thousandths, then one multiplication.
    scale = {"B": 1, "kB": 10**3, "MB": 10**6, "KiB": 2**10, "MiB": 2**20}[unit]
    exact = Fraction((whole * 1000 + thousandths) * scale, 1000)
    text = f"{whole}.{thousandths:03d} {unit}"
    assert parse_bandwidth(f"{text}/s") == exact
    if exact.denominator == 1:
        assert parse_bytes(text) == exact
    else:
        with pytest.raises(InputError, match="whole number"):
            parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 KiB", 4096),
        ("256 B", 256),
        ("1.5 KiB", 1536),
        ("1 kB", 1000),
        ("1 MiB", 2**20),
        ("0 B", 0),
        ("1 TiB", 2**40),
    ],
)
def test_sizes_are_shown_in_the_shortest_exact_way(text: str, value: int) -> None:
    assert format_bytes(value) == text


def test_the_other_quantities_are_shown_as_people_write_them() -> None:
    assert format_bandwidth(Fraction(10**11)) == "100 GB/s"
    assert format_bandwidth(Fraction(0)) == "0 B/s"
    assert format_bandwidth(Fraction(1, 3)) == "1/3 B/s"
    assert format_time(Fraction(1, 2 * 10**6)) == "500 ns"
    assert format_time(Fraction(0)) == "0 ns"
    assert format_time(Fraction(1, 10**16)) == "0.1 fs"
    assert format_frequency(GHZ) == "1 GHz"
    assert format_duration(Cycles(1)) == "1 cycle"
    assert format_duration(Cycles(0)) == "0 cycles"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (10, "10 ns"),
        (999, "999 ns"),
        (1000, "1 us"),
        (12_345, "12.34 us"),  # a half goes to the even digit
        (1_234_567, "1.235 ms"),
        (999_999, "1.000 ms"),
        (2 * 10**12, "2000 s"),
        (Fraction(1, 3), "333.3 ps"),
    ],
)
def test_simulated_times_are_shown_to_four_digits(nanoseconds: int | Fraction, text: str) -> None:
    assert format_time_ns(nanoseconds) == text


def test_latencies_are_rounded_up_to_cycles_and_say_when_it_matters() -> None:
    assert to_cycles(parse_time("500 ns"), GHZ) == (500, False)
    assert to_cycles(parse_time("1.5 ns"), GHZ) == (2, True)  # 33 % longer
    assert to_cycles(parse_time("99.5 ns"), GHZ) == (100, False)  # 0.503 %
    assert to_cycles(parse_time("99 ns"), GHZ) == (99, False)
    assert to_cycles(Fraction(100, 101) / GHZ * 100, GHZ) == (100, False)  # 99.0099 -> 100 is exactly 1 %: not more
    assert to_cycles(Fraction(0), GHZ) == (0, False)
    assert to_cycles(Cycles(7), GHZ) == (7, False)


@given(FRACTIONS, st.fractions(min_value=1, max_value=10**12, max_denominator=1000))
def test_cycles_cover_the_duration_and_no_cycle_more(seconds: Fraction, clock: Fraction) -> None:
    cycles, changed = to_cycles(seconds, clock)
    assert cycles / clock >= seconds
    assert cycles == 0 or (cycles - 1) / clock < seconds
    assert changed == (cycles / clock > seconds * Fraction(101, 100))
    assert to_seconds(Cycles(cycles), clock) == cycles / clock
    assert to_seconds(seconds, clock) == seconds
