"""Networks that are not a product of blocks: arbitrary routers and links, with candidates for each hop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pyxsim.arrays import Int32Array
from pyxsim.errors import InputError
from pyxsim.topology.place import Points
from pyxsim.topology.shape import MAX_NPUS
from pyxsim.topology.size import NetworkSize, announce, check_size
from pyxsim.topology.topology import Dimension, Queue, Topology, checked_relation
from pyxsim.topology.wires import Wires, WiresRouting


def graph_network(
    name: str,
    home: ArrayLike,
    links: Iterable[tuple[int, int]] | ArrayLike,
    routings: Mapping[str, WiresRouting],
    *,
    routers: int | None = None,
    both_ways: bool = True,
    indirect: bool = False,
    dims: Sequence[Dimension] | None = None,
    kinds: Sequence[str] = ("link",),
    kind: ArrayLike = 0,
    kind_dims: Sequence[int] = (),
    length: ArrayLike = 1,
    bandwidth: Sequence[str | None] | None = None,
    latency: Sequence[str | None] | None = None,
    router_names: Sequence[str] | None = None,
    place: Points | None = None,
) -> Topology:
    """Make a network from its routers and links.

    Parameters
    ----------
    name
        Name of the network.
    home
        The router of each NPU.
    links
        (router, router) for each link.
    routings
        Name -> function of the `Wires` (and options) that returns the routing relation; the first is the default.
    routers
        Number of routers; default: one more than the largest router number in `home` and `links`.
    both_ways
        Whether each entry of `links` gives two links, the second in the opposite direction.
    indirect
        As in `Topology`.
    dims
        Dimensions of the NPUs for collectives, the first one fastest; default: one dimension.
    kinds, kind
        Names of the kinds of links; the kind of each entry of `links`.
    kind_dims, length, bandwidth, latency
        As in `Topology`, per entry of `links`.
    router_names
        Names of the routers; default: their numbers.
    place
        Positions of the routers in a drawing.

    Raises
    ------
    InputError
        If a router does not exist, a link leads to its own router, or the network is too large.
    """
    table = np.array(links if isinstance(links, np.ndarray) else list(links), np.int32).reshape(-1, 2)  # type: ignore[arg-type]
    homes = np.asarray(home, np.int32)
    count = routers if routers is not None else 1 + int(max(table.max(initial=-1), homes.max(initial=-1)))
    dims = tuple(dims) if dims is not None else (Dimension(name, len(homes)),)
    shape = tuple(dim.npus for dim in dims)
    size, degree = len(table), 2 if both_ways else 1
    of_dims = tuple(dim.algorithm for dim in dims)
    attached = len(np.unique(homes))
    announce(
        NetworkSize(
            npus=len(homes),
            routers=count,
            links=degree * size,
            shape=shape,
            algorithms=of_dims,
            entries=count * attached,
            flags=degree * size * attached,
        )
    )
    _check(name, count, homes, table)
    ends = np.stack([table, table[:, ::-1]], axis=1).reshape(-1, 2) if both_ways else table
    kind_of, lengths = (np.repeat(np.broadcast_to(np.asarray(a, np.int32), size), degree) for a in (kind, length))
    names = list(router_names) if router_names is not None else [f"({router})" for router in range(count)]
    wires = Wires(count, homes, ends[:, 0].copy(), ends[:, 1].copy(), _link_names(ends, names, kinds, kind_of))
    bound = {word: partial(build, wires) for word, build in routings.items()}
    default, build_default = next(iter(bound.items()))
    router_dim = np.full(count, len(dims) - 1, np.int32)
    router_dim[homes] = -1
    return Topology(
        name=name,
        npus=len(homes),
        routers=count,
        shape=shape,
        dims=dims,
        queues=tuple((Queue(-1, 1),) for _ in dims),
        coords=np.stack(np.unravel_index(np.arange(len(homes)), shape, order="F"), axis=1).astype(np.int32),
        router_dim=router_dim,
        router_name=names,
        link_src=wires.src,
        link_dst=wires.dst,
        link_dim=kind_of,
        link_name=wires.name,
        relation=checked_relation(build_default(), default, build_default),
        indirect=indirect,
        link_kinds=tuple(kinds),
        kind_dims=tuple(kind_dims),
        link_length=lengths,
        link_bandwidth=_repeat(bandwidth, degree),
        link_latency=_repeat(latency, degree),
        routings=bound,
        place=np.zeros((0, 2)) if place is None else place,
    )


def _repeat(texts: Sequence[str | None] | None, times: int) -> tuple[str | None, ...] | None:
    return None if texts is None else tuple(text for text in texts for _ in range(times))


def _check(name: str, routers: int, home: Int32Array, links: Int32Array) -> None:
    if home.ndim != 1 or not 1 <= len(home) <= MAX_NPUS:
        raise InputError(f"{name}: {len(home)} NPUs", key="network.options", allowed=f"1 to {MAX_NPUS}")
    check_size(2 * len(links), 0)
    for what, ends in (("an NPU is at", home), ("a link leads to", links)):
        outside = (ends < 0) | (ends >= routers)
        if outside.any():
            raise InputError(f"{name}: {what} router {ends[outside].flat[0]}", allowed=f"routers 0 to {routers - 1}")
    if (links[:, 0] == links[:, 1]).any():
        router = int(links[np.argmax(links[:, 0] == links[:, 1]), 0])
        raise InputError(f"{name}: a link leads from router {router} to itself")


def _link_names(ends: Int32Array, routers: Sequence[str], kinds: Sequence[str], kind: Int32Array) -> list[str]:
    """ "local:(0)->(1)"; parallel links of a kind are distinguished by a number."""
    names: list[str] = []
    seen: dict[str, int] = {}
    for (a, b), link_kind in zip(ends.tolist(), kind.tolist(), strict=True):
        text = f"{routers[a]}->{routers[b]}"
        key = f"{kinds[link_kind]}:{text}"
        number = seen[key] = seen.get(key, -1) + 1
        names.append(f"{kinds[link_kind]}#{number}:{text}" if number else key)
    return names
