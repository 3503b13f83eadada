"""A table: variables with dimensions, units and descriptions; conversion to xarray, pandas, polars and HTML.

Variables may have several dimensions (the counters of links: time and link). A data frame has a row for each position
in the dimensions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.lazy_columns import LazyColumn, LazyColumns

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

SHOWN = 8  # rows in a notebook
MOST_COLUMNS = 16
LONGEST = 40  # letters
LINE, LONGEST_FACT, MOST_FACTS = 100, 200, 30  # letters of a repr and of a fact; facts
Dims = tuple[str, ...]


@dataclass(frozen=True)
class Variable:
    """An array, the names of its dimensions, and its attributes (units, long_name).

    Attributes
    ----------
    source
        The array, or what makes it whenever it is read as `data`.
    labels
        For integer codes, the name of the variable with the texts that they stand for; code -1 is none.
    """

    dims: Dims
    source: NDArray[Any] | LazyColumn
    attrs: dict[str, Any]
    labels: str = ""

    @property
    def data(self) -> NDArray[Any]:
        """The array."""
        return np.asarray(self.source)


@dataclass(frozen=True)
class Texts:
    """Codes and their texts; code -1 is none."""

    codes: NDArray[Any]
    texts: list[str]

    def decoded(self) -> list[str | None]:
        """Return the text of each code; None for none."""
        texts: list[str | None] = [*self.texts, None]
        return [texts[code] for code in np.where(self.codes < 0, len(self.texts), self.codes).tolist()]


@dataclass(frozen=True)
class Table:
    """Variables by name.

    A variable named like its only dimension holds the coordinates of that dimension; every dimension has one.
    `coordinates` are further variables that describe entries rather than measure them.
    """

    variables: dict[str, Variable]
    coordinates: tuple[str, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def to_xarray(self) -> xr.Dataset:
        """Return the table as an xarray.Dataset. Raises InputError without xarray."""
        library = needed("xarray")
        variables = {
            name: (v.dims, v.data.astype(str) if v.data.dtype == object else v.data, v.attrs)
            for name, v in self.variables.items()
        }
        dataset: xr.Dataset = library.Dataset(variables, attrs=self.attrs)
        return dataset.set_coords([name for name in self.coordinates if name in dataset])

    def to_pandas(self, rows: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Return a data frame with units and descriptions in `attrs`; codes become categories.

        Parameters
        ----------
        rows
            Dimensions of the rows; required if the table has rows of more than one kind.

        Raises
        ------
        InputError
            If `rows` is missing or wrong, or pandas is not installed.
        """
        library = needed("pandas")
        columns = {
            name: library.Categorical.from_codes(values.codes, _distinct(values.texts))
            if isinstance(values, Texts)
            else values
            for name, values in self.columns(rows).items()
        }
        frame: pd.DataFrame = library.DataFrame(columns)
        attrs = {name: self.variables[name].attrs for name in columns}
        frame.attrs = {**self.attrs, **{key: _by_column(attrs, key) for key in ("units", "long_name")}}
        return frame

    def to_polars(self, rows: str | Sequence[str] | None = None) -> pl.DataFrame:
        """Return a polars.DataFrame, which has no attributes. Raises InputError as `to_pandas`."""
        library = needed("polars")
        columns: list[Any] = []
        for name, values in self.columns(rows).items():
            if isinstance(values, Texts):
                columns.append(library.Series(name, values.decoded(), dtype=library.Categorical))
            elif values.dtype == object:
                columns.append(library.Series(name, [str(value) for value in values], dtype=library.String))
            else:
                columns.append(library.Series(name, np.ascontiguousarray(values)))
        frame: pl.DataFrame = library.DataFrame(columns)
        return frame

    def columns(self, rows: str | Sequence[str] | None = None) -> dict[str, NDArray[Any] | Texts]:
        """Return columns of equal length, one entry for each position in the dimensions of the rows; codes as Texts."""
        dims = self.kind_of_rows(rows)
        shape = tuple(len(self.variables[dim].source) for dim in dims)
        columns: dict[str, NDArray[Any] | Texts] = {}
        for name in (*dims, *(name for name in self.variables if name not in dims)):
            variable = self.variables[name]
            along = set(variable.dims) <= set(dims)
            if not along or not (variable.dims == dims or name in dims or name in self.coordinates):
                continue
            place = tuple(slice(None) if dim in variable.dims else None for dim in dims)
            values = np.broadcast_to(variable.data[place], shape).ravel()
            labels = self.variables.get(variable.labels)
            columns[name] = values if labels is None else Texts(values, [str(text) for text in labels.data])
        return columns

    def kind_of_rows(self, rows: str | Sequence[str] | None = None) -> Dims:
        """Return the dimensions of the rows. Raises InputError if they are ambiguous or those of no variable."""
        known = (v.dims for name, v in self.variables.items() if v.dims != (name,) or name not in self._labels)
        every = list(dict.fromkeys(known))
        kinds = [dims for dims in every if not any(set(dims) < set(other) for other in every)]
        if rows is None:
            if len(kinds) == 1:
                return kinds[0]
            problem = f"{self.name or 'the table'} has rows of more than one kind"
            raise InputError(problem, key="rows", allowed=[" x ".join(dims) for dims in kinds])
        requested = (rows,) if isinstance(rows, str) else tuple(rows)
        for dims in every:
            if set(dims) == set(requested):
                return dims
        raise InputError(
            f"no row of {self.name or 'the table'} is a {' x '.join(requested)}",
            key="rows",
            allowed=[" x ".join(dims) for dims in every],
            given=requested[0] if len(requested) == 1 else None,
        )

    @property
    def _labels(self) -> set[str]:
        """The variables that hold the texts of codes."""
        return {variable.labels for variable in self.variables.values()}

    def check(self) -> None:
        """Raise ValueError unless every variable has the lengths of its dimensions."""
        for name, variable in self.variables.items():
            expected = tuple(len(self.variables[dim].source) for dim in variable.dims)
            if variable.source.shape != expected:
                raise ValueError(f"column '{name}' has shape {variable.source.shape}; expected {expected}")

    @property
    def shape(self) -> dict[str, int]:
        """Length of each dimension."""
        return {dim: len(v.source) for dim, v in self.variables.items() if v.dims == (dim,) and dim not in self._labels}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim} {size}" for dim, size in self.shape.items())
        return f"Table({self.name or 'table'}: {sizes}; {', '.join(self.variables)})"

    def _repr_html_(self) -> str:
        try:
            dims = self.kind_of_rows()
        except InputError:  # several kinds of rows: list the variables
            dims = ()
        sizes = " \u00d7 ".join(f"{size:,} {escape(dim)}" for dim, size in self.shape.items())
        title = f"<b>{escape(self.name)}</b> {sizes}" if self.name else sizes
        if not dims:
            rows = [(name, " \u00d7 ".join(v.dims), *_unit_and_text(v)) for name, v in self.variables.items()]
            return f"<div>{title}{html_table(('variable', 'dimensions', 'unit', ''), rows, texts=range(4))}</div>"
        columns = dict(list(self.columns(dims).items())[: MOST_COLUMNS + 1])
        count = int(np.prod([self.shape[dim] for dim in dims]))
        first = {name: _first(values) for name, values in columns.items()}
        shown = [tuple(values[row] for values in first.values()) for row in range(min(count, SHOWN))]
        units = tuple(_unit_and_text(self.variables[name])[0] for name in columns)
        more = f"<div>and {count - SHOWN:,} more rows</div>" if count > SHOWN else ""
        texts = [place for place, values in enumerate(columns.values()) if _is_text(values)]
        return f"<div>{title}{html_table(tuple(columns), shown, units, texts)}{more}</div>"


