"""Comparison of two files to the bit: every dataset, every attribute, and the values in JSON and TOML attributes.

The names in APART and the table [run] of the experiment describe how and where a run was computed. They differ between
runs, are listed separately, and are no differences.
"""

from __future__ import annotations

import io
import json
import math
import os
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.results.hdf5 import shown, unreadable
from pyxsim.results.hdf5_check import check_structure
from pyxsim.results.provenance import PROVENANCE
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.results.result_file import image
from pyxsim.results.table import Framed, Table, Variable, plain

APART = HOW_IT_RAN | set(PROVENANCE) | {"backend"}
"""Names of attributes, and of keys in them, that describe how and where a run was computed."""
OURS = {"record", "comparison", "axes"}  # attributes of a result, a comparison, the table of a sweep
AT_ONCE = 2**22  # entries of a dataset that are read at a time
EXPERIMENT, RUN = "experiment", "run"  # the attribute with the settings, and their table that changes no result


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes
    ----------
    name
        "/links/flits"; for an attribute "/links@window_cycles"; for a value in a JSON or TOML text "/@summary: cycles".
    what
        "values", "type", "shape", "kind" (group or dataset), "only in the first" or "only in the second".
    shape
        Shape of the dataset.
    places
        Number of entries that differ.
    at, first, second
        Index of the first of them, and the two values.
    largest
        Largest difference of two numbers; None for other types.
    """

    name: str
    what: str
    shape: tuple[int, ...] = ()
    places: int = 1
    at: tuple[int, ...] = ()
    first: Any = None
    second: Any = None
    largest: float | int | None = None

    def json(self) -> dict[str, Any]:
        """Return the fields for JSON, which has no NaN."""
        fields = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: _for_json(value) for key, value in fields.items()}


@dataclass(frozen=True, repr=False)
class Diff(Framed):
    """The result of `diff`.

    Attributes
    ----------
    names
        Names of the two files.
    differences
        All differences, by name.
    apart
        (name, first, second) of values that only describe how a run was computed.
    datasets, attributes
        How many were compared.
    """

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    apart: tuple[tuple[str, Any, Any], ...]
    datasets: int
    attributes: int

    @property
    def equal(self) -> bool:
        """Whether there are no differences."""
        return not self.differences

    def __repr__(self) -> str:
        verdict = "equal" if self.equal else f"{len(self.differences)} differences"
        return f"Diff({' and '.join(self.names)}: {verdict} in {self.datasets} datasets, {self.attributes} attributes)"

    def table(self) -> Table:
        """Return a row per difference."""
        rows = self.differences
        number = np.arange(len(rows), dtype=np.int32)
        texts = {
            "name": [row.name for row in rows],
            "what": [row.what for row in rows],
            "shape": [" x ".join(map(str, row.shape)) for row in rows],
            "at": [", ".join(map(str, row.at)) for row in rows],
            "first": [str(row.first) for row in rows],
            "second": [str(row.second) for row in rows],
        }
        variables = {"row": Variable(("row",), number, {"long_name": "number of the difference, from 0"})}
        variables |= {key: Variable(("row",), np.array(column, dtype=object), {}) for key, column in texts.items()}
        largest = [math.nan if row.largest is None else float(row.largest) for row in rows]
        variables["places"] = Variable(("row",), np.array([row.places for row in rows], dtype=np.int64), {})
        variables["largest"] = Variable(("row",), np.array(largest, dtype=np.float64), {})
        return Table(variables, name="differences")

    def json(self) -> dict[str, Any]:
        """Return the object that `pyxsim diff --json` prints."""
        return {
            "equal": self.equal,
            "files": list(self.names),
            "datasets": self.datasets,
            "attributes": self.attributes,
            "differences": [difference.json() for difference in self.differences],
            "apart": [{"name": name, "first": _for_json(a), "second": _for_json(b)} for name, a, b in self.apart],
        }


def diff(first: Result | str | os.PathLike[str], second: Result | str | os.PathLike[str]) -> Diff:
    """Compare two results, or two .h5 files of any command: every dataset and attribute, to the bit.

    NaN equals NaN. Values that describe how and where a run was computed (times, versions, threads, skipped cycles, the
    table [run]) do not count as differences; `Diff.apart` lists them. Raises InputError.
    """
    files = [os.fspath(side) for side in (first, second) if not isinstance(side, Result)]
    with shown(files), ExitStack() as stack:
        one, other = (stack.enter_context(_opened(side)) for side in (first, second))
        names = (_name(first, "the first"), _name(second, "the second"))
        return _Comparison(one, other).diff(names)


def _name(source: Result | str | os.PathLike[str], word: str) -> str:
    return word if isinstance(source, Result) else os.fspath(source)


def _opened(source: Result | str | os.PathLike[str]) -> h5py.File:
    if isinstance(source, Result):
        return h5py.File(io.BytesIO(image(source)), "r")
    allowed = "an .h5 file written by -o; for a sweep, its table.h5"
    try:
        check_structure(source)
        file = h5py.File(source, "r")
    except OSError as error:
        raise unreadable(source, error, allowed) from error
    if not (OURS & set(file.attrs) or "curve" in file):
        file.close()
        raise InputError("not a file written by pyxsim", file=os.fspath(source), allowed=allowed)
    return file


class _Comparison:
    """The comparison of two open files."""

    def __init__(self, one: h5py.File, other: h5py.File) -> None:
        self.files = one, other
        self.differences: list[Difference] = []
        self.apart: dict[str, tuple[str, Any, Any]] = {}
        self.datasets = self.attributes = 0

    def diff(self, names: tuple[str, str]) -> Diff:
        """Return all differences in the order of the names."""
        one, other = map(_things, self.files)
        for name in sorted({*one, *other}):
            first, second = one.get(name), other.get(name)
            self.datasets += isinstance(second if first is None else first, h5py.Dataset)
            if first is None or second is None:
                self._only(name, first, second)
                continue
            self._attributes(name, first.attrs, second.attrs)
            if _kind(first) != _kind(second):
                self.differences.append(Difference(name, "kind", first=_kind(first), second=_kind(second)))
            elif isinstance(first, h5py.Dataset):
                self.differences += _of_datasets(name, first, second)
        return Diff(names, tuple(self.differences), tuple(self.apart.values()), self.datasets, self.attributes)

    def _only(self, name: str, first: Any, second: Any) -> None:
        present = second if first is None else first
        shape = tuple(getattr(present, "shape", None) or ())
        side_text = "only in the second" if first is None else "only in the first"
        self.differences.append(Difference(name, side_text, shape, math.prod(shape)))

    def _attributes(self, place: str, one: Any, other: Any) -> None:
        for key in sorted({*one, *other}):
            self.attributes += 1
            first, second = (
                _leaves(key, attrs[key], file) if key in attrs else {}
                for attrs, file in zip((one, other), self.files, strict=True)
            )
            for path in dict.fromkeys([*first, *second]):
                if path not in first or path not in second or not _same(first[path], second[path]):
                    self._differs(place, key, path, first, second)

    def _differs(self, place: str, key: str, path: tuple[str, ...], one: _Leaves, other: _Leaves) -> None:
        first, second = one.get(path), other.get(path)
        word = path[-1] if path else key
        if word in APART or (key == EXPERIMENT and path[:1] == (RUN,)):
            short = ".".join(path) if key == EXPERIMENT else word
            name = (
                short if self.apart.get(short, (0, first, second))[1:] == (first, second) else f"{place}@{key}: {word}"
            )
            self.apart[name] = name, first, second  # summary and record repeat some values
            return
        name = f"{place}@{key}" + (f": {'.'.join(path)}" if path else "")
        what = "values" if path in one and path in other else f"only in the {'first' if path in one else 'second'}"
        numbers = [side for side in (first, second) if isinstance(side, int | float) and not isinstance(side, bool)]
        largest = abs(numbers[0] - numbers[1]) if len(numbers) == 2 else None
        if largest is not None and math.isnan(largest):
            largest = None
        self.differences.append(Difference(name, what, first=first, second=second, largest=largest))


_Leaves = dict[tuple[str, ...], Any]


def _things(file: h5py.File) -> dict[str, Any]:
    """The file and everything in it, by name."""
    objects: dict[str, Any] = {"/": file}
    file.visititems(lambda name, thing: objects.__setitem__(f"/{name}", thing))
    return objects


def _kind(item: Any) -> str:
    return "dataset" if isinstance(item, h5py.Dataset) else "group"


def _leaves(key: str, value: Any, file: h5py.File) -> _Leaves:
    """The values of an attribute by path: a single one, or those in a JSON or TOML text."""
    if isinstance(value, str):
        try:
            if key == EXPERIMENT:
                return dict(_within((), tomllib.loads(value)))
            if value.startswith(("{", "[")):
                return dict(_within((), json.loads(value)))
        except ValueError:  # plain text
            return {(): value}
    leaves: _Leaves = {(): _plain(value, file)}
    if isinstance(value, np.ndarray | np.generic):
        leaves[("type",)] = str(value.dtype)
    return leaves


def _within(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _within((*path, str(key)), inner)
    if not items:
        yield path, value


def _plain(value: Any, file: h5py.File) -> Any:
    """Convert to a Python object; a reference becomes the name of its target."""
    if isinstance(value, h5py.Reference):
        name = h5py.h5r.get_name(value, file.id) if value else b""  # far cheaper than to open the target
        return name.decode("utf-8", "replace") or None if name is not None else "nothing"  # None: it was deleted
    if isinstance(value, np.ndarray | np.void):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, file) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else plain(value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one.hex() == other.hex()  # NaN is NaN, and -0.0 is not 0.0
    return type(one) is type(other) and bool(one == other)


# Datasets


def _of_datasets(name: str, one: h5py.Dataset, other: h5py.Dataset) -> Iterator[Difference]:
    """Yield at most one difference."""
    shape = one.shape or ()
    for what, left, right in (("shape", one.shape, other.shape), ("type", one.dtype, other.dtype)):
        if left != right:
            yield Difference(name, what, shape, first=str(left), second=str(right))
            return
    places = 0
    at: tuple[int, ...] = ()
    first = second = largest = None
    for begin, left, right in _blocks(one, other):
        differs = _different(left, right)
        if not differs.any():
            continue
        if not places:
            inside = np.unravel_index(int(np.argmax(differs)), left.shape)
            at = tuple(int(i) + (0 if axis else begin) for axis, i in enumerate(inside))[: len(shape)]
            first, second = _plain(left[inside], one.file), _plain(right[inside], other.file)
        places += int(np.count_nonzero(differs))
        most = _largest(left[differs], right[differs])
        largest = most if largest is None or most is None else max(largest, most)
    if places:
        yield Difference(name, "values", shape, places, at, first, second, largest)


def _blocks(one: h5py.Dataset, other: h5py.Dataset) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """Yield blocks of rows of both, with the number of the first row. A scalar is one row."""
    if not one.shape:
        if one.shape is not None:  # else both are empty
            yield 0, _read(one, ()), _read(other, ())
        return
    chunk = one.chunks[0] if one.chunks else 1  # decompress each chunk once
    rows = max(AT_ONCE // max(math.prod(one.shape[1:]), 1) // chunk, 1) * chunk
    for begin in range(0, one.shape[0], rows):
        block = slice(begin, begin + rows)
        yield begin, _read(one, block), _read(other, block)


def _read(dataset: h5py.Dataset, place: Any) -> NDArray[Any]:
    values = np.atleast_1d(np.asarray(dataset[place]))
    if values.dtype != object:
        return values
    plain_, file = np.empty(values.size, dtype=object), dataset.file  # h5py creates a new object on each access
    plain_[:] = [_plain(item, file) for item in values.ravel()]
    return plain_.reshape(values.shape)


def _different(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the bits differ, except NaN."""
    if one.dtype == object:
        pairs = zip(one.ravel(), other.ravel(), strict=True)
        return np.array([not _same(left, right) for left, right in pairs], dtype=bool).reshape(one.shape)
    if one.dtype.kind != "f" or one.dtype.itemsize > 8:
        return np.asarray(one != other)
    bits = np.dtype(f"u{one.dtype.itemsize}").newbyteorder(one.dtype.byteorder)
    return np.asarray((one.view(bits) != other.view(bits)) & ~(np.isnan(one) & np.isnan(other)))


def _largest(one: NDArray[Any], other: NDArray[Any]) -> float | int | None:
    """The largest difference of two numbers; None for other types and for NaN only."""
    if one.dtype.kind in "iu":
        # Differences modulo 2^64 are right even if they exceed the range of the type.
        high, low = (bound.astype(np.uint64) for bound in (np.maximum(one, other), np.minimum(one, other)))
        return int((high - low).max())
    if one.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    return float(np.nanmax(apart)) if not np.isnan(apart).all() else None


def _for_json(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
