"""Traces of requests: when each arrives, and how many tokens its prompt and its output have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.settings.serving import MOST_REQUESTS, MOST_TOKENS
from pyxsim.settings.types import exact
from pyxsim.textfile import read_text

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

    Dates count from the first one. Raises InputError with the line.
    """
    found: list[Arrival] = []
    empty = 0
    first: Fraction | None = None
    rows = _json_rows(path) if path.suffix in (".jsonl", ".json") else _csv_rows(path)
    for place, row in rows:
        form = next((form for form in FORMS if {form.time, form.prompt, form.output} <= row.keys()), None)
        if form is None:
            known = "; ".join(f"{form.time}, {form.prompt}, {form.output}" for form in FORMS)
            raise InputError(f"the columns are {', '.join(row)[:80]}", file=place, allowed=known)
        time = _date(row[form.time], place) if form.unit is None else _time(row[form.time], form.unit, place)
        if form.unit is None:
            first = time if first is None else first
            time -= first
        if not 0 <= time <= _LATEST:
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
    return sorted(found, key=lambda arrival: arrival.time), empty


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(io.StringIO(read_text(path, "a trace of requests")), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError("is not a line of JSON", file=place) from None
        if not isinstance(row, dict):
            raise InputError("is not an object", file=place, allowed='{"arrival_time": 0.5, "prompt_tokens": 9, ...}')
        yield place, {key.lower(): value for key, value in row.items()}


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(read_text(path, "a trace of requests")))
    header = [name.strip().lower() for name in next(reader, [])]
    for number, row in enumerate(reader, 2):
        if not row:
            continue
        if len(row) != len(header):
            problem = f"the row has {len(row)} entries, and the header {len(header)}"
            raise InputError(problem, file=f"{path}:{number}")
        yield f"{path}:{number}", dict(zip(header, row, strict=True))


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
