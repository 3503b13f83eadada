"""The time that a plan cannot beat on these links, whatever routers, buffers and algorithms do."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.collective.bounds import phase_bytes
from pyxsim.network.packet import PacketNetwork
from pyxsim.system import Collective, System


def bound_cycles(collective: Collective, system: System, network: PacketNetwork) -> Fraction:
    """The least that a collective's plan can take, in cycles: the busiest dimension.

    In dimension d the plan makes the NPUs send at least N * bytes_d (collective/bounds.py), and all of it
    leaves over the links that go out from NPUs in d: bytes / capacity. Before it the first flit crosses an injection
    lane and a router, after it the last one the rest of the shortest way; the endpoint delay counts once on each side.
    """
    load: dict[tuple[int, ...], Fraction] = {}
    for chunk in collective.chunks:
        for phase in chunk.plan.phases:
            load[phase.dims] = load.get(phase.dims, Fraction(0)) + phase_bytes(phase)
    return max((_dimension(dims, each, system, network) for dims, each in load.items()), default=Fraction(0))


def _dimension(dims: tuple[int, ...], each: Fraction, system: System, network: PacketNetwork) -> Fraction:
    topology, machine = network.topology, network.machine
    flit = network.settings.flit
    capacity = Fraction(0)  # bytes per cycle that all NPUs together can send
    for dim in dims:
        links = int(np.count_nonzero((topology.link_dim == dim) & (topology.link_src < topology.npus)))
        capacity += links * flit / machine.wires[dim].s
    busy = each * topology.npus / capacity
    return busy + min(_latency(dim, network) for dim in dims) + 2 * system.options.endpoint_delay


def _latency(dim: int, network: PacketNetwork) -> int:
    """Cycles of a flit from interface to interface along a dimension, without the time on its first network link."""
    topology, machine = network.topology, network.machine
    # The shortest way there can be: from NPU to NPU, or through a switch.
    ends = np.maximum(topology.link_src, topology.link_dst)[topology.link_dim == dim]
    hops = 1 if not len(ends) or int(ends.min()) < topology.npus else 2
    wire = machine.wires[dim]
    links = machine.links
    lanes = 0
    for first, count in ((links.network, links.injection), (links.network + links.injection, links.ejection)):
        there = slice(first, first + count)
        flit = -(-links.s_num[there] // links.s_den[there])
        lanes += int((flit + links.delay[there]).min())
    # RC and VA in the first router; a flit behind a head does not pay them in the others.
    return lanes + machine.stages.rc + machine.stages.va + wire.delay + (hops - 1) * (ceil(wire.s) + wire.delay)
