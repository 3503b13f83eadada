"""Read a text file of the user; every problem is an InputError."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

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
