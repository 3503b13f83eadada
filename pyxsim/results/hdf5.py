"""The HDF5 file of a result: opens in xarray, h5py and everything that reads netCDF4, with no help.

Choices that were measured: chunks of (1024, 64) make one link and one window both quick to read; gzip with shuffle is
the one good compression that every reader has, and what is smaller than an index of chunks goes without; most of the
time for a small file goes into h5py's ways to find things by name, so what was just made is held; dimension scales are
what xarray calls coordinates; a NumPy bool would come back differently in each of xarray's engines, so there is none;
units are never "ns" or "seconds since", which xarray would turn into dates.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pyxsim.errors import InputError
from pyxsim.network.windows import Windows
from pyxsim.results.attribution import BLAME, LATENCY, STAYS, Attribution
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.layout import TABLES, tables_of
from pyxsim.results.memory import Memory
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import COUNTERS, LinkTable, Result, plain
from pyxsim.results.table import Table
from pyxsim.results.traffic import Traffic
from pyxsim.results.work import NAMES, NPUS, PATH, TASKS, TIMELINE, Work
from pyxsim.paths import ending, missing, need_folder
from pyxsim.system.table import COLUMNS as CHUNK_COLUMNS

ENDS = (".h5", ".hdf5", ".nc")  # of names of files in HDF5; .nc as those who read it as netCDF4 have it
PLAIN = 1024  # bytes up to which data are neither cut into chunks nor compressed
CHUNKS = {1: (16384,), 2: (1024, 64), 3: (1024, 8, 8)}
FILTERS = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
# The oldest format that both netCDF4 and h5netcdf are happy with and that keeps attributes of any length.
VERSIONS = ("v110", "v110")
TEXT = h5py.string_dtype("utf-8")
# A text in the file, in memory, and that there is one.
_IN_FILE, _IN_MEMORY = h5py.h5t.py_create(TEXT, logical=True), h5py.h5t.py_create(TEXT)
_ONE = h5py.h5s.create(h5py.h5s.SCALAR)

Path_ = str | os.PathLike[str]


def check_writable(path: Path_) -> Path:
    """Make sure that a result can be written to `path`, before the time of a long simulation is spent on it.

    Returns the path with links followed. Raises InputError, also where its folder is missing: none is made.
    """
    need_folder(path)
    target = Path(os.path.realpath(path))
    need_folder(target)
    try:
        if target.is_dir():
            raise _fault(path, "it is a folder", "the name of a file such as 'out.h5'")
        if target.exists() and not target.is_file():
            raise _fault(path, "it is no regular file")
        if target.exists() and not os.access(target, os.W_OK):
            raise _fault(path, "the file is write-protected")
        probe = _beside(target)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _fault(path, _reason(error)) from error
    return target


def check_hdf5(path: Path_, hint: str = "") -> Path:
    """As `check_writable`, for a file in HDF5, whose name must say so. `hint`: what else is allowed."""
    target = check_writable(path)
    ending(path, ENDS, "a result, which is HDF5", hint)
    return target


def write(result: Result, path: Path_) -> None:
    """Write a result. Raises InputError when the file cannot be written, or the disk is full."""
    check_hdf5(path)
    # HDF5 itself must not meet a full disk: it would crash the process when it closes the file.
    put_file(path, image(result))


def image(result: Result) -> memoryview:
    """The file of a result, byte by byte."""
    data = io.BytesIO()
    with h5py.File(data, "w", libver=VERSIONS) as file:
        write_result(file, result)
    return data.getbuffer()


def write_result(group: h5py.Group, result: Result) -> None:
    """Write the attributes and tables of a result into a group: all of a file, or a part of one."""
    _write_root(group, result)
    for name in tables_of(result):
        write_table(group.create_group(name), TABLES[name](result))


def put_file(path: Path_, data: bytes | memoryview) -> None:
    """Write another file beside `path` and rename it: a reader sees the old file or the new one, never half of it.

    Raises InputError.
    """
    target = check_writable(path)
    part = _beside(target)
    try:
        with part.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, target)
    except OSError as error:
        raise _fault(path, _reason(error)) from error
    finally:
        part.unlink(missing_ok=True)


_RESULTS = "a file that `pyxsim run -o` has written"


def read(path: Path_) -> Result:
    """The result in a file of `write`, without its topology object. InputError when the file is none of ours."""
    try:
        with h5py.File(path, "r") as file:
            if other := "comparison" if "comparison" in file.attrs else "curve" if "curve" in file else "":
                raise InputError(f"is a {other}, not the result of a run", file=os.fspath(path), allowed=_RESULTS)
            return read_result(file)
    except OSError as error:
        raise unreadable(path, error, _RESULTS) from error
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("is no result of pyxsim, or of another version", file=os.fspath(path)) from error


def unreadable(path: Path_, error: OSError, allowed: str) -> InputError:
    """The fault of a file that h5py cannot open, or not read to its end. `allowed`: what was wanted."""
    file = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        return missing(path)
    if isinstance(error, PermissionError):
        return InputError(_reason(error), file=file)
    problem = _reason(error) if isinstance(error, IsADirectoryError) else "is no readable HDF5 file"
    if file.endswith(".toml"):
        problem = "is an experiment by its name, not the result of one"
    return InputError(problem, file=file, allowed=allowed)


def _reason(error: OSError) -> str:
    """The system's words for an error. h5py sets the number only, and its own text is a page."""
    return os.strerror(error.errno) if error.errno else str(error)


