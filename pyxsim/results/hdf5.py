"""Tables in HDF5 files that open in xarray, h5py and everything that reads netCDF4.

Measured choices: chunks of (1024, 64) make both one link and one window quick to read; gzip with shuffle is the best
compression that every reader supports; datasets below the size of a chunk index are neither chunked nor compressed;
h5py spends most of the time for a small file on lookups by name, so objects are kept. Dimension scales are coordinates
in xarray. There is no NumPy bool, which xarray's engines read differently, and no unit "ns" or "seconds since", which
xarray decodes as dates.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.library import user_fault
from pyxsim.paths import ending, missing, need_folder
from pyxsim.results.hdf5_check import BAD, check_structure
from pyxsim.results.table import Table, Variable

ENDS = (".h5", ".hdf5", ".nc")  # extensions of HDF5 files; .nc is that of netCDF4
PLAIN = 1024  # bytes up to which data are neither chunked nor compressed
CHUNKS = {1: (16384,), 2: (1024, 64), 3: (1024, 8, 8)}
FILTERS = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
# The oldest format that netCDF4 and h5netcdf accept and that stores attributes of any length.
VERSIONS = ("v110", "v110")
TEXT = h5py.string_dtype("utf-8")
# Types of a text in the file and in memory, and the space of a scalar.
_IN_FILE, _IN_MEMORY = h5py.h5t.py_create(TEXT, logical=True), h5py.h5t.py_create(TEXT)
_ONE = h5py.h5s.create(h5py.h5s.SCALAR)

Path_ = str | os.PathLike[str]


def check_writable(path: Path_) -> Path:
    """Check that a file can be written to `path`, before a long simulation.

    Returns the path with links resolved. Raises InputError, also for a missing folder, which is not created.
    """
    need_folder(path)
    target = Path(os.path.realpath(path))
    need_folder(target)
    try:
        if target.is_dir():
            raise _fault(path, "it is a folder", "the name of a file such as 'out.h5'")
        if target.exists() and not target.is_file():
            raise _fault(path, "it is not a regular file")
        if target.exists() and not os.access(target, os.W_OK):
            raise _fault(path, "the file is write-protected")
        probe = _part_of(target, "-probe")
        try:
            probe.touch()
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise _fault(path, _reason(error)) from error
    return target


def check_hdf5(path: Path_, hint: str = "") -> Path:
    """Check as `check_writable`, and the extension of the name. `hint`: alternatives for the error message."""
    target = check_writable(path)
    ending(path, ENDS, "a result", hint)
    return target


def put_file(path: Path_, data: bytes | memoryview) -> None:
    """Write a temporary file beside `path` and rename it: a reader sees the old file or the new one, never a part.

    Raises InputError.
    """
    target = check_writable(path)
    try:
        descriptor, part = _opened_part(target)
        with open(descriptor, "wb") as out:  # closing it releases the lock
            try:
                out.truncate(0)
                out.write(data)
                out.flush()
                os.fsync(descriptor)
                os.replace(part, target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _fault(path, _reason(error)) from error


def _opened_part(target: Path) -> tuple[int, Path]:
    """Open and lock the temporary file of a target.

    Its name follows from that of the target, so that the next writer replaces what a killed one has left. A second
    writer at the same time gets a name of its own.
    """
    part = _part_of(target)
    with suppress(OSError):  # it is locked, somebody else's, or this file system has no locks
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(part)):  # else the other writer has just renamed it
                return descriptor, part
            raise BlockingIOError
        except OSError:
            os.close(descriptor)
            raise
    part = _part_of(target, f"-{os.getpid()}-{secrets.token_hex(4)}")
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), part


@contextmanager
def reading(path: Path_, allowed: str, damaged: str = "damaged") -> Iterator[h5py.File]:
    """Open a file for reading, once its structure has been checked; every failure to read it is an InputError.

    Parameters
    ----------
    path
        The file.
    allowed
        The expected kind of file, for messages.
    damaged
        What to say of a file whose content cannot be read.
    """
    try:
        check_structure(path)
        with h5py.File(path, "r") as file:
            yield file
    except OSError as error:
        raise unreadable(path, error, allowed) from error
    except BAD as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{damaged}: {str(error)[:200]}", file=os.fspath(path)) from error


@contextmanager
def shown(files: Sequence[str]) -> Iterator[None]:
    """Inside, content of these files is shown: an error of Python, which damaged content causes, becomes an InputError.
    Without files nothing changes."""
    try:
        yield
    except BAD as error:
        if isinstance(error, InputError) or not files:
            raise
        if fault := user_fault(error):  # a panel or plot of the user, not the file
            raise fault from error
        hint = "" if os.environ.get("PYXSIM_TRACEBACK") == "1" else "; PYXSIM_TRACEBACK=1 shows where"
        problem = f"cannot be shown, perhaps because it is damaged: {type(error).__name__}: {str(error)[:200]}{hint}"
        raise InputError(problem, file=", ".join(files)) from error


def unreadable(path: Path_, error: OSError, allowed: str) -> InputError:
    """Return the InputError for a file that h5py cannot read. `allowed`: the expected kind of file."""
    file = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        return missing(path)
    if isinstance(error, PermissionError):
        return InputError(_reason(error), file=file)
    problem = _reason(error) if isinstance(error, IsADirectoryError) else "not a readable HDF5 file"
    if file.endswith(".toml"):
        problem = "looks like an experiment file, not a result"
    return InputError(problem, file=file, allowed=allowed)


def _reason(error: OSError) -> str:
    """The message of the operating system; h5py sets only the number, and its own text is a page long."""
    return os.strerror(error.errno) if error.errno else str(error)


def _fault(path: Path_, why: str, allowed: str | None = None) -> InputError:
    return InputError(f"cannot be written: {why}", file=os.fspath(path), allowed=allowed)


def _part_of(target: Path, more: str = "") -> Path:
    """A hidden name beside the target, of a fixed length: that of the target may be as long as names can be."""
    name = hashlib.blake2b(os.fsencode(target.name), digest_size=8).hexdigest()
    return target.with_name(f".pyxsim-{name}{more}.part")


def describe(target: h5py.Group | h5py.Dataset, attrs: Mapping[str, Any]) -> None:
    """Add attributes to a new object. Texts bypass h5py's own method, which takes four times as long."""
    for name, value in attrs.items():
        if isinstance(value, str):
            attribute = h5py.h5a.create(target.id, name.encode(), _IN_FILE, _ONE)
            attribute.write(np.array(value, dtype=TEXT), mtype=_IN_MEMORY)
        else:
            target.attrs[name] = value


