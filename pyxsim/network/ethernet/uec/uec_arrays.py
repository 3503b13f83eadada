"""The configuration of the Ultra Ethernet engine, from that of the Ethernet backend."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.config import PICOSECONDS, EthernetConfig
from pyxsim.network.ethernet.ideal import round_trip
from pyxsim.network.ethernet.uec.uec_config import UecConfig
from pyxsim.network.ethernet.uec.uec_transports import UecTransport
from pyxsim.settings import Network

_MARKS = 0.2, 0.8  # bandwidth-delay products, rounded up to packets
_UNLIMITED = 1 << 60  # bytes


def make_uec_config(
    network: Network, arrays: EthernetConfig, transport: UecTransport, random: np.random.MT19937
) -> UecConfig:
    """Return the configuration of a network whose hosts have one link each. Raises InputError."""
    settings = network.ethernet
    hosts, routers = len(arrays.home), len(arrays.route)
    if (arrays.down < 0).any():
        raise InputError(
            f"the transport '{transport.name}' needs a link between each NPU and a switch",
            key="network.ethernet.transport",
            allowed="network.host_links = true, or another transport",
        )
    if settings.classes:
        raise InputError(
            f"the transport '{transport.name}' has one class of data",
            key="network.ethernet.classes",
            allowed="none, or another transport",
        )
    uplink = arrays.nodes[arrays.home, 1]
    to_host, from_host = np.zeros(len(arrays.ports), bool), np.zeros(len(arrays.ports), bool)
    to_host[arrays.down], from_host[uplink] = True, True
    rates = 8 * PICOSECONDS * arrays.ports[uplink, 4] // arrays.ports[uplink, 3]
    line = int(rates.max())
    wire = settings.mtu + settings.header
    longest = longest_round_trip(arrays, wire, settings.ack)
    packets = ceil(longest * line / (8 * PICOSECONDS) / wire)
    queue = settings.buffer.queue or packets * wire
    rules = transport.engine_rules(settings, network.clock, line, longest, queue)
    ports = np.zeros((len(arrays.ports), 9), np.int64)
    ports[:, 0] = _renumbered(arrays.ports[:, 0], hosts, routers)
    ports[:, 1] = _renumbered(arrays.ports[:, 1], hosts, routers)
    ports[:, 2:5] = arrays.ports[:, 3:6]
    ports[:, 5] = np.where(from_host, _UNLIMITED, queue)
    low, high = (ceil(share * packets) * wire for share in _MARKS)
    ports[:, 6] = low if settings.ecn.kmin is None else settings.ecn.kmin
    ports[:, 7] = high if settings.ecn.kmax is None else settings.ecn.kmax
    ports[:, 6] = np.minimum(ports[:, 6], ports[:, 7])
    unmarked = from_host | (to_host & bool(transport.receiver_cc)) | (not settings.ecn.enabled)
    ports[unmarked, 6:8] = -1
    ports[:, 8] = to_host
    nodes = np.zeros((hosts + routers, 2), np.int64)
    nodes[hosts:, 1] = [random.random_raw() & 0x7FFFFFFF for _ in range(routers)]
    return UecConfig(
        ports=ports,
        nodes=nodes,
        uplink=uplink.astype(np.int32),
        down=arrays.down,
        tor=_renumbered(arrays.ports[uplink, 1], hosts, routers).astype(np.int32),
        group=arrays.group,
        route=arrays.route,
        set_start=arrays.set_start,
        set_port=arrays.set_port,
        set_shuffle=np.zeros(len(arrays.set_start) - 1, np.int32),
        rules=rules,
        survival=arrays.survival,
    )


def with_links(config: UecConfig, arrays: EthernetConfig) -> UecConfig:
    """Return a configuration with the rates, losses and routes of `arrays`."""
    ports = config.ports.copy()
    ports[:, 2:4] = arrays.ports[:, 3:5]
    shuffle = np.zeros(len(arrays.set_start) - 1, np.int32)
    return replace(
        config,
        ports=ports,
        survival=arrays.survival,
        route=arrays.route,
        set_start=arrays.set_start,
        set_port=arrays.set_port,
        set_shuffle=shuffle,
    )


def longest_round_trip(arrays: EthernetConfig, size: int, reply: int) -> int:
    """Return the longest round trip between NPUs of different switches, or of the same one, in ps."""
    _, first = np.unique(arrays.group, return_index=True)
    _, last = np.unique(arrays.group[::-1], return_index=True)
    dst = np.concatenate([first, len(arrays.group) - 1 - last])
    longest = 0
    for src in first.tolist():
        others = dst[dst != src]
        if len(others):
            longest = max(longest, int(round_trip(arrays, np.full(len(others), src), others, size, reply).max()))
    return max(longest, 1)


def _renumbered(node: IntArray, hosts: int, routers: int) -> IntArray:
    """Hosts before routers."""
    numbers: IntArray = np.where(node < routers, node + hosts, node - routers)
    return numbers
