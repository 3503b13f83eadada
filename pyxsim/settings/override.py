"""Overrides of single settings: parse `--set network.router.vcs=8`, and put its value into the tables."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.describe import words_of
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import fields, key_path, model_at, unknown_key
from pyxsim.settings.renamed import new_steps
from pyxsim.settings.spelling import SPELLINGS, TABLE, Reader

_SEGMENT = re.compile(r"(?:([A-Za-z0-9_-]+)|\"([^\"]*)\")((?:\[\d{1,6}\])*)", re.ASCII)
_QUOTED = re.compile(r"\"[^\"]*\"|[^\"]")  # a key in quotes, or a character outside of quotes
MOST_NAMED = 4  # entries of a list
_EXAMPLE = "KEY=VALUE such as network.router.vcs=8"

Steps = tuple[str | int, ...]


def parse_override(text: str) -> tuple[Steps, Any]:
    """Parse an override: "network.dims[1].npus=4" -> (("network", "dims", 1, "npus"), 4).

    The value is TOML, or a bare word or quantity.

    Raises
    ------
    InputError
        If the text is not KEY=VALUE, or no experiment has the key path.
    """
    path, equals, value = split_override(text)
    path = path.strip()
    if not equals:
        raise InputError(f"'{text}' has no '='", allowed=_EXAMPLE)
    steps = _parse_path(path)
    given = override_value(value.strip(), path)
    steps, read = _canonical(steps)
    return steps, read(given)


def split_override(text: str) -> tuple[str, str, str]:
    """Return key path, "=" and value of an override, as `str.partition`; "=" in quoted keys does not count."""
    first = _outside(text, "=")
    return (text, "", "") if first is None else (text[:first], "=", text[first + 1 :])


def split_path(path: str) -> list[str]:
    """Return the segments of a key path, with their quotes: '"a.b".c' -> ['"a.b"', 'c']."""
    segments = []
    while (first := _outside(path, ".")) is not None:
        segments.append(path[:first])
        path = path[first + 1 :]
    return [*segments, path]


def _outside(text: str, mark: str) -> int | None:
    """The place of the first such character outside of quotes."""
    return next((match.start() for match in _QUOTED.finditer(text) if match[0] == mark), None)


def read_path(path: str) -> tuple[Steps, Reader]:
    """Parse a key path: "network.dims[1].npus" -> (("network", "dims", 1, "npus"), a function).

    The function converts a value from ASTRA-sim's form where the path has ASTRA-sim's name.

    Raises
    ------
    InputError
        If the text is not a key path, or no experiment has it.
    """
    return _canonical(_parse_path(path))


def _parse_path(path: str) -> Steps:
    steps: list[str | int] = []
    for segment in split_path(path):
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            raise InputError(
                f"'{path}' is not a key path", allowed="a key path such as network.router.vcs or network.dims[0].npus"
            )
        name = match[2] if match[1] is None else match[1]
        steps += [name, *(int(index) for index in re.findall(r"\d+", match[3]))]
    return tuple(steps)


def _canonical(steps: Steps) -> tuple[Steps, Reader]:
    read: Reader = _unchanged
    steps = new_steps(steps)
    if steps[0] == TABLE and len(steps) == 2 and steps[1] in SPELLINGS:
        key, read = SPELLINGS[str(steps[1])]
        steps = (TABLE, key)
    _check_path(steps)
    return steps, read


def _unchanged(value: Any) -> Any:
    return value


def _check_path(steps: Steps) -> None:
    """Raise InputError unless every step is a setting; tables of options accept any key."""
    for end, step in enumerate(steps, start=1):
        table = model_at(Experiment, steps[: end - 1])
        if not isinstance(step, str) or table is None:
            continue
        if step not in fields(table):
            raise unknown_key(Experiment, steps[:end])
        inside = steps[end:]
        if inside and isinstance(inside[0], str) and "a table" not in words_of(table, step):
            raise InputError("is not a table", key=key_path(steps[:end]), allowed=words_of(table, step))


def put(data: dict[str, Any], steps: Steps, value: Any) -> None:
    """Set a value in nested tables and lists in place; missing tables are created."""
    place: Any = data
    for end, step in enumerate(steps, start=1):
        _check_place(place, step, steps[: end - 1])
        if end == len(steps):
            place[step] = value
        else:
            if isinstance(step, str) and place.get(step) is None and isinstance(steps[end], str):
                place[step] = {}
            place = place[step] if isinstance(step, int) else place.get(step)


def _check_place(place: object, step: str | int, path: Steps) -> None:
    key = key_path((*path, step))
    if isinstance(step, str) and not isinstance(place, dict):
        raise InputError(f"there is no table at '{key_path(path)}'", key=key)
    if isinstance(step, int):
        if not isinstance(place, list):
            raise InputError(f"there is no list at '{key_path(path)}'", key=key)
        if step >= len(place):
            raise InputError(_has(len(place), key_path(path)), key=key, allowed=_indices(len(place), key_path(path)))


def override_value(text: str, path: str) -> Any:
    """Return the value of an override: TOML, or a bare word or quantity. Raises InputError."""
    if not text:
        raise InputError("missing value", key=path, allowed=_EXAMPLE)
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text[0] in "[{\"'":
            raise InputError(
                f"'{text}' is not a TOML value", key=path, allowed="such as 8, true, [4, 4] or a word"
            ) from error
        return text  # bare words and quantities: the shell has removed their quotes
    return read["value"] if len(read) == 1 else text


def _has(count: int, path: str) -> str:
    """How many entries a list has: `there are 2 jobs`, for those that tables repeat."""
    if path == "job":
        return f"there {'is' if count == 1 else 'are'} {count} job{'' if count == 1 else 's'}"
    return f"the list at '{path}' has {count} {'entry' if count == 1 else 'entries'}"


def _indices(count: int, path: str) -> str | None:
    if not count:
        return None
    names = [f"{path}[{index}]" for index in range(count)]
    return ", ".join(names) if count <= MOST_NAMED else f"{names[0]} to {names[-1]}"
