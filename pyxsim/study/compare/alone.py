"""What is known of packets before any of them is simulated."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.options import STORE_AND_FORWARD
from pyxsim.network.analytical import AnalyticalNetwork
from pyxsim.network.packet import PacketNetwork
from pyxsim.output.comparison import Cheap
from pyxsim.routing.relation import EACH
from pyxsim.routing.spread import fixed, spread
from pyxsim.study.prepare import Prepared, credit_loops

Longs = NDArray[np.int64]

MOST_PAIRS = 2**16  # whose ways are looked at
SAMPLE = 2000  # messages that are looked at, where there are more of different ends or sizes


def cheap(prepared: Prepared) -> Cheap:
    """Of an experiment that is prepared for the packet backend."""
    network = prepared.network
    assert isinstance(network, PacketNetwork)
    rows = prepared.system.traffic()
    certain = _certain(prepared, rows)
    rows = rows[:: max(1, len(rows) // SAMPLE)]
    known = delays(prepared, rows)
    alone = np.array([_alone(network, *row) for row in rows[:, :4].tolist()])
    total = float((known * rows[:, 4]).sum())
    overhead = float((alone * rows[:, 4]).sum()) / total - 1 if total else 0.0
    covered = min((loop.share for loop in credit_loops(prepared.experiment, network)), default=1.0)
    return Cheap(max(0.0, overhead), min(1.0, covered), certain)


def _certain(prepared: Prepared, rows: Longs) -> bool:
    """Whether each message can go one way only."""
    relation, topology = prepared.topology.relation, prepared.topology
    for plane in np.unique(rows[:, 2]).tolist():
        if fixed(relation, plane):
            continue
        pairs = np.unique(rows[rows[:, 2] == plane][:, :2], axis=0)
        if len(pairs) > MOST_PAIRS or (relation.plane_select == EACH).any():  # where packets choose, or escape
            return False
        way = spread(relation, pairs[:, 0], pairs[:, 1], plane, np.ones(topology.links, np.int64))
        if (way.share < 1).any():
            return False
    return True


def delays(prepared: Prepared, rows: Longs) -> Longs:
    """Cycles that messages (source, destination, plane, bytes, ..) take without congestion, routers and packets."""
    network = AnalyticalNetwork(prepared.topology, prepared.experiment.network)
    found = np.zeros(len(rows), np.int64)
    if len(rows):
        src, dst, plane, size = (np.ascontiguousarray(rows[:, column]) for column in range(4))
        network.send_many(src, dst, size, plane, 0)
    while len((arrived := network.advance(None))[0]):
        found[arrived[0]] = arrived[1]
    return found


def _alone(network: PacketNetwork, src: int, dst: int, plane: int, size: int) -> float:
    """Cycles of a message that meets no other: the way of its head, and its flits over the slowest link there."""
    machine, topology = network.machine, network.topology
    wires = [machine.link_wires[link] for link, _ in topology.relation.route(src, dst, plane)]
    packets, full, last = network.cut(size)
    flits = (packets - 1) * full + last
    lanes = [machine.inject[src], machine.eject[dst]]
    links = machine.links
    ends = [next(iter(each.values())) + links.network + links.injection * number for number, each in enumerate(lanes)]
    paces = [wire.s for wire in wires] + [links.s_num[end] / links.s_den[end] for end in ends]
    head = sum(ceil(wire.s) + wire.delay for wire in wires) + sum(
        ceil(links.s_num[end] / links.s_den[end]) + int(links.delay[end]) for end in ends
    )
    body = (flits - 1) * max(paces)
    if machine.options.flow == STORE_AND_FORWARD:  # every router waits for all of a packet: the last one is behind all
        body += (last - 1) * (sum(paces) - max(paces))
    return float(head + (len(wires) + 1) * machine.head_wait + body)
