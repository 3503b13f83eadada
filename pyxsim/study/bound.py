"""The time that a plan cannot beat on these links, whatever routers, buffers and algorithms do."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.collective.bounds import phase_bytes
from pyxsim.network.packet import PacketNetwork
from pyxsim.routing.relation import Numbers
from pyxsim.system import Collective, System


def bound_cycles(collective: Collective, system: System, network: PacketNetwork) -> Fraction:
    """The least that a collective's plan can take, in cycles: the busiest dimension.

    In dimension d the plan makes the NPUs send at least N * bytes_d (collective/bounds.py), and all of it
    leaves over the links that go out from NPUs in d: bytes / capacity. Before it the first flit crosses an injection
    lane and a router, after it the last one the rest of the shortest way; the endpoint delay counts once on each side.

    Where packets may go through other dimensions than their own all dimensions count as one, and where NPUs share a
    router, which their bytes need not leave, the lanes count instead of the links.
    """
    load: dict[tuple[int, ...], Fraction] = {}
    for chunk in collective.chunks:
        for phase in chunk.plan.phases:
            load[phase.dims] = load.get(phase.dims, Fraction(0)) + phase_bytes(phase)
    if not load:
        return Fraction(0)
    everything = sum(load.values(), Fraction(0))
    if _shared(network):
        least = _through_lanes(everything, network)
    else:
        if not _apart(network):
            load = {tuple(range(len(network.topology.shape))): everything}
        least = max(_through_links(dims, each, network) for dims, each in load.items())
    return least + 2 * system.options.endpoint_delay


def _shared(network: PacketNetwork) -> bool:
    """Whether NPUs share a router."""
    return len(np.unique(network.topology.home)) < network.npus


def _apart(network: PacketNetwork) -> bool:
    """Whether packets between NPUs that differ in one dimension stay on the links of that dimension."""
    topology = network.topology
    detours = any(way.via == "any" for way in topology.relation.ways)
    return topology.confined or (topology.relation.separable and not detours)


def _capacity(links: Numbers, network: PacketNetwork) -> Fraction:
    """Bytes per cycle that some links carry together."""
    every = network.machine.links
    speeds, counts = np.unique(np.stack([every.s_den[links], every.s_num[links]]), axis=1, return_counts=True)
    flits = (Fraction(den, num) * count for den, num, count in zip(*speeds.tolist(), counts.tolist(), strict=True))
    return network.settings.flit * sum(flits, Fraction(0))


def _flights(links: Numbers, network: PacketNetwork) -> Numbers:
    """Cycles of a flit on each of some links."""
    every = network.machine.links
    flights: Numbers = -(-every.s_num[links] // every.s_den[links]) + every.delay[links]
    return flights


def _lanes(network: PacketNetwork, *, incoming: bool) -> Numbers:
    """The numbers of all ejection lanes (`incoming`), or of all injection lanes."""
    links = network.machine.links
    first = links.network + (links.injection if incoming else 0)
    return np.arange(first, first + (links.ejection if incoming else links.injection))


def _through_links(dims: tuple[int, ...], each: Fraction, network: PacketNetwork) -> Fraction:
    """`each` bytes from every NPU, over the links of some dimensions."""
    topology = network.topology
    own = np.isin(np.array(topology.kind_dims)[topology.link_dim], dims)
    leaving = np.flatnonzero(own & np.isin(topology.link_src, topology.home))
    kinds = [kind for kind, dim in enumerate(topology.kind_dims) if dim in dims]
    busy = each * topology.npus / _capacity(leaving, network)
    return busy + min(_latency(kind, network) for kind in kinds)


def _latency(kind: int, network: PacketNetwork) -> int:
    """Cycles of a flit from interface to interface over links of a kind, without the time on its first network link."""
    topology, machine = network.topology, network.machine
    # The shortest way there can be: from NPU to NPU, or through a switch.
    links = np.flatnonzero(topology.link_dim == kind)
    ends = np.isin([topology.link_src[links], topology.link_dst[links]], topology.home).all(axis=0)
    hops = 1 if not len(links) or ends.any() else 2
    wire = machine.link_wires[links[np.argmin(_flights(links, network))]] if len(links) else machine.wires[kind]
    lanes = sum(int(_flights(_lanes(network, incoming=which), network).min()) for which in (False, True))
    # RC and VA in the first router; a flit behind a head does not pay them in the others.
    return lanes + machine.head_wait + wire.delay + (hops - 1) * (ceil(wire.s) + wire.delay + wire.traversal)


def _through_lanes(each: Fraction, network: PacketNetwork) -> Fraction:
    """`each` bytes from every NPU, out of the injection lanes and into the ejection lanes."""
    into, out = (_lanes(network, incoming=which) for which in (False, True))
    busy = each * network.npus / min(_capacity(into, network), _capacity(out, network))
    # The last flit to leave still flies into a router, and out of it.
    return busy + int(network.machine.links.delay[into].min()) + int(_flights(out, network).min())
