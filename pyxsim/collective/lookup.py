"""From the name of an algorithm to its schedule: "ring", "direct:4" (a window of 4), and ASTRA-sim's spellings.

`one-` before a name means: one group over all dimensions together ("one-ring", ASTRA-sim's oneRing). That is a matter
of the plan; the schedule is the one of the plain algorithm.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyxsim.collective.compiled import CompiledSchedule, compiled
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.schedule import Schedule
from pyxsim.collective.transform import mirrored
from pyxsim.errors import InputError, PyxsimError
from pyxsim.registry import collectives

_WINDOW = re.compile(r"(.*?):?(\d+)")
_ONE = re.compile(r"one(?:-|(?=[A-Z]))(.+)")


@dataclass(frozen=True)
class Algorithm:
    """A name, understood. `function(kind, n)` or, with a window, `function(kind, n, window)` gives the Schedule."""

    name: str  # the name proper: "one-halving-doubling", "direct:4"
    function: Callable[..., Schedule]
    window: int | None
    over_all: bool  # one group over all dimensions
    kinds: tuple[str, ...]

    def check(self, kind: str, *, key: str | None = None) -> None:
        """Raise InputError unless the algorithm can do this kind of collective."""
        if kind not in self.kinds:
            raise InputError(
                f"{self.name} cannot do {kind}", key=key, allowed=f"{', '.join(self.kinds)} with {self.name}"
            )


def get_algorithm(name: str, *, key: str | None = None) -> Algorithm:
    """The algorithm of that name, from the shelf. Raises InputError with the closest match.

    The shelf must have been loaded (pyxsim.library.load_all). A registered name always means itself; otherwise a
    number at the end is a window, and a leading `one-` (or `one` before a capital letter) goes over all dimensions.
    """
    plain, window, over_all = name, None, False
    if plain not in collectives and (match := _ONE.fullmatch(plain)):
        plain, over_all = match[1][0].lower() + match[1][1:], True
    if plain not in collectives and (match := _WINDOW.fullmatch(plain)):
        plain, window = match[1], int(match[2])
    try:
        entry = collectives.entry(plain)
    except InputError as error:
        raise error.at(key=key) from None
    if window is not None and "window" not in inspect.signature(entry.value).parameters:
        raise InputError(f"{entry.name} has no window", key=key, allowed=entry.name, given=name)
    if window == 0:
        raise InputError(f"'{name}' has a window of 0 messages", key=key, allowed=f"{entry.name}:1 and more")
    proper = ("one-" if over_all else "") + entry.name + (f":{window}" if window is not None else "")
    return Algorithm(proper, entry.value, window, over_all, tuple(entry.info.get("kinds", KINDS)))


def get_schedule(kind: str, name: str, n: int, *, mirror: bool = False) -> CompiledSchedule:
    """The schedule of an algorithm for one group of n ranks; cached. Raises InputError, ScheduleError.

    `mirror`: the same with the ranks in the other direction round (see `mirrored`).
    """
    algorithm = get_algorithm(name)
    algorithm.check(kind)
    schedule = _build(algorithm.function, algorithm.name.removeprefix("one-"), algorithm.window, kind, n)
    return mirrored(schedule) if mirror else schedule


@lru_cache(maxsize=256)
def _build(function: Callable[..., Any], name: str, window: int | None, kind: str, n: int) -> CompiledSchedule:
    try:
        schedule = function(kind, n) if window is None else function(kind, n, window)
    except PyxsimError:
        raise
    except (Exception, SystemExit) as error:
        what = f"the collective algorithm '{name}' failed for {kind} on {n} ranks: {type(error).__name__}: {error}"
        raise InputError(what, file=_place(error)) from error
    if not isinstance(schedule, Schedule):
        raise InputError(f"the collective algorithm '{name}' gave {type(schedule).__name__}", allowed="a Schedule")
    if (schedule.kind.name, schedule.n) != (kind, n):
        raise InputError(
            f"the collective algorithm '{name}' was asked for {kind} on {n} ranks "
            f"and gave {schedule.kind.name} on {schedule.n}"
        )
    return compiled(schedule, name)


def _place(error: BaseException) -> str:
    """file:line where a user's function failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"
