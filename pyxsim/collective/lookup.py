"""From the name of an algorithm to its schedule: "ring", "direct:4", ASTRA-sim's names, and files.

A number after a name goes to the third parameter of the algorithm's function: a window, segments, rings, group size.
`one-` before a name combines all dimensions into one group ("one-ring", ASTRA-sim's oneRing); that concerns the plan,
the schedule is that of the plain algorithm.

A path is a name, too: `FILE.py`, `FILE.py:FUNCTION`, `FILE.xml`, `FILE.json`, `FILE.csv`, `PREFIX.*.et` (see `custom`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyxsim.collective.algorithm_files import READERS, find
from pyxsim.collective.build_limit import TooLargeError, limited
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.schedule import Schedule
from pyxsim.collective.transform import mirrored
from pyxsim.errors import InputError, PyxsimError
from pyxsim.library import file_of, place_of
from pyxsim.registry import collectives

_NUMBER = re.compile(r"(.*?):?(\d+)")
_ONE = re.compile(r"one(?:-|(?=[A-Z]))(.+)")
_FILE = re.compile(rf"(one-)?([^:]+\.(?:{'|'.join(READERS)}))(?::([^\d:][^:]*))?(?::(\d+))?")


@dataclass(frozen=True)
class Algorithm:
    """A parsed name. `function(kind, n)` or, with a number, `function(kind, n, number)` returns the schedule."""

    name: str  # canonical name: "one-halving-doubling", "direct:4"
    function: Callable[..., Schedule | CompiledSchedule]
    number: int | None
    over_all: bool  # one group over all dimensions
    kinds: tuple[str, ...]

    @property
    def plain(self) -> str:
        """The name without the prefix `one-` of a group over all dimensions."""
        return self.name.removeprefix("one-") if self.over_all else self.name

    def check(self, kind: str, *, key: str | None = None) -> None:
        """Raise InputError unless the algorithm supports this kind of collective."""
        if kind not in self.kinds:
            raise InputError(
                f"{self.name} does not support {kind}", key=key, allowed=f"{', '.join(self.kinds)} with {self.name}"
            )


def get_algorithm(name: str, *, key: str | None = None) -> Algorithm:
    """Return the algorithm of that name, from the shelf or from a file. Raises InputError with the closest match.

    The shelf must have been loaded (pyxsim.library.load_all). A registered name has priority; otherwise a number at the
    end goes to the function, and a leading `one-` (or `one` before a capital letter) combines all dimensions.
    """
    if name not in collectives and (match := _FILE.fullmatch(name)):
        return _of_file(name, *match.groups(), key=key)
    plain, number, over_all = name, None, False
    if _without_number(plain) not in collectives and plain not in collectives and (match := _ONE.fullmatch(plain)):
        plain, over_all = match[1][0].lower() + match[1][1:], True
    if plain not in collectives and (match := _NUMBER.fullmatch(plain)):
        plain, number = match[1], int(match[2])
    try:
        entry = collectives.entry(plain)
    except InputError as error:
        raise error.at(key=key) from None
    _check_number(entry.value, entry.name, number, name, key)
    proper = ("one-" if over_all else "") + entry.name + (f":{number}" if number is not None else "")
    return Algorithm(proper, entry.value, number, over_all, tuple(entry.info.get("kinds", KINDS)))


def _without_number(name: str) -> str:
    return match[1] if (match := _NUMBER.fullmatch(name)) else name


def _of_file(
    name: str, one: str | None, path: str, part: str | None, number: str | None, *, key: str | None
) -> Algorithm:
    try:
        file = find(path, part)
    except InputError as error:
        raise (error if key is None else error.named_by(key)) from None
    count = None if number is None else int(number)
    _check_number(file.function, name.rpartition(":")[0], count, name, key)
    return Algorithm(name, file.function, count, one is not None, file.kinds)


def _check_number(function: Callable[..., Any], plain: str, number: int | None, name: str, key: str | None) -> None:
    if number is None:
        return
    parameters = list(inspect.signature(function).parameters)[2:]
    if not parameters:
        raise InputError(f"{plain} takes no number", key=key, allowed=plain, given=name)
    if number == 0:
        problem = f"'{name}': {parameters[0].replace('_', ' ')} is 0"
        raise InputError(problem, key=key, allowed=f"{plain}:1 or more")


def located(name: str, folder: Path) -> str:
    """Return the name of an algorithm with a path relative to `folder` made absolute; other names stay as they are.

    Names of algorithms have no suffix, so a name that ends with a known suffix is a path.
    """
    match = _FILE.fullmatch(name)
    if match is None or name in collectives:
        return name
    path = str(folder.absolute() / Path(match[2]).expanduser())
    return (match[1] or "") + path + name[match.end(2) :]


def get_schedule(kind: str, name: str, n: int, *, mirror: bool = False) -> CompiledSchedule:
    """Return the schedule of an algorithm for one group of n ranks; cached. Raises InputError, ScheduleError.

    `mirror`: with the ranks in the opposite direction (see `mirrored`).
    """
    algorithm = get_algorithm(name)
    algorithm.check(kind)
    schedule = _build(algorithm.function, algorithm.plain, algorithm.number, kind, n)
    return mirrored(schedule) if mirror else schedule


@lru_cache(maxsize=256)
def _build(function: Callable[..., Any], name: str, number: int | None, kind: str, n: int) -> CompiledSchedule:
    try:
        schedule = limited(function, kind, n) if number is None else limited(function, kind, n, number)
    except (PyxsimError, MemoryError):
        raise
    except TooLargeError as error:
        what = f"the collective algorithm '{name}' took {error} for {kind} on {n} ranks"
        allowed = "an algorithm that ends, with fewer messages"
        raise InputError(what, file=error.place or file_of(function), allowed=allowed) from None
    except (Exception, SystemExit) as error:
        what = f"the collective algorithm '{name}' failed for {kind} on {n} ranks: {type(error).__name__}: {error}"
        raise InputError(what, file=place_of(error, function)) from error
    if not isinstance(schedule, Schedule | CompiledSchedule):
        problem = f"the collective algorithm '{name}' returned {type(schedule).__name__}"
        raise InputError(problem, file=file_of(function), allowed="a Schedule")
    if (schedule.kind.name, schedule.n) != (kind, n):
        raise InputError(
            f"the collective algorithm '{name}' should return {kind} on {n} ranks, but returned {schedule.kind.name} "
            f"on {schedule.n}"
        )
    return compiled(schedule, name)
