"""The syntax of BookSim2's configuration files: `key = value;`, comments after //, lists {a,b}, names with arguments.

A value is a number, a word, a list of values, or a name with arguments: `hotspot({{0,9},{1,2}})`. Blanks are allowed
everywhere; BookSim2 accepts none within braces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pyxsim.errors import InputError

MOST_DIGITS = 18
DEEPEST = 8  # nesting of lists; BookSim2 uses at most three levels

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_/.\-][\w/.+\-]*")
_KEY = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Named:
    """A name with arguments; a bare word has none. `braced`: whether they were in braces."""

    name: str
    arguments: tuple[Value, ...] = ()
    braced: bool = True

    def __str__(self) -> str:
        inside = ",".join(map(text_of, self.arguments))
        return f"{self.name}({{{inside}}})" if self.arguments else self.name


Value = int | float | Named | tuple["Value", ...]


def text_of(value: Value) -> str:
    """Return a value as it is written."""
    if isinstance(value, tuple):
        return "{" + ",".join(map(text_of, value)) + "}"
    return str(value)


class Entry(NamedTuple):
    """The text of a value and its place."""

    text: str
    place: str


def read_entries(text: str, file: str) -> dict[str, Entry]:
    """Return the assignments of a file, the last one of each key. Raises InputError."""
    entries: dict[str, Entry] = {}
    line = 1
    for piece in _pieces(_without_comments(text), file):
        blank = piece[: len(piece) - len(piece.lstrip())]
        if piece.strip():
            key, entry = _assignment(piece, f"{file}:{line + blank.count(chr(10))}")
            entries[key] = entry
        line += piece.count("\n")
    return entries


def read_overrides(words: Iterable[str]) -> dict[str, Entry]:
    """Return the assignments `key=value` of a command line. Raises InputError."""
    return dict(_assignment(word.rstrip(";"), word.partition("=")[0].strip() or word) for word in words)


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def _pieces(text: str, file: str) -> list[str]:
    *pieces, rest = text.split(";")
    if rest.strip():
        line = text.rstrip().count("\n") + 1
        raise InputError(f"'{rest.strip()[:40]}' does not end", file=f"{file}:{line}", allowed="'key = value;'")
    return pieces


def _assignment(text: str, place: str) -> tuple[str, Entry]:
    key, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not _KEY.fullmatch(key) or not value:
        raise InputError(f"'{' '.join(text.split())[:60]}' is not an assignment", file=place, allowed="'key = value;'")
    return key, Entry(" ".join(value.split()), place)


class _Reader:
    """Recursive descent over one value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, mark: str) -> bool:
        self.skip()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def value(self, depth: int = 0) -> Value:
        if depth > DEEPEST:
            raise ValueError
        if self.take("{"):
            return self.items("}", depth)
        self.skip()
        if match := _NUMBER.match(self.text, self.at):
            end = match.end()
            if end == len(self.text) or self.text[end] in ",)} \t\n":
                self.at = end
                return _number(match[0])
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise ValueError
        self.at = match.end()
        if not self.take("("):
            return Named(match[0])
        arguments = self.items(")", depth)
        braced = len(arguments) == 1 and isinstance(arguments[0], tuple)
        if braced and isinstance(arguments[0], tuple):
            return Named(match[0], arguments[0])
        return Named(match[0], arguments, braced=len(arguments) < 2)

    def items(self, end: str, depth: int) -> tuple[Value, ...]:
        items: list[Value] = []
        if self.take(end):
            return ()
        while True:
            items.append(self.value(depth + 1))
            if self.take(end):
                return tuple(items)
            if not self.take(","):
                raise ValueError


def _number(text: str) -> int | float:
    if not re.fullmatch(r"-?\d+", text):
        if math.isfinite(number := float(text)):
            return number
        raise ValueError
    if len(text) > MOST_DIGITS:
        raise ValueError
    return int(text)


def parse_value(text: str) -> Value:
    """Parse a value. Raises ValueError."""
    reader = _Reader(text)
    value = reader.value()
    reader.skip()
    if reader.at != len(text):
        raise ValueError
    return value
