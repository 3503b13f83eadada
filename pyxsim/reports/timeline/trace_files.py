"""The file of a trace: its format follows from its name."""

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
    # Without a name and a time in it: the same trace, the same file.
    with gzip.GzipFile("", "wb", 6, packed, mtime=0) as file:
        for line in chrome.lines(trace):
            file.write(line.encode())
    return packed.getvalue()


KINDS: dict[str, Callable[[Trace], bytes]] = {".json": _json, ".json.gz": _json_gz}


def check_timeline(path: str | os.PathLike[str]) -> Path:
    """Make sure that a trace can be written to `path`. Raises InputError."""
    _kind(path)
    return check_writable(path)


def write(trace: Trace, path: str | os.PathLike[str]) -> int:
    """Write a trace; returns how many bytes it has. Raises InputError."""
    data = KINDS[_kind(path)](trace)
    put_file(path, data)
    return len(data)


def _kind(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    for kind in sorted(KINDS, key=len, reverse=True):
        if name.lower().endswith(kind):
            return kind
    suffix = "".join(Path(name).suffixes[-2:])
    problem = f"'{suffix}' is no format of a trace" if suffix else "the name does not tell the format of a trace"
    raise InputError(problem, file=name, allowed=list(KINDS), given=suffix or None)
