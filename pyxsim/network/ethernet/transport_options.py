"""Options of transports: defaults of a class, with units, and the values that an experiment sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.types import shown
from pyxsim.units import parse_bandwidth, parse_time

KEY = "network.ethernet.transport_options"


def read_options(name: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a transport as numbers: times in picoseconds, rates in bits per second.

    A default that is a text has a unit; other defaults are numbers, integers or booleans. Raises InputError for an
    unknown option or a value of another kind.
    """
    for option in given:
        if option not in defaults:
            problem = f"the transport '{name}' has no option '{option}'"
            raise InputError(problem, key=f"{KEY}.{option}", allowed=list(defaults) or "no options", given=option)
    return {option: _number(option, given.get(option, default), default) for option, default in defaults.items()}


def _number(option: str, value: object, default: object) -> Any:
    try:
        if isinstance(default, str):
            return _with_unit(value, default)
        kinds = (bool,) if isinstance(default, bool) else (int,) if isinstance(default, int) else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(default, bool):
            raise InputError(f"{shown(value)} is not of the kind of the default", allowed=f"such as {shown(default)}")
        if not isinstance(value, bool) and not 0 <= value < float("inf"):
            raise InputError(f"{shown(value)} is out of range", allowed="zero or a positive number")
    except InputError as error:
        raise error.at(key=f"{KEY}.{option}") from None
    return value


def _with_unit(value: object, default: str) -> Any:
    """Picoseconds of a time, or bits per second of a bandwidth, by the unit of the default."""
    try:
        parse_time(default)
    except InputError:
        return float(8 * parse_bandwidth(value))
    return round(parse_time(value) * 10**12)
