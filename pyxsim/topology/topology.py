"""A whole network as arrays: routers, links, names and the routing relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pyxsim.errors import InputError
from pyxsim.routing.relation import Ints, Longs, Relation
from pyxsim.topology.block import Block


@dataclass(frozen=True)
class Queue:
    """One queue of a dimension, in which the chunks of a collective wait for their turn.

    What it sends follows the routing tables of `plane`; ring algorithms go round by +1 (clockwise) or -1.
    """

    plane: int
    direction: Literal[1, -1]


@dataclass(frozen=True, eq=False)
class Topology:
    """A network. NPU `i` is at router `i`; switches are routers npus to routers - 1. Links are directed.

    NPU ids count through dimension 0 first, as in ASTRA-sim: id = sum(coords[i] * product(shape[:i])).

    name
    npus, routers
    shape        NPUs per dimension
    dims         the block of each dimension
    queues       for each dimension, its queues
    coords       int32[npus, dimensions]
    router_dim   int32[routers]   dimension that a switch belongs to, -1 for the router of an NPU
    router_name  list[routers]    "(0,1,2)"; a switch shows * where its NPUs differ
    link_src, link_dst, link_dim  int32[links]   in the order dimension, group, link of the block
    link_name    list[links]      "d0+:(0,0,0)->(1,0,0)"
    relation     the routes
    confined     a plane serves one dimension only (Garnet's rings); else every plane serves all pairs
    lane_per_plane  each NPU has an injection and an ejection lane per plane (Garnet: one per virtual network)
    """

    name: str
    npus: int
    routers: int
    shape: tuple[int, ...]
    dims: tuple[Block, ...]
    queues: tuple[tuple[Queue, ...], ...]
    coords: Ints
    router_dim: Ints
    router_name: Sequence[str]
    link_src: Ints
    link_dst: Ints
    link_dim: Ints
    link_name: Sequence[str]
    relation: Relation
    confined: bool = False
    lane_per_plane: bool = False

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"<Topology {self.name} {sizes}: {self.npus} NPUs, {self.switches} switches, {self.links} links>"

    @property
    def switches(self) -> int:
        return self.routers - self.npus

    @property
    def links(self) -> int:
        return len(self.link_src)

    @property
    def planes(self) -> int:
        return self.relation.planes

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How much an NPU id grows by one step in each dimension."""
        return tuple(int(np.prod(self.shape[:i], dtype=np.int64)) for i in range(len(self.shape)))

    def npu(self, coords: Sequence[int]) -> int:
        """The id of the NPU at some coordinates. Raises InputError outside of the network."""
        inside = len(coords) == len(self.shape) and all(0 <= c < n for c, n in zip(coords, self.shape, strict=True))
        if not inside:
            raise InputError(f"no NPU has the coordinates {tuple(coords)}; the shape is {self.shape}")
        return sum(c * s for c, s in zip(coords, self.strides, strict=True))

    def group(self, npu: int, dim: int) -> Longs:
        """The NPUs that differ from this one in one dimension only, itself included, by their coordinate there."""
        first = npu - int(self.coords[npu, dim]) * self.strides[dim]
        members: Longs = first + self.strides[dim] * np.arange(self.shape[dim], dtype=np.int64)
        return members

    def pairs(self) -> Longs:
        """Rows (source, destination, plane) of everything that can be sent, for `routing.prove`.

        All pairs on all planes; where planes are confined, the pairs that differ in the dimension of the plane only.
        """
        npus = np.arange(self.npus, dtype=np.int64)
        if not self.confined:
            rows: Longs = np.indices((self.npus, self.npus, self.planes), np.int64).reshape(3, -1).T
            others: Longs = rows[rows[:, 0] != rows[:, 1]]
            return others
        found = [np.zeros((0, 3), np.int64)]
        for dim, queues in enumerate(self.queues):
            size, stride = self.shape[dim], self.strides[dim]
            first = npus - self.coords[:, dim] * stride
            src = np.repeat(npus, size)
            dst = (first[:, None] + stride * np.arange(size)).ravel()
            apart = src != dst
            for queue in queues:
                plane = np.full(int(apart.sum()), queue.plane, np.int64)
                found.append(np.stack([src[apart], dst[apart], plane], axis=1))
        return np.concatenate(found)

    def to_networkx(self) -> Any:
        """A networkx.MultiDiGraph with the attributes that GraphML can hold: one node per router, one edge per link."""
        import networkx as nx

        graph = nx.MultiDiGraph(name=self.name)
        for router, label in enumerate(self.router_name):
            kind = "npu" if router < self.npus else "switch"
            graph.add_node(router, label=label, kind=kind, dim=int(self.router_dim[router]))
        for link, name in enumerate(self.link_name):
            src, dst = int(self.link_src[link]), int(self.link_dst[link])
            graph.add_edge(src, dst, key=link, name=name, dim=int(self.link_dim[link]))
        return graph
