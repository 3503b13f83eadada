"""Options by name for a function of a shelf: a generator, a block, a routing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "the name of a file"}


def checked_options(
    function: Callable[..., Any], options: Mapping[str, Any], key: str, skip: int = 0, folder: str | Path = "."
) -> dict[str, Any]:
    """Options that are not None, each one a parameter of the function and of its type. Raises InputError.

    skip    leading parameters that are no options
    folder  where the names of files start: a text for a parameter that is a Path
    """
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[skip:]
    known = {p.name: p.annotation for p in parameters}
    given = {k: v for k, v in options.items() if v is not None}
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in given:
            raise InputError(f"the option '{parameter.name}' is missing", key=key)
    for name, value in given.items():
        if name not in known:
            raise InputError("unknown option", key=f"{key}.{name}", allowed=known, given=name)
        wanted = known[name]
        if wanted is Path and isinstance(value, str):
            given[name] = Path(folder) / value
            continue
        # True is an int to Python, but not to the author of an experiment; a whole number is a number, too.
        right = (int, float) if wanted is float else wanted
        if wanted in _WORDS and (not isinstance(value, right) or (wanted is not bool and isinstance(value, bool))):
            raise InputError(f"{value!r} is no {wanted.__name__}", key=f"{key}.{name}", allowed=_WORDS[wanted])
    return given
