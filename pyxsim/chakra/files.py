"""The traces of all ranks: a file for each, its rank in its name."""

from __future__ import annotations

import re
from pathlib import Path

from pyxsim.errors import InputError, closest

ENDS = (".et", ".json", ".jsonl")


def find(name: str) -> dict[int, Path]:
    """The traces that a user means, by rank. Raises InputError.

    PREFIX.*.et: all of them. PREFIX, as ASTRA-sim takes it: those of PREFIX.*.et. One file: that alone; its rank is the
    number in its name, or else 0.
    """
    path = Path(name)
    if "*" in path.name:
        found = rank_files(name)
        if not found:
            raise _none(name)
        return dict(sorted(found.items()))
    if path.is_file():
        number = re.search(r"\.(0|[1-9]\d{0,8})\.\w+(?:\.gz)?$", path.name, re.ASCII)
        return {int(number[1]) if number else 0: path}
    for end in ENDS:
        for packed in ("", ".gz"):
            if found := rank_files(f"{name}.*{end}{packed}"):
                return dict(sorted(found.items()))
    raise _none(name)


def rank_files(pattern: str) -> dict[int, Path]:
    """The files of `PREFIX.*.et` by the rank in the place of the star. Raises InputError unless there is one star."""
    path = Path(pattern)
    before, star, after = path.name.partition("*")
    if not star or "*" in after:
        raise InputError("is one trace", file=pattern, allowed="PREFIX.*.et: a trace for each rank, its number at '*'")
    name = re.compile(rf"{re.escape(before)}(0|[1-9]\d{{0,8}}){re.escape(after)}", re.ASCII)
    try:
        matches = [(name.fullmatch(each.name), each) for each in path.parent.iterdir()]
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError(problem, file=str(path.parent)) from error
    return {int(match[1]): each for match, each in matches if match is not None}


def _none(name: str) -> InputError:
    path = Path(name)
    try:
        here = [each.name for each in path.parent.iterdir()]
    except (OSError, ValueError):
        here = []
    stems = {re.sub(r"\.\d+(\.\w+(?:\.gz)?)$", r".*\1", each) for each in here}
    near = closest(path.name, [*here, *stems])
    return InputError(f"there are no such traces{near}", file=name, allowed="a trace, PREFIX.*.et, or PREFIX")
