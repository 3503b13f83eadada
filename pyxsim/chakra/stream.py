"""Traces as bytes, compressed by gzip or not, with every read error as an InputError."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from pyxsim.errors import InputError
from pyxsim.paths import missing

MAX_MESSAGE = 1 << 24  # bytes of one node; more would be damage, and cost many times its size in memory
_GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading. Raises InputError, also while it is read."""
    try:
        with Path(path).open("rb") as plain:
            packed = plain.peek(2)[:2] == _GZIP
            yield cast(BinaryIO, gzip.GzipFile(fileobj=plain)) if packed else plain
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
