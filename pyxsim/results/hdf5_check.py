"""Check the structure of an HDF5 file before its content is used.

The HDF5 library follows links into other files and may crash or never return on a damaged file. So a copy of this
process looks first, for a limited time: it visits every object once, by hard links only, reads every attribute and
every text, and compares the size of each dataset with the bytes that the file has for it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any

import h5py
import numpy as np

from pyxsim.errors import InputError

MOST_OBJECTS = 200_000
MOST_NESTED = 100
_BRACKET = re.compile(r"[\[\]{}]")
MOST_RATIO = 1100  # of a compressed dataset; deflate reaches 1032
SLACK = 1 << 16  # bytes that need no storage: fill values of small datasets
OF_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST")  # attributes with references, slow to read and used by h5py only
SECONDS, BYTES_PER_SECOND = 20.0, 20e6  # limit of the check, and what it gains with the size of the file
BAD = (KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError, ArithmeticError, AssertionError)
"""What h5py and code that reads a damaged file raise, besides OSError."""


def check_structure(path: str | os.PathLike[str]) -> None:
    """Raise InputError for a damaged file; one that cannot be opened at all is left to the reader."""
    name = os.fspath(path)
    try:
        state = os.stat(name)
    except (OSError, ValueError):
        return
    problem = _problem(name, state.st_ino, state.st_mtime_ns, state.st_size)
    if problem:
        raise InputError(f"damaged: {problem}", file=name)


@lru_cache(maxsize=256)
def _problem(name: str, node: int, changed: int, size: int) -> str:
    """What is wrong with a file, or ""; the numbers tell whether it has changed."""
    # A fork of a process with threads may inherit a lock that no thread releases.
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return inspect(name)
    return _in_a_fork(name, SECONDS + size / BYTES_PER_SECOND)


def _in_a_fork(name: str, seconds: float) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # the parent decides, and kills this process
            os.write(writer, inspect(name).encode("utf-8", "replace")[:4000] or b"\0")
        finally:
            os._exit(0)
    os.close(writer)
    text = b""
    end = time.monotonic() + seconds
    try:
        while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (part := os.read(reader, 4096)):
                break
            text += part
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not text:
        late = time.monotonic() >= end
        return f"it cannot be read in {seconds:.0f} seconds" if late else "the HDF5 library crashes while reading it"
    return text.decode("utf-8", "replace").strip("\0")


def inspect(name: str) -> str:
    """Return what is wrong with a file, or ""; also for a file that cannot be opened."""
    try:
        file = h5py.File(name, "r")
    except (OSError, ValueError):
        return ""
    try:
        with file:
            _walk(file)
    except _Damaged as error:
        return str(error)
    except (OSError, *BAD) as error:
        return " ".join(str(error).split())[:200]
    return ""


class _Damaged(Exception):
    pass


def _walk(file: h5py.File) -> None:
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("/", file)]
    while left:
        name, node = left.pop()
        address = h5py.h5o.get_info(node.id).addr
        if address in seen:
            raise _Damaged(f"{name} has two names or contains itself")
        seen.add(address)
        if len(seen) > MOST_OBJECTS:
            raise _Damaged(f"more than {MOST_OBJECTS} objects")
        _attributes(name, node)
        if isinstance(node, h5py.Dataset):
            _dataset(name, node)
            continue
        for key in node:
            inner = f"{name.rstrip('/')}/{key}"
            if not isinstance(node.get(key, getlink=True), h5py.HardLink):
                raise _Damaged(f"{inner} is an external or soft link")
            member = node[key]
            if not isinstance(member, h5py.Group | h5py.Dataset):
                raise _Damaged(f"{inner} is neither a group nor a dataset")
            left.append((inner, member))


def _attributes(name: str, node: Any) -> None:
    for key in node.attrs:
        value = None if key in OF_SCALES else node.attrs[key]
        if isinstance(value, h5py.Empty):
            raise _Damaged(f"the attribute {name}@{key} is empty")
        if isinstance(value, str):
            value.encode()  # surrogates
            if value[:1] in ("{", "[") and _nested(value):
                raise _Damaged(f"the attribute {name}@{key} is nested too deeply")


def _nested(text: str) -> bool:
    """Whether JSON is nested deeper than its reader can follow; brackets in its texts count, too."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += 1 if match[0] in "[{" else -1
        if depth > MOST_NESTED:
            return True
    return False


def _dataset(name: str, data: h5py.Dataset) -> None:
    if data.external or data.is_virtual:
        raise _Damaged(f"{name} stores its values in another file")
    if data.shape is None or data.dtype.kind in "VM":
        raise _Damaged(f"{name} has values of an unknown type")
    stored = data.id.get_storage_size()
    ratio = MOST_RATIO if data.chunks else 1
    if data.nbytes > stored * ratio + SLACK:
        raise _Damaged(f"{name} declares {data.nbytes} bytes but stores {stored}")
    if data.dtype.kind == "O" and h5py.check_string_dtype(data.dtype) is not None and data.size:
        for text in np.ravel(data.asstr()[()]):
            text.encode()
