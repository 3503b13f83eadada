"""JSON files of ASTRA-sim: one object. Numbers are read exactly."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

from pyxsim.file_entries import Entries, PathLike
from pyxsim.textfile import read_text

_KEY = re.compile(r'("(?:[^"\\]|\\.)*")\s*:')
_WHAT = 'a JSON object such as { "key": 1 }'
_MOST_DIGITS = 40  # limits the cost of exact arithmetic on hostile input


class Json(Entries):
    """A file with one JSON object. Raises InputError if it is not."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        text = read_text(path)
        try:
            pairs = json.loads(
                text, parse_float=_number, parse_int=_number, parse_constant=_no_number, object_pairs_hook=_Object
            )
        except json.JSONDecodeError as error:
            self.broken(f"is no JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno, _WHAT)
        except (_NoNumber, RecursionError) as error:
            self.broken(f"is no JSON that makes sense: {error}", None, _WHAT)
        if not isinstance(pairs, _Object):
            self.broken("is no JSON object", None, _WHAT)
        lines = _lines(text)
        for key, value in pairs:
            places = lines.get(key, [1])
            self.add(key, _without_null(value), places[min(len(places) - 1, int(key in self.entries))])


class _Object(list[tuple[str, Any]]):
    """The pairs of an object, with duplicates."""


class _Null:
    """A null, which no key accepts; None would mean that the key is missing."""

    def __str__(self) -> str:
        return "null"


def _without_null(value: Any) -> Any:
    if type(value) is list:
        return [_without_null(item) for item in value]
    return _Null() if value is None else value


class _NoNumber(Exception):
    pass


def _number(text: str) -> Fraction:
    if len(text) > _MOST_DIGITS or len(text.lower().partition("e")[2]) > 3:
        raise _NoNumber(f"the number {text[:20]}...")
    return Fraction(text)


def _no_number(text: str) -> Fraction:
    raise _NoNumber(f"{text} is no number")


def _lines(text: str) -> dict[str, list[int]]:
    """Line numbers of each key, including those inside values."""
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        for match in _KEY.finditer(line):
            numbers.setdefault(json.loads(match[1], strict=False), []).append(number)
    return numbers
