"""Metadata of a trace: names of layers, resources, and the dimensions it is made for.

These attributes are pyxsim's own, written by pyxsim/workload/export.py; other traces do not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pyxsim import chakra
from pyxsim.chakra import Metadata
from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.workload.graph import RESOURCES
from pyxsim.workload.logical_dims import LogicalDims


@dataclass(frozen=True)
class Head:
    """`shape`: the dimensions as the workload sees them, None if not given; `layers`: their names."""

    shape: tuple[int, ...] | None = None
    layers: tuple[str, ...] = ()
    resources: tuple[tuple[str, int], ...] = RESOURCES


def read_head(metadata: Metadata, file: str) -> Head:
    """Return the metadata. Raises InputError."""
    attributes = {attribute.name: attribute.value for attribute in metadata.attr}
    shape = _list(attributes, "shape", int, file)
    layers = _list(attributes, "layers", str, file) or []
    names, rooms = _list(attributes, "resources", str, file), _list(attributes, "resource_rooms", int, file)
    resources: tuple[tuple[str, int], ...] = RESOURCES
    if names is not None or rooms is not None:
        if len(names or ()) != len(rooms or ()):
            problem = f"has {len(names or ())} resources and {len(rooms or ())} resource_rooms"
            raise InputError(f"the metadata {problem}", file=file, allowed="the same number of each")
        resources = tuple(zip(names or (), rooms or (), strict=True))
    return Head(None if shape is None else tuple(shape), tuple(layers), resources)


def seen_dims(name: str, shape: Sequence[int]) -> LogicalDims:
    """Return the dimensions of traces on a network of `shape`: the same, or one of them split. Raises InputError."""
    file = str(next(iter(find(name).values())))
    seen = read_head(chakra.read(file).metadata, file).shape
    if seen is None or seen == tuple(shape):
        return LogicalDims(tuple(shape))
    for dim, size in enumerate(shape):
        pair = seen[dim : dim + 2]
        if seen == (*shape[:dim], *pair, *shape[dim + 1 :]) and prod(pair) == size:
            return LogicalDims(seen, broken=dim)
    problem = f"was written for a network of {_by(seen)}, but this one has {_by(shape)}"
    raise InputError(problem, file=file, allowed=f"{_by(seen)}, or two of its dimensions as one")


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _list(attributes: dict[str, Any], name: str, kind: type, file: str) -> list[Any] | None:
    values = attributes.get(name)
    if values is not None and not (isinstance(values, list) and all(type(value) is kind for value in values)):
        kind_name = {int: "whole numbers", str: "strings"}[kind]
        raise InputError(f"the metadata has invalid values in '{name}'", file=file, allowed=f"a list of {kind_name}")
    return values
