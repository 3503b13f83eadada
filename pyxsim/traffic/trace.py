"""Read traffic traces: messages at given cycles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.textfile import read_text
from pyxsim.traffic.npy_file import read_npy
from pyxsim.units import MAX_BYTES, MAX_CYCLES

COLUMNS = ("cycle", "src", "dst", "bytes")


@dataclass(frozen=True, eq=False)
class Trace:
    """Messages in order of their cycle, those of one cycle in file order; int64 arrays of one length."""

    cycle: IntArray
    src: IntArray
    dst: IntArray
    nbytes: IntArray

    def __len__(self) -> int:
        return len(self.cycle)


def read_trace(path: Path, npus: int) -> Trace:
    """Read a trace.

    The file is text with the columns cycle, src, dst, bytes (an optional header names them, # starts a comment), or
    NumPy's .npy with four integer columns.

    Raises
    ------
    InputError
        If the file cannot be read, is empty, or a value is out of range (with its line).
    """
    rows, lines = _read_npy(path) if path.suffix.lower() == ".npy" else _read_text(path)
    if not len(rows):
        raise InputError("contains no messages", file=str(path), allowed=f"lines of {', '.join(COLUMNS)}")
    limits = ((0, MAX_CYCLES), (0, npus - 1), (0, npus - 1), (1, MAX_BYTES))
    for column, (name, (least, most)) in enumerate(zip(COLUMNS, limits, strict=True)):
        wrong = np.flatnonzero((rows[:, column] < least) | (rows[:, column] > most))
        if len(wrong):
            value = int(rows[wrong[0], column])
            place = f"{path}:{lines[wrong[0]]}" if lines else str(path)
            raise InputError(f"{name} {value} is out of range", file=place, allowed=f"from {least} to {most}")
    rows = rows.astype(np.int64)  # in range
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return Trace(*(np.ascontiguousarray(column) for column in rows.T))


def _read_npy(path: Path) -> tuple[NDArray[Any], list[int]]:
    rows = read_npy(path)
    if rows.ndim != 2 or rows.shape[1] != len(COLUMNS) or rows.dtype.kind not in "iu":
        shape = "x".join(map(str, rows.shape))
        problem = f"array of shape {shape} and type {rows.dtype}"
        raise InputError(problem, file=str(path), allowed="four columns of integers")
    return rows, []


def _read_text(path: Path) -> tuple[IntArray, list[int]]:
    rows: list[list[int]] = []
    lines: list[int] = []
    for number, line in enumerate(read_text(path, "a trace").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").replace(";", " ").split()
        if not words or (not rows and [word.lower() for word in words] == list(COLUMNS)):
            continue
        try:
            row = [int(word) for word in words]
        except ValueError:
            row = []
        if len(row) != len(COLUMNS) or max(map(abs, row)) >= 2**63:
            raise InputError(
                f"'{line.strip()[:40]}' is not a message", file=f"{path}:{number}", allowed=", ".join(COLUMNS)
            )
        rows.append(row)
        lines.append(number)
    return np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS)), lines
