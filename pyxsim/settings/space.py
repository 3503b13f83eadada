"""The space of a search: axes of values, and the experiment at each place.

A place is a tuple with the number of a value for each axis. Shapes are factorizations of a number of NPUs; a split
gives several bandwidths parts of one budget.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import Any

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.faults import key_path
from pyxsim.settings.load import STUDY, Setting, Source, read_overrides, read_source, replaced_key
from pyxsim.settings.override import override_value, read_path, split_override, split_path
from pyxsim.settings.points import (
    Choice,
    Maker,
    Point,
    Row,
    labelled,
    read_study,
    set_twice,
    swept_settings,
    without_overridden,
)
from pyxsim.settings.search import MOST_COMBINATIONS, BandwidthSplit, Search
from pyxsim.settings.types import fresh, listed
from pyxsim.units import in_one_unit, quantity

Place = tuple[int, ...]
_TABLE = "search.axes"


@dataclass
class Space:
    """The axes of a search. Raises InputError where it is made of an invalid file (`read_space`)."""

    search: Search
    axes: list[list[Choice]]
    maker: Maker

    @property
    def names(self) -> list[str]:
        """The key paths that the axes set, in order."""
        return list(dict.fromkeys(name for axis in self.axes for choice in axis for name in choice.swept))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each axis."""
        return tuple(len(axis) for axis in self.axes)

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def places(self) -> Iterator[Place]:
        """Yield all places in order, the last axis fastest."""
        return itertools.product(*map(range, self.sizes))

    def choices(self, place: Place) -> list[Choice]:
        """Return the chosen value of each axis."""
        return [axis[number] for axis, number in zip(self.axes, place, strict=True)]

    def values(self, place: Place) -> dict[str, Any]:
        """Return the values by key path; the name of a table."""
        return {name: value for choice in self.choices(place) for name, value in choice.swept.items()}

    def point(self, place: Place) -> Point:
        """Return the experiment at a place. Raises InputError."""
        return self.maker.point(self.choices(place))

    def written(self, path: str) -> Any:
        """Return the value of a setting in the file, where no axis sets it. Raises InputError."""
        value: Any = self.maker.data
        for step in read_path(path)[0]:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                allowed = [*self.names, "npus"]
                problem = f"'{path}' is neither an axis nor set in the file"
                raise InputError(problem, allowed=allowed, given=path) from None
        return value


def read_space(source: Source, overrides: Iterable[str] = (), libraries: Iterable[str | PathLike[str]] = ()) -> Space:
    """Return the space of a file with [search]. Raises InputError with all faults of its axes."""
    file, data = read_source(source)
    texts = listed(overrides)
    own = [text for text in texts if text.startswith("search.")]
    if own:
        data["search"] = _overridden(data.get("search"), own)
    study = read_study({table: data.pop(table) for table in STUDY if table in data}, file)
    if study.search is None:
        problem = "the file defines no search" if file else "the source defines no search"
        raise InputError(problem, file=file, key="search", allowed="a table [search] with axes and an objective")
    if study.sweep.model_fields_set or study.sweep.product or study.variant:
        raise InputError("cannot be combined with [search]", file=file, key="sweep", allowed="axes of the search")
    by_hand = read_overrides([text for text in texts if text not in own])
    hand = [setting for setting in by_hand if isinstance(setting, Setting)]
    faults: list[InputError] = []
    rows = [without_overridden(axis, hand) for axis in _rows(study.search, file, faults)]
    rows = [axis for axis in rows if any(axis)]
    faults += set_twice([], rows)
    raise_all(faults)
    axes = list(labelled(rows))
    if not axes:
        raise InputError("has no axes", file=file, key=_TABLE, allowed="key paths in quotes with lists of values")
    space = Space(study.search, axes, Maker(data, by_hand, file, tuple(libraries)))
    if len(space) > MOST_COMBINATIONS:
        problem = f"{len(space)} combinations are too many"
        raise InputError(problem, file=file, key=_TABLE, allowed=f"at most {MOST_COMBINATIONS}")
    return space


def _overridden(table: Any, texts: Sequence[str]) -> dict[str, Any]:
    """The table [search] with settings such as "search.budget.decide=5". Raises InputError."""
    made: dict[str, Any] = fresh(table) if isinstance(table, dict) else {}
    for text in texts:
        path, equals, value = split_override(text)
        keys = [key.strip().strip('"') for key in split_path(path)[1:]]
        if not equals or not all(keys):
            problem = f"'{text}' is not a setting of the search"
            raise InputError(problem, file="--set", allowed="such as search.budget.decide=10")
        place = made
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise InputError("is not a table", file="--set", key=path.strip(), allowed="keys of [search]")
        place[keys[-1]] = override_value(value.strip(), path.strip())
    return made


def _rows(search: Search, file: str | None, faults: list[InputError]) -> Iterator[list[Row]]:
    """The axes with the settings of each value."""
    for path, values in search.axes.items():
        yield [(setting,) for setting in swept_settings(path, values, _TABLE, file, faults)]
    for path, npus in search.shapes.items():
        shapes = tuple([list(shape) for shape in factorizations(npus, search.dimensions)])
        yield [(setting,) for setting in swept_settings(path, shapes, "search.shapes", file, faults)]
    if search.split is not None:
        yield list(_split(search.split, file, faults))


def factorizations(number: int, factors: int) -> Iterator[tuple[int, ...]]:
    """Yield all ordered lists of `factors` numbers above 1 with this product."""
    if factors == 1:
        if number > 1:
            yield (number,)
        return
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            for rest in factorizations(number // first, factors - 1):
                yield (first, *rest)


def _split(split: BandwidthSplit, file: str | None, faults: list[InputError]) -> Iterator[Row]:
    """The divisions of a budget: sum over i of price[i] x bandwidth[i] = budget, in steps of a part of it."""
    prices = split.prices or (Fraction(1),) * len(split.axes)
    try:
        if isinstance(split.budget, str):
            unit, (budget,) = in_one_unit(split.budget)
        else:
            raise InputError(f"{split.budget} has no unit", allowed="a bandwidth such as '600 GB/s'")
        reads = [read_path(path) for path in split.axes]
    except InputError as error:
        faults.append(replaced_key(error, "search.split").at(file=file))
        return
    for parts in _compositions(split.parts, len(split.axes)):
        row = []
        for (steps, read), count, price in zip(reads, parts, prices, strict=True):
            bandwidth = quantity(budget * Fraction(count, split.parts) / price, unit)
            row.append(Setting(steps, read(bandwidth), f"search.split.{key_path(steps)}", file))
        yield tuple(row)


def _compositions(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a total as a sum of `count` numbers from 1."""
    for cuts in itertools.combinations(range(1, total), count - 1):
        ends = (0, *cuts, total)
        yield tuple(after - before for before, after in itertools.pairwise(ends))


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return the last part of each key path, or all of it where two end alike."""
    ends = {name: name.rpartition(".")[2] for name in names}
    return {name: end if list(ends.values()).count(end) == 1 else name for name, end in ends.items()}
