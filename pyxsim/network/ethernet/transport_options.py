"""Options of transports: defaults of a class, with units, and the values that an experiment sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.types import shown
from pyxsim.units import parse_bandwidth, parse_time

MOST_INTEGER = (1 << 31) - 1
MOST_TIME = 10**18  # ps
KEY = "network.ethernet.transport_options"


def read_options(
    name: str,
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    positive: Collection[str] = (),
    shares: Collection[str] = (),
) -> dict[str, Any]:
    """Return the options of a transport as numbers: times in picoseconds, rates in bits per second.

    A default that is a text has a unit; other defaults are numbers, integers or booleans. Options in `positive` are
    above 0, those in `shares` above 0 and at most 1. Raises InputError for an unknown option, a value of another kind
    or out of range.
    """
    for option in given:
        if option not in defaults:
            problem = f"the transport '{name}' has no option '{option}'"
            raise InputError(problem, key=f"{KEY}.{option}", allowed=list(defaults) or "no options", given=option)
    values = {option: _number(option, given.get(option, default), default) for option, default in defaults.items()}
    for option, value in values.items():
        if (option in positive and value <= 0) or (option in shares and not 0 < value <= 1):
            allowed = "above 0" if option in positive else "above 0, at most 1"
            raise InputError(f"{shown(given[option])} is out of range", key=f"{KEY}.{option}", allowed=allowed)
    return values


def _number(option: str, value: object, default: object) -> Any:
    try:
        if isinstance(default, str):
            return _with_unit(value, default)
        kinds = (bool,) if isinstance(default, bool) else (int,) if isinstance(default, int) else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(default, bool):
            raise InputError(f"{shown(value)} is not of the kind of the default", allowed=f"such as {shown(default)}")
        if not isinstance(value, bool) and not 0 <= value < float("inf"):
            raise InputError(f"{shown(value)} is out of range", allowed="zero or a positive number")
        if isinstance(value, int) and value > MOST_INTEGER:
            raise InputError(f"{shown(value)} is out of range", allowed=f"at most {MOST_INTEGER}")
    except InputError as error:
        raise error.at(key=f"{KEY}.{option}") from None
    return value


def _with_unit(value: object, default: str) -> Any:
    """Picoseconds of a time, or bits per second of a bandwidth, by the unit of the default."""
    try:
        parse_time(default)
    except InputError:
        return float(8 * parse_bandwidth(value))
    time = round(parse_time(value) * 10**12)
    if time > MOST_TIME:
        raise InputError(f"{shown(value)} is out of range", allowed=f"at most {MOST_TIME // 10**12} s")
    return time
