"""The outcome of a search as data, and the files of its folder. Nothing is run here.

DIR/search.json         everything below as JSON
DIR/table.csv, .h5      one row per point that can run: best first
DIR/evaluations.jsonl   a line for each evaluation, from which a killed search continues
DIR/points/KEY.h5       results of whole runs, as in a sweep
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pyxsim.errors import InputError
from pyxsim.results.hdf5 import VERSIONS, put_file
from pyxsim.results.sweep_table import csv_bytes, put_table
from pyxsim.results.table import Framed, Table, Variable, column

SEARCH, EVALUATIONS, CSV, HDF5 = "search.json", "evaluations.jsonl", "table.csv", "table.h5"
DECIDED, SCREENED, NEVER, FAILED = "decided", "screened", "never simulated", "failed"
UNITS = {
    "step_time": "ns",
    "tokens_per_s": "1/s",
    "tokens_per_s_npu": "1/s",
    "samples_per_s": "1/s",
    "memory": "B",
    "cost_per_token": "USD",
    "energy_per_token": "J",
}


@dataclass(eq=False, repr=False)
class SearchResult(Framed):
    """What a search found.

    Attributes
    ----------
    folder
        The folder of its files.
    title, experiment
        Names of the search and of its file.
    axes
        The key paths that were searched, with their values.
    objectives
        What was optimized; of several, `front` is the answer.
    screen, decide
        The models that screened and decided.
    method, seed
        How points were chosen.
    counts
        Points: combinations, cut, can run, screened, decided, never simulated, failed.
    cuts
        Why points were cut before anything ran: cause, reason, points.
    rows
        A row per point that can run, best first: the axes, `rank`, `state`, `front` (0: not dominated), the objectives
        (of the model that decided, else of the one that screened), and `screen.NAME` and `decide.NAME` of both.
    confidence
        How well the screening predicts the deciding model, and how far points that it did not decide are from winning.
    sensitivities
        The gain of the best point with 10 % more of each resource: resource, objective, gain (a share; above 0 is
        better).
    """

    folder: Path
    title: str
    experiment: str
    axes: dict[str, list[Any]]
    objectives: list[str]
    screen: str
    decide: str
    method: str
    seed: int
    counts: dict[str, int]
    cuts: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    confidence: dict[str, Any] = field(default_factory=dict)
    sensitivities: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"SearchResult({self.title}: {self.counts['can run']} points, {self.counts['decided']} decided)"

    @property
    def best(self) -> dict[str, Any]:
        """The row of the best point."""
        return self.rows[0]

    @property
    def front(self) -> list[dict[str, Any]]:
        """The rows that no other row dominates, decided ones first; `state` tells which are only screened."""
        return [row for row in self.rows if row["front"] == 0]

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def column(self, name: str) -> list[Any]:
        """Return one entry per row; None where a row has none. Raises InputError for an unknown name."""
        if name not in self.names:
            raise InputError(f"no point has a column '{name}'", key="column", allowed=self.names, given=name)
        return [row.get(name) for row in self.rows]

    def columns(self) -> dict[str, list[Any]]:
        """Return all columns."""
        return {name: self.column(name) for name in self.names}

    def table(self) -> Table:
        """Return a row per point."""
        dims = ("point",)
        about = {"units": "1", "long_name": "number of the row, best first"}
        variables = {"point": Variable(dims, np.arange(len(self.rows), dtype=np.int64), about)}
        for name, values in self.columns().items():
            end = name.rpartition(".")[2]
            unit = UNITS.get(end, "")
            variables[name] = Variable(dims, column(values), {"units": unit} if unit else {})
        return Table(variables, tuple(self.axes), {"title": self.title}, "search")

    def json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return {**asdict(self), "folder": os.fspath(self.folder), "best": self.best, "front": self.front}


def write(result: SearchResult) -> list[str]:
    """Write the files of a search into its folder; return their names."""
    data = {name: value for name, value in result.json().items() if name not in ("folder", "best", "front")}
    put_file(result.folder / SEARCH, (json.dumps(data, indent=1) + "\n").encode())
    put_file(result.folder / CSV, csv_bytes(result.columns()))
    image = BytesIO()
    with h5py.File(image, "w", libver=VERSIONS) as file:
        file.attrs.update({"title": result.title, "experiment": result.experiment})
        for name in ("axes", "objectives", "counts", "cuts", "confidence", "sensitivities", "provenance"):
            file.attrs[name] = json.dumps(getattr(result, name))
        put_table(file.create_group("points"), result.table())
    put_file(result.folder / HDF5, image.getvalue())
    return [CSV, HDF5, SEARCH]


def is_search(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a finished search."""
    return (Path(path) / SEARCH).is_file()


def read(path: str | os.PathLike[str]) -> SearchResult:
    """Read the folder of a search. Raises InputError."""
    file = Path(path) / SEARCH
    try:
        return SearchResult(folder=Path(path), **json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        allowed = "a folder that `pyxsim search` has written"
        raise InputError("does not contain a finished search", file=os.fspath(path), allowed=allowed) from error
    except (OSError, ValueError, TypeError) as error:
        raise InputError("not a search that this version of pyxsim can read", file=os.fspath(file)) from error


class Evaluations:
    """The evaluations of a search so far, kept in a file with a line each. `digest`: of the space; lines of other
    spaces stay but do not count."""

    def __init__(self, folder: Path, digest: str) -> None:
        self._path, self._digest = folder / EVALUATIONS, digest
        self._known: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        for line in text.splitlines():
            try:
                row = json.loads(line)
                if row["space"] == digest:
                    self._known[row["model"], tuple(row["at"])] = row["outcome"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off when the search was killed
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if text and not text.endswith("\n"):
            os.write(self._file, b"\n")

    def get(self, model: str, place: Sequence[int]) -> dict[str, Any] | None:
        """Return the outcome of an evaluation: `values`, or `fault`; None if it is missing."""
        return self._known.get((model, tuple(place)))

    def add(self, model: str, places: Sequence[Sequence[int]], outcomes: Sequence[dict[str, Any]]) -> None:
        """Keep outcomes: written at once."""
        lines = []
        for place, outcome in zip(places, outcomes, strict=True):
            self._known[model, tuple(place)] = outcome
            lines.append(json.dumps({"space": self._digest, "model": model, "at": list(place), "outcome": outcome}))
        os.write(self._file, "".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
