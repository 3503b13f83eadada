"""The HDF5 file of a result: its attributes and its tables."""

from __future__ import annotations

import io
import json
import os
from fractions import Fraction
from typing import Any

import h5py
import numpy as np

from pyxsim.errors import InputError
from pyxsim.results import dataset
from pyxsim.results.hdf5 import (
    VERSIONS,
    Path_,
    StoredTable,
    StoredTables,
    check_hdf5,
    describe,
    put_file,
    reading,
    write_table,
)
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import Result
from pyxsim.results.table import plain

RESULTS = "a file written by `pyxsim run -o`"

RECORD = {
    "dimensions": "dimension_names",
    **{
        name: name
        for name in (
            "link_kinds",
            "failure",
            "carried",
            "lower_bound_ns",
            "optimum_ns",
            "optimum_limit",
            "sim_cpu_s",
            "total_cpu_s",
            "peak_rss_mb",
            "backend",
            "seed",
        )
    },
}
"""Keys of the attribute `record`, which holds fields of the result in full precision, and the names of these fields."""


OLD_NAMES = {"messages": "point_to_point"}
"""Names of groups in files of earlier versions."""

OLD_COLUMNS = {"collectives": {"bound": "lower_bound"}}
"""Names of columns in these groups, likewise."""

OLD_SUMMARY = {"bound_ns": "lower_bound_ns"}
"""Keys of the attributes `record` and `summary`, likewise."""


def write(result: Result, path: Path_) -> None:
    """Write a result. Raises InputError if the file cannot be written, also on a full disk."""
    check_hdf5(path)
    # In memory first: on a full disk HDF5 crashes the process when it closes the file.
    put_file(path, image(result))


def image(result: Result) -> memoryview:
    """Return the bytes of the file of a result."""
    data = io.BytesIO()
    with h5py.File(data, "w", libver=VERSIONS) as file:
        write_result(file, result)
    return data.getbuffer()


def write_result(group: h5py.Group, result: Result) -> None:
    """Write the attributes and tables of a result into a group of a file."""
    _write_root(group, result)
    for name in dataset.present(result):
        write_table(group.create_group(name), dataset.table_of(result, name))


def read(path: Path_) -> Result:
    """Read a file of `write`; the result has no topology object. Raises InputError if it is no result."""
    with reading(path, RESULTS, "not a result that this version of pyxsim can read") as file:
        if other := "comparison" if "comparison" in file.attrs else "curve" if "curve" in file else "":
            raise InputError(f"a {other}, not the result of a run", file=os.fspath(path), allowed=RESULTS)
        return read_result(file)


def _write_root(file: h5py.Group, result: Result) -> None:
    clock = result.clock_hz
    attrs: dict[str, Any] = {
        "Conventions": "CF-1.11",
        "title": result.title,
        **result.provenance,
        "experiment": result.experiment_toml,
        "sha256": settings_sha256(result.experiment_toml),
        # HDF5 has no integers of more than 64 bits; a seed may be larger.
        "seed": result.seed if abs(result.seed) < 2**63 else str(result.seed),
        "clock_hz": clock.numerator if clock.denominator == 1 else float(clock),
        "complete": np.uint8(result.complete),
        "backend": result.backend,
        "summary": json.dumps(result.json()),
        "warnings": json.dumps(result.warnings),
        "hints": json.dumps(result.hints),
        "record": json.dumps(
            {
                "cycles": int(result.time_cycles),
                "clock_hz": str(clock),
                "counts": {name: plain(value) for name, value in result.counts.items()},
                "provenance": result.provenance,
                **{key: plain(getattr(result, field)) for key, field in RECORD.items()},
            }
        ),
    }
    describe(file, attrs)


def read_result(file: h5py.Group) -> Result:
    """Read the result in a group of `write_result`. Raises KeyError, ValueError or TypeError if it contains none."""
    record = json.loads(file.attrs["record"])
    record = {OLD_SUMMARY.get(name, name): value for name, value in record.items()}
    clock = Fraction(record["clock_hz"])
    groups = {OLD_NAMES.get(name, name): group for name, group in file.items()}
    tables = StoredTables({name: StoredTable(group, OLD_COLUMNS.get(name)) for name, group in groups.items()}, clock)
    specs = {spec.name: spec for spec in dataset.every() if not spec.computed}
    for name, spec in specs.items():
        if name in tables:
            spec.check(tables[name])
    fields: dict[str, Any] = {
        name: spec.restore(tables[name]) for name, spec in specs.items() if spec.restored and name in tables
    }
    for restore in dataset.RESTORE:
        found = restore(tables)
        found["backend_tables"] = {**fields.get("backend_tables", {}), **found.get("backend_tables", {})}
        fields |= found
    return Result(
        time_cycles=record["cycles"],
        clock_hz=clock,
        complete=bool(file.attrs["complete"]),
        **fields,
        counts=record["counts"],
        **{field: record[key] for key, field in RECORD.items() if key in record},
        experiment_toml=file.attrs["experiment"],
        warnings=json.loads(file.attrs["warnings"]),
        hints=json.loads(file.attrs["hints"]) if "hints" in file.attrs else [],
        provenance=record["provenance"],
        extra={name: table.table() for name, table in tables.items() if name not in specs},
    )


Result.views.update(save=write, load=read)
