"""A configuration of BookSim2 as typed values; faults are collected and raised together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pyxsim.compat.booksim.keys import DEFAULTS, ONLY, UNUSED
from pyxsim.compat.booksim.syntax import Entry, Named, Value, parse_value, text_of
from pyxsim.errors import InputError, closest, raise_all

T = TypeVar("T")
_MOST = 2**31 - 1
_OWN = Entry("", "BookSim2's default")


class Config:
    """The assignments of files and the command line, with BookSim2's defaults.

    `notes`: lines for the user. `file`: named in faults of keys that are not given.
    """

    def __init__(self, entries: Mapping[str, Entry], file: str | None = None) -> None:
        self.entries = dict(entries)
        self.file = file
        self.faults: list[InputError] = []
        self.notes: list[str] = []
        self._values: dict[str, Value | None] = {}
        for key, entry in self.entries.items():
            if key not in DEFAULTS:
                self.faults.append(
                    InputError("unknown key", file=_file(key, entry), key=key, allowed="a key of BookSim2" + _near(key))
                )
        self._only_and_unused()

    def _only_and_unused(self) -> None:
        for key, (words, why) in ONLY.items():
            if key in self.entries and not self._is(key, words):
                self.fault(key, f"{self.entries[key].text} is not in this version: {why}", allowed=", ".join(words))
        for key, why in UNUSED.items():
            if key in self.entries and not self._is(key, (DEFAULTS[key],)):
                self.note(key, f"changes nothing: {why}")

    def _is(self, key: str, words: Iterable[str]) -> bool:
        value = self.value(key)
        shown = f"{value:g}" if isinstance(value, int | float) else "" if value is None else text_of(value)
        numbers = [f"{float(word):g}" if word.replace(".", "").lstrip("-").isdigit() else word for word in words]
        return shown in numbers

    # --- faults and notes ---

    def fault(self, key: str, problem: str, *, allowed: str | Iterable[str] | None = None, given: str = "") -> None:
        """Collect a fault of a key."""
        entry = self.entries.get(key, _OWN)
        words = allowed if allowed is None or isinstance(allowed, str) else tuple(allowed)
        file = _file(key, entry) if key in self.entries else self.file
        self.faults.append(InputError(problem, file=file, key=key, allowed=words, given=given or None))

    def note(self, key: str, text: str) -> None:
        """Collect a line for the user."""
        entry = self.entries.get(key, _OWN)
        place = f"{_file(key, entry)}: " if _file(key, entry) else ""
        line = f"{place}{key}: {text}"
        if line not in self.notes:
            self.notes.append(line)

    def given(self, key: str) -> bool:
        """Whether a key is assigned."""
        return key in self.entries

    def sound(self, *keys: str) -> bool:
        """Whether these keys have no faults so far."""
        return not any(fault.key in keys for fault in self.faults)

    def finish(self) -> None:
        """Raise all faults together."""
        raise_all(self.faults)

    # --- values ---

    def value(self, key: str) -> Value | None:
        """Return the value of a key, None for an empty text."""
        if key not in self._values:
            entry = self.entries.get(key)
            text = DEFAULTS[key] if entry is None else entry.text
            value: Value | None = None
            try:
                value = parse_value(text) if text else None
            except ValueError:
                self.fault(key, f"'{text[:60]}' is not a value", allowed="a number, a name, name(..) or a list {..}")
            self._values[key] = value
        return self._values[key]

    def count(self, key: str, least: int = 0, most: int = _MOST) -> int:
        """Return an integer."""
        return self._read(key, self.value(key), lambda value: _count(value, least, most), _whole(least, most), least)

    def number(self, key: str) -> float:
        """Return a number; integers are accepted (BookSim2 refuses them for its float fields)."""
        return self._read(key, self.value(key), _float, "a number", 0.0)

    def flag(self, key: str) -> bool:
        """Return whether an integer is positive."""
        return self.count(key) > 0

    def named(self, key: str) -> Named:
        """Return a name, possibly with arguments."""
        return self._read(key, self.value(key), _named, "a name", Named(""))

    def word(self, key: str, words: Mapping[str, T], what: str = "") -> T | None:
        """Return the entry of `words` for a name, or None after adding a fault."""
        name = self.named(key).name
        if name in words:
            return words[name]
        if self.sound(key):
            problem = f"'{name}' is not in this version" if not what else f"'{name}' {what}"
            self.fault(key, problem, allowed=list(words), given=name)
        return None

    def text(self, key: str) -> str:
        """Return the text of a value."""
        entry = self.entries.get(key)
        return DEFAULTS[key] if entry is None else entry.text

    def per_class(self, key: str, classes: int, read: Callable[[Value], T], what: str, default: T) -> list[T]:
        """Return one value per class; a short list is extended by its last value, as in BookSim2."""
        value = self.value(key)
        items = list(value) if isinstance(value, tuple) else [] if value is None else [value]
        if not items:
            self.fault(key, "is empty", allowed=what)
        values = [self._read(key, item, read, what, default) for item in items[:classes]] or [default]
        return values + [values[-1]] * (classes - len(values))

    def counts(self, key: str, classes: int, least: int = 0, most: int = _MOST) -> list[int]:
        """Return one integer per class."""
        return self.per_class(key, classes, lambda v: _count(v, least, most), _whole(least, most), least)

    def numbers(self, key: str, classes: int) -> list[float]:
        """Return one number per class."""
        return self.per_class(key, classes, _float, "a number", 0.0)

    def _read(self, key: str, value: Value | None, read: Callable[[Any], T], what: str, default: T) -> T:
        try:
            if value is None:
                raise ValueError
            return read(value)
        except ValueError:
            if self.sound(key):
                shown = "nothing" if value is None else text_of(value)
                self.fault(key, f"{shown} is none of what is allowed", allowed=what)
            return default


def _near(key: str) -> str:
    return closest(key, DEFAULTS)


def _file(key: str, entry: Entry) -> str | None:
    """Place of a value; None for the command line, which names the key only."""
    return entry.place if entry.place and entry is not _OWN and entry.place != key else None


def _whole(least: int, most: int) -> str:
    return f"a whole number from {least}" + (f" to {most}" if most != _MOST else "")


def _count(value: Value, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError
    return value


def _float(value: Value) -> float:
    if not isinstance(value, int | float):
        raise ValueError
    return float(value)


def _named(value: Value) -> Named:
    if not isinstance(value, Named):
        raise ValueError
    return value
