"""Bounds and proofs of a network, without a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.errors import DeadlockError, UnreachableError
from pyxsim.results.table import Facts
from pyxsim.runner.prepare import PathLike
from pyxsim.runner.proofs import prove_routes
from pyxsim.settings import Network, load_experiment
from pyxsim.settings.types import listed
from pyxsim.topology import Topology, bounds
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import restored, write_graph

SEVERAL = 2  # flits of a packet for the deadlock proof: more than one


@dataclass(frozen=True, repr=False)
class TopologyFacts(Facts):
    """Facts about a network, without a run. Numbers about routes are None if a pair has no route.

    Parameters
    ----------
    routers
        Those with NPUs.
    degree
        Links that leave the router of an NPU: the fewest and the most.
    routing, routings
        The routing algorithm of these facts, and all that the topology has.
    bisection
        Links in both directions between two halves: the fewest if `bisection_exact`, else the fewest of the cuts tried.
    mean_hops, mean_routers
        Links, and routers, that a packet passes on average.
    channel_load, throughput
        Flits per cycle under uniform traffic (topology/bounds.py), of this routing if `load_exact`, else a bound.
    deadlock
        The cycle of channels, if there is one.
    """

    name: str
    shape: tuple[int, ...]
    npus: int
    routers: int
    switches: int
    links: int
    kinds: dict[str, int]
    degree: tuple[int, int]
    routing: str
    routings: tuple[str, ...]
    vc_classes: int
    planes: int
    bisection: int
    bisection_exact: bool
    mean_hops: float | None
    mean_routers: float | None
    max_hops: int | None
    channel_load: float | None
    load_exact: bool | None
    throughput: float | None
    deadlock_free: bool
    deadlock: str | None
    unreachable: str | None


def describe_topology(
    network: Network | str, shape: Sequence[int] | None = None, *, libraries: Iterable[PathLike] = ()
) -> TopologyFacts:
    """Count, bound and prove a network: degree, bisection, hops, channel load, deadlock freedom.

    It takes seconds for thousands of NPUs.

    Parameters
    ----------
    network
        A Network such as `pyxsim.Torus([4, 4])`, or the name of a topology or system.
    shape
        NPUs per dimension, with a name.
    libraries
        Folders with topologies of your own.

    Raises
    ------
    InputError
        If the network cannot be built.
    """
    return facts_of(*_built(network, shape, listed(libraries)))


def export_topology(
    network: Network | str,
    file: PathLike,
    shape: Sequence[int] | None = None,
    *,
    libraries: Iterable[PathLike] = (),
) -> None:
    """Write a network as a graph, from which `pyxsim.Graph(file)` reads the same network.

    Parameters
    ----------
    network, shape, libraries
        As for `describe_topology`.
    file
        GraphML (.graphml), or an edge list (.edges).

    Raises
    ------
    InputError
        If the network cannot be built, or the file cannot be written.
    """
    write_graph(*_built(network, shape, listed(libraries)), file)


def _built(network: Network | str, shape: Sequence[int] | None, libraries: list[Any]) -> tuple[Topology, Network]:
    """Return a network and its settings; warn of what a changed graph has lost."""
    library.load_all(libraries)
    if isinstance(network, str):
        tables: dict[str, Any] = {"topology": network} if shape is None else {"topology": network, "shape": list(shape)}
        load = {"collective": {"kind": "all-reduce", "size": "1 B"}}
        network = load_experiment({"network": tables, **load}, libraries=libraries).network
    network, lost = restored(network)
    for line in lost:
        warnings.warn(line, RuntimeWarning, stacklevel=3)
    return network_of(network), network


def facts_of(topology: Topology, network: Network) -> TopologyFacts:
    """Return the facts of a topology with the routers of `network`."""
    degrees = np.bincount(topology.link_src, minlength=topology.routers)[np.unique(topology.home)]
    kinds = np.bincount(topology.link_dim, minlength=len(topology.link_kinds)).tolist()
    kinds[0] += topology.counted_links - topology.links
    known: bounds.Bounds | None = None
    unreachable: str | None = None
    try:
        known = bounds.summary(topology)
        channels, exact = known.bisection, known.bisection_exact
    except UnreachableError as error:
        channels, exact = bounds.bisection(topology)
        unreachable = None if topology.confined else str(error)
    deadlock: str | None = None
    try:
        prove_routes(topology.relation, network, topology.pairs() if topology.confined else None, SEVERAL)
    except DeadlockError as error:
        deadlock = str(error)
    except UnreachableError as error:
        unreachable = str(error)
    return TopologyFacts(
        name=topology.name,
        shape=topology.shape,
        npus=topology.npus,
        routers=topology.routers - topology.switches,
        switches=topology.switches,
        links=topology.counted_links,
        kinds=dict(zip(topology.link_kinds, kinds, strict=True)),
        degree=(int(degrees.min()), int(degrees.max())),
        routing=topology.routing,
        routings=tuple(topology.routings),
        vc_classes=int(topology.relation.link_classes.max(initial=1)),
        planes=topology.planes,
        bisection=channels,
        bisection_exact=exact,
        mean_hops=known.mean_hops if known else None,
        mean_routers=known.mean_hops + 1 if known else None,
        max_hops=known.max_hops if known else None,
        channel_load=known.channel_load if known else None,
        load_exact=known.load_exact if known else None,
        throughput=known.throughput if known else None,
        deadlock_free=deadlock is None and unreachable is None,
        deadlock=deadlock,
        unreachable=unreachable,
    )
