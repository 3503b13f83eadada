"""Two files held against each other to the bit: every dataset, every attribute, and what stands inside of an attribute.

What tells how and where a run was made is bound to differ. It is told apart, by the names in APART and the table [run]
of the experiment, and makes no difference.
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
from pyxsim.results.hdf5 import unreadable
from pyxsim.results.provenance import PROVENANCE
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.results.result_file import image
from pyxsim.results.table import Framed, Table, Variable, plain

APART = HOW_IT_RAN | set(PROVENANCE)
"""Names of attributes, and of keys in them, that tell how and where a run was made: no part of what it found."""
OURS = {"record", "comparison", "axes"}  # attributes of a result, a comparison, the table of a sweep
AT_ONCE = 2**22  # entries of a dataset that are read together
EXPERIMENT, RUN = "experiment", "run"  # the attribute with the settings, and their table that changes no result


@dataclass(frozen=True)
class Difference:
    """One thing that differs. `name`: "/links/flits"; of an attribute "/links@window_cycles", of a number inside of a
    JSON or TOML text "/@summary: cycles". `what`: values, type, shape, kind (a group here, a dataset there), or "only
    in the first", "only in the second". `places`: how many entries differ; `at`: the first of them, and `first` and
    `second` what stands there. `largest`: the largest difference of two numbers, where these are numbers."""

    name: str
    what: str
    shape: tuple[int, ...] = ()
    places: int = 1
    at: tuple[int, ...] = ()
    first: Any = None
    second: Any = None
    largest: float | int | None = None

    def json(self) -> dict[str, Any]:
        """The same for JSON, which has no NaN."""
        told = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: _for_json(value) for key, value in told.items()}


@dataclass(frozen=True, repr=False)
class Diff(Framed):
    """What `diff` found. `apart`: what differs and tells only how it ran, as name, first, second."""

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    apart: tuple[tuple[str, Any, Any], ...]
    datasets: int
    attributes: int

    @property
    def equal(self) -> bool:
        """Whether nothing differs, but for what tells how it ran."""
        return not self.differences

    def __repr__(self) -> str:
        says = "equal" if self.equal else f"{len(self.differences)} differences"
        return f"Diff({' and '.join(self.names)}: {says} in {self.datasets} datasets, {self.attributes} attributes)"

    def table(self) -> Table:
        """A row for each difference."""
        rows = self.differences
        number = np.arange(len(rows), dtype=np.int32)
        texts = {
            "name": [each.name for each in rows],
            "what": [each.what for each in rows],
            "shape": [" x ".join(map(str, each.shape)) for each in rows],
            "at": [", ".join(map(str, each.at)) for each in rows],
            "first": [str(each.first) for each in rows],
            "second": [str(each.second) for each in rows],
        }
        variables = {"row": Variable(("row",), number, {"long_name": "number of the difference, from 0"})}
        variables |= {key: Variable(("row",), np.array(column, dtype=object), {}) for key, column in texts.items()}
        largest = [math.nan if each.largest is None else float(each.largest) for each in rows]
        variables["places"] = Variable(("row",), np.array([each.places for each in rows], dtype=np.int64), {})
        variables["largest"] = Variable(("row",), np.array(largest, dtype=np.float64), {})
        return Table(variables, name="differences")

    def json(self) -> dict[str, Any]:
        """What `pyxsim diff --json` prints."""
        return {
            "equal": self.equal,
            "files": list(self.names),
            "datasets": self.datasets,
            "attributes": self.attributes,
            "differences": [each.json() for each in self.differences],
            "apart": [{"name": name, "first": _for_json(a), "second": _for_json(b)} for name, a, b in self.apart],
        }


def diff(first: Result | str | os.PathLike[str], second: Result | str | os.PathLike[str]) -> Diff:
    """Hold two results, or two .h5 files of any command, against each other: every dataset and attribute, to the bit.

    NaN is equal to NaN. What tells how and where it ran (times, versions, threads, cycles skipped, the table [run]) is
    no difference; `Diff.apart` has it. Raises InputError.
    """
    with ExitStack() as stack:
        one, other = (stack.enter_context(_opened(each)) for each in (first, second))
        named = (_name(first, "the first"), _name(second, "the second"))
        return _Walk(one, other).found(named)


def _name(given: Result | str | os.PathLike[str], word: str) -> str:
    return word if isinstance(given, Result) else os.fspath(given)


def _opened(given: Result | str | os.PathLike[str]) -> h5py.File:
    if isinstance(given, Result):
        return h5py.File(io.BytesIO(image(given)), "r")
    allowed = "an .h5 file, as -o writes it; of a sweep its table.h5"
    try:
        file = h5py.File(given, "r")
    except OSError as error:
        raise unreadable(given, error, allowed) from error
    if not (OURS & set(file.attrs) or "curve" in file):
        file.close()
        raise InputError("is no file of pyxsim", file=os.fspath(given), allowed=allowed)
    return file


class _Walk:
    """Goes through two files side by side."""

    def __init__(self, one: h5py.File, other: h5py.File) -> None:
        self.files = one, other
        self.differences: list[Difference] = []
        self.apart: dict[str, tuple[str, Any, Any]] = {}
        self.datasets = self.attributes = 0

    def found(self, names: tuple[str, str]) -> Diff:
        """All that differs, in the order of the names."""
        one, other = map(_things, self.files)
        for name in sorted({*one, *other}):
            mine, theirs = one.get(name), other.get(name)
            self.datasets += isinstance(theirs if mine is None else mine, h5py.Dataset)
            if mine is None or theirs is None:
                self._only(name, mine, theirs)
                continue
            self._attributes(name, mine.attrs, theirs.attrs)
            if _kind(mine) != _kind(theirs):
                self.differences.append(Difference(name, "kind", first=_kind(mine), second=_kind(theirs)))
            elif isinstance(mine, h5py.Dataset):
                self.differences += _of_datasets(name, mine, theirs)
        return Diff(names, tuple(self.differences), tuple(self.apart.values()), self.datasets, self.attributes)

    def _only(self, name: str, mine: Any, theirs: Any) -> None:
        thing = theirs if mine is None else mine
        shape = tuple(getattr(thing, "shape", None) or ())
        where = "only in the second" if mine is None else "only in the first"
        self.differences.append(Difference(name, where, shape, math.prod(shape)))

    def _attributes(self, place: str, one: Any, other: Any) -> None:
        for key in sorted({*one, *other}):
            self.attributes += 1
            mine, theirs = (
                _leaves(key, attrs[key], file) if key in attrs else {}
                for attrs, file in zip((one, other), self.files, strict=True)
            )
            for path in dict.fromkeys([*mine, *theirs]):
                if path not in mine or path not in theirs or not _same(mine[path], theirs[path]):
                    self._differs(place, key, path, mine, theirs)

    def _differs(self, place: str, key: str, path: tuple[str, ...], mine: _Leaves, theirs: _Leaves) -> None:
        first, second = mine.get(path), theirs.get(path)
        word = path[-1] if path else key
        if word in APART or (key == EXPERIMENT and path[:1] == (RUN,)):
            short = ".".join(path) if key == EXPERIMENT else word
            own = (
                short if self.apart.get(short, (0, first, second))[1:] == (first, second) else f"{place}@{key}: {word}"
            )
            self.apart[own] = own, first, second  # a summary and a record tell the same twice
            return
        name = f"{place}@{key}" + (f": {'.'.join(path)}" if path else "")
        what = "values" if path in mine and path in theirs else f"only in the {'first' if path in mine else 'second'}"
        numbers = [each for each in (first, second) if isinstance(each, int | float) and not isinstance(each, bool)]
        largest = abs(numbers[0] - numbers[1]) if len(numbers) == 2 else None
        if largest is not None and math.isnan(largest):
            largest = None
        self.differences.append(Difference(name, what, first=first, second=second, largest=largest))


_Leaves = dict[tuple[str, ...], Any]


def _things(file: h5py.File) -> dict[str, Any]:
    """The file itself and all that is in it, by name."""
    found: dict[str, Any] = {"/": file}
    file.visititems(lambda name, thing: found.__setitem__(f"/{name}", thing))
    return found


def _kind(thing: Any) -> str:
    return "dataset" if isinstance(thing, h5py.Dataset) else "group"


def _leaves(key: str, value: Any, file: h5py.File) -> _Leaves:
    """What an attribute holds, by its way inside: one value, or those in a text of JSON or TOML."""
    if isinstance(value, str):
        try:
            if key == EXPERIMENT:
                return dict(_within((), tomllib.loads(value)))
            if value.startswith(("{", "[")):
                return dict(_within((), json.loads(value)))
        except ValueError:  # a text like any other
            return {(): value}
    found: _Leaves = {(): _plain(value, file)}
    if isinstance(value, np.ndarray | np.generic):
        found[("type",)] = str(value.dtype)
    return found


def _within(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _within((*path, str(key)), inner)
    if not items:
        yield path, value


def _plain(value: Any, file: h5py.File) -> Any:
    """As Python has it; a reference is the name of what it leads to."""
    if isinstance(value, h5py.Reference):
        try:
            return file[value].name if value else None
        except KeyError:  # what it led to is gone
            return "nothing"
    if isinstance(value, np.ndarray | np.void):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each, file) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else plain(value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one.hex() == other.hex()  # NaN is NaN, and -0.0 is not 0.0
    return type(one) is type(other) and bool(one == other)


# Datasets


def _of_datasets(name: str, one: h5py.Dataset, other: h5py.Dataset) -> Iterator[Difference]:
    """At most one difference."""
    shape = one.shape or ()
    for what, mine, theirs in (("shape", one.shape, other.shape), ("type", one.dtype, other.dtype)):
        if mine != theirs:
            yield Difference(name, what, shape, first=str(mine), second=str(theirs))
            return
    places = 0
    at: tuple[int, ...] = ()
    first = second = largest = None
    for begin, mine, theirs in _together(one, other):
        differs = _different(mine, theirs)
        if not differs.any():
            continue
        if not places:
            inside = np.unravel_index(int(np.argmax(differs)), mine.shape)
            at = tuple(int(i) + (0 if axis else begin) for axis, i in enumerate(inside))[: len(shape)]
            first, second = _plain(mine[inside], one.file), _plain(theirs[inside], other.file)
        places += int(np.count_nonzero(differs))
        most = _most(mine[differs], theirs[differs])
        largest = most if largest is None or most is None else max(largest, most)
    if places:
        yield Difference(name, "values", shape, places, at, first, second, largest)


def _together(one: h5py.Dataset, other: h5py.Dataset) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """Both, some rows at a time, with the number of the first row. A single value is a row."""
    if not one.shape:
        if one.shape is not None:  # else both are empty
            yield 0, _read(one, ()), _read(other, ())
        return
    chunk = one.chunks[0] if one.chunks else 1  # what is packed together is unpacked once
    rows = max(AT_ONCE // max(math.prod(one.shape[1:]), 1) // chunk, 1) * chunk
    for begin in range(0, one.shape[0], rows):
        some = slice(begin, begin + rows)
        yield begin, _read(one, some), _read(other, some)


def _read(dataset: h5py.Dataset, place: Any) -> NDArray[Any]:
    values = np.atleast_1d(np.asarray(dataset[place]))
    if values.dtype != object:
        return values
    plain_, file = np.empty(values.size, dtype=object), dataset.file  # h5py makes it anew each time
    plain_[:] = [_plain(each, file) for each in values.ravel()]
    return plain_.reshape(values.shape)


def _different(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the bits differ, NaN aside."""
    if one.dtype == object:
        pairs = zip(one.ravel(), other.ravel(), strict=True)
        return np.array([not _same(mine, theirs) for mine, theirs in pairs], dtype=bool).reshape(one.shape)
    if one.dtype.kind != "f" or one.dtype.itemsize > 8:
        return np.asarray(one != other)
    bits = np.dtype(f"u{one.dtype.itemsize}").newbyteorder(one.dtype.byteorder)
    return np.asarray((one.view(bits) != other.view(bits)) & ~(np.isnan(one) & np.isnan(other)))


def _most(one: NDArray[Any], other: NDArray[Any]) -> float | int | None:
    """The largest difference of two numbers; None where there is none, or something is no number."""
    if one.dtype.kind in "iu":
        # Modulo 2^64 the difference is right also where it leaves the range of the type.
        high, low = (each.astype(np.uint64) for each in (np.maximum(one, other), np.minimum(one, other)))
        return int((high - low).max())
    if one.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    return float(np.nanmax(apart)) if not np.isnan(apart).all() else None


def _for_json(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
