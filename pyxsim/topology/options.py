"""Check options of functions of the shelves (topologies, blocks, routings) against their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError

KEY = "network.router.routing"

# Type of an option -> problem with a value of another type, and what is allowed.
_WORDS = {
    bool: ("is neither true nor false", "true or false"),
    int: ("is not a whole number", "a whole number such as 4"),
    float: ("is not a number", "a number such as 0.5"),
    str: ("is not a string", "a string in quotes"),
    Path: ("is not a file name", "a file name in quotes"),
}


def checked_options(
    function: Callable[..., Any], options: Mapping[str, Any], key: str, skip: int = 0, folder: str | Path = "."
) -> dict[str, Any]:
    """Return the options that are not None, checked against the parameters of a function.

    Parameters
    ----------
    function
        The function that takes the options.
    options
        Name -> value.
    key
        Key path of the options in error messages.
    skip
        Number of leading parameters that are not options.
    folder
        Folder in which relative file names start; a text for a Path parameter becomes a path in it.

    Raises
    ------
    InputError
        For an unknown or missing option, or a value of another type.
    """
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[skip:]
    known = {p.name: p.annotation for p in parameters}
    arguments = {k: v for k, v in options.items() if v is not None}
    for name in arguments:
        if name not in known:
            raise InputError("unknown option", key=f"{key}.{name}", allowed=known, given=name)
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in arguments:
            allowed = _WORDS[parameter.annotation][1] if parameter.annotation in _WORDS else None
            raise InputError(f"the option '{parameter.name}' is missing", key=key, allowed=allowed)
    for name, value in arguments.items():
        expected = known[name]
        if expected is Path and isinstance(value, str):
            arguments[name] = Path(folder) / value
            continue
        # In Python True is an int; in an experiment it is not a number. An int is accepted as a float.
        accepted = (int, float) if expected is float else expected
        is_wrong_bool = expected is not bool and isinstance(value, bool)
        if expected in _WORDS and (is_wrong_bool or not isinstance(value, accepted)):
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            problem, allowed = _WORDS[expected]
            raise InputError(f"{text} {problem}", key=f"{key}.{name}", allowed=allowed)
    return arguments
