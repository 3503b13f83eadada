"""Read a text file of the user; every problem is an InputError."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.paths import missing

HDF5 = b"\x89HDF\r\n\x1a\n"  # the signature of results, which users pass instead of experiments
_FORMULA = frozenset("=+-@\t\r")
_NUMBER = re.compile(r"[+-]?(nan|inf|\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MAX_FILE = 16 * 2**20  # bytes; a larger file is not an input, and reading a device would never end


def csv_text(text: str) -> str:
    """Return the text of a CSV cell; one that a spreadsheet would compute as a formula begins with an apostrophe."""
    return f"'{text}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text


def read_text(path: str | PathLike[str], what: str = "a text file") -> str:
    """Return the text of a UTF-8 file, without a byte order mark. Raises InputError; `what` names the expected file."""
    file = str(path)
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
    except FileNotFoundError as error:
        raise missing(path) from error
    except IsADirectoryError as error:
        raise InputError("is a folder", file=file, allowed=what) from error
    except PermissionError as error:
        raise InputError("may not be read (permission denied)", file=file) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file) from error
    if raw.startswith(HDF5):
        raise InputError("is an HDF5 result, not a text file", file=file, allowed=what)
    if len(raw) > MAX_FILE:
        raise InputError(f"is too large for {what}", file=file, allowed=f"at most {MAX_FILE} bytes")
    try:
        # Some editors write a byte order mark.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"is not a text (byte {raw[error.start]:#04x} is not UTF-8)", file=f"{file}:{line}") from error


def json_objects(path: Path, what: str, example: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of each line of a file of JSON lines.

    Raises InputError; `what` names the expected file, and `example` is a line of it.
    """
    for number, line in enumerate(io.StringIO(read_text(path, what)), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError("is not a line of JSON", file=place, allowed=example) from None
        if not isinstance(row, dict):
            raise InputError("is not an object", file=place, allowed=example)
        yield place, row


def csv_rows(path: Path, what: str) -> tuple[list[str], Iterator[tuple[str, list[str]]]]:
    """Return the header of a CSV file in small letters, and an iterator over the place and cells of each row.

    Raises InputError; `what` names the expected file.
    """
    reader = csv.reader(io.StringIO(read_text(path, what)))
    try:
        header = [name.strip().lower() for name in next(reader, [])]
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=f"{path}:1", allowed=what) from None
    return header, _rows_below(reader, len(header), path)


def _rows_below(reader: Any, width: int, path: Path) -> Iterator[tuple[str, list[str]]]:
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"is not CSV: {error}", file=f"{path}:{reader.line_num}") from None
        if row is None:
            return
        if row and len(row) != width:
            problem = f"the row has {len(row)} entries, and the header {width}"
            raise InputError(problem, file=f"{path}:{reader.line_num}")
        if row:
            yield f"{path}:{reader.line_num}", row
