"""Text files of ASTRA-sim 1: pairs `key: value`, separated by blanks or line breaks, in any order."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from pyxsim.errors import InputError
from pyxsim.file_entries import Entries, PathLike
from pyxsim.textfile import read_text

_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?", re.ASCII)


class Text(Entries):
    """A file of `key: value` pairs. Raises InputError if it is not."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        lines = enumerate(read_text(path).splitlines(), 1)
        words = [(word, number) for number, line in lines for word in line.split()]
        if not words:
            self.broken("is empty", None, "pairs 'key: value'")
        for (key, line), (value, _) in zip(words[::2], [*words[1::2], ("", 0)], strict=False):
            if not key.endswith(":") or not value or value.endswith(":"):
                raise InputError(
                    f"'{key} {value}'.".rstrip(".") + " is no pair", file=f"{self.file}:{line}", allowed="'key: value'"
                )
            self.add(key[:-1], value, line)

    def number_of(self, value: Any) -> Fraction | None:
        """Return a decimal number exactly, or None."""
        if isinstance(value, str):
            return Fraction(value) if _NUMBER.fullmatch(value) else None
        return super().number_of(value)
