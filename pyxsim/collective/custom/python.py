"""Algorithms in Python files.

Either a function(kind, n) that returns a Schedule, as on the shelf, or a function(kind, n, rank) that yields the steps
of one rank (`steps`).
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from pyxsim.collective.custom.rank_generators import is_rank_generator, schedule_builder
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.registry import collectives
from pyxsim.textfile import read_text

_numbers = count()


def read_python(path: str, part: str | None) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a function(kind, n) that returns the schedule of a file, and the kinds that it supports. Raises
    InputError.

    `part`: the function of the file; optional if it registers one or has one public function.
    """
    function, kinds = _chosen(path, part)
    if is_rank_generator(function):
        function = schedule_builder(function, Path(path).name)
    return function, kinds


def _chosen(path: str, part: str | None) -> tuple[Callable[..., Any], tuple[str, ...]]:
    module, offered = _load(Path(path), read_text(path, "a Python file"))
    if not offered:
        offered = {
            name: (value, tuple(KINDS))
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
    if part is None and len(offered) == 1:
        return next(iter(offered.values()))
    if part is None:
        allowed = f"FILE:NAME with one of {', '.join(offered)}" if offered else "a function(kind, n)"
        raise InputError(
            f"has {len(offered) or 'no'} functions, and the name does not select one", file=path, allowed=allowed
        )
    if part not in offered:
        raise InputError(f"has no function '{part}'", file=path, allowed=list(offered), given=part)
    return offered[part]


def _load(path: Path, source: str) -> tuple[ModuleType, dict[str, tuple[Callable[..., Any], tuple[str, ...]]]]:
    """The module of a file, new each time it is read, and what it registers.

    The registrations are undone at once: the name of such an algorithm is its path, so two files, or two versions of
    one, may use the same name.
    """
    module = ModuleType(f"pyxsim_custom.{path.stem}_{next(_numbers)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # needed by dataclasses in the file
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise _fault(path, error) from error
    else:
        mine = [entry for entry in collectives.entries if entry.module == module.__name__]
        return module, {entry.name: (entry.value, tuple(entry.info.get("kinds", KINDS))) for entry in mine}
    finally:
        collectives.discard(module.__name__)


def _fault(path: Path, error: BaseException) -> InputError:
    """The error of a file, with its line."""
    if isinstance(error, SyntaxError):
        return InputError(f"not valid Python: {error.msg}", file=f"{error.filename or path}:{error.lineno or 1}")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    if isinstance(error, InputError):
        return error.at(file=place)
    return InputError(f"cannot be loaded: {type(error).__name__}: {error}", file=place)
