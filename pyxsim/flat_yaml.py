"""YAML files of ASTRA-sim 2: `key: value` and `key: [a, b]`, one level deep, with comments.

A separate reader, because a YAML library would add a dependency and accept values that ASTRA-sim does not have
(anchors, dates, "no" as false). Anything else is an error with its line.
"""

from __future__ import annotations

import re
from collections import deque
from fractions import Fraction
from typing import Any

from pyxsim.file_entries import Entries, PathLike
from pyxsim.textfile import read_text

_WHAT = "lines such as 'key: [ 1, 2 ]'"
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*|\d{1,18})\s*:(?:\s+(?P<rest>.*))?", re.ASCII)
_ITEM = re.compile(r"\s*-\s+(?P<rest>.*)")
_NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,2})?", re.ASCII)
_SCALAR = re.compile(r"""'[^']*'|"[^"\\]*"|[^\s,\[\]{}#&*!|>'"%@`:-][^,\[\]{}#:'"]*|[+-]?[\d.]\S*""")


class Yaml(Entries):
    """A flat YAML file. Raises InputError for any other text."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        numbered = ((number, _bare(line)) for number, line in enumerate(read_text(path).splitlines(), 1))
        lines = deque((number, line) for number, line in numbered if line and line not in ("---", "..."))
        if not lines:
            self.broken("is empty", None, _WHAT)
        while lines:
            number, line = lines.popleft()
            match = _KEY.fullmatch(line)
            if match is None:
                self.broken(f"'{line.strip()[:40]}' is not 'key: value'", number, _WHAT)
            parts = [match["rest"] or ""]
            # A list may continue on further lines until its bracket is closed, or have one item per line.
            while parts[0].startswith("[") and not parts[-1].endswith("]") and lines:
                parts.append(lines.popleft()[1].strip())
            rest = " ".join(parts)
            items = []
            while not rest and lines and (item := _ITEM.fullmatch(lines[0][1])):
                items.append(self._scalar(item["rest"], lines.popleft()[0]))
            self.add(match["key"], items or self._value(rest, number), number)

    def _value(self, text: str, line: int) -> Any:
        if not text.startswith("["):
            return self._scalar(text, line)
        inside = text[1:-1].strip() if text.endswith("]") else None
        if inside is None:
            self.broken("the list is not closed", line, _WHAT)
        parts = inside.removesuffix(",").split(",") if inside else []
        return [self._scalar(part.strip(), line) for part in parts]

    def _scalar(self, text: str, line: int) -> Any:
        if _NUMBER.fullmatch(text):
            return Fraction(text)
        if not _SCALAR.fullmatch(text):
            self.broken(f"'{text[:40]}' is not a value", line, _WHAT)
        return text[1:-1] if text[0] in "'\"" else text


def _bare(line: str) -> str:
    """A line without its comment and trailing blanks."""
    return re.sub(r"(^|\s)#.*", "", line).rstrip()
