"""Write trace files; the format follows from the name."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.reports.timeline import chrome
from pyxsim.reports.timeline.trace_model import Trace
from pyxsim.results.hdf5 import check_writable, put_file


def _json(trace: Trace) -> bytes:
    return "".join(chrome.lines(trace)).encode()


def _json_gz(trace: Trace) -> bytes:
    packed = io.BytesIO()
    # Without name and time in the header, so that equal traces give equal files.
    with gzip.GzipFile("", "wb", 6, packed, mtime=0) as file:
        for line in chrome.lines(trace):
            file.write(line.encode())
    return packed.getvalue()


KINDS: dict[str, Callable[[Trace], bytes]] = {".json": _json, ".json.gz": _json_gz}


def check_timeline(path: str | os.PathLike[str]) -> Path:
    """Return the path of a trace; InputError unless it can be written."""
    _kind(path)
    return check_writable(path)


def write(trace: Trace, path: str | os.PathLike[str]) -> int:
    """Write a trace and return its size in bytes. Raises InputError."""
    data = KINDS[_kind(path)](trace)
    put_file(path, data)
    return len(data)


def _kind(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    for kind in sorted(KINDS, key=len, reverse=True):
        if name.lower().endswith(kind):
            return kind
    suffix = "".join(Path(name).suffixes[-2:])
    problem = f"'{suffix}' is not a trace format" if suffix else "the name does not show the format"
    raise InputError(problem, file=name, allowed=list(KINDS), given=suffix or None)
