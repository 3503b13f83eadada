"""A concentrated mesh: several NPUs per router, optionally with express links along its edges (Balfour, Dally 2006).

An express link spans half of an edge. Packets take it first, if it makes their route shorter, then single steps: no
step is followed by an express link of the same edge, so no cycle exists.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import blocks, topologies
from pyxsim.topology import Topology, check_shape, check_tile, concentrate, product


@topologies.register("concentrated-mesh", aliases=("cmesh",))
def concentrated_mesh(
    routers: Sequence[int], concentration: int | Sequence[int] = 4, express: bool = False, floor_plan: bool = False
) -> Topology:
    """A concentrated mesh: several NPUs at each router of a mesh, optionally with express links along its edges.

    `routers` per dimension, each with `concentration` NPUs: a number, or one per dimension. `express`: links over half
    of each edge (two dimensions). `floor_plan`: the length of a link is the distance of its routers.
    """
    size = check_shape(routers, key="network.options.routers")
    line = blocks.get("mesh")
    net = product("concentrated-mesh", [line(count) for count in size])
    if express:
        net = with_express(net)
    return concentrate(net, check_tile(concentration, len(size)), floor_plan=floor_plan)


def with_express(net: Topology) -> Topology:
    """Return a mesh of two dimensions with express links along its edges. Raises InputError."""
    if len(net.shape) != 2:
        raise InputError("express links need two dimensions", key="network.options.express", allowed="false here")
    relation = net.relation
    offset = relation.offset.copy()
    tables = [relation.link]
    new: list[tuple[int, int, int]] = []  # links: from, to, dimension
    for dim, along in enumerate(net.shape):
        half, across = along // 2, net.shape[1 - dim]
        for edge in sorted({0, across - 1}):
            row = [net.npu((i, edge) if dim == 0 else (edge, i)) for i in range(along)]
            for i, router in enumerate(row):
                table = relation.link[relation.offset[router, dim] + np.arange(along)].copy()
                j = i + half if i < half else i - half
                if half > 1 and j < 2 * half and i < 2 * half:
                    to = np.arange(along)
                    table[np.abs(j - to) + 1 < np.abs(i - to)] = net.links + len(new)
                    new.append((router, row[j], dim))
                offset[router, dim] = sum(len(before) for before in tables)
                tables.append(table)
    src, dst, of_dim = np.array(new, np.int32).reshape(-1, 3).T.copy()
    names = [f"d{d}*:{net.router_name[a]}->{net.router_name[b]}" for a, b, d in new]
    link = np.concatenate(tables)
    relation = replace(
        relation,
        offset=offset,
        link=link,
        vc_class=np.zeros_like(link),
        link_src=np.append(net.link_src, src),
        link_dst=np.append(net.link_dst, dst),
        link_classes=np.ones(net.links + len(new), np.int32),
        link_group=np.full(net.links + len(new), -1, np.int32),
        link_name=[*net.link_name, *names],
    )
    return replace(
        net,
        link_src=relation.link_src,
        link_dst=relation.link_dst,
        link_name=relation.link_name,
        link_dim=np.append(net.link_dim, of_dim),
        link_length=np.ones(relation.links, np.int32),
        relation=relation,
    )
