"""Several NPUs at each router of a product: concentrated meshes, HyperX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyxsim.errors import InputError
from pyxsim.topology.block import Block
from pyxsim.topology.routings import grid_routings, kinds_of
from pyxsim.topology.shape import check_shape
from pyxsim.topology.topology import Dimension, Topology


def check_tile(concentration: object, dimensions: int) -> tuple[int, ...]:
    """Return the NPUs of a router along each dimension; a number c means [c, 1, 1, ...]. Raises InputError."""
    key = "network.options.concentration"
    if isinstance(concentration, int) and not isinstance(concentration, bool):
        concentration = [concentration] + [1] * (dimensions - 1)
    return check_shape(concentration, dimensions, key)


def concentrate(base: Topology, tile: Sequence[int], *, floor_plan: bool = False) -> Topology:
    """Return the network with `tile[i]` times as many NPUs along each dimension i; the NPUs of a tile share a router.

    With tile = [c, 1, 1, ...] NPUs c*r to c*r + c-1 are at router r; with [2, 2] the NPUs form a grid of squares, one
    per router. With `floor_plan`, the length of a link is the distance of its routers in the grid of NPUs, instead
    of 1. Raises InputError.
    """
    shape = check_shape([n * t for n, t in zip(base.shape, tile, strict=True)], key="network.options.concentration")
    npus = math.prod(shape)
    coords = np.stack(np.unravel_index(np.arange(npus), shape, order="F"), axis=1).astype(np.int32)
    home = (coords // np.array(tile)) @ np.array(base.strides)
    relation = replace(
        base.relation,
        npus=npus,
        digits=base.relation.digits[home],
        home=home.astype(np.int32),
        # NPUs of one router have the same digits, so an NPU's number cannot be computed from digits and strides.
        stride=np.zeros(0, np.int32),
    )
    length = base.link_length
    if floor_plan:
        if base.switches:
            raise InputError("a floor plan requires a network without switches", key="network.options.floor_plan")
        distance = np.abs(base.coords[base.link_src] - base.coords[base.link_dst]) * np.array(tile)
        length = distance.sum(axis=1).astype(np.int32)
    routings = grid_routings(relation, kinds_of(relation))
    dims: list[Block | Dimension] = []
    for dim, npus_along in zip(base.dims, shape, strict=True):
        dims.append(dim if dim.npus == npus_along else Dimension(dim.name, npus_along, dim.algorithm))
    return replace(
        base,
        npus=npus,
        shape=shape,
        dims=tuple(dims),
        coords=coords,
        indirect=math.prod(tile) > 1,
        relation=next(iter(routings.values()))(),
        link_length=length,
        routings=routings,
    )