class Framed:
    """Base of objects with a table, which convert to xarray, pandas and polars."""

    def table(self) -> Table:
        """Return the table with units and descriptions."""
        raise NotImplementedError

    def to_xarray(self) -> xr.Dataset:
        """Return an xarray.Dataset with units and descriptions, as in the HDF5 file."""
        return self.table().to_xarray()

    def to_pandas(self, rows: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Return a pandas.DataFrame; see Table.to_pandas."""
        return self.table().to_pandas(rows)

    def to_polars(self, rows: str | Sequence[str] | None = None) -> pl.DataFrame:
        """Return a polars.DataFrame; see Table.to_pandas."""
        return self.table().to_polars(rows)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Facts:
    """Base of dataclasses that are a few facts: one line as text, and two columns in notebooks."""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(label, text) pairs of the fields that are numbers, texts or short lists."""
        values = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(cast("Any", self))}
        return [(name, text) for name, value in values.items() if len(text := _fact(value)) <= LONGEST_FACT and text]

    def __repr__(self) -> str:
        shown = ", ".join(f"{label} {text}" for label, text in self.facts)
        return f"{type(self).__name__}({shown if len(shown) <= LINE else shown[:LINE].rpartition(',')[0] + ', ...'})"

    def _repr_html_(self) -> str:
        rows = self.facts
        return f"<div>{html_table((type(self).__name__, ''), rows[:MOST_FACTS], texts=range(2))}</div>"


