"""The entries of an ASTRA-sim file: keys with values and places. A reader takes each key; the rest is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import exact

PathLike = str | Path
MOST = 2**40
MANY = 2**20  # largest number of chunks and similar counts
_FLAGS: dict[Fraction, bool] = {Fraction(0): False, Fraction(1): True}


class Entry(NamedTuple):
    """A value of such a file and its place."""

    value: Any
    place: str  # file:line


class Entries:
    """The entries of a file. Faults are collected, and raised together by `finish`."""

    def __init__(self, path: PathLike) -> None:
        self.file = str(path)
        self.entries: dict[str, Entry] = {}
        self.faults: list[InputError] = []
        self.warnings: list[str] = []
        self._known: list[str] = []

    # -- the syntax of values, which depends on the kind of file --

    def number_of(self, value: Any) -> Fraction | None:
        """Return a value as a number; None if it is not one."""
        if isinstance(value, bool) or not isinstance(value, int | Fraction):
            return None
        return Fraction(value)

    def list_of(self, value: Any) -> list[Any] | None:
        """Return a value as a list; None if it is not one."""
        return value if type(value) is list else None

    # -- values --

    def add(self, key: str, value: Any, line: int) -> None:
        """Add an entry. Raises InputError for a duplicate key."""
        if key in self.entries:
            raise InputError("is given twice", file=f"{self.file}:{line}", key=key, allowed="each key once")
        self.entries[key] = Entry(value, f"{self.file}:{line}")

    def replace(self, key: str, words: Sequence[str], place: str) -> None:
        """Replace the entry of a key by a list of numbers from another place."""
        values = [exact(word) if word.strip() else None for word in words]
        self.entries[key] = Entry(
            [word if value is None else value for word, value in zip(words, values, strict=True)], place
        )

    def raw(self, key: str, default: Any = None, allowed: str | Sequence[str] | None = None) -> Any:
        """Return the value of a key unconverted; without a default, a missing key is a fault and gives None."""
        self._known.append(key)
        if key in self.entries:
            return self.entries[key].value
        if default is None:
            self.faults.append(InputError("is missing", file=self.file, key=key, allowed=allowed))
        return default

    def given(self, key: str) -> bool:
        """Return whether the file has a key."""
        self._known.append(key)
        return key in self.entries

    def number(self, key: str, default: Fraction | int | None = None, *, above: bool = False) -> Fraction:
        """Return the value of a key as a number from 0, or above 0 with `above`."""
        return self._number(key, self.raw(key, default, f"a number {'above' if above else 'from'} 0"), above=above)

    def count(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """Return the value of a key as a whole number."""
        return self._count(key, self.raw(key, default, f"a whole number from {least}"), least, most)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return the value of a key as a Boolean: 0 or 1, in some files also false or true."""
        value = self.raw(key, default)
        if isinstance(value, bool) or value is None:
            return bool(value)
        number = self.number_of(value)
        if number not in _FLAGS:
            self.fault(key, f"'{shown(value)}' is not allowed", ["0", "1"])
            return False
        return _FLAGS[number]

    def cut(self, key: str, default: int | None = None, least: int = 0, most: int = MOST) -> int:
        """Return the value of a key as a whole number; a fraction is cut off, as where ASTRA-sim keeps integers."""
        value = self.raw(key, default, f"a whole number from {least}")
        number = None if value is None else self.number_of(value)
        if number is not None and number.denominator != 1 and number >= least:
            self.warn(key, f"{shown(number)} is cut to {int(number)}, as in ASTRA-sim")
            value = Fraction(int(number))
        return self._count(key, value, least, most)

    def choice(self, key: str, words: Mapping[str, Any], default: str | None = None) -> Any:
        """Return the entry of `words` for the value of a key."""
        return self._choice(key, words, self.raw(key, default, list(words)))

    def words(self, key: str, words: Mapping[str, Any], length: int | None = None) -> list[Any]:
        """Return the entries of `words` for a list of values."""
        return [self._choice(key, words, value) for value in self.listed(key, length)]

    def numbers(
        self, key: str, length: int | None = None, *, above: bool = False, default: int | None = None
    ) -> list[Fraction]:
        """Return a list of numbers; without the key, `default` for each dimension."""
        if default is not None and not self.given(key):
            return [Fraction(default)] * (length or 1)
        return [self._number(key, value, above=above) for value in self.listed(key, length)]

    def counts(self, key: str, length: int | None = None, least: int = 1) -> list[int]:
        """Return a list of whole numbers."""
        return [self._count(key, value, least) for value in self.listed(key, length)]

    def listed(self, key: str, length: int | None = None) -> list[Any]:
        """Return the list of a key; empty, with a fault, if it does not have this length."""
        value = self.raw(key, allowed="a list with a value for each dimension")
        entries = None if value is None else self.list_of(value)
        if entries is None and value is not None:
            self.fault(key, f"'{shown(value)}' is not a list", "a list with a value for each dimension")
        elif entries is not None and (not entries or length not in (None, len(entries))):
            expected = "an entry" if length is None else f"{length} entries, one"
            self.fault(key, f"the list has {len(entries)} entries", f"{expected} for each dimension")
            entries = None
        return entries or []

    def _number(self, key: str, value: Any, *, above: bool) -> Fraction:
        number = None if value is None else self.number_of(value)
        if number is not None and number <= MOST and (number > 0 or (number == 0 and not above)):
            return number
        if value is not None:
            self.fault(key, f"'{shown(value)}' is not allowed", f"a number {'above' if above else 'from'} 0")
        return Fraction(1)

    def _count(self, key: str, value: Any, least: int, most: int = MOST) -> int:
        number = None if value is None else self.number_of(value)
        if number is not None and number.denominator == 1 and least <= number <= most:
            return number.numerator
        if value is not None:
            limit = f" to {most}" if number is not None and number > most else ""
            self.fault(key, f"'{shown(value)}' is not allowed", f"a whole number from {least}{limit}")
        return least

    def _choice(self, key: str, words: Mapping[str, Any], value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return words[value]
        if value is not None:
            self.fault(key, f"'{shown(value)}' is not in this version", list(words), shown(value))
        return None

    # -- keys without a value --

    def unused(self, *keys: str) -> None:
        """Accept keys that ASTRA-sim reads and never uses."""
        self._known += keys

    def refuse(self, key: str, reason: str, allowed: str) -> None:
        """Add a fault for a known key that is not supported, whatever its value."""
        if key in self.entries:
            self._known.append(key)
            self.fault(key, reason, allowed)

    def warn(self, key: str, text: str) -> None:
        """Add a warning about a key."""
        self.warnings.append(f"{self.place(key)}: {key}: {text}")

    def place(self, key: str) -> str:
        """Return the place of a key; the file if it does not have the key."""
        return self.entries[key].place if key in self.entries else self.file

    def fault(self, key: str, problem: str, allowed: str | Sequence[str], given: str | None = None) -> None:
        """Add a fault of the value of a key."""
        self.faults.append(InputError(problem, file=self.place(key), key=key, allowed=allowed, given=given))

    def is_valid(self, *keys: str) -> bool:
        """Return whether these keys have no faults so far: a fault is reported once, without its consequences."""
        return not any(fault.key in keys for fault in self.faults)

    def finish(self) -> None:
        """Raise all faults, those of unknown keys included."""
        for key, entry in self.entries.items():
            if key not in self._known:
                known = sorted(set(self._known))
                self.faults.append(InputError("unknown key", file=entry.place, key=key, allowed=known, given=key))
        raise_all(self.faults)

    def broken(self, problem: str, line: int | None, allowed: str) -> NoReturn:
        """Raise InputError for a file that is not of its kind."""
        place = self.file if line is None else f"{self.file}:{line}"
        raise InputError(problem, file=place, allowed=allowed) from None


def shown(value: Any) -> str:
    """Return a value as text for messages, shortened to 60 characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, Fraction):
        text = str(value) if value.denominator == 1 else repr(float(value))
    elif isinstance(value, list):
        text = f"[{', '.join(map(shown, value))}]"
    else:
        text = str(value)
    return text if len(text) <= 60 else f"{text[:56]}..."
