"""The files that a command writes: each of its own, none of them an input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from pyxsim.errors import InputError, raise_all

Check = Callable[[str], Any]


def check_outputs(outputs: Iterable[tuple[str, Check]], inputs: Iterable[str] = ()) -> None:
    """Raise InputError unless all can be written, before the time of a simulation is spent, none over another one.

    `outputs`: names, each with what says whether such a file can be written.
    """
    taken = {os.path.realpath(path): "an input of this run" for path in inputs}
    faults, told = [], set()
    for name, check in outputs:
        try:
            target = os.path.realpath(check(name))
        except InputError as error:
            # A folder that is missing is told once, not for each file that would be in it.
            why = (error.problem, os.path.dirname(name))
            if why not in told:
                faults.append(error)
            told.add(why)
            continue
        if target in taken:
            problem = f"cannot be written: it is {taken[target]}"
            faults.append(InputError(problem, file=name, allowed="another name"))
        taken.setdefault(target, "the other output")
    raise_all(faults)
