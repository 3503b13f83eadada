"""The table of a sweep as files: one row per point.

`table.csv`, `table.h5` and `table.parquet` depend on the experiment only: the CSV has the same bytes for any number of
processes and interruptions. What depends on the computer, such as CPU time, is in `timing.csv`; the answers of a search
are in `answers.csv`.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import h5py
import numpy as np

from pyxsim.errors import InputError
from pyxsim.paths import ending
from pyxsim.results.dataset import columns_of
from pyxsim.results.hdf5 import ENDS, VERSIONS, put_file, write_table
from pyxsim.results.sweep import Sweep
from pyxsim.results.table import Table, Variable, column
from pyxsim.textfile import csv_text

TABLE, TIMING, ANSWERS = "table", "timing.csv", "answers.csv"
Columns = Mapping[str, list[Any]]


def write_tables(sweep: Sweep) -> None:
    """Write all tables into the folder of the sweep."""
    for name in names_of(sweep):
        path = sweep.folder / name
        other = (
            csv_bytes(_timing(sweep))
            if name == TIMING
            else csv_bytes(answer_columns(sweep))
            if name == ANSWERS
            else None
        )
        put_file(path, KINDS[path.suffix](sweep) if other is None else other)


def names_of(sweep: Sweep) -> list[str]:
    """Return the names of all tables; Parquet only if pyarrow is installed."""
    kinds = [kind for kind in KINDS if kind != ".parquet" or find_spec("pyarrow") is not None]
    return [*(f"{TABLE}{kind}" for kind in kinds), TIMING, *([ANSWERS] if sweep.answers else [])]


def save(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the table in the format of the file extension. Raises InputError."""
    suffix = ending(path, (*ENDS, *(kind for kind in KINDS if kind not in ENDS)), "a table")
    put_file(path, KINDS.get(suffix, _hdf5)(sweep))


def _timing(sweep: Sweep) -> dict[str, list[Any]]:
    rows = [{**_swept(sweep, point.changed), **point.cost, "key": point.key} for point in sweep.points]
    names = [*sweep.axes, *(name for row in rows for name in row if name not in sweep.axes and name != "key"), "key"]
    columns = columns_of(rows)
    return {name: columns.get(name, []) for name in dict.fromkeys(names)}


def _swept(sweep: Sweep, changed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sweep.number(name, changed.get(name)) for name in sweep.axes}


def answer_columns(sweep: Sweep) -> dict[str, list[Any]]:
    """Return the columns of the answers of a search, with quantities as numbers in their base unit."""
    axis_of = {**{name: name for name in sweep.axes}, "refused": str(sweep.goal.get("key"))}
    return {
        name: [sweep.number(axis_of[name], value) for value in values] if name in axis_of else values
        for name, values in columns_of(sweep.answers).items()
    }


# CSV


def csv_bytes(columns: Columns) -> bytes:
    """Return columns as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_text, columns))
    writer.writerows([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    """A CSV cell: an exact number; empty for None; JSON for lists and dicts."""
    if value is None:
        return ""
    return csv_text(value) if isinstance(value, str) else json.dumps(value)


# HDF5


def _hdf5(sweep: Sweep) -> bytes:
    data = io.BytesIO()
    with h5py.File(data, "w", libver=VERSIONS) as file:
        about: dict[str, Any] = {"title": sweep.title, "experiment": sweep.experiment, "backend": sweep.backend}
        file.attrs.update(sweep.counts)
        file.attrs.update({**about, "axes": json.dumps(sweep.axes), "goal": json.dumps(sweep.goal)})
        put_table(file.create_group("points"), sweep.table())
        if sweep.answers:
            put_table(file.create_group("answers"), _answers(sweep))
    return data.getvalue()


def _answers(sweep: Sweep) -> Table:
    """A row per combination of the other axes."""
    variables = {"row": Variable(("row",), np.arange(len(sweep.answers)), {"long_name": "number of the row, from 0"})}
    for name, values in answer_columns(sweep).items():
        attrs = {"units": sweep.quantities[name][0]} if name in sweep.quantities else {}
        variables[name] = Variable(("row",), column(values), attrs)
    return Table(variables)


def put_table(group: h5py.Group, table: Table) -> None:
    """Write a table with truth values as 1 and 0, and without slashes, which separate groups, in names."""
    variables = {}
    for name, variable in table.variables.items():
        data = variable.data.astype(np.uint8) if variable.data.dtype == bool else variable.data
        variables[name.replace("/", "_")] = Variable(variable.dims, data, variable.attrs)
    write_table(group, Table(variables, tuple(name.replace("/", "_") for name in table.coordinates), table.attrs))


# Parquet


def _parquet(sweep: Sweep) -> bytes:
    try:
        pa: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install pyxsim[parquet]") from error
    columns = {name: _uniform(values) for name, values in sweep.columns().items()}
    data = io.BytesIO()
    parquet.write_table(pa.table(columns), data)
    return data.getvalue()


def _uniform(values: list[Any]) -> list[Any]:
    """A column of one type: numbers or truth values; anything else as text."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known):
        return values
    if any(not isinstance(value, int | float) or isinstance(value, bool) for value in known):
        return [value if value is None or isinstance(value, str) else str(_cell(value)) for value in values]
    if any(isinstance(value, float) or abs(value) >= 2**63 for value in known):
        return [None if value is None else float(value) for value in values]
    return values


KINDS: dict[str, Callable[[Sweep], bytes]] = {
    ".csv": lambda sweep: csv_bytes(sweep.columns()),
    ".h5": _hdf5,
    ".parquet": _parquet,
}
