"""Arrays of numbers in NumPy's .npy files."""

from __future__ import annotations

import io
import math
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.paths import missing

MAX_BYTES = 2**31  # of a file
NUMBERS = "iuf"  # kinds of dtypes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy(path: Path) -> NDArray[Any]:
    """Read an array of integers or floating-point numbers.

    The header is compared with the size of the file first: it may claim any shape.

    Raises
    ------
    InputError
        If the file cannot be read, is too large, or has another content.
    """
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file) from error
    if len(data) > MAX_BYTES:
        raise InputError("is too large", file=file, allowed=f"at most {MAX_BYTES} bytes")
    content = io.BytesIO(data)
    try:
        shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(content)](content)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise InputError("not a NumPy file of numbers", file=file) from error
    if dtype.kind not in NUMBERS:
        raise InputError(f"an array of type {dtype}", file=file, allowed="integers or floating-point numbers")
    needed, available = math.prod(shape) * dtype.itemsize, len(data) - content.tell()
    if min(shape, default=0) < 0 or needed != available:
        problem = f"an array of shape {'x'.join(map(str, shape))} and type {dtype} needs {needed} bytes"
        raise InputError(f"{problem}, and the file has {available}", file=file)
    array = np.frombuffer(data, dtype, offset=content.tell())
    return array.reshape(shape, order="F" if fortran else "C")
