"""Keys that an earlier version of pyxsim named differently: accepted, with a line that names the new key.

spelling.py has the names of ASTRA-sim, which are accepted without a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyxsim.errors import InputError

RENAMED: dict[str, str] = {}
"""Old key path -> new key path, without indices: "network.router.vc_count": "network.router.vcs".

Lists of tables may stand before the step in which the two differ, not behind it.
"""

Steps = tuple[str | int, ...]


def rename(data: dict[str, Any], renamed: dict[str, str]) -> tuple[list[InputError], list[str]]:
    """Move the values of renamed keys to their new places, in place.

    Parameters
    ----------
    data
        Tables of an experiment.
    renamed
        Gets the new key path of each renamed key, with the old one.

    Returns
    -------
    faults, notes
        An error for each key that is given under both names; a line for each renamed key.
    """
    faults, notes = [], []
    for old, new in RENAMED.items():
        before, after = old.split("."), new.split(".")
        shared = _shared(before, after)
        for path, table in list(_tables(data, before[:shared])):
            value = _taken(table, before[shared:])
            if value is None:
                continue
            place = table
            for step in after[shared:-1]:
                place = place.setdefault(step, {})
            was, now = (".".join([*path, *steps[shared:]]) for steps in (before, after))
            if not isinstance(place, dict) or after[-1] in place:
                faults.append(InputError(f"same setting as `{now}`", key=was, allowed="one of them"))
                continue
            place[after[-1]] = value
            renamed[now] = was
            notes.append(note(was, now))
    return faults, notes


def note(old: str, new: str) -> str:
    """Return the line about a renamed key."""
    return f"{old} is now called {new}; the old key will be removed"


def is_old(path: str) -> bool:
    """Return whether a key path is that of a renamed key."""
    return re.sub(r"\[\d+\]", "", path) in RENAMED


def new_steps(steps: Steps) -> Steps:
    """Return the steps of the new key path for those of an old one; others stay as they are."""
    plain = [step for step in steps if isinstance(step, str)]
    new = RENAMED.get(".".join(plain))
    if new is None:
        return steps
    after = new.split(".")
    shared = _shared(plain, after)
    kept = len(steps) - (len(plain) - shared)  # indices stand before the steps that differ
    return (*steps[:kept], *after[shared:])


def _shared(first: list[str], second: list[str]) -> int:
    """The number of leading steps that two paths share."""
    differs = [a != b for a, b in zip(first, second, strict=False)]
    return differs.index(True) if True in differs else len(differs)


def _tables(table: Any, steps: list[str], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each table at a path, with its key path; lists of tables have several."""
    if isinstance(table, list):
        for number, item in enumerate(table):
            yield from _tables(item, steps, (*path[:-1], f"{path[-1]}[{number}]") if path else ())
    elif isinstance(table, dict):
        if not steps:
            yield path, table
        elif steps[0] in table:
            yield from _tables(table[steps[0]], steps[1:], (*path, steps[0]))


def _taken(table: Any, steps: list[str]) -> Any:
    """The value at a path, which is removed; None if there is none."""
    for step in steps[:-1]:
        table = table.get(step) if isinstance(table, dict) else None
    return table.pop(steps[-1], None) if isinstance(table, dict) else None