def _fault(path: Path_, why: str, allowed: str | None = None) -> InputError:
    return InputError(f"cannot be written: {why}", file=os.fspath(path), allowed=allowed)


def _beside(target: Path) -> Path:
    """A name in the folder of `target` that nobody else uses: only there is a rename one step."""
    return target.with_name(f".pyxsim-{os.getpid()}-{secrets.token_hex(4)}.part")


def _write_root(file: h5py.Group, result: Result) -> None:
    clock = result.clock_hz
    attrs: dict[str, Any] = {
        "Conventions": "CF-1.11",
        "title": result.title,
        **result.provenance,
        "experiment": result.experiment_toml,
        "sha256": settings_sha256(result.experiment_toml),
        # HDF5 knows no integer of more than 64 bits; a seed may be one.
        "seed": result.seed if abs(result.seed) < 2**63 else str(result.seed),
        "clock_hz": clock.numerator if clock.denominator == 1 else float(clock),
        "complete": np.uint8(result.complete),
        "backend": result.backend,
        "summary": json.dumps(result.json()),
        "warnings": json.dumps(result.warnings),
        "record": json.dumps(
            {
                "cycles": int(result.time_cycles),
                "clock_hz": str(clock),
                "counts": {name: plain(value) for name, value in result.counts.items()},
                "provenance": result.provenance,
                **{key: plain(getattr(result, key)) for key in _RECORD},
            }
        ),
    }
    _describe(file, attrs)


# What has no other place in the file in full precision.
_RECORD = (
    "dimensions",
    "link_kinds",
    "failure",
    "carried",
    "bound_ns",
    "sim_cpu_s",
    "total_cpu_s",
    "peak_rss_mb",
    "backend",
    "seed",
)


def _describe(thing: h5py.Group | h5py.Dataset, attrs: Mapping[str, Any]) -> None:
    """Attributes of something new. Most are texts, for which h5py's own way takes four times as long."""
    for name, value in attrs.items():
        if isinstance(value, str):
            attribute = h5py.h5a.create(thing.id, name.encode(), _IN_FILE, _ONE)
            attribute.write(np.array(value, dtype=TEXT), mtype=_IN_MEMORY)
        else:
            thing.attrs[name] = value


def write_table(group: h5py.Group, table: Table) -> None:
    """Write the variables of a table into a group, with their dimension scales."""
    made: dict[str, h5py.Dataset] = {}
    for name, variable in table.variables.items():
        data = variable.data
        options: dict[str, Any] = {}
        if data.dtype == object:
            options["dtype"] = TEXT
        elif data.nbytes > PLAIN:
            limit = CHUNKS[data.ndim]
            options.update(FILTERS, chunks=tuple(min(n, m) for n, m in zip(data.shape, limit, strict=True)))
        made[name] = group.create_dataset(name, data=data, **options)
        _describe(made[name], variable.attrs)
    for name, variable in table.variables.items():
        if variable.dims == (name,):
            made[name].make_scale(name)
    for name, variable in table.variables.items():
        for axis, dim in enumerate(variable.dims):
            if dim != name:
                h5py.h5ds.attach_scale(made[name].id, made[dim].id, axis)
    _describe(group, table.attrs)
    if table.coordinates:
        _describe(group, {"coordinates": " ".join(table.coordinates)})


