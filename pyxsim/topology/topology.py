"""A whole network as arrays: routers, links, names and the routing relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.library import file_of
from pyxsim.registry import routings
from pyxsim.routing.relation import Relation
from pyxsim.topology.block import Block
from pyxsim.topology.options import KEY, checked_options
from pyxsim.topology.place import Points
from pyxsim.topology.wires import Wires

Routing = Callable[..., Relation]


def checked_relation(relation: object, name: str, build: Callable[..., Any]) -> Relation:
    """Return what the function of a routing returned. Raises InputError unless it is a Relation."""
    if isinstance(relation, Relation):
        return relation
    file = file_of(getattr(build, "func", build))
    problem = f"the routing '{name}' returned {type(relation).__name__}"
    raise InputError(problem, file=file, allowed="a Relation, as Wires.relation() makes")


@dataclass(frozen=True)
class Queue:
    """One queue of a dimension for the chunks of collectives.

    Its messages use the routing tables of `plane`; ring algorithms send in `direction`, +1 (clockwise) or -1.
    """

    plane: int
    direction: Literal[1, -1]


@dataclass(frozen=True)
class Dimension:
    """A dimension that is not a block, for the system layer: its name, size and default collective algorithm."""

    name: str
    npus: int
    algorithm: str = "direct"


@dataclass(frozen=True, eq=False)
class Topology:
    """A network. NPU `i` is at router `home[i]`, which several NPUs may share; a router without one is a switch.

    Links are directed. NPU ids count through dimension 0 first, as in ASTRA-sim:
    id = sum(coords[i] * product(shape[:i])).

    Attributes
    ----------
    name
        Name of the network.
    npus, routers
        Number of NPUs and of routers, switches included.
    shape
        NPUs per dimension.
    dims
        The block of each dimension, or a `Dimension`.
    queues
        The queues of each dimension; with plane -1, packets choose a route option of the relation.
    coords
        int32[npus, dimensions].
    router_dim
        int32[routers], the dimension of a switch; -1 for a router with an NPU.
    router_name
        list[routers], such as "(0,1,2)"; a switch has * in the coordinates in which its NPUs differ.
    link_src, link_dst, link_dim
        int32[links], ends and kind; in a product in the order dimension, group, link.
    link_name
        list[links], such as "d0+:(0,0,0)->(1,0,0)".
    relation
        The routing relation of `routing`.
    confined
        Whether each plane serves one dimension only (Garnet's rings); else every plane serves all pairs.
    lane_per_plane
        Whether each NPU has an injection and an ejection lane per plane (Garnet: one per virtual network).
    indirect
        Whether NPUs attach to switches; `with_hosts` then gives them host links.
    hosts
        Whether the lanes of NPUs are host links: links of kind 0 with its bandwidth and latency, one each way per NPU.
        They are not in `link_src` and the other arrays; tables list them behind the links (`counted_links`).
    link_kinds
        Names of the values of `link_dim`: "d0", "d1", ... for dimensions (default), else "local", "global", ...;
        bandwidth and latency may be set per kind.
    kind_dims
        The dimension that the links of each kind serve (default: kind i serves dimension i).
    link_length
        int32[links], factor of the latency of the link's kind (default: 1).
    link_bandwidth, link_latency
        A text with unit for each link, or None for the value of its kind; None: no link has its own.
    routings
        Name -> function from options to a relation; the first is the default routing (default: "dimension-order", or
        "ring" for confined planes).
    routing
        The name of the current routing.
    next_hops
        int32[routers, routers], the next router on the way to each, where a graph gives routes; else None.
    place
        float64[routers, 2], positions in a drawing (`pyxsim/topology/place.py`). Without rows they are computed from
        the links; None: from the coordinates of the NPUs.
    """

    name: str
    npus: int
    routers: int
    shape: tuple[int, ...]
    dims: tuple[Block | Dimension, ...]
    queues: tuple[tuple[Queue, ...], ...]
    coords: Int32Array
    router_dim: Int32Array
    router_name: Sequence[str]
    link_src: Int32Array
    link_dst: Int32Array
    link_dim: Int32Array
    link_name: Sequence[str]
    relation: Relation
    confined: bool = False
    lane_per_plane: bool = False
    indirect: bool = False
    hosts: bool = False
    link_kinds: tuple[str, ...] = ()
    kind_dims: tuple[int, ...] = ()
    link_length: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    link_bandwidth: tuple[str | None, ...] | None = None
    link_latency: tuple[str | None, ...] | None = None
    routings: Mapping[str, Routing] = field(default_factory=dict)
    routing: str = ""
    next_hops: Int32Array | None = None
    place: Points | None = None

    def __post_init__(self) -> None:
        kinds = self.link_kinds or tuple(f"d{dim}" for dim in range(len(self.shape)))
        self._default("link_kinds", kinds)
        self._default("kind_dims", tuple(min(kind, len(self.shape) - 1) for kind in range(len(kinds))))
        if not len(self.link_length):
            object.__setattr__(self, "link_length", np.ones(self.links, np.int32))
        default_routing = "ring" if self.confined else "dimension-order"
        self._default("routings", {default_routing: partial(same, self.relation)})
        self._default("routing", next(iter(self.routings)))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the current routing only: the others may be functions that cannot be pickled."""
        return {**self.__dict__, "routings": {self.routing: partial(same, self.relation)}}

    def _default(self, name: str, value: object) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"<Topology {self.name} {sizes}: {self.npus} NPUs, {self.switches} switches, {self.links} links>"

    @property
    def home(self) -> Int32Array:
        """int32[npus]: the router of each NPU."""
        return self.relation.home

    @property
    def switches(self) -> int:
        """Routers without an NPU."""
        return self.routers - len(np.unique(self.home))

    @property
    def links(self) -> int:
        """Links between routers."""
        return len(self.link_src)

    def link_rows(self) -> Iterable[tuple[int, int, str | None, str | None]]:
        """Return the kind, the length, and the own bandwidth and latency (or None) of each link."""
        unset = (None,) * self.links
        columns = self.link_bandwidth or unset, self.link_latency or unset
        return zip(self.link_dim.tolist(), self.link_length.tolist(), *columns, strict=True)

    @property
    def counted_links(self) -> int:
        """Links that tables list: those between routers, then the host links from all NPUs, then those to all NPUs."""
        return self.links + (2 * self.npus if self.hosts else 0)

    @cached_property
    def counted_link_name(self) -> Sequence[str]:
        """The names of all links that tables list."""
        if not self.hosts:
            return self.link_name
        routers = [self.router_name[router] for router in self.home.tolist()]
        up = [f"host:NPU {npu}->{router}" for npu, router in enumerate(routers)]
        down = [f"host:{router}->NPU {npu}" for npu, router in enumerate(routers)]
        return [*self.link_name, *up, *down]

    @property
    def planes(self) -> int:
        """Planes of the routing relation."""
        return self.relation.planes

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Difference of NPU ids for one step in each dimension."""
        return tuple(int(np.prod(self.shape[:i], dtype=np.int64)) for i in range(len(self.shape)))

    def npu(self, coords: Sequence[int]) -> int:
        """Return the id of the NPU at these coordinates. Raises InputError outside the network."""
        inside = len(coords) == len(self.shape) and all(0 <= c < n for c, n in zip(coords, self.shape, strict=True))
        if not inside:
            raise InputError(f"no NPU has the coordinates {tuple(coords)}; the shape is {self.shape}")
        return sum(c * s for c, s in zip(coords, self.strides, strict=True))

    def group(self, npu: int, dim: int) -> IntArray:
        """Return the NPUs that differ from this one in one dimension only, itself included, in order of coordinate."""
        first = npu - int(self.coords[npu, dim]) * self.strides[dim]
        members: IntArray = first + self.strides[dim] * np.arange(self.shape[dim], dtype=np.int64)
        return members

    def pairs(self) -> IntArray:
        """Return rows (source, destination, plane) of all possible traffic, for `routing.prove`.

        These are all pairs on all planes; where planes are confined, the pairs that differ only in the dimension of
        the plane.
        """
        npus = np.arange(self.npus, dtype=np.int64)
        if not self.confined:
            rows: IntArray = np.indices((self.npus, self.npus, self.planes), np.int64).reshape(3, -1).T
            distinct: IntArray = rows[rows[:, 0] != rows[:, 1]]
            return distinct
        rows_of_queues = [np.zeros((0, 3), np.int64)]
        for dim, queues in enumerate(self.queues):
            size, stride = self.shape[dim], self.strides[dim]
            first = npus - self.coords[:, dim] * stride
            src = np.repeat(npus, size)
            dst = (first[:, None] + stride * np.arange(size)).ravel()
            differs = src != dst
            for queue in queues:
                plane = np.full(int(differs.sum()), queue.plane, np.int64)
                rows_of_queues.append(np.stack([src[differs], dst[differs], plane], axis=1))
        return np.concatenate(rows_of_queues)

    def with_hosts(self) -> Topology:
        """Return the network with host links, which become kind 0, if it is indirect; else the network itself."""
        if self.hosts or not self.indirect:
            return self
        return replace(
            self,
            hosts=True,
            link_dim=self.link_dim + np.int32(1),
            link_kinds=("host", *self.link_kinds),
            kind_dims=(0, *self.kind_dims),
        )

    def routed(self, name: str | None = None, options: Mapping[str, Any] | None = None) -> Topology:
        """Return the network with another routing. Raises InputError for an unknown routing or option.

        Queues keep their planes with the default routing and with `bubble`, which takes the same links; with any other,
        packets choose a route option.
        """
        options = {key: value for key, value in (options or {}).items() if value is not None}
        name = name or self.routing
        if name not in self.routings:
            return self._routed_by(name, options)
        if name == self.routing and not options:
            return self
        build = self.routings[name]
        relation = checked_relation(build(**checked_options(build, options, f"{KEY}_options")), name, build)
        queues = self.queues
        if name != next(iter(self.routings)) and not relation.bubble and not self.confined:
            queues = tuple(tuple(replace(queue, plane=-1) for queue in dim_queues) for dim_queues in queues)
        return replace(self, relation=relation, queues=queues, routing=name)

    def _routed_by(self, name: str, options: Mapping[str, Any]) -> Topology:
        """Return the network with a routing of the registry, which serves all pairs on one plane. Raises InputError."""
        if name not in routings:
            known = [*self.routings, *routings]
            raise InputError(f"{self.name} has no routing '{name}'", key=KEY, allowed=known, given=name)
        wires = Wires(self.routers, self.home, self.link_src, self.link_dst, self.link_name)
        build = partial(routings.get(name), wires)
        arguments = checked_options(build, options, f"{KEY}_options")
        try:
            relation = checked_relation(build(**arguments), name, build)
        except InputError as error:
            raise error.at(file=file_of(build.func)) if error.key in (None, KEY) else error from None
        queues = tuple(tuple(replace(queue, plane=-1) for queue in dim_queues) for dim_queues in self.queues)
        return replace(self, relation=relation, queues=queues, routing=name, confined=False)

    def to_networkx(self) -> Any:
        """Return a networkx.MultiDiGraph with one node per router and one edge per link.

        Its attributes fit GraphML, and the topology `graph` reads them back: `npus` is the number of NPUs of a router,
        `npu_ids` their numbers if they are not in order of the routers.
        """
        import networkx as nx

        graph = nx.MultiDiGraph(name=self.name)
        count = np.bincount(self.home, minlength=self.routers).tolist()
        for router, label in enumerate(self.router_name):
            word = "npu" if count[router] else "switch"
            graph.add_node(router, label=label, kind=word, npus=count[router], dim=int(self.router_dim[router]))
        if (np.diff(self.home) < 0).any():
            for router in np.unique(self.home).tolist():
                graph.nodes[router]["npu_ids"] = " ".join(map(str, np.flatnonzero(self.home == router).tolist()))
        if self.next_hops is not None:
            for router, row in enumerate(self.next_hops.tolist()):
                graph.nodes[router]["next_hops"] = " ".join(map(str, row))
        own_values: dict[str, Any] = {"bandwidth": self.link_bandwidth, "latency": self.link_latency}
        for link, name in enumerate(self.link_name):
            src, dst, kind = int(self.link_src[link]), int(self.link_dst[link]), int(self.link_dim[link])
            texts = {key: values[link] for key, values in own_values.items() if values is not None}
            attributes = {key: text for key, text in texts.items() if text is not None}
            attributes |= {"dim": kind, "kind": self.link_kinds[kind], "length": int(self.link_length[link])}
            graph.add_edge(src, dst, key=link, link=link, name=name, **attributes)
        return graph


def same(relation: Relation) -> Relation:
    """Return the relation: the routing function of a relation that is already built."""
    return relation
