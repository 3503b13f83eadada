"""Traffic matrices from files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.textfile import read_text
from pyxsim.traffic.npy_file import read_npy
from pyxsim.traffic.pattern import Pattern

KINDS = (".csv", ".txt", ".npy")


class MatrixPattern(Pattern):
    """A pattern that follows a matrix: `traffic[i, j]`, float64[N, N], is what node i sends to node j, in any unit."""

    def __init__(self, traffic: FloatArray) -> None:
        self._traffic = traffic
        sums = np.cumsum(traffic, axis=1)
        self._sent = sums[:, -1]
        with np.errstate(invalid="ignore"):
            shares = np.where(self._sent[:, None] > 0, sums / self._sent[:, None], 1.0)
        # All rows in one array: row i covers the interval from i to i + 1, so one search finds all destinations.
        self._edges = (np.arange(len(traffic))[:, None] + shares).ravel()
        self._last = np.array([_last(row) for row in traffic], dtype=np.int64)

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        npus = len(self._sent)
        drawn = np.searchsorted(self._edges, src + rng.random(len(src)), side="right") - src * npus
        # Adding the row number rounds the random number, which may move it over the edge of its row.
        dst: IntArray = np.minimum(drawn, self._last[src]).astype(np.int64)
        return dst

    def matrix(self) -> FloatArray:
        sent = np.where(self._sent > 0, self._sent, 1.0)
        shares: FloatArray = self._traffic / sent[:, None]
        return shares

    def rates(self) -> FloatArray | None:
        rates: FloatArray = self._sent / (np.cumsum(self._sent)[-1] / len(self._sent))
        return rates


def _last(row: FloatArray) -> int:
    nonzero = np.flatnonzero(row)
    return int(nonzero[-1]) if len(nonzero) else 0


def read_matrix(path: Path, npus: int) -> FloatArray:
    """Read a traffic matrix float64[npus, npus].

    The file is text with one row per line, separated by commas, semicolons or blanks, or NumPy's .npy.

    Raises
    ------
    InputError
        If the file cannot be read, has another shape, or contains negative, non-finite or only zero entries.
    """
    file = str(path)
    if path.suffix.lower() == ".npy":
        traffic = read_npy(path).astype(np.float64)
    elif path.suffix.lower() in KINDS:
        traffic = _read_text(path)
    else:
        raise InputError("unknown format of a traffic matrix", file=file, allowed=f"file names in {', '.join(KINDS)}")
    if traffic.shape != (npus, npus):
        sizes = "x".join(map(str, traffic.shape))
        raise InputError(f"the traffic matrix is {sizes}", file=file, allowed=f"{npus}x{npus}, one row per NPU")
    if not np.isfinite(traffic).all() or (traffic < 0).any():
        row, column = np.argwhere(~(np.isfinite(traffic) & (traffic >= 0)))[0].tolist()
        problem = f"entry {column} of row {row} is {traffic[row, column]:g}"
        raise InputError(problem, file=file, allowed="finite numbers that are not negative")
    if not traffic.any():
        raise InputError("all entries are zero", file=file)
    return traffic


def _read_text(path: Path) -> FloatArray:
    text = read_text(path, "a matrix")
    rows: list[list[float]] = []
    for number, line in enumerate(io.StringIO(text), 1):
        words = line.partition("#")[0].replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise InputError(f"'{line.strip()[:40]}' is not a row of numbers", file=f"{path}:{number}") from None
        if len(rows[-1]) != len(rows[0]):
            problem = f"the row has {len(rows[-1])} entries, but the first one has {len(rows[0])}"
            raise InputError(problem, file=f"{path}:{number}")
    if not rows:
        raise InputError("is empty", file=str(path), allowed="a row of numbers per NPU")
    return np.array(rows)
