"""Files as bytes, compressed by gzip or not, with every read error as an InputError."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from pyxsim.errors import InputError
from pyxsim.paths import missing, need_folder

MAX_MESSAGE = 1 << 24  # bytes of one node; more would be damage, and cost many times its size in memory
_GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading. Raises InputError, also while it is read."""
    try:
        with Path(path).open("rb") as plain:
            packed = plain.peek(2)[:2] == _GZIP
            yield io.BufferedReader(gzip.GzipFile(fileobj=plain)) if packed else plain
    except FileNotFoundError as error:
        raise missing(path) from error
    except IsADirectoryError as error:
        raise InputError("is a folder", file=path, allowed="a Chakra trace") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"is damaged gzip data: {error}", file=path) from error
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from error


@contextmanager
def created(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing; compressed if its name ends with .gz. It appears under its name when it is complete.

    Raises InputError if it cannot be written.
    """
    unfinished = None
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise InputError("is a folder", file=path, allowed="the name of a file")
        place = target
        if target.is_file() or not target.exists():  # pipes and devices are written directly
            need_folder(path)
            need_folder(target)
            place = unfinished = target.with_name(f".unfinished-{os.getpid()}-{target.name}")
        with place.open("wb") as plain:
            if path.endswith(".gz"):
                # Without a name and a date in it, equal traces are equal files.
                with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield plain
        if unfinished is not None:
            unfinished.replace(target)
            unfinished = None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from error
    finally:
        if unfinished is not None:
            with suppress(OSError):  # a read-only file system
                unfinished.unlink(missing_ok=True)