def read_result(file: h5py.Group) -> Result:
    """The result in a group of `write_result`. Raises KeyError, ValueError or TypeError where there is none."""
    record = json.loads(file.attrs["record"])
    windows, total = file["links"], file["links_total"]
    columns = {name: total[name][()] for name in ("src", "dst", "dim", "bandwidth", "latency", "s_num", "s_den")}
    return Result(
        time_cycles=record["cycles"],
        clock_hz=Fraction(record["clock_hz"]),
        complete=bool(file.attrs["complete"]),
        links=LinkTable(_texts(total["name"]), **columns),
        windows=Windows(
            windows["time"][()],
            int(windows.attrs["window_cycles"]),
            {name: windows[name][()].astype(np.uint64) for name in COUNTERS},
        ),
        totals={name: total[name][()] for name in COUNTERS},
        buffer_max=total["buffer_max"][()],
        chunks={name: file["chunks"][name][()] for name in CHUNK_COLUMNS},
        collectives=_read_rows(file["collectives"], "collective"),
        messages=_read_rows(file["messages"], "message") if "messages" in file else [],
        by_dimension=_read_columns(file, "dimensions", "row", "name"),
        phases=_read_columns(file, "phases", "row"),
        layers=_read_columns(file, "layers", "layer"),
        traffic=_read_traffic(file["traffic"]) if "traffic" in file else None,
        attribution=_read_attribution(file) if "congestion" in file else None,
        work=_read_work(file) if "npus" in file else None,
        memory=_read_memory(file) if "memories" in file else None,
        chunk_delays=_read_detail(file, Fraction(record["clock_hz"])) if "occupancy" in file else None,
        counts=record["counts"],
        **{key: record[key] for key in _RECORD if key in record},
        experiment_toml=file.attrs["experiment"],
        warnings=json.loads(file.attrs["warnings"]),
        provenance=record["provenance"],
    )


def _read_traffic(group: h5py.Group) -> Traffic:
    record = json.loads(group.attrs["record"])
    columns = {name: _column(dataset) for name, dataset in group.items()}

    def table(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): values for name, values in columns.items() if name.startswith(prefix)}

    return Traffic(
        summary=record["summary"],
        classes={name: values.tolist() for name, values in table("class_").items()},
        batches=table("batch_"),
        accepted=columns["accepted"],
        latency=columns["latency"],
        packets=columns["packets"],
        notes=record["notes"],
    )


def _read_attribution(file: h5py.File) -> Attribution:
    table = file["congestion"]
    long = {
        name: {column: file[name][column][()] for column in columns}
        for name, columns in (("latency", LATENCY), ("stays", STAYS))
        if name in file
    }
    return Attribution(
        _texts(table["victim"]),
        _texts(table["name"]),
        table["messages"][()],
        table["parts"][()],
        {column: file["blame"][column][()] for column in BLAME},
        **long,
        left_out=json.loads(table.attrs["left_out"]),
    )


def _read_work(file: h5py.File) -> Work:
    path = file["critical_path"]
    texts = {each: _texts(path[name]) for each, name in NAMES.items()}
    return Work(
        npus={name: file["npus"][name][()] for name in NPUS},
        path={name: path[name][()] for name in PATH},
        tasks={name: file["tasks"][name][()] for name in TASKS} if "tasks" in file else {},
        timeline={name: file["timeline"][name][()] for name in TIMELINE},
        names=texts["names"],
        kinds=texts["kinds"],
        layers=texts["layers"],
        **json.loads(path.attrs["record"]),
    )


def _read_memory(file: h5py.File) -> Memory:
    return Memory(_read_columns(file, "npu_memory", "npu"), _read_columns(file, "memories", "row"))


def _read_detail(file: h5py.File, clock: Fraction) -> ChunkDelays:
    rows, occupancy = file["layer_phases"], file["occupancy"]
    return ChunkDelays.of_rows(
        json.loads(rows.attrs["layer_names"]),
        {name: rows[name][()] for name in ("layer", "queueing", "network")},
        occupancy["chunk_time"][()].tolist(),
        int(occupancy.attrs["window_cycles"]),
        occupancy["busy"][()],
        clock,
    )


def _texts(dataset: h5py.Dataset) -> list[str]:
    return [str(text) for text in dataset.asstr()[()]]


def _column(dataset: h5py.Dataset) -> Any:
    return np.array(_texts(dataset), dtype=object) if dataset.dtype.kind == "O" else dataset[()]


def _read_columns(file: h5py.File, name: str, *without: str) -> dict[str, Any]:
    """The columns of a group that may not be there, but for numbers and names of its rows."""
    return {key: _column(dataset) for key, dataset in file.get(name, {}).items() if key not in without}


def _read_rows(group: h5py.Group, number: str) -> list[dict[str, Any]]:
    """Rows again; NaN, which stands for "there is none", becomes None."""
    columns = {name: _column(dataset) for name, dataset in group.items() if name != number}
    rows = [{name: plain(values[i]) for name, values in columns.items()} for i in range(len(group[number]))]
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