def _fact(value: Any) -> str:
    """A value as a text; "" for a missing or a composite one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float | Fraction):
        return f"{float(value):.6g}"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items() if isinstance(item, str | int | float))
    is_list = isinstance(value, list | tuple) and all(isinstance(item, str | int) for item in value)
    return ", ".join(map(str, value)) if is_list else ""


class Columns(MutableMapping[str, NDArray[Any]], Framed):
    """Columns by name with a table, which `make` returns."""

    source: Mapping[str, NDArray[Any]]

    def __init__(self, columns: Mapping[str, NDArray[Any]], make: Callable[[], Table]) -> None:
        if isinstance(columns, Columns):
            columns = columns.source
        self.source = columns if isinstance(columns, LazyColumns) else dict(columns)
        self._make = make

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def __setitem__(self, name: str, values: NDArray[Any]) -> None:
        self.source = {**self.source, name: values}

    def __delitem__(self, name: str) -> None:
        self.source = {key: values for key, values in self.source.items() if key != name}

    def __iter__(self) -> Iterator[str]:
        return iter(self.source)

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        rows = len(self[next(iter(self))]) if self.source else 0
        return f"Columns({rows:,} rows: {', '.join(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return copy.copy, (self.source,)  # its owner wraps it again

    def table(self) -> Table:
        """Return the table with units and descriptions."""
        return self._make()


class Rows(list[dict[str, Any]], Framed):
    """A list of rows with a table, which `make` returns."""

    def __init__(self, rows: Sequence[dict[str, Any]], make: Callable[[], Table]) -> None:
        super().__init__(rows)
        self._make = make

    def __repr__(self) -> str:
        return f"Rows({len(self):,} rows: {', '.join(dict.fromkeys(name for row in self for name in row))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def table(self) -> Table:
        """Return the table with units and descriptions."""
        return self._make()


def column(values: Sequence[Any]) -> NDArray[Any]:
    """Convert values to a column: bool, int64, or float64 with NaN for None; else text, with "" for None."""
    if values and all(isinstance(value, bool) for value in values):
        return np.array(values, bool)
    if values and all(isinstance(value, int) for value in values) and all(abs(value) < 2**63 for value in values):
        return np.array(values, np.int64)
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([number(value) for value in values], np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=object)


def texts(values: Sequence[str]) -> NDArray[Any]:
    """Convert to an array of objects."""
    return np.array(values, dtype=object)


def number(value: Any) -> float:
    """Convert to float; None becomes NaN."""
    return math.nan if value is None else float(value)


def infer(values: Any) -> NDArray[Any]:
    """Convert values to int64, float64 (NaN for None), or text ("" for None); truth values become 1 and 0."""
    if isinstance(values, np.ndarray):
        if values.dtype == bool:
            return values.astype(np.uint8)
        return values.astype(object) if values.dtype.kind in "US" else values
    data = column([plain(value) for value in values])
    return data.astype(np.uint8) if data.dtype == bool else data


def plain(value: Any) -> Any:
    """Convert a NumPy scalar or a Fraction to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return value


def needed(module: str) -> Any:
    """Import an optional library. Raises InputError with how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"to_{module} needs {module}: pip install pyxsim[notebook]") from error


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], units: Sequence[str] = (), texts: Collection[int] = ()
) -> str:
    """Make an HTML table in the colours of the page. `texts`: columns to align left."""

    def cells(tag: str, values: Sequence[str]) -> Iterator[str]:
        for place, value in enumerate(values):
            yield f"<{tag} style='text-align:{'left' if place in texts else 'right'}'>{escape(value)}</{tag}>"

    lines = ["".join(cells("th", head)), *(["".join(cells("td", units))] if any(units) else [])]
    lines += ["".join(cells("td", row)) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _is_text(values: NDArray[Any] | Texts) -> bool:
    return isinstance(values, Texts) or values.dtype == object


def _unit_and_text(variable: Variable) -> tuple[str, str]:
    unit = str(variable.attrs.get("units", ""))
    return "" if unit == "1" else unit, str(variable.attrs.get("long_name", ""))


def _first(values: NDArray[Any] | Texts) -> list[str]:
    """The first entries of a column as text."""
    if isinstance(values, Texts):
        return [_short(text or "") for text in Texts(values.codes[:SHOWN], values.texts).decoded()]
    return [f"{value:.6g}" if isinstance(value, float) else _short(str(value)) for value in values[:SHOWN].tolist()]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"


def _by_column(attrs: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
    return {name: attr[key] for name, attr in attrs.items() if key in attr}


def _distinct(texts: list[str]) -> list[str]:
    """Make texts distinct, as categories must be: a duplicate gets its number."""
    seen: set[str] = set()
    distinct = []
    for number, text in enumerate(texts):
        distinct.append(f"{text} ({number})" if text in seen else text)
        seen.add(text)
    return distinct