def write_table(group: h5py.Group, table: Table) -> None:
    """Write the variables of a table into a group, with their dimension scales."""
    made: dict[str, h5py.Dataset] = {}
    for name, variable in table.variables.items():
        made[name] = _put(group, name, variable.data)
        describe(made[name], variable.attrs)
    for name, variable in table.variables.items():
        if variable.dims == (name,):
            made[name].make_scale(name)
    for name, variable in table.variables.items():
        for axis, dim in enumerate(variable.dims):
            if dim != name:
                h5py.h5ds.attach_scale(made[name].id, made[dim].id, axis)
    describe(group, table.attrs)
    if table.coordinates:
        describe(group, {"coordinates": " ".join(table.coordinates)})


def _put(group: h5py.Group, name: str, data: NDArray[Any]) -> h5py.Dataset:
    options: dict[str, Any] = {}
    if data.dtype == object:
        options["dtype"] = TEXT
    elif data.nbytes > PLAIN:
        limit = CHUNKS[data.ndim]
        options.update(FILTERS, chunks=tuple(min(n, m) for n, m in zip(data.shape, limit, strict=True)))
    return group.create_dataset(name, data=data, **options)


class StoredTable(Mapping[str, NDArray[Any]]):
    """The variables of a group by name, read on access; texts as objects.

    `former`: present names of variables by those of earlier versions.
    """

    def __init__(self, group: h5py.Group, former: Mapping[str, str] | None = None) -> None:
        self._group = group
        self._stored = {new: old for old, new in (former or {}).items() if old in group}
        self.attrs: Mapping[str, Any] = group.attrs

    def _dataset(self, name: str) -> h5py.Dataset:
        dataset = self._group[self._stored.get(name, name)]
        if not isinstance(dataset, h5py.Dataset):
            raise TypeError(f"{dataset.name} is a group")
        return dataset

    def form(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return type and shape of a variable; texts are objects."""
        dataset = self._dataset(name)
        return dataset.dtype, dataset.shape

    def __getitem__(self, name: str) -> NDArray[Any]:
        dataset = self._dataset(name)
        if dataset.dtype.kind == "O":
            return np.array([str(text) for text in dataset.asstr()[()]], dtype=object)
        return np.asarray(dataset[()])

    def __iter__(self) -> Iterator[str]:
        present = {old: new for new, old in self._stored.items()}
        return (present.get(name, name) for name in self._group)

    def __len__(self) -> int:
        return len(self._group)

    def columns(self, names: Sequence[str] | None = None, without: str = "") -> dict[str, NDArray[Any]]:
        """Some variables, or all but one."""
        return {name: self[name] for name in (self if names is None else names) if name != without}

    def table(self) -> Table:
        """The group as `write_table` has written it."""
        variables = {}
        for name in self._group:
            dataset = self._dataset(name)
            dims = tuple((axis.keys() or [name])[0] for axis in dataset.dims)
            attrs = {key: value for key, value in dataset.attrs.items() if key in ("units", "long_name")}
            variables[name] = Variable(dims, self[name], attrs)
        attrs = {key: value for key, value in self.attrs.items() if key != "coordinates"}
        return Table(
            variables, tuple(self.attrs.get("coordinates", "").split()), attrs, self._group.name.rpartition("/")[2]
        )


class StoredTables(dict[str, StoredTable]):
    """The tables of a result file by name, and its clock."""

    def __init__(self, tables: Mapping[str, StoredTable], clock_hz: Fraction) -> None:
        super().__init__(tables)
        self.clock_hz = clock_hz
