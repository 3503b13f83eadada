"""A Perfetto trace of a result, as `pyxsim timeline` and `pyxsim.timeline` write it."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError, all_or_faults
from pyxsim.reports.timeline import chrome
from pyxsim.reports.timeline.build import build
from pyxsim.reports.timeline.trace_model import Trace
from pyxsim.reports.timeline.view import View
from pyxsim.results.hdf5 import check_writable, put_file, shown
from pyxsim.results.result import Result
from pyxsim.results.table import Facts

DEFAULT = ".trace.json.gz"
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class WrittenTimeline(Facts):
    """A trace that was written: its file, its size in bytes, what it shows, and the result."""

    file: str
    bytes: int
    trace: Trace
    result: Result

    def json(self) -> dict[str, Any]:
        """Return what the trace shows as one JSON object."""
        about = {**self.trace.about, "complete": self.result.complete, "left_out": self.trace.left_out}
        return {"file": self.file, "bytes": self.bytes, **self.trace.count(), **about}


def timeline(result: Result | PathLike, file: PathLike | None = None, view: View | None = None) -> WrittenTimeline:
    """Write a trace for Perfetto: chunks, tasks and links over time (docs/timeline.md).

    Parameters
    ----------
    result
        A Result, or the HDF5 file of a run.
    file
        The trace, .json or .json.gz; by default beside the file of the result, or result.trace.json.gz.
    view
        Times, NPUs, links and counters to show; by default all NPUs and the busiest links.

    Raises
    ------
    InputError
        If the file is not a result, or the trace cannot be written.
    """
    path, view = "result" if isinstance(result, Result) else os.fspath(result), view or View()
    target = f"{path.removesuffix('.h5')}{DEFAULT}" if file is None else os.fspath(file)

    def check() -> None:
        if os.path.realpath(check_timeline(target)) == os.path.realpath(path):
            raise InputError("cannot be written, because it is the result file", file=target, allowed="another name")

    loaded, *_ = all_or_faults(lambda: result if isinstance(result, Result) else Result.load(path), check, view.check)
    with shown([] if isinstance(result, Result) else [path]):
        trace = build(loaded, view)
        return WrittenTimeline(target, write(trace, target), trace, loaded)


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
    problem = f"'{suffix}' is not a trace format" if suffix else "the file name has no extension"
    raise InputError(problem, file=name, allowed=list(KINDS), given=suffix or None)
