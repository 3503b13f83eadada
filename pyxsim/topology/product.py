"""Products of blocks: networks whose NPUs form a grid and are connected by one block per dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.routing.product_table import NONE, Copies, ProductTable
from pyxsim.routing.relation import ALWAYS, SKIP, Relation
from pyxsim.topology.block import Block
from pyxsim.topology.link_names import LinkNames
from pyxsim.topology.routings import Kind, grid_routings, kinds_of
from pyxsim.topology.shape import check_shape
from pyxsim.topology.size import NetworkSize, announce, check_size
from pyxsim.topology.topology import Queue, Routing, Topology


def product(name: str, blocks: Sequence[Block]) -> Topology:
    """Return the network in which block `i` connects the NPUs that differ in coordinate `i` only.

    The first block has stride 1. Routing is in dimension order, so no link waits for a link of an earlier dimension,
    and the network can deadlock only if one of its blocks can. A block with fewer planes than the others repeats its
    last plane.

    Raises
    ------
    InputError
        If there are no blocks, or too many NPUs, links or table entries.
    """
    shape = check_shape([block.npus for block in blocks])
    planes = max(block.planes for block in blocks)
    parts = [
        Part(block, groups_of(shape, dim), tuple(min(p, block.planes - 1) for p in range(planes)))
        for dim, block in enumerate(blocks)
    ]
    queues = tuple(native_queues(block) for block in blocks)
    net = assemble(name, shape, tuple(blocks), queues, parts, separable=True)
    # The two planes of a block with two directions differ in ties only.
    ties = all(block.planes == 1 or block.directions == 2 for block in blocks)
    return with_routings(net, grid_routings(net.relation, _kinds(blocks)) if ties else {})


def _kinds(blocks: Sequence[Block]) -> list[Kind]:
    """The kind of network in each dimension."""
    kinds = []
    for block in blocks:
        planes = tuple(range(block.planes))
        alone = assemble("", (block.npus,), (block,), ((),), [Part(block, groups_of((block.npus,), 0), planes)])
        kinds += kinds_of(alone.relation)
    return kinds


def with_routings(topology: Topology, routings: Mapping[str, Routing]) -> Topology:
    """Return the network with these routings, routed by the first; without any, the network itself."""
    if not routings:
        return topology
    return replace(topology, relation=next(iter(routings.values()))(), routings=routings, routing=next(iter(routings)))


def native_queues(block: Block) -> tuple[Queue, ...]:
    """Return a clockwise queue, and an counterclockwise one if the block has two directions."""
    return (Queue(0, 1), Queue(1, -1)) if block.directions == 2 else (Queue(0, 1),)


def groups_of(shape: Sequence[int], dim: int) -> IntArray:
    """Return int64[groups, shape[dim]]: NPUs that differ in one coordinate only, groups and members in order of id."""
    ids = np.arange(math.prod(shape), dtype=np.int64)
    below = math.prod(shape[:dim])
    return ids.reshape(-1, shape[dim], below).transpose(0, 2, 1).reshape(-1, shape[dim])


@dataclass(frozen=True, eq=False)
class Part:
    """All copies of one block in a network.

    Attributes
    ----------
    members
        int64[groups, block.npus]: the NPUs of each copy of the block; every NPU is in exactly one. Its position in its
        group is its digit.
    planes
        For every plane of the network, the block's plane that it uses; None if packets of the plane do not use the
        block.
    """

    block: Block
    members: IntArray
    planes: tuple[int | None, ...]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.members)


def assemble(
    name: str,
    shape: tuple[int, ...],
    dims: tuple[Block, ...],
    queues: tuple[tuple[Queue, ...], ...],
    parts: Sequence[Part],
    *,
    separable: bool = False,
    confined: bool = False,
    lane_per_plane: bool = False,
) -> Topology:
    """Make a Topology from the copies of its blocks: number routers and links and write the routing tables."""
    npus, planes = math.prod(shape), len(parts[0].planes)
    routers = npus + sum(part.groups * part.block.switches for part in parts)
    links = sum(part.groups * part.block.links for part in parts)
    entries = sum(part.groups * part.block.next.size for part in parts)
    algorithms = tuple(block.algorithm for block in dims)
    announce(NetworkSize(npus, routers, links, shape, algorithms, planes, entries, separable=True))
    check_size(links, entries)
    coords = np.stack(np.unravel_index(np.arange(npus), shape, order="F"), axis=1).astype(np.int32)

    digits = np.zeros((npus, len(parts)), np.int32)
    own_digits = np.full((planes, routers, len(parts)), SKIP, np.int32)
    offset = np.zeros((planes, routers, len(parts)), np.int64)
    router_dim = np.full(routers, -1, np.int32)
    router_name = [f"({','.join(map(str, row))})" for row in coords.tolist()]
    src, dst, of_dim, classes, group = ([np.zeros(0, np.int32)] for _ in range(5))
    link: list[Copies] = []
    vc_class: list[Copies] = []
    labels: list[list[str]] = []
    entries = 0

    for dim, part in enumerate(parts):
        block, first_switch = part.block, len(router_name)
        first_link = sum(map(len, src))
        switches = first_switch + np.arange(part.groups * block.switches).reshape(part.groups, block.switches)
        # Router ids by group and by number inside the block.
        group_routers = np.concatenate([part.members, switches], axis=1)
        router_dim[switches.ravel()] = dim
        router_name += _switch_names(coords[part.members], block.switches)

        src.append(group_routers[:, block.src].ravel().astype(np.int32))
        dst.append(group_routers[:, block.dst].ravel().astype(np.int32))
        of_dim.append(np.full(len(src[-1]), dim, np.int32))
        classes.append(np.full(len(src[-1]), block.classes, np.int32))
        group.append(np.full(len(src[-1]), dim if block.keep_class else -1, np.int32))
        labels.append([f"d{dim}{label}" for label in block.link_names])

        digits[part.members.ravel(), dim] = np.tile(np.arange(block.npus), part.groups)
        # Entries of this part: [group, plane of the block, router of the block, digit].
        table = np.where(block.next >= 0, block.next + first_link, NONE).astype(np.int32)
        link.append(Copies(table.ravel(), part.groups, block.links))
        vc_class.append(Copies(block.vc_class.ravel().astype(np.int32), part.groups))
        shape_of = (part.groups, len(block.next), block.routers)
        entry_of = entries + np.arange(math.prod(shape_of)).reshape(shape_of).swapaxes(0, 1) * block.npus
        own_digit = np.where(np.arange(block.routers) < block.npus, np.arange(block.routers), ALWAYS)
        for plane, followed in enumerate(part.planes):
            if followed is not None:
                own_digits[plane, group_routers, dim] = own_digit
                offset[plane, group_routers, dim] = entry_of[followed]
        entries += table.size * part.groups

    link_src, link_dst = np.concatenate(src), np.concatenate(dst)
    link_name = LinkNames(labels, [len(part_src) for part_src in src[1:]], link_src, link_dst, router_name)
    relation = Relation(
        npus=npus,
        routers=routers,
        planes=planes,
        digits=digits,
        own=own_digits.reshape(-1, len(parts)),
        offset=offset.reshape(-1, len(parts)),
        link=ProductTable(link),
        vc_class=ProductTable(vc_class),
        link_src=link_src,
        link_dst=link_dst,
        link_classes=np.concatenate(classes),
        link_group=np.concatenate(group),
        link_name=link_name,
        separable=separable,
    )
    return Topology(
        name=name,
        npus=npus,
        routers=routers,
        shape=shape,
        dims=dims,
        queues=queues,
        coords=coords,
        router_dim=router_dim,
        router_name=router_name,
        link_src=link_src,
        link_dst=link_dst,
        link_dim=np.concatenate(of_dim),
        link_name=link_name,
        relation=relation,
        confined=confined,
        lane_per_plane=lane_per_plane,
    )


def _switch_names(coords: Int32Array, switches: int) -> list[str]:
    """Names of the switches of groups whose members have these coords [groups, members, dimensions]."""
    if not switches:
        return []
    low, high = coords.min(axis=1), coords.max(axis=1)
    names = []
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        position = ",".join(str(a) if a == b else "*" for a, b in zip(first, last, strict=True))
        names += [f"({position})" if switches == 1 else f"({position})#{i}" for i in range(switches)]
    return names
