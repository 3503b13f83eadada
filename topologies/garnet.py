"""gem5 Garnet's networks as ASTRA-sim 1 uses them: every ring and switch has links of its own.

There a *virtual network* is a set of links of its own: each is one unidirectional ring per group of NPUs, and a packet
(routing algorithm Ring_XY) goes round the ring of its virtual network until it is at its destination. Here every
virtual network is a plane that serves a single dimension, and it has its own links, injection and ejection lanes. No
VC class protects the rings: with neighbor traffic they need none, with anything else the deadlock proof refuses them.

Planes are numbered like ASTRA-sim's queues, dimension by dimension: {local, horizontal (stride `local`), vertical}, the
clockwise half of each dimension (East, North: +1) before the anticlockwise one (West, South: -1). Local rings go only
one way. A dimension of two has both directions as separate links; one of size one has none.

Sources: configs/topologies/Torus3D.py, NV_Switch.py, RoutingUnit.cc of gem5_astra; QueueLevelHandler.cc of ASTRA-sim.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from pyxsim.arrays import Int32Array
from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.topology import Block, Queue, Topology, check_shape
from pyxsim.topology.product import Part, assemble, groups_of

Direction = Literal[1, -1]


@topologies.register("garnet-torus")
def torus3d(shape: Sequence[int], local_rings: int = 1, horizontal_rings: int = 1, vertical_rings: int = 1) -> Topology:
    """`Torus3D`: shape = [local, horizontal, vertical]; pairs of rings; local rings have one direction."""
    local, horizontal, vertical = check_shape(shape, dimensions=3)
    return garnet_torus(local, horizontal, vertical, local_rings, horizontal_rings, vertical_rings)


@topologies.register("garnet-switch")
def nv_switch(shape: Sequence[int], local_rings: int = 1, links_per_tile: int = 1) -> Topology:
    """`NV_Switch`: shape = [local, packages]; every NPU has a link to each of `links_per_tile` switches."""
    local, packages = check_shape(shape, dimensions=2)
    return garnet_switch(local, packages, local_rings, links_per_tile)


def garnet_torus(
    local: int, horizontal: int, vertical: int, local_rings: int, horizontal_rings: int, vertical_rings: int
) -> Topology:
    """`Torus3D`: rings inside packages, along the rows and along the columns of a grid of packages.

    `local_rings` counts rings, `horizontal_rings` and `vertical_rings` pairs of rings, one per direction. NPU id =
    local + localdim * (column + columns * row). Raises InputError.
    """
    shape = check_shape((local, horizontal, vertical))
    blocks = (
        _rings("local", shape[0], {"LocalEast": (1, _count("local-rings", local_rings))}),
        _rings("horizontal", shape[1], _both("East", "West", _count("horizontal-rings", horizontal_rings))),
        _rings("vertical", shape[2], _both("North", "South", _count("vertical-rings", vertical_rings))),
    )
    queues = _number_queues([(local_rings, 0), (horizontal_rings, horizontal_rings), (vertical_rings, vertical_rings)])
    parts = [Part(block, groups_of(shape, dim), _own_planes(queues, dim)) for dim, block in enumerate(blocks)]
    return assemble("garnet-torus", shape, blocks, queues, parts, confined=True, lane_per_plane=True)


def garnet_switch(local: int, packages: int, local_rings: int, links_per_tile: int) -> Topology:
    """`NV_Switch`: rings inside packages, and `links_per_tile` switches, each with a link from and to every NPU.

    Dimensions {local, packages}; NPU id = local + localdim * package. Each switch is a plane. The dimension of the
    packages is described by a block of one NPU per package; the switches themselves join all NPUs. Raises InputError.
    """
    shape = check_shape((local, packages))
    npus = math.prod(shape)
    rings = _rings("local", shape[0], {"LocalEast": (1, _count("local-rings", local_rings))})
    switches = _count("links-per-tile", links_per_tile)
    # QueueLevelHandler: the second half of the queues is anticlockwise, except where there is only one.
    clockwise = max(1, switches // 2)
    queues = _number_queues([(local_rings, 0), (clockwise, switches - clockwise)])
    parts = [
        Part(rings, groups_of(shape, 0), _own_planes(queues, 0)),
        Part(_switches(npus, switches), np.arange(npus)[None, :], _own_planes(queues, 1)),
    ]
    blocks = (rings, _switches(packages, switches))
    return assemble("garnet-switch", shape, blocks, queues, parts, confined=True, lane_per_plane=True)


def _count(key: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{number!r} is not a number of rings or links", key=key, allowed="a whole number from 1")
    return number


def _both(east: str, west: str, rings: int) -> dict[str, tuple[Direction, int]]:
    return {east: (1, rings), west: (-1, rings)}


def _rings(name: str, npus: int, rings: dict[str, tuple[Direction, int]]) -> Block:
    """Unidirectional rings, each a plane of its own: name -> (direction, how many)."""
    ids = np.arange(npus)
    steps = [(step, f"{label}{i}") for label, (step, count) in rings.items() for i in range(count)]
    ends = ids if npus > 1 else ids[:0]
    home = np.eye(npus, dtype=bool)
    return Block(
        name=name,
        npus=npus,
        src=np.tile(ends, len(steps)),
        dst=np.concatenate([(ends + step) % npus for step, _ in steps]),
        link_names=[label for _, label in steps for _ in ends],
        # Ring `plane` owns links plane * npus + i; whatever the destination, the packet goes on round its ring.
        next=np.stack([np.where(home, -1, plane * npus + ids[:, None]) for plane in range(len(steps))]),
        algorithm="ring",
    )


def _switches(npus: int, switches: int) -> Block:
    """`switches` switches above all NPUs, each a plane of its own. Links: up, then down, of switch 0, then of 1, ..."""
    ids = np.arange(npus)
    if npus == 1:
        return Block(name="switch", npus=1, src=ids[:0], dst=ids[:0], next=np.full((switches, 1, 1), -1))
    nodes = np.broadcast_to(ids, (switches, npus))
    tops = np.broadcast_to(npus + np.arange(switches)[:, None], (switches, npus))
    return Block(
        name="switch",
        npus=npus,
        switches=switches,
        src=np.stack([nodes, tops], axis=1).ravel(),
        dst=np.stack([tops, nodes], axis=1).ravel(),
        link_names=[f"{way}{s}" for s in range(switches) for way in ("up", "down") for _ in ids],
        next=np.stack([_over_switch(npus, switches, s) for s in range(switches)]),
        algorithm="direct",
    )


def _over_switch(npus: int, switches: int, switch: int) -> Int32Array:
    """Routes of the plane of one switch: up to it, down from it; the other switches are never met."""
    ids = np.arange(npus, dtype=np.int32)
    first = 2 * npus * switch
    table = np.full((npus + switches, npus), -1, np.int32)
    table[:npus] = np.where(np.eye(npus, dtype=bool), -1, first + ids[:, None])
    table[npus + switch] = first + npus + ids
    return table


def _number_queues(counts: list[tuple[int, int]]) -> tuple[tuple[Queue, ...], ...]:
    """Queues with a plane each from (clockwise, anticlockwise) counts of each dimension."""
    planes = itertools.count()
    return tuple(
        tuple([Queue(next(planes), 1) for _ in range(plus)] + [Queue(next(planes), -1) for _ in range(minus)])
        for plus, minus in counts
    )


def _own_planes(queues: tuple[tuple[Queue, ...], ...], dim: int) -> tuple[int | None, ...]:
    """For each plane of the network: its number within dimension `dim`, None if it belongs to another one."""
    mine = [queue.plane for queue in queues[dim]]
    return tuple(mine.index(p) if p in mine else None for p in range(sum(map(len, queues))))
