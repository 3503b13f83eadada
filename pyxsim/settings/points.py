"""Files with several experiments: the tables [sweep] and [[variant]], and the experiment of each point.

    [sweep]
    "collective.size" = ["1 MiB", "16 MiB"]

    [[variant]]
    name = "ring"
    set = { "network.topology" = "ring", "network.shape" = [16] }

Each variant with each combination of the swept values is a point; zipped values ([sweep.zip]) and listed points
([[sweep.points]]) form one axis each. A value replaces the value or table at its key path in the file. `--set` is
applied last; a key that it sets is not swept. A swept table has a name, given or
derived; `backend` is swept like a key.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pyxsim.errors import InputError, InputErrors, bundle, raise_all
from pyxsim.settings.axis_values import BACKEND, Named, check_backends, is_named, named_values
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import key_path, translate
from pyxsim.settings.load import (
    STUDY,
    Setting,
    Source,
    assemble,
    placed,
    read_overrides,
    read_source,
    replaced_key,
)
from pyxsim.settings.named import Systems
from pyxsim.settings.override import Steps, read_path
from pyxsim.settings.search import Search
from pyxsim.settings.spelling import Reader
from pyxsim.settings.sweep import MOST, Goal, Swept
from pyxsim.settings.types import Line, Options, Table, fresh, shown

VARIANT = "variant"  # axis of the variants, among key paths


class Variant(Table):
    """One of several experiments in a file, as differences to the rest of the file."""

    name: Line = Field(description="Name of the point.")
    set: Options = Field(
        description='Key paths in quotes and their values, such as `{ "network.topology" = "ring" }`; a value may be '
        "a whole table."
    )


class Study(Table):
    """Tables of files with several experiments, for `pyxsim sweep` and `pyxsim compare`; `run` takes single ones."""

    sweep: Swept = Field(
        default_factory=lambda: Swept.model_validate({}),
        description="Swept values; every combination of values is a point.",
    )
    variant: tuple[Variant, ...] = Field(
        default=(), description="Named sets of changes; each variant is combined with every point of the sweep."
    )
    search: Search | None = Field(
        default=None, description="A space of designs and an objective, for `pyxsim search` ([search.md](search.md))."
    )


@dataclass(frozen=True)
class Point:
    """One experiment of a file.

    Attributes
    ----------
    label
        Short unique name.
    experiment
        The complete experiment.
    values
        Key paths and values that differ from the file.
    variant
        Name of the variant, if any.
    swept
        The values of [sweep], a name for each table, and the name of the variant.
    backend
        The value of the swept key `backend`, if any.
    """

    label: str
    experiment: Experiment
    values: Mapping[str, Any]
    variant: str | None = None
    swept: Mapping[str, Any] = field(default_factory=dict)
    _file: str | None = None
    _settings: tuple[Setting, ...] = ()
    backend: str | None = None

    def placed(self, error: InputError) -> InputError:
        """Return an error of a later stage with the file and the key as the user wrote it."""
        each = error.faults if isinstance(error, InputErrors) else [error]
        return bundle([one if one.file or _is_option(one) else self._placed(one) for one in each])

    def _placed(self, fault: InputError) -> InputError:
        return placed(fault, self._file, self._settings)


def _is_option(fault: InputError) -> bool:
    return (fault.key or "").startswith("--")


@dataclass(frozen=True)
class Plan:
    """The experiments of a file; `axes` are the swept keys with their values, that of the goal last."""

    points: list[Point]
    axes: dict[str, list[Any]]
    goal: Goal | None = None


def points(source: Source, overrides: Iterable[str] = (), libraries: Iterable[str | PathLike[str]] = ()) -> list[Point]:
    """Return the experiments of a file; a single one without [sweep] and [[variant]].

    Parameters and errors are those of `load_experiment`.
    """
    plan = plan_of(source, overrides, libraries)
    if plan.goal is not None:
        file = None if isinstance(source, Mapping | Experiment) else str(source)
        allowed = "only with `pyxsim sweep`"
        raise InputError("this command does not search", file=file, key="sweep.goal", allowed=allowed)
    if any(point.backend is not None for point in plan.points):
        file = None if isinstance(source, Mapping | Experiment) else str(source)
        raise InputError(
            "this command does not sweep the backend",
            file=file,
            key="sweep.backend",
            allowed="--backends, or `pyxsim sweep`",
        )
    return plan.points


def plan_of(source: Source, overrides: Iterable[str] = (), libraries: Iterable[str | PathLike[str]] = ()) -> Plan:
    """Return the experiments of a file with axes and goal; with a goal, the points are its candidates."""
    file, data = read_source(source)
    study = read_study({table: data.pop(table) for table in STUDY if table in data}, file)
    by_hand = read_overrides(overrides)
    if study.search is not None:
        raise InputError("defines a search", file=file, key="search", allowed="only with `pyxsim search`")
    axes = _axes(study, [listed_point for listed_point in by_hand if isinstance(listed_point, Setting)], file)
    count = math.prod(len(axis) for axis in axes)
    if count > MOST:
        raise InputError(f"{count} points are too many", file=file, key=STUDY[0], allowed=f"at most {MOST}")
    made: list[Point] = []
    faults, maker = _Faults(), Maker(data, by_hand, file, libraries)
    for choices in itertools.product(*axes):
        try:
            made.append(maker.point(choices))
        except InputError as error:
            faults.add(maker.label(choices), error)
    faults.raise_all(count)
    return Plan(made, _swept_values(axes), study.sweep.goal)


@dataclass
class Maker:
    """Makes the point of a choice of each axis. `data`: the tables of the file without those of a study."""

    data: dict[str, Any]
    by_hand: Sequence[Setting | InputError]
    file: str | None
    libraries: Iterable[str | PathLike[str]] = ()

    def __post_init__(self) -> None:
        self._systems = Systems(self.libraries)

    def label(self, choices: Sequence[Choice]) -> str:
        """Return the name of a point: what was chosen."""
        alone = Path(self.file).stem if self.file else "experiment"
        return ", ".join(choice.label for choice in choices) or alone

    def point(self, choices: Sequence[Choice]) -> Point:
        """Return a point. Raises InputError."""
        chosen = [setting for choice in choices for setting in choice.settings]
        settings = [setting for setting in chosen if setting.steps != (BACKEND,)]
        backend = next((str(setting.value) for setting in chosen if setting.steps == (BACKEND,)), None)
        experiment = assemble(fresh(self.data), [*settings, *self.by_hand], self.file, self._systems)
        values = {key_path(setting.steps): setting.value for setting in settings}
        variant = next((choice.variant for choice in choices if choice.variant is not None), None)
        swept = {name: value for choice in choices for name, value in choice.swept.items()}
        known = tuple(listed_point for listed_point in (*settings, *self.by_hand) if isinstance(listed_point, Setting))
        point = Point(self.label(choices), experiment, values, variant, swept, self.file, known, backend)
        try:
            experiment.run.check_single()
        except InputError as error:
            raise point.placed(error) from None
        return point


def _swept_values(axes: list[list[Choice]]) -> dict[str, list[Any]]:
    """Each swept key with its distinct values."""
    swept: dict[str, list[Any]] = {}
    for name, value in (item for axis in axes for choice in axis for item in choice.swept.items()):
        values = swept.setdefault(name, [])
        if value not in values:
            values.append(value)
    return swept


@dataclass(frozen=True)
class Choice:
    """A value of an axis: its label and its settings."""

    label: str
    settings: tuple[Setting, ...]
    variant: str | None = None

    @property
    def swept(self) -> dict[str, Any]:
        """The name of the variant, or the values."""
        if self.variant is not None:
            return {VARIANT: self.variant}
        return {
            key_path(setting.steps): setting.value if setting.name is None else setting.name
            for setting in self.settings
        }


def read_study(tables: dict[str, Any], file: str | None) -> Study:
    sweep = tables.get("sweep")
    if isinstance(sweep, Mapping):
        keys = [key for key in sweep if key not in Swept.model_fields and _is_unquoted(key, sweep[key])]
        raise_all([_unquoted((key,), sweep[key], file) for key in keys])
    elif sweep is not None:  # keys are free: pydantic's message would be less clear
        allowed = "a table such as { key = value }"
        raise InputError(f"{shown(sweep)} is not a table", file=file, key="sweep", allowed=allowed)
    searched = tables.get("search")
    if isinstance(searched, Mapping) and isinstance(axes := searched.get("axes"), Mapping):
        raise_all([_unquoted((key,), axes[key], file, "search.axes") for key in axes if _is_unquoted(key, axes[key])])
    try:
        return Study.model_validate(tables)
    except ValidationError as error:
        raise bundle([fault.at(file=file) for fault in translate(error, Study)]) from None


def _is_unquoted(key: str, value: Any) -> bool:
    """Whether a table is neither a range nor holds named values, so that its keys are settings."""
    is_range = isinstance(value, Mapping) and {"from", "to"} & set(value)
    return isinstance(value, Mapping) and "." not in key and not is_range and not is_named(value, (key,))


def _unquoted(steps: tuple[str, ...], value: Any, file: str | None, table: str = "sweep") -> InputError:
    """The error for an unquoted key path: TOML reads `collective.size = [..]` as a table `collective`."""
    while isinstance(value, Mapping) and value:
        key, value = next(iter(value.items()))
        steps = (*steps, str(key))
    path = ".".join(steps)
    allowed = f'the key path in quotes: "{path}" = [..]'
    return InputError("a table, not a list of values", file=file, key=f"{table}.{path}", allowed=allowed)


Row = tuple[Setting, ...]


def _axes(study: Study, by_hand: list[Setting], file: str | None) -> list[list[Choice]]:
    """The axes: variants, and the values of each swept key. Raises all errors of key paths together."""
    faults: list[InputError] = []
    variants = [
        Choice(
            each.name,
            tuple(_set(each.set, f"variant[{number}].set", file, faults)),
            each.name,
        )
        for number, each in enumerate(study.variant)
    ]
    seen: dict[str, int] = {}
    for number, each in enumerate(study.variant):
        if each.name in seen:
            problem, key = f"same name as variant[{seen[each.name]}]", f"variant[{number}].name"
            faults.append(InputError(problem, file=file, key=key, allowed="unique names"))
        seen.setdefault(each.name, number)
    rows = [without_overridden(axis, by_hand) for axis in _rows(study.sweep, file, faults)]
    rows = [axis for axis in rows if any(axis)]
    faults += set_twice([setting for variant in variants for setting in variant.settings], rows)
    if (goal := study.sweep.goal) is not None and not faults:
        searched = list(_goal(goal, file, faults))
        if searched and len(without_overridden(searched, by_hand)) < len(searched):
            faults.append(
                InputError("cannot be set, because the sweep searches it", file="--set", key=_path(searched[0][0]))
            )
        faults += set_twice([setting for variant in variants for setting in variant.settings], [*rows, searched])
        rows.append(searched)
    raise_all(faults)
    return [*([variants] if variants else []), *labelled(rows)]


def _rows(sweep: Swept, file: str | None, faults: list[InputError]) -> Iterator[list[Row]]:
    """The axes of a sweep, with the settings of each value."""
    if sweep.points:
        yield [tuple(_set(point, f"sweep.points[{n}]", file, faults)) for n, point in enumerate(sweep.points)]
    if sweep.zip:
        columns = [list(swept_settings(path, values, "sweep.zip", file, faults)) for path, values in sweep.zip.items()]
        yield list(zip(*columns, strict=False))  # a column with an error is empty; the error is raised later
    for path, values in sweep.product.items():
        yield [(setting,) for setting in swept_settings(path, values, "sweep", file, faults)]


def _goal(goal: Goal, file: str | None, faults: list[InputError]) -> Iterator[Row]:
    """The candidates of a search."""
    written = "sweep.goal.values" if goal.values is not None else "sweep.goal"
    try:
        steps, read = read_path(goal.path)
    except InputError as error:
        faults.append(replaced_key(error, "sweep.goal.key").at(file=file))
        return
    for number, value in enumerate(goal.candidates):
        yield (Setting(steps, read(value), f"{written}[{number}]" if goal.values is not None else written, file),)


def without_overridden(axis: list[Row], by_hand: list[Setting]) -> list[Row]:
    """The distinct rows of an axis without the keys that --set sets."""
    left = [
        tuple(cell for cell in row if not any(hand.written(_path(cell)) is not None for hand in by_hand))
        for row in axis
    ]
    if left == axis:
        return axis
    keys = [[(_path(cell), cell.value) for cell in row] for row in left]
    return [row for number, row in enumerate(left) if keys[number] not in keys[:number]]


def labelled(axes: list[list[Row]]) -> Iterator[list[Choice]]:
    """The axes with a short unique label for each value."""
    paths = dict.fromkeys(_path(setting) for axis in axes for row in axis for setting in row)
    last = {path: path.rpartition(".")[2] for path in paths}
    ends = list(last.values())
    names = {path: path if ends.count(end) > 1 else end for path, end in last.items()}
    for axis in axes:
        labels = [", ".join(f"{names[_path(cell)]}={_text(cell)}" for cell in row) or "as it is" for row in axis]
        alike = len(set(labels)) < len(labels)  # long values are cut off
        yield [
            Choice(f"{label} ({number})" if alike else label, row)
            for number, (label, row) in enumerate(zip(labels, axis, strict=True))
        ]


def swept_settings(
    path: str, values: tuple[Any, ...], table: str, file: str | None, faults: list[InputError]
) -> Iterator[Setting]:
    key = f"{table}.{key_path((path,))}"
    try:
        steps, read = _read_path(path)
    except InputError as error:
        faults.append(replaced_key(error, key).at(file=file))
        return
    try:
        if path == BACKEND:
            check_backends(values, key)
        named = named_values(steps, values, read, key)
    except InputError as error:
        faults.append(error.at(file=file))
        return
    for number, (written, value) in enumerate(zip(values, named, strict=True)):
        place = f"{key}.{key_path((written.name,))}" if isinstance(written, Named) else f"{key}[{number}]"
        if isinstance(value, Named):
            yield Setting(steps, value.value, place, file, value.name)
        else:
            yield Setting(steps, value, place, file)


def _read_path(path: str) -> tuple[Steps, Reader]:
    """Parse a key path, or `backend`, which is no setting. Raises InputError."""
    return ((BACKEND,), lambda value: value) if path == BACKEND else read_path(path)


def _set(values: Mapping[str, Any], table: str, file: str | None, faults: list[InputError]) -> Iterator[Setting]:
    """The settings of a table of key paths; `table` is its place in the file."""
    for path, value in values.items():
        key = f"{table}.{key_path((path,))}"
        try:
            steps, read = _read_path(path)
            if path == BACKEND:
                check_backends([value], key)
        except InputError as error:
            faults.append(replaced_key(error, key).at(file=file))
            continue
        yield Setting(steps, read(value), key, file)


def _path(setting: Setting) -> str:
    return key_path(setting.steps)


def _place(setting: Setting) -> str:
    """The key of a setting in the file, without the index of the value."""
    return re.sub(r"\[\d+\]$", "", setting.key)


def _columns(axis: list[Row]) -> dict[str, Setting]:
    """The paths that an axis sets, each with one of its settings."""
    columns: dict[str, Setting] = {}
    for setting in (cell for row in axis for cell in row):
        columns.setdefault(_path(setting), setting)
    return columns


def set_twice(of_variants: list[Setting], axes: list[list[Row]]) -> Iterator[InputError]:
    """Errors for keys that two axes, or a variant and the sweep, set: one would have no effect."""
    every = [(number, setting) for number, axis in enumerate(axes) for setting in _columns(axis).values()]
    for (number, one), (other_number, other) in itertools.combinations(every, 2):
        listed = one.key.startswith("sweep.points")  # a point may set a part of a table that it set before
        if number == other_number and listed:
            continue
        if one.written(_path(other)) is not None or other.written(_path(one)) is not None:
            part = ", which overlaps with it" if _path(one) != _path(other) else ""
            problem = f"the sweep also sets {_path(one)}{part}"
            yield InputError(problem, file=other.file, key=_place(other), allowed="one of them")
    for _, swept in every:
        for setting in of_variants:
            if swept.written(_path(setting)) is not None:
                problem = f"[sweep] also sets {_path(swept)}"
                yield InputError(problem, file=setting.file, key=setting.key, allowed="one of them")


def _text(setting: Setting) -> str:
    """The value of a setting in a label, or the name of a table."""
    return _short(setting.value if setting.name is None else setting.name)


def _short(value: Any) -> str:
    """A value in a label: 4, 1 MiB, 4x4x4."""
    if isinstance(value, str) and value.isprintable():
        return value
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return "x".join(map(str, value))
    return shown(value)


class _Faults:
    """The distinct errors of the points, with the points that have them unless all do."""

    def __init__(self) -> None:
        self._points: dict[tuple[Any, ...], list[str]] = {}
        self._faults: dict[tuple[Any, ...], InputError] = {}

    def add(self, label: str, error: InputError) -> None:
        for fault in error.faults if isinstance(error, InputErrors) else [error]:
            key = (fault.file, fault.key, fault.problem, fault.allowed)
            self._faults.setdefault(key, fault)
            self._points.setdefault(key, []).append(label)

    def raise_all(self, count: int) -> None:
        """Raise the errors; `count` is the number of points."""
        raise_all([self._located(fault, self._points[key], count) for key, fault in self._faults.items()])

    def _located(self, fault: InputError, labels: list[str], count: int) -> InputError:
        own = (fault.key or "").startswith(tuple(f"{table}{mark}" for table in STUDY for mark in ".["))
        if own or len(labels) == count:
            return fault
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        problem = f"{fault.problem} (in {labels[0]}{more})"
        return InputError(problem, file=fault.file, key=fault.key, allowed=fault.allowed, given=fault.given)
