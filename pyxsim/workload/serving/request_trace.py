"""Traces of requests: when each arrives, and how many tokens its prompt and its output have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.settings.serving import MOST_REQUESTS, MOST_TOKENS
from pyxsim.settings.types import exact
from pyxsim.textfile import csv_rows, json_objects

_WHAT = "a trace of requests"
_LATEST = 10**9  # seconds


class Arrival(NamedTuple):
    """A request: seconds from the start, tokens of its prompt and output."""

    time: Fraction
    prompt: int
    output: int


class _Form(NamedTuple):
    """The columns of a format, in small letters, and the unit of its times in seconds; None: dates."""

    time: str
    prompt: str
    output: str
    unit: Fraction | None


FORMS = (
    _Form("arrival_time", "prompt_tokens", "output_tokens", Fraction(1)),
    _Form("arrival_time_ns", "input_toks", "output_toks", Fraction(1, 10**9)),  # LLMServingSim
    _Form("timestamp", "contexttokens", "generatedtokens", None),  # Azure's public traces
    _Form("timestamp", "request tokens", "response tokens", Fraction(1)),  # BurstGPT
    _Form("timestamp", "input_length", "output_length", Fraction(1, 1000)),  # Mooncake
)


def read_requests(path: Path, most: int | None = None) -> tuple[list[Arrival], int]:
    """Return the requests of a trace by arrival, at most `most`, and how many without output were left out.

    Dates count from the earliest one. Raises InputError with the line.
    """
    found: list[Arrival] = []
    empty = 0
    form: _Form | None = None
    for place, row in _rows(path):
        form = next((form for form in FORMS if {form.time, form.prompt, form.output} <= row.keys()), None)
        if form is None:
            known = "; ".join(f"{form.time}, {form.prompt}, {form.output}" for form in FORMS)
            raise InputError(f"the columns are {', '.join(row)[:80]}", file=place, allowed=known)
        time = _date(row[form.time], place) if form.unit is None else _time(row[form.time], form.unit, place)
        if form.unit is not None and not 0 <= time <= _LATEST:
            raise InputError(f"a request arrives at {float(time):g} s", file=place, allowed=f"0 to {_LATEST} s")
        output = _tokens(row[form.output], 0, place, form.output)
        if not output:
            empty += 1
            continue
        found.append(Arrival(time, _tokens(row[form.prompt], 1, place, form.prompt), output))
        if len(found) > MOST_REQUESTS:
            raise InputError("too many requests", file=place, allowed=f"{MOST_REQUESTS}, or workload.serving.requests")
        if len(found) == most:
            break
    if not found:
        raise InputError("has no requests", file=str(path), allowed="a line per request")
    found.sort(key=lambda arrival: arrival.time)
    if form is not None and form.unit is None:
        found = [arrival._replace(time=arrival.time - found[0].time) for arrival in found]
    return found, empty


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the values by column, in small letters, of each row."""
    if path.suffix in (".jsonl", ".json"):
        for place, entry in json_objects(path, _WHAT, '{"arrival_time": 0.5, "prompt_tokens": 9, "output_tokens": 5}'):
            yield place, {key.lower(): value for key, value in entry.items()}
        return
    header, rows = csv_rows(path, _WHAT)
    for place, cells in rows:
        yield place, dict(zip(header, cells, strict=True))


def _time(value: Any, unit: Fraction, place: str) -> Fraction:
    number = exact(value)
    if number is None:
        raise InputError(f"{str(value)[:40]!r} is not a time", file=place, allowed="a number")
    return number * unit


def _date(value: Any, place: str) -> Fraction:
    try:
        date = datetime.fromisoformat(str(value).strip())
    except ValueError:
        allowed = "a date such as 2023-11-16 18:17:03.979"
        raise InputError(f"{str(value)[:40]!r} is not a date", file=place, allowed=allowed) from None
    days = Fraction(date.toordinal() * 86400 + date.hour * 3600 + date.minute * 60 + date.second)
    offset = date.utcoffset()
    return days + Fraction(date.microsecond, 10**6) - (0 if offset is None else int(offset.total_seconds()))


def _tokens(value: Any, least: int, place: str, column: str) -> int:
    number = exact(value)
    if number is None or number.denominator != 1 or not least <= number <= MOST_TOKENS:
        problem = f"{str(value)[:40]!r} is not a number of tokens"
        raise InputError(problem, file=place, key=column, allowed=f"{least} to {MOST_TOKENS}")
    return int(number)
