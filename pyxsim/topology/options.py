"""Options by name for a function of a shelf: a generator, a block, a routing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError

KEY = "network.router.routing"

# type of an option -> what a value of another type is, and what is allowed
_WORDS = {
    bool: ("is neither true nor false", "true or false"),
    int: ("is no whole number", "a whole number such as 4"),
    float: ("is no number", "a number such as 0.5"),
    str: ("is no text", "a text in quotes"),
    Path: ("is no name of a file", "the name of a file, in quotes"),
}


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
    for name in given:
        if name not in known:
            raise InputError("unknown option", key=f"{key}.{name}", allowed=known, given=name)
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in given:
            allowed = _WORDS[parameter.annotation][1] if parameter.annotation in _WORDS else None
            raise InputError(f"the option '{parameter.name}' is missing", key=key, allowed=allowed)
    for name, value in given.items():
        wanted = known[name]
        if wanted is Path and isinstance(value, str):
            given[name] = Path(folder) / value
            continue
        # True is an int to Python, but not to the author of an experiment; a whole number is a number, too.
        right = (int, float) if wanted is float else wanted
        if wanted in _WORDS and (not isinstance(value, right) or (wanted is not bool and isinstance(value, bool))):
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            is_no, allowed = _WORDS[wanted]
            raise InputError(f"{text} {is_no}", key=f"{key}.{name}", allowed=allowed)
    return given
