"""JSON files whose values are checked one by one, with the path of a faulty one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyxsim.errors import InputError, nearest
from pyxsim.textfile import read_text

_MOST = 10**9  # whole numbers are at most this


class JsonValue:
    """A value of a JSON file and its path, "gpus[0].id"."""

    def __init__(self, file: str, path: str, value: Any) -> None:
        self._file, self._path, self._value = file, path, value

    @property
    def place(self) -> str:
        """File and path."""
        return f"{self._file}: {self._path}" if self._path else self._file

    def refuse(self, problem: str, *, allowed: str | Sequence[str] | None = None, given: str | None = None) -> NoReturn:
        """Raise InputError at the value."""
        raise InputError(problem, file=self._file, key=self._path or None, allowed=allowed, given=given)

    def __contains__(self, key: str) -> bool:
        return key in self.table()

    def __getitem__(self, key: str) -> JsonValue:
        """Return a member of an object, which must exist."""
        table = self.table()
        if key not in table:
            near = nearest(key, table)
            self.refuse(f"{key} is missing" + (f"; did you mean '{near}'?" if near else ""))
        return JsonValue(self._file, f"{self._path}.{key}" if self._path else key, table[key])

    def __iter__(self) -> Iterator[JsonValue]:
        """Iterate over a list."""
        if not isinstance(self._value, list):
            self.refuse("is not a list", allowed="[...]")
        for number, value in enumerate(self._value):
            yield JsonValue(self._file, f"{self._path}[{number}]", value)

    def members(self, key: str) -> list[JsonValue]:
        """Return the members of a list in the object; none if it does not exist."""
        return list(self[key]) if key in self else []

    def table(self) -> dict[str, Any]:
        """Return the value, an object."""
        if not isinstance(self._value, dict):
            self.refuse("is not an object", allowed="{...}")
        return self._value

    def text(self) -> str:
        """Return the value, a string."""
        if not isinstance(self._value, str):
            self.refuse("is not a string", allowed='"..."')
        return self._value

    def word(self, words: Sequence[str]) -> str:
        """Return the value, one of some words."""
        value = self.text()
        if value not in words:
            self.refuse(f"is '{value}'", allowed=words, given=value)
        return value

    def whole(self, least: int = 0, most: int = _MOST) -> int:
        """Return the value, a whole number."""
        value = self._value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.refuse(f"is {self.shown}", allowed=f"a whole number from {least} to {most}")
        return value

    def flag(self) -> bool:
        """Return the value, true or false."""
        if not isinstance(self._value, bool):
            self.refuse(f"is {self.shown}", allowed="true or false")
        return self._value

    def known(self, *keys: str) -> None:
        """Raise InputError for a member of an object with another name."""
        for key in self.table():
            if key not in keys:
                self.refuse(f"{key} is unknown", allowed=sorted(keys), given=key)

    @property
    def shown(self) -> str:
        """The value in messages."""
        value = self._value
        return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)


def read_json(path: str, what: str) -> JsonValue:
    """Return the value of a JSON file. `what` it should be, for errors. Raises InputError."""
    try:
        value = json.loads(read_text(path, what), object_pairs_hook=lambda pairs: _table(path, pairs))
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", file=f"{path}:{error.lineno}", allowed=what) from error
    except RecursionError as error:
        raise InputError("not valid JSON: lists are nested too deeply", file=path, allowed=what) from error
    except InputError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise InputError("not valid JSON: a number is too long", file=path, allowed=what) from error
    return JsonValue(path, "", value)


def _table(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError("occurs twice in one object", file=path, key=key)
        table[key] = value
    return table
