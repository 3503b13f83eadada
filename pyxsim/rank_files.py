"""The trace files of all ranks, with the rank in the name."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

from pyxsim.errors import InputError, closest
from pyxsim.paths import need_folder

ENDS = (".et", ".json", ".jsonl")


def find(name: str) -> dict[int, Path]:
    """Return the traces that a name means, by rank. Raises InputError.

    PREFIX.*.et: all of them. PREFIX, as in ASTRA-sim: those of PREFIX.*.et. One file: that file; its rank is the number
    in its name, or 0.
    """
    path = Path(name)
    if "*" in path.name:
        files = rank_files(name)
        if not files:
            raise _none(name)
        return dict(sorted(files.items()))
    if path.is_file():
        number = re.search(r"\.(0|[1-9]\d{0,8})(?:\.kineto)?\.\w+(?:\.gz)?$", path.name, re.ASCII)
        return {int(number[1]) if number else 0: path}
    of_prefix = _of_prefix(name)
    if of_prefix is None:
        raise _none(name)
    return of_prefix


def _of_prefix(name: str) -> dict[int, Path] | None:
    """The traces of all ranks with a prefix, in the first format that exists."""
    try:
        ways = (rank_files(f"{name}.*{end}{packed}") for end in ENDS for packed in ("", ".gz"))
        return next((dict(sorted(files.items())) for files in ways if files), None)
    except InputError:  # the folder cannot be read
        return None


def are_traces(name: str) -> bool:
    """Return whether a name means traces rather than a file of another kind. False for a file that does not exist."""
    path = Path(name)
    if "*" in path.name:
        return True
    if path.is_file():
        return any(path.name.endswith((end, f"{end}.gz")) for end in ENDS)
    return _of_prefix(name) is not None


def rank_files(pattern: str) -> dict[int, Path]:
    """Return the files of `PREFIX.*.et` by rank. Raises InputError unless the pattern has one star."""
    path = Path(pattern)
    before, star, after = path.name.partition("*")
    if not star or "*" in after:
        raise InputError(
            "is one trace", file=pattern, allowed="PREFIX.*.et: one trace per rank, with its number at '*'"
        )
    name = re.compile(rf"{re.escape(before)}(0|[1-9]\d{{0,8}}){re.escape(after)}", re.ASCII)
    try:
        matches = [(name.fullmatch(entry.name), entry) for entry in path.parent.iterdir()]
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError(problem, file=str(path.parent)) from error
    return {int(match[1]): file for match, file in matches if match is not None}


def refuse_others(pattern: str, ranks: Container[int]) -> None:
    """Raise InputError if `PREFIX.*.et` has traces of other ranks than those that are about to be written.

    Readers would take them as part of the new set.
    """
    need_folder(pattern)
    files = rank_files(pattern)
    if others := sorted(rank for rank in files if rank not in ranks):
        problem = "is of a rank that the new traces do not have, and would count as part of them"
        raise InputError(problem, file=str(files[others[0]]), allowed="another prefix, or remove the file first")


def _none(name: str) -> InputError:
    path = Path(name)
    allowed = "a trace, PREFIX.*.et, or PREFIX"
    if path.is_dir():
        return InputError("is a folder", file=name, allowed=allowed)
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        names = []
    stems = {re.sub(r"\.\d+(\.\w+(?:\.gz)?)$", r".*\1", file) for file in names}
    near = closest(path.name, [*names, *stems])
    return InputError(f"no such traces exist{near}", file=name, allowed=allowed)
