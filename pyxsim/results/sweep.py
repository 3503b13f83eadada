"""A sweep as data: its points, its table, and the folder that pyxsim/study/sweep/ fills. Nothing is run here.

    DIR/sweep.json          the manifest: the axes, and the points in order, each with the key of its settings
    DIR/points/KEY.h5       a completed point: a result
    DIR/points/KEY.json     a failed point: the reason
    DIR/journal.jsonl       when points began and ended, one line each
    DIR/table.csv, .h5, ..  one row per point: sweep_table.py

The files of the points are the only state: a folder can be read at any time, also while the sweep is running.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import h5py
import numpy as np

from pyxsim.errors import InputError
from pyxsim.results.hdf5_check import BAD
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.results.result_file import OLD_SUMMARY
from pyxsim.results.result_file import read as read_result_file
from pyxsim.results.table import Framed, Table, Variable, column
from pyxsim.results.traffic import TRAFFIC_KEYS, unit_of
from pyxsim.results.views import Viewed
from pyxsim.units import base_numbers

if TYPE_CHECKING:
    import xarray as xr

MANIFEST, POINTS, JOURNAL = "sweep.json", "points", "journal.jsonl"
FORMAT = 1  # of the manifest
WARNINGS, WARNINGS_TEXT = "warnings", "warnings, for instance of settings that have no effect"
_STATES = ("the network is saturated", "the latency has no steady value")
VARIANT = "variant"  # the column with the names of variants, beside the swept keys
State = Literal["done", "failed", "missing"]
Number = int | float | bool


@dataclass(frozen=True)
class Point:
    """One experiment of a sweep.

    Attributes
    ----------
    key
        sha256 of its settings.
    changed
        Its settings by key path; "variant" is the name of a variant.
    values
        Numbers of its summary that depend on the experiment only.
    cost
        Numbers of its summary that depend on how it was run.
    file
        Its result, or the reason of a failure; None if it is missing.
    label, reason
        Its name, and the reason of a failure.
    warnings
        The warnings of its result.
    """

    key: str
    changed: Mapping[str, Any]
    state: State = "missing"
    values: Mapping[str, Number] = field(default_factory=dict)
    file: Path | None = None
    label: str = ""
    reason: str = ""
    cost: Mapping[str, Number] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def result(self) -> Result:
        """Read the result. Raises InputError unless the point is done."""
        if self.state != "done" or self.file is None:
            raise InputError(f"has no result; its state is '{self.state}'", key=self.label or self.key)
        return read_result_file(self.file)


@dataclass(eq=False, repr=False)
class Sweep(Framed, Viewed):
    """The points of a sweep.

    Attributes
    ----------
    folder
        The folder of its files.
    title, backend, provenance
        As of a Result.
    axes
        The swept keys with their values, in order.
    points
        Points in the order of the experiment; with a goal, those that the search tried.
    experiment
        Name of the experiment file.
    goal
        The search along the last axis; empty without one.
    answers
        With a goal, a row per combination of the other axes.
    settings
        The first point as TOML, defaults included.
    """

    folder: Path
    title: str
    axes: dict[str, list[Any]]
    points: list[Point]
    experiment: str = ""
    backend: str = "packet"
    goal: dict[str, Any] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)
    settings: str = ""

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"Sweep({self.title}: {counts or 'no points'})"

    @property
    def counts(self) -> dict[State, int]:
        """Number of points in each state."""
        counts: dict[State, int] = {"done": 0, "failed": 0, "missing": 0}
        for point in self.points:
            counts[point.state] += 1
        return counts

    @property
    def complete(self) -> bool:
        """Whether every point is done and every search has ended."""
        return all(row["state"] in ("found", "none") for row in self.answers) and all(
            point.state == "done" for point in self.points
        )

    @property
    def warnings(self) -> list[str]:
        """Each warning of the points once, with the points that have it unless all done points do."""
        return warning_lines(
            [(point.label or point.key, point.warnings) for point in self.points if point.state == "done"]
        )

    @cached_property
    def quantities(self) -> dict[str, tuple[str, dict[str, int | float]]]:
        """For each swept key whose values are quantities: the unit, and the number of each value."""
        units = {}
        for name, values in self.axes.items():
            if name != VARIANT and values and all(isinstance(value, str) for value in values):
                with suppress(InputError):
                    unit, numbers = base_numbers(values)
                    units[name] = (unit, dict(zip(values, numbers, strict=True)))
        return units

    def number(self, axis: str, value: Any) -> Any:
        """Return the value of a swept key; a quantity as a number in its base unit: "1 MiB" is 1048576."""
        return self.quantities[axis][1].get(value, value) if axis in self.quantities else value

    @property
    def numbers(self) -> list[str]:
        """Names of the numbers that any point has, in order."""
        return list(dict.fromkeys(name for point in self.points for name in point.values))

    def column(self, name: str) -> list[Any]:
        """Return one entry per point; None if a point does not have it.

        `name` is a swept key, "variant", "state", "warnings", "key", "label", "file", or a number of the summary.
        Quantities are numbers in their base unit (B, B/s, ns, Hz, FLOP/s). Raises InputError for an unknown name.
        """
        return self.columns([name])[name]

    def columns(self, names: Iterable[str] | None = None) -> dict[str, list[Any]]:
        """Return columns, one entry per point; by default the axes, the state, every number, the warnings, the key
        and the file."""
        every = [*self.axes, "state", *self.numbers, WARNINGS, "key", "file"]
        columns = {}
        for name in every if names is None else names:
            if name not in every and name != "label":
                raise InputError(f"no point has a column '{name}'", key="column", allowed=[*every, "label"], given=name)
            columns[name] = [self._cell(point, name) for point in self.points]
        return columns

    def _cell(self, point: Point, name: str) -> Any:
        if name in self.axes:
            return self.number(name, point.changed.get(name))
        if name == WARNINGS:
            return "; ".join(point.warnings)
        if name == "file":
            return None if point.file is None else f"{POINTS}/{point.file.name}"
        if name in ("state", "key", "label"):
            return getattr(point, name)
        return point.values.get(name)

    def table(self) -> Table:
        """Return a row per point: the swept keys, the state, the numbers."""
        return sweep_table(self)

    def to_xarray(self) -> xr.Dataset:
        """Return the numbers by swept key if all combinations are points, otherwise by point."""
        return (sweep_grid(self) or self.table()).to_xarray()

    def name_of(self, text: str) -> str:
        """Return the column for a name or the last part of a swept key, such as "load". Raises InputError."""
        columns = [*self.axes, *self.numbers]
        ends = [name for name in self.axes if name.endswith(f".{text}")]
        if text in columns or len(ends) != 1:
            return text if text in columns else self._no_column(text, columns)
        return ends[0]

    def _no_column(self, text: str, columns: list[str]) -> str:
        raise InputError(f"no point has a column '{text}'", key="column", allowed=columns, given=text)

    def plot(self, x: str, y: str, hue: str | None = None, ax: Any = None) -> Any:
        """Plot a number over a swept key, a line per value of another key; takes and returns matplotlib Axes."""
        return self.view("plot", x, y, hue, ax)


def read(path: str | os.PathLike[str]) -> Sweep:
    """Read the folder of a sweep as it is now: every point, without the answers of a goal (pyxsim.analysis.goal.read).

    Raises InputError if the folder holds no sweep.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    try:
        points = [read_point(folder, row["key"], row["changed"], row.get("label", "")) for row in manifest["points"]]
        return Sweep(
            folder,
            manifest["title"],
            manifest["axes"],
            points,
            manifest["experiment"],
            manifest["backend"],
            manifest["goal"],
            provenance=manifest["provenance"],
            settings=manifest.get("settings", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_manifest(folder / MANIFEST) from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a sweep. Raises InputError."""
    file = folder / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        problem = "does not contain a sweep" if folder.is_dir() else "is not the folder of a sweep"
        raise InputError(problem, file=os.fspath(folder), allowed="a folder written by `pyxsim sweep`") from error
    except OSError as error:
        raise InputError(os.strerror(error.errno or 0), file=os.fspath(file)) from error
    except (ValueError, RecursionError) as error:
        raise _no_manifest(file) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _no_manifest(file)
    return manifest


def _no_manifest(file: Path) -> InputError:
    return InputError("not a manifest that this version of pyxsim can read", file=os.fspath(file))


def read_point(folder: Path, key: str, changed: Mapping[str, Any], label: str = "") -> Point:
    """Read a point, whatever its state. Raises InputError if its file is damaged."""
    if not re.fullmatch("[0-9a-f]+", key):
        raise InputError(f"'{key}' is not the key of a point", file=os.fspath(folder / MANIFEST))
    done, failed = folder / POINTS / f"{key}.h5", folder / POINTS / f"{key}.json"
    state = state_of(folder, key)
    if state == "done":
        summary, warnings = _read_done(done)
        values, cost = split(summary)
        return Point(key, changed, state, values, done, label, cost=cost, warnings=warnings)
    if state == "failed":
        return Point(key, changed, "failed", file=failed, label=label, reason=str(read_failure(failed)["reason"]))
    return Point(key, changed, label=label)


def state_of(folder: Path, key: str) -> State:
    """Return the state of a point from its files."""
    if (folder / POINTS / f"{key}.h5").exists():
        return "done"
    return "failed" if (folder / POINTS / f"{key}.json").exists() else "missing"


def columns_in(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a summary that are columns of the table: numbers, and None for one that is unknown.

    The times of a workload's NPUs (`compute_ns` ..) count with their mean.
    """
    means = {name: value.get("mean", "") if isinstance(value, dict) else value for name, value in summary.items()}
    return {name: value for name, value in means.items() if value is None or isinstance(value, int | float)}


def split(summary: Mapping[str, Any]) -> tuple[dict[str, Number], dict[str, Number]]:
    """Split the numbers of a summary: those that depend on the experiment only, and the others."""
    numbers = {name: value for name, value in columns_in(summary).items() if value is not None}
    values = {name: value for name, value in numbers.items() if name not in HOW_IT_RAN}
    return values, {name: value for name, value in numbers.items() if name in HOW_IT_RAN}


def read_summary(file: Path) -> dict[str, Any]:
    """Read only the summary of a result. Raises InputError."""
    return _read_done(file)[0]


def _read_done(file: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The summary and the warnings of a result."""
    try:
        with h5py.File(file, "r") as result:
            warnings = json.loads(result.attrs[WARNINGS]) if WARNINGS in result.attrs else []
            summary = json.loads(result.attrs["summary"])
            return {OLD_SUMMARY.get(name, name): value for name, value in summary.items()}, tuple(map(str, warnings))
    except (OSError, *BAD) as error:
        raise InputError(
            "not a readable result of pyxsim", file=os.fspath(file), allowed="remove the file to run the point again"
        ) from error


def read_failure(file: Path) -> dict[str, Any]:
    """Read why a point failed: `reason`, `kind`, `tries`. Raises InputError if the file is damaged."""
    try:
        failure = json.loads(file.read_text(encoding="utf-8"))
        return {"reason": str(failure["reason"]), "kind": str(failure["kind"]), "tries": int(failure["tries"])}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            "not a record of a failed point", file=os.fspath(file), allowed="remove the file to run the point again"
        ) from error


def warning_lines(points: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return each warning of some points once; `points`: label and warnings. Labels precede what not all have.

    What the columns `saturated` and `steady` say is left out.
    """
    labels: dict[str, list[str]] = {}
    for label, warnings in points:
        for text in dict.fromkeys(text for text in warnings if not text.startswith(_STATES)):
            labels.setdefault(text, []).append(label)
    lines = []
    for text, having in labels.items():
        more = f" and {len(having) - 1} more" if len(having) > 1 else ""
        lines.append(text if len(having) == len(points) else f"{having[0]}{more}: {text}")
    return lines


def sweep_table(sweep: Sweep) -> Table:
    """Make the table of a sweep: a row per point."""
    columns = {name: column(values) for name, values in sweep.columns().items()}
    dims = ("point",)
    number = Variable(dims, np.arange(len(sweep), dtype=np.int64), {"units": "1", "long_name": "number of the point"})
    variables = {name: Variable(dims, values, _known(name, sweep)) for name, values in columns.items()}
    return Table({"point": number, **variables}, tuple(sweep.axes), {"title": sweep.title}, "sweep")


def sweep_grid(sweep: Sweep) -> Table | None:
    """Make a table with the axes as dimensions; None unless the points are all combinations of their values."""
    axes = {key: list(dict.fromkeys(map(_hashable, values))) for key, values in sweep.axes.items()}
    shape = tuple(map(len, axes.values()))
    places = []
    for point in sweep.points:
        values = [_hashable(point.changed.get(key)) for key in axes]
        if any(value not in known for value, known in zip(values, axes.values(), strict=True)):
            return None
        places.append(tuple(known.index(value) for value, known in zip(values, axes.values(), strict=True)))
    if not axes or len(set(places)) != len(places) or len(places) != int(np.prod(shape)):
        return None
    dims = tuple(axes)
    variables = {
        key: Variable((key,), column([sweep.number(key, value) for value in values]), _known(key, sweep))
        for key, values in axes.items()
    }
    for name in (*sweep.numbers, "state", WARNINGS):
        numbers = column(sweep.column(name))
        grid = np.empty(shape, numbers.dtype)
        grid[tuple(np.array(places).T)] = numbers
        variables[name] = Variable(dims, grid, _known(name, sweep))
    return Table(variables, attrs={"title": sweep.title}, name="sweep")


def _hashable(value: Any) -> Any:
    """A hashable value of an axis: text for a list, such as a shape."""
    return str(value) if isinstance(value, list | dict) else value


def _known(name: str, sweep: Sweep) -> dict[str, str]:
    """Unit and description of a column, if it has any."""
    if name in sweep.quantities:
        return {"units": sweep.quantities[name][0]}
    if name == WARNINGS:
        return {"long_name": WARNINGS_TEXT}
    return {"units": unit_of(name), "long_name": TRAFFIC_KEYS[name]} if name in TRAFFIC_KEYS else {}
