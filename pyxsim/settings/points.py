"""A file that holds several experiments: its tables [sweep] and [[variant]], and the experiment of each point.

    [sweep]
    "collective.size" = ["1 MiB", "16 MiB"]

    [[variant]]
    name = "ring"
    set = { "network.topology" = "ring", "network.shape" = [16] }

Each variant with each combination of the swept values is a point. A value takes the place of what the file has at its
key path, be it a number or a table. `--set` comes last: a key that it sets is no longer swept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pyxsim.errors import InputError, InputErrors, bundle, raise_all
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
from pyxsim.settings.override import read_path
from pyxsim.settings.types import Line, Options, Table, Values, fresh, shown

MOST = 10_000  # points: what a study can hold, and somebody may want to see


class Variant(Table):
    """One of several experiments in a file: what is different in it."""

    name: Line = Field(description="What the point is called.")
    set: Options = Field(
        description='Key paths in quotes with their values, such as `{ "network.topology" = "ring" }`; '
        "a value may be a whole table."
    )


class Study(Table):
    """With these tables a file holds several experiments: `pyxsim compare` runs each; `run` takes single ones."""

    sweep: dict[str, Values] = Field(
        default_factory=dict,
        description='Key paths in quotes with lists of values, such as `"collective.size" = ["1 MiB", "2 MiB"]`: '
        "every combination of the values is a point.",
    )
    variant: tuple[Variant, ...] = Field(
        default=(), description="Experiments that differ in more than a value; each with every combination of a sweep."
    )


@dataclass(frozen=True)
class Point:
    """One experiment of a file. `values`: what is different in it, key path to value. `label`: that in short, unique.

    `variant`: its name, where there are variants.
    """

    label: str
    experiment: Experiment
    values: Mapping[str, Any]
    variant: str | None = None
    _file: str | None = None
    _settings: tuple[Setting, ...] = ()

    def placed(self, error: InputError) -> InputError:
        """A fault that turned up later, with its file and the key as the user wrote it there."""
        each = error.faults if isinstance(error, InputErrors) else [error]
        return bundle([one if one.file or _is_option(one) else self._placed(one) for one in each])

    def _placed(self, fault: InputError) -> InputError:
        return placed(fault, self._file, self._settings)


def _is_option(fault: InputError) -> bool:
    return (fault.key or "").startswith("--")


def points(source: Source, overrides: Iterable[str] = (), libraries: Iterable[str | PathLike[str]] = ()) -> list[Point]:
    """The experiments of a TOML file (its path) or of a dict, after overrides such as "network.router.vcs=8".

    One where there is neither [sweep] nor [[variant]]. `libraries`: folders whose systems they may name. Raises
    InputError, or InputErrors with the faults of all points, each with its file and key path.
    """
    file, data = read_source(source)
    study = _study({table: data.pop(table) for table in STUDY if table in data}, file)
    by_hand = read_overrides(overrides)
    axes = list(_axes(study, [each for each in by_hand if isinstance(each, Setting)], file))
    count = math.prod(len(axis) for axis in axes)
    if count > MOST:
        raise InputError(f"{count} points are too many", file=file, key=STUDY[0], allowed=f"at most {MOST}")
    alone = Path(file).stem if file else "experiment"
    found: list[Point] = []
    faults, systems = _Faults(), Systems(libraries)
    for choices in itertools.product(*axes):
        label = ", ".join(choice.label for choice in choices) or alone
        settings = [setting for choice in choices for setting in choice.settings]
        try:
            experiment = assemble(fresh(data), [*settings, *by_hand], file, systems)
        except InputError as error:
            faults.add(label, error)
            continue
        values = {key_path(setting.steps): setting.value for setting in settings}
        variant = next((choice.variant for choice in choices if choice.variant is not None), None)
        known = tuple(each for each in (*settings, *by_hand) if isinstance(each, Setting))
        found.append(Point(label, experiment, values, variant, file, known))
    faults.tell(count)
    return found


@dataclass(frozen=True)
class _Choice:
    """A value of an axis: what it is called, and what it sets."""

    label: str
    settings: tuple[Setting, ...]
    variant: str | None = None


def _study(tables: dict[str, Any], file: str | None) -> Study:
    sweep = tables.get("sweep")
    if isinstance(sweep, Mapping):
        raise_all([_unquoted((key,), value, file) for key, value in sweep.items() if isinstance(value, Mapping)])
    try:
        return Study.model_validate(tables)
    except ValidationError as error:
        raise bundle([fault.at(file=file) for fault in translate(error, Study)]) from None


def _unquoted(steps: tuple[str, ...], value: Any, file: str | None) -> InputError:
    """TOML takes `collective.size = [..]` for a table `collective`, in which there is a `size`."""
    while isinstance(value, Mapping) and value:
        key, value = next(iter(value.items()))
        steps = (*steps, str(key))
    path = ".".join(steps)
    allowed = f'the key path in quotes: "{path}" = [..]'
    return InputError("is a table, not a list of values", file=file, key=f"sweep.{path}", allowed=allowed)


def _axes(study: Study, by_hand: list[Setting], file: str | None) -> Iterator[list[_Choice]]:
    """The variants, and the values of each swept key. Raises all faults of key paths together."""
    faults: list[InputError] = []
    variants = [
        _Choice(
            each.name,
            tuple(_set(each.set, f"variant[{number}].set", file, faults)),
            each.name,
        )
        for number, each in enumerate(study.variant)
    ]
    seen: dict[str, int] = {}
    for number, each in enumerate(study.variant):
        if each.name in seen:
            problem, key = f"variant[{seen[each.name]}] is called '{each.name}', too", f"variant[{number}].name"
            faults.append(InputError(problem, file=file, key=key, allowed="a name of its own"))
        seen.setdefault(each.name, number)
    swept = [list(_swept(path, values, file, faults)) for path, values in study.sweep.items()]
    swept = [axis for axis in swept if axis and not any(hand.written(_path(axis)) is not None for hand in by_hand)]
    for axis, other in itertools.combinations(swept, 2):
        if axis[0].written(_path(other)) is not None or other[0].written(_path(axis)) is not None:
            problem = f"sweep sets {_path(axis)}, too, and one is part of the other"
            faults.append(InputError(problem, file=file, key=_table(other), allowed="one of them"))
    faults += _twice([setting for variant in variants for setting in variant.settings], swept)
    raise_all(faults)
    if variants:
        yield variants
    last = [_path(axis).rpartition(".")[2] for axis in swept]
    for axis, name in zip(swept, last, strict=True):
        path = _path(axis) if last.count(name) > 1 else name
        labels = [f"{path}={_short(setting.value)}" for setting in axis]
        alike = len(set(labels)) < len(labels)  # long values, cut off
        yield [
            _Choice(f"{label} ({number})" if alike else label, (setting,))
            for number, (label, setting) in enumerate(zip(labels, axis, strict=True))
        ]


def _swept(path: str, values: tuple[Any, ...], file: str | None, faults: list[InputError]) -> Iterator[Setting]:
    key = f"sweep.{key_path((path,))}"
    try:
        steps, read = read_path(path)
    except InputError as error:
        faults.append(replaced_key(error, key).at(file=file))
        return
    yield from (Setting(steps, read(value), f"{key}[{number}]", file) for number, value in enumerate(values))


def _set(values: Mapping[str, Any], table: str, file: str | None, faults: list[InputError]) -> Iterator[Setting]:
    """What a table of key paths sets; `table`: where it is in the file."""
    for path, value in values.items():
        key = f"{table}.{key_path((path,))}"
        try:
            steps, read = read_path(path)
        except InputError as error:
            faults.append(replaced_key(error, key).at(file=file))
            continue
        yield Setting(steps, read(value), key, file)


def _path(axis: list[Setting]) -> str:
    return key_path(axis[0].steps)


def _table(axis: list[Setting]) -> str:
    """The key of an axis as it stands in the file."""
    return axis[0].key.rpartition("[")[0]


def _twice(of_variants: list[Setting], swept: list[list[Setting]]) -> Iterator[InputError]:
    """Keys that a variant sets and a sweep, too: the variant would have no effect."""
    for axis in swept:
        path = _path(axis)
        for setting in of_variants:
            if axis[0].written(key_path(setting.steps)) is not None:
                yield InputError(f"[sweep] sets {path}, too", file=setting.file, key=setting.key, allowed="one of them")


def _short(value: Any) -> str:
    """A value in a label: 4, 1 MiB, 4x4x4."""
    if isinstance(value, str) and value.isprintable():
        return value
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return "x".join(map(str, value))
    return shown(value)


class _Faults:
    """The faults of the points: each once, with the points that have it where these are not all."""

    def __init__(self) -> None:
        self._points: dict[tuple[Any, ...], list[str]] = {}
        self._faults: dict[tuple[Any, ...], InputError] = {}

    def add(self, label: str, error: InputError) -> None:
        for fault in error.faults if isinstance(error, InputErrors) else [error]:
            key = (fault.file, fault.key, fault.problem, fault.allowed)
            self._faults.setdefault(key, fault)
            self._points.setdefault(key, []).append(label)

    def tell(self, count: int) -> None:
        """Raise them. `count`: of all points."""
        raise_all([self._told(fault, self._points[key], count) for key, fault in self._faults.items()])

    def _told(self, fault: InputError, labels: list[str], count: int) -> InputError:
        own = (fault.key or "").startswith(tuple(f"{table}{mark}" for table in STUDY for mark in ".["))
        if own or len(labels) == count:
            return fault
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        problem = f"{fault.problem} (in {labels[0]}{more})"
        return InputError(problem, file=fault.file, key=fault.key, allowed=fault.allowed, given=fault.given)
