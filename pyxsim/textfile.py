"""Reading a user's text file: whatever can be wrong with it is one InputError."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.paths import missing

HDF5 = b"\x89HDF\r\n\x1a\n"  # how our own results begin, which are taken for an experiment easily
MAX_FILE = 16 * 2**20  # bytes; a larger file is no input of ours, and reading a device would never end


def read_text(path: str | PathLike[str], what: str = "a text file") -> str:
    """The text of a UTF-8 file, without a byte order mark. `what` it should be, for errors. Raises InputError."""
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
        raise InputError("is HDF5, as results are, and no text", file=file, allowed=what)
    if len(raw) > MAX_FILE:
        raise InputError(f"is too large for {what}", file=file, allowed=f"at most {MAX_FILE} bytes")
    try:
        # A byte order mark is what some editors call saving as UTF-8.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"is no text (byte {raw[error.start]:#04x} is not UTF-8)", file=f"{file}:{line}") from error
