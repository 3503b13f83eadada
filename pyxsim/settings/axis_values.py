"""Values of a swept key: numbers and words, and whole tables with a name for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import model_at
from pyxsim.settings.override import Steps
from pyxsim.settings.spelling import Reader
from pyxsim.settings.types import shown

BACKEND = "backend"  # a swept key that is no setting
NAME = "name"  # in a table of a list of values: its name
LONGEST = 40  # letters of a name that is derived from a table


@dataclass(frozen=True)
class Named:
    """A value of a swept key with the name that tables and plots show."""

    name: str
    value: Any


def is_named(value: Mapping[str, Any], steps: Steps = ()) -> bool:
    """Whether a table holds a name for each value, `{ small = {..}, large = {..} }`, and is not a table of settings."""
    model = model_at(Experiment, steps)
    known = model.model_fields if model is not None else {}
    composite = [item for item in value.values() if _is_composite(item)]
    return bool(value) and len(composite) == len(value) and not any(key in known for key in value)


def named_values(steps: Steps, values: Sequence[Any], read: Reader, key: str) -> list[Named | Any]:
    """Return the values with a name for each table; `key` is where they are written. Raises InputError."""
    model = model_at(Experiment, steps)
    own_name = model is not None and NAME in model.model_fields
    made: list[Named | Any] = []
    for number, value in enumerate(values):
        if isinstance(value, Named):
            made.append(Named(value.name, read(value.value)))
        elif _is_composite(value):
            name = value.get(NAME) if isinstance(value, Mapping) else None
            if name is not None and (not isinstance(name, str) or not name.isprintable() or not name):
                raise InputError(f"{shown(name)} is not a name", key=f"{key}[{number}].name", allowed="a word")
            if name is not None and not own_name:
                value = {item: inner for item, inner in value.items() if item != NAME}
            made.append(Named(name or _name_of(value), read(value)))
        else:
            made.append(read(value))
    names = [each.name for each in made if isinstance(each, Named)]
    return [
        Named(f"{each.name} ({number})", each.value) if isinstance(each, Named) and names.count(each.name) > 1 else each
        for number, each in enumerate(made)
    ]


def check_backends(values: Sequence[Any], key: str) -> None:
    """Raise InputError unless every value of the axis `backend` is a word."""
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"{shown(value)} is not a backend", key=f"{key}[{number}]", allowed="a name")


def _is_composite(value: object) -> bool:
    """Whether a value is a table or a list of tables."""
    tables = isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping) or tables


def _name_of(value: Any) -> str:
    """A short name for a table: its values, "ring 8"; a list of tables is joined, "ring 4, switch 8"."""
    tables = [value] if isinstance(value, Mapping) else list(value)
    text = ", ".join(" ".join(_words(table)) for table in tables)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from chain.from_iterable(_words(item) for item in value.values())
    elif isinstance(value, list | tuple) and all(type(item) is int for item in value):
        yield "x".join(map(str, value))
    else:
        yield value if isinstance(value, str) else shown(value)
