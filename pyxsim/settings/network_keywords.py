"""The keywords that every function of networks.py takes, and what it does with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from os import PathLike, fspath
from typing import Any, Literal, TypedDict

from pydantic_core import PydanticUndefined

from pyxsim.settings.analytical import Analytical
from pyxsim.settings.ethernet import Ethernet
from pyxsim.settings.network import Network
from pyxsim.settings.router import RouterSettings
from pyxsim.units import Duration

Size = str | int
Rate = str | Fraction
Time = str | Duration


class NetworkSettings(TypedDict, total=False):
    """The settings of [network] that do not depend on the topology (docs/settings.md)."""

    name: str
    clock: Rate
    flit: Size
    packet: Size
    header: Size
    bandwidth: Rate | Sequence[Rate]
    latency: Time | Sequence[Time]
    lanes: int | Literal["per-link", "per-dimension", "auto"]
    lane_latency: Time
    lane_bandwidth: Rate
    host_links: bool
    pad_packets: bool
    router: RouterSettings | dict[str, Any]
    analytical: Analytical | dict[str, Any]
    ethernet: Ethernet | dict[str, Any]


def network_of(topology: str, function: Callable[..., Network], values: dict[str, Any]) -> Network:
    """Return the Network of a call of a function of networks.py with these values. Raises InputError.

    Options that have their default are left out, as in a file.
    """
    settings = dict(values.pop("settings"))
    defaults = function.__kwdefaults__ or {}
    given = {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}
    if "shape" in given:
        shape = given.pop("shape")
        is_list = isinstance(shape, Iterable) and not isinstance(shape, str)
        settings["shape"] = tuple(shape) if is_list else shape or ()  # Network refuses whatever is no list
    options = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in given.items()}
    return Network(topology=topology, options=options, **settings)


def show_keywords(function: Callable[..., Network]) -> None:
    """Let notebooks and `help` show the keywords of NetworkSettings in the signature."""
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(name))
        for name in NetworkSettings.__annotations__
    ]
    function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]


def _default(name: str) -> Any:
    """The default of a setting as a file writes it; an empty table for tables."""
    default = Network.model_fields[name].default
    return {} if default is PydanticUndefined else default
