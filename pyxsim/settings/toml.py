"""Read TOML files with clear error messages, and write TOML that reads back to the same values.

tomllib only reads. The writer supports the values of settings: texts, integers, finite numbers, booleans, lists and
tables. It omits None, which TOML cannot express.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import PurePath
from typing import Any

from pyxsim.errors import InputError
from pyxsim.textfile import read_text

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}

_OTHERS = "a file .toml, whose [network] file and [workload] file name networks and workloads in other formats"


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the tables of a TOML file. Raises InputError, with the line if known."""
    return parse_toml(read_text(path, "a TOML file"), str(path))


def parse_toml(text: str, file: str = "TOML") -> dict[str, Any]:
    """Return the tables of a TOML text. Raises InputError, with the line if known."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InputError("nested too deeply", file=file) from error
    except ValueError as error:  # TOMLDecodeError, or Python's error for a number with thousands of digits
        raise _syntax(str(error), file, text.rstrip().count("\n") + 1) from error


def _syntax(message: str, file: str, lines: int) -> InputError:
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
    if match is None:
        return InputError(f"not valid TOML: {message}", file=file)
    column = f" (column {match[3]})" if match[3] else " (at the end of the file)"
    allowed = "" if PurePath(file).suffix in ("", ".toml") else _OTHERS
    return InputError(f"not valid TOML: {match[1]}{column}", file=f"{file}:{match[2] or lines}", allowed=allowed)


def to_toml(data: Mapping[str, Any]) -> str:
    """Return tables as TOML text. Raises TypeError for a value that TOML does not support."""
    lines = _table(data, ())
    return "\n".join(lines).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    present = {key: value for key, value in table.items() if value is not None}
    # In TOML, plain values of a table come before the headers of its inner tables.
    lines = [f"{_key(key)} = {_value(value)}" for key, value in present.items() if not _has_header(value)]
    for key, value in present.items():
        inner = (*path, key)
        name = ".".join(_key(part) for part in inner)
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_table(value, inner)]
        elif _has_header(value):
            for item in value:
                lines += ["", f"[[{name}]]", *_table(item, inner)]
    return lines


def _has_header(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    def escaped(c: str) -> str:
        if c in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[c]
        return f"\\u{ord(c):04x}" if ord(c) < 0x20 or ord(c) == 0x7F else c

    return f'"{"".join(escaped(c) for c in text)}"'


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"TOML has no {type(value).__name__}")
