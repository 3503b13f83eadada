"""Dataset specs: the tables of a result, each described once, with its columns, types, units and descriptions.

The HDF5 file, data frames, JSON, `result.<table>` and the tables of docs/output.md follow from the specs. Built-in
datasets are in pyxsim/results/datasets/; users add their own on the shelf `datasets/` (docs/extending_dataset.md).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyxsim import registry
from pyxsim.errors import InputError
from pyxsim.lazy_columns import LazyColumn, sources
from pyxsim.library import used, user_fault
from pyxsim.results.hdf5 import StoredTable, StoredTables
from pyxsim.results.table import Dims, Table, Variable, infer, plain

Values = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Function = TypeVar("Function", bound=Callable[..., Any])
KINDS = {"text": "O", "float64": "f", "number": "iufbO"}  # kinds of a column in a file; of the other types "iub"
FILL = {"text": "", "float64": np.nan}  # of None; -1 in the other types


@dataclass(frozen=True)
class Column:
    """One variable of a dataset.

    Attributes
    ----------
    name
        Name of the variable; a column named like its only dimension holds the coordinates of that dimension.
    units
        Unit, "1" for plain numbers, "" for text.
    text
        Description, the attribute `long_name`.
    dtype
        "int64", "int32", ..., "float64", "text"; "uint": uint32 or, if a value needs it, uint64; "number": int64 or
        float64 as computed.
    dims
        Dimensions; by default those of the dataset.
    labels
        For integer codes: name of the variable with the texts that they stand for; -1 stands for none.
    optional
        The variable is absent if there are no values.
    derived
        The variable is computed from others and not read back from a file.
    """

    name: str
    units: str = ""
    text: str = ""
    dtype: str = "int64"
    dims: Dims = ()
    labels: str = ""
    optional: bool = False
    derived: bool = False

    def array(self, values: Any) -> NDArray[Any] | LazyColumn:
        """Convert values to the type of the column; None becomes -1, NaN or "". Lazy columns stay so."""
        if isinstance(values, LazyColumn):
            return replace(values, dtype=np.dtype(self.dtype))
        if self.dtype == "number":
            return values if isinstance(values, np.ndarray) else infer(values)
        if isinstance(values, Sequence) and None in values:
            values = [FILL.get(self.dtype, -1) if value is None else value for value in values]
        if self.dtype == "text":
            return np.asarray(values, dtype=object)
        if self.dtype == "uint":
            counts = np.asarray(values)
            narrow = counts.size == 0 or int(counts.max()) <= np.iinfo(np.uint32).max
            return counts.astype(np.uint32 if narrow else np.uint64)
        return np.asarray(values, dtype=self.dtype)

    def variable(self, dims: Dims, data: NDArray[Any] | LazyColumn) -> Variable:
        """The variable with its attributes."""
        return Variable(
            dims, data, {**({"units": self.units} if self.units else {}), "long_name": self.text}, self.labels
        )


@dataclass(frozen=True)
class Dataset:
    """The spec of one table of a result.

    Attributes
    ----------
    name
        Name of the HDF5 group, the data frame, the JSON key and the attribute of the result.
    text
        What a row is.
    columns
        Columns in order; an integer index of the only dimension is added if no column has its name.
    values
        Function of the result that returns arrays by column, or rows as dicts; None if the result has no such data.
        For a `computed` dataset, a function of the result and the prepared run, called once at the end of the run.
    dims
        Dimensions of a column that names none.
    when
        When the dataset is present; "" for always.
    present
        Function of the result: whether the dataset has content.
    coordinates
        Columns that describe entries rather than measure them.
    attributes
        Descriptions of the attributes of the group.
    attrs
        Function of the result that returns their values.
    restored
        "columns" or "rows": the result has a field of this name, a dict of arrays or a list of dicts, that is read back
        from a file; "" if it has none.
    json
        Whether `pyxsim run --json` prints the rows.
    computed
        Whether the values are computed at the end of the run and kept in `Result.extra`.
    """

    name: str
    text: str
    columns: tuple[Column, ...]
    values: Callable[..., Values | None]
    dims: Dims = ("row",)
    when: str = ""
    present: Callable[[Any], Any] = lambda result: True
    coordinates: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    attrs: Callable[[Any], Mapping[str, Any]] = lambda result: {}
    restored: str = ""
    json: bool = False
    computed: bool = False

    def __post_init__(self) -> None:
        (*outer, inner) = self.dims
        if not outer and inner not in (column.name for column in self.columns):
            index = Column(inner, "1", f"number of the {inner}", derived=True)
            object.__setattr__(self, "columns", (index, *self.columns))

    def table(self, result: Any) -> Table:
        """The table of a result. Raises InputError if the result has no such data."""
        if self.computed and self.name in result.extra:
            return result.extra[self.name]  # type: ignore[no-any-return]
        values = None if self.computed else self.values(result)
        if values is None:
            raise InputError(f"the result has no table '{self.name}', which exists only {self.when}", key="table")
        return self.of(values, {**self.attrs(result), "clock_hz": float(result.clock_hz)})

    def of(self, values: Values, attrs: Mapping[str, Any]) -> Table:
        """Build the table from arrays by column, or from rows."""
        columns = sources(values) if isinstance(values, Mapping) else columns_of(values)
        specs = {column.name: column for column in self.columns if not column.optional}
        optional = {column.name: column for column in self.columns if column.optional}
        specs |= {name: optional[name] for name in columns if name in optional}
        labels = {column.labels for column in self.columns if column.labels}
        extra = [name for name in columns if name not in specs and name not in labels]
        specs |= {name: Column(name, text=name.replace("_", " "), dtype="number") for name in extra}
        variables: dict[str, Variable] = {}
        for name, column in specs.items():
            dims = column.dims or self.dims
            if name in columns:
                variables[name] = column.variable(dims, column.array(columns[name]))
            elif dims == (name,):
                size = self._size(name, columns, specs)
                count = LazyColumn(size, np.dtype(np.int64), partial(np.arange, size))
                variables[name] = column.variable(dims, column.array(count))
            else:
                variables[name] = column.variable(dims, column.array([]))
        for column in self.columns:
            if column.labels and column.labels in columns:
                texts = np.asarray(columns[column.labels], dtype=object)
                variables[column.labels] = Variable((column.labels,), texts, {})
        coordinates = tuple(name for name in self.coordinates if name in variables)
        return Table(variables, coordinates, dict(attrs), self.name)

    def arrays(self, result: Any) -> dict[str, NDArray[Any]]:
        """The columns of a result without their table; empty if it has no such data."""
        given = self.values(result) or {}
        columns = given if isinstance(given, Mapping) else columns_of(given)
        present = [column for column in self.columns if column.name in columns]
        return {column.name: np.asarray(column.array(columns[column.name])) for column in present}

    def _size(self, dim: str, given: Mapping[str, Any], specs: Mapping[str, Column]) -> int:
        """Length of a dimension, from the columns that have it."""
        sizes = [
            np.shape(values)[dims.index(dim)]
            for name, values in given.items()
            if name in specs and dim in (dims := specs[name].dims or self.dims)
        ]
        return max(sizes, default=0)

    def rows(self, result: Any) -> list[dict[str, Any]]:
        """The rows for JSON, where a missing number is None."""
        if self.restored == "rows":
            rows: Any = self.values(result)
        else:
            index = [column.name for column in self.columns if column.derived and column.name in self.dims]
            columns = {name: data for name, data in self.table(result).columns().items() if name not in index}
            lists = [data.tolist() if isinstance(data, np.ndarray) else data.decoded() for data in columns.values()]
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True))
        return [{key: _json(value) for key, value in row.items()} for row in rows]

    def check(self, table: StoredTable) -> None:
        """Raise ValueError unless a table from a file has the columns, types and sizes of this spec."""
        sizes: dict[str, int] = {}
        for column in self.columns:
            if column.name not in table:
                if not column.optional:
                    raise ValueError(f"/{self.name} has no {column.name}")
                continue
            (dtype, shape), dims = table.form(column.name), column.dims or self.dims
            if dtype.kind not in KINDS.get(column.dtype, "iub"):
                raise ValueError(f"/{self.name}/{column.name} has the type {dtype}")
            if len(shape) != len(dims):
                raise ValueError(f"/{self.name}/{column.name} has {len(shape)} dimensions, not {len(dims)}")
            for dim, size in zip(dims, shape, strict=True):
                if sizes.setdefault(dim, size) != size:
                    raise ValueError(f"/{self.name}/{column.name} has {size} entries along {dim}, not {sizes[dim]}")

    def restore(self, table: Mapping[str, NDArray[Any]]) -> Any:
        """Make the field of the result from the columns in a file."""
        derived = [column.name for column in self.columns if column.derived]
        columns = {name: table[name] for name in table if name not in derived}
        if self.restored == "columns":
            return columns
        lists = [[_json(value) for value in data.tolist()] for data in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns; None where a row has no such entry."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def has_rows(columns: Any) -> bool:
    """Whether columns, or a list of rows, have any."""
    return any(len(values) for values in columns.values()) if isinstance(columns, Mapping) else bool(columns)


def _json(value: Any) -> Any:
    """A value for JSON, which has no NaN."""
    number = plain(value)
    return None if number != number else number


# The registry


def add(dataset: Dataset) -> Dataset:
    """Register a built-in dataset."""
    registry.datasets.register(dataset.name)(dataset)
    return dataset


def add_rows(
    name: str,
    text: str,
    columns: tuple[Column, ...],
    dims: Dims = ("row",),
    *,
    when: str,
    coordinates: tuple[str, ...] = (),
) -> Dataset:
    """Register the dataset of the field `name` of the result: a list of dicts, empty without such data."""

    # A function, not an attrgetter: the catalog names the file of what it lists.
    def rows(result: Any) -> Any:
        return getattr(result, name)

    spec = Dataset(
        name, text, columns, rows, dims, when, present=rows, coordinates=coordinates, restored="rows", json=True
    )
    return add(spec)


def dataset(
    name: str,
    *columns: Column,
    text: str = "",
    rows: str = "row",
    when: str = "",
    coordinates: Sequence[str] = (),
    json: bool = True,
) -> Callable[[Function], Function]:
    """Decorator: register a dataset that is computed at the end of every run.

    The function gets the finished result and the prepared run (`pyxsim.runner.prepare.Prepared`: experiment, topology,
    network, system). It returns arrays or lists by column, rows as dicts, or None if the run has no such data.

    Parameters
    ----------
    name
        Name of the HDF5 group, the data frame and the JSON key.
    columns
        Columns with units and descriptions; the types of columns that are not listed are inferred.
    text
        What a row is; by default the first line of the docstring.
    rows
        Name of the dimension of the rows.
    when
        When the dataset is present, for the documentation.
    coordinates
        Columns that describe entries rather than measure them.
    json
        Whether `pyxsim run --json` prints the rows.
    """

    def put(function: Function) -> Function:
        about = text or (function.__doc__ or "").strip().partition("\n")[0]
        spec = Dataset(
            name, about, columns, function, (rows,), when, coordinates=tuple(coordinates), json=json, computed=True
        )
        registry.datasets.register(name, module=function.__module__)(spec)
        return function

    return put


Restore = Callable[[StoredTables], dict[str, Any]]
RESTORE: list[Restore] = []
"""Functions that make fields of a Result from the tables of a file."""


def restores(function: Restore) -> Restore:
    """Decorator: register a function that makes fields of a Result from the tables of a file."""
    RESTORE.append(function)
    return function


def every() -> Iterator[Dataset]:
    """All datasets in the order of registration: the built-in ones first."""
    return iter(registry.datasets.registered)


def present(result: Any) -> list[str]:
    """Names of the datasets that have content in a result."""
    known = [spec.name for spec in every() if not spec.computed and spec.present(result)]
    return [*known, *(name for name in result.extra if name not in known)]


def names(result: Any) -> list[str]:
    """Names of all datasets, those that the result computed or was loaded with last."""
    return list(dict.fromkeys([*(spec.name for spec in every()), *result.extra]))


def get(name: str) -> Dataset:
    """The spec of a dataset. Raises InputError for an unknown name."""
    spec: Dataset = registry.datasets.get(name)
    return spec


def json_rows(result: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of the small datasets by name, for JSON; of an absent one, none."""
    specs = [spec for spec in every() if spec.json and (not spec.computed or spec.name in result.extra)]
    return {spec.name: spec.rows(result) if spec.present(result) else [] for spec in specs}


def table_of(result: Any, name: str) -> Table:
    """A table by name. Raises InputError for an unknown name, and if the result has no such data."""
    if name in result.extra:
        table: Table = result.extra[name]
        return table
    if name not in registry.datasets:
        raise InputError(f"unknown table '{name}'", key="table", allowed=names(result), given=name)
    return get(name).table(result)


def compute(result: Any, prepared: Any) -> None:
    """Compute the datasets of the shelves into `result.extra`; one that fails becomes a warning of the result."""
    for spec in every():
        if not (spec.computed and used(registry.datasets.entry(spec.name))):
            continue
        try:
            values = spec.values(result, prepared)
            if values is not None:
                table = spec.of(values, {"clock_hz": float(result.clock_hz)})
                table.check()
                result.extra[spec.name] = table
        except Exception as error:  # the run is done: its result must not be lost
            fault = user_fault(error)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{frame.filename}:{frame.lineno}" if fault is None else fault.file
            problem = f"{type(error).__name__}: {error} ({place})"
            result.warnings.append(f"dataset '{spec.name}' is missing: {problem}")
