"""The routings that grids and graphs offer: those of the shelf `routings/` that apply to the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyxsim import library, registry
from pyxsim.errors import InputError
from pyxsim.registry import Entry, Registry
from pyxsim.routing.grid import Kind, steps
from pyxsim.routing.planes import plane
from pyxsim.routing.relation import Relation
from pyxsim.routing.via import ugal, valiant
from pyxsim.topology.topology import Routing
from pyxsim.topology.wires import Wires, WiresRouting

__all__ = ["SEVERAL_DIMENSIONS", "Kind", "graph_routings", "grid_routings", "kinds_of", "over"]


def _has_several_dimensions(base: Relation, kinds: Sequence[Kind]) -> bool:
    return int((base.digits.max(axis=0, initial=0) > 0).sum()) > 1


SEVERAL_DIMENSIONS: dict[str, Any] = {
    "networks": "grids of two dimensions or more",
    "applies": _has_several_dimensions,
}
"""What a routing of `registry.grid_routings` declares that needs two dimensions with more than one router."""


def kinds_of(base: Relation) -> list[Kind]:
    """Return how the NPUs of each dimension of a grid are joined."""
    return steps(base, plane(base, 0)).kinds()


def _in_order(table: Registry[Callable[..., Relation]]) -> list[Entry[Callable[..., Relation]]]:
    """The entries by their `order`; those without one, which users add, come last."""
    if not len(table):
        library.load_all()
    return sorted(table.entries, key=lambda entry: entry.info.get("order", 100))


def grid_routings(base: Relation, kinds: Sequence[Kind]) -> dict[str, Routing]:
    """Return the routings of a network whose routers form a grid, by name; the first is the default.

    Parameters
    ----------
    base
        Its tables in dimension order. Planes, if there are several, differ only in which of two equally long ways
        round a ring they take.
    kinds
        How the routers of each dimension are joined.
    """
    entries = _in_order(registry.grid_routings)
    return {
        entry.name: partial(entry.value, base)
        for entry in entries
        if "applies" not in entry.info or entry.info["applies"](base, kinds)
    }


def graph_routings(first: str = "up-down") -> dict[str, WiresRouting]:
    """Return the routings of any graph whose links go both ways; `first` comes first, which makes it the default."""
    every = {entry.name: entry.value for entry in _in_order(registry.graph_routings)}
    if first not in every:
        raise InputError(f"graphs have no routing '{first}'", allowed=list(every), given=first)
    return {first: every[first], **every}


def over(base: WiresRouting) -> dict[str, WiresRouting]:
    """Return Valiant and UGAL with routes of a base on both sides of the intermediate NPU."""

    def by_valiant(wires: Wires) -> Relation:
        return valiant(base(wires))

    def by_ugal(wires: Wires, bias: int = 0) -> Relation:
        return ugal(base(wires), bias)

    return {"valiant": by_valiant, "ugal": by_ugal}
