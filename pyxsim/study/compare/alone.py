"""Estimates of the packet backend before any packet is simulated."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pyxsim.analysis.packet_spacing import stream
from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import STORE_AND_FORWARD
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.link_paths import routes
from pyxsim.network.protocol import Backend
from pyxsim.results.comparison import PacketEstimate
from pyxsim.routing.relation import EACH
from pyxsim.routing.spread import fixed, spread
from pyxsim.runner.prepared import Prepared
from pyxsim.topology import Topology

MOST_PAIRS = 2**16  # pairs whose routes are evaluated
SAMPLE = 2000  # distinct messages that are evaluated if there are more


def packet_estimate(prepared: Prepared) -> PacketEstimate:
    """Return the estimate of an experiment that is prepared for the packet backend."""
    network = prepared.network
    traffic = prepared.system.traffic()
    certain = _certain(prepared, traffic)
    rows = traffic[:: max(1, len(traffic) // SAMPLE)]
    known = delays(prepared, rows)
    alone = _Alone(network)
    times = np.array([alone.cycles(*row) for row in rows[:, :4].tolist()])
    total = float((known * rows[:, 4]).sum())
    overhead = float((times * rows[:, 4]).sum()) / total - 1 if total else 0.0
    pairs = np.unique(traffic[:, :3], axis=0)
    steps = routes(network.topology.relation, *pairs.T) if certain else np.zeros((0, 0), np.int64)
    return PacketEstimate(
        overhead=max(0.0, overhead),
        covered=alone.covered,
        certain=certain,
        meet=not certain or _meet(network.topology, pairs, steps),
        own=certain and _own_lanes(network, pairs, steps),
        lanes=prepared.first + _through_lanes(network, traffic),
    )


def _meet(topology: Topology, pairs: IntArray, steps: IntArray) -> bool:
    """Return whether a link receives messages from several links or NPUs. `steps`: the links on the routes of pairs."""
    shared = _shared(topology)
    lane = np.where(shared[pairs[:, 1]], topology.links + pairs[:, 1], -1)  # one for all incoming messages
    after = np.column_stack([steps, np.full(len(steps), -1)])
    after[np.arange(len(steps)), (steps >= 0).sum(axis=1)] = lane
    before = np.column_stack([-1 - pairs[:, 0], after[:, :-1]])
    turns = np.unique(np.column_stack([before.ravel(), after.ravel()])[after.ravel() >= 0], axis=0)
    return len(np.unique(turns[:, 1])) < len(turns)


def _certain(prepared: Prepared, rows: IntArray) -> bool:
    """Whether each message has a single route."""
    relation, topology = prepared.topology.relation, prepared.topology
    for plane in np.unique(rows[:, 2]).tolist():
        if fixed(relation, plane):
            continue
        pairs = np.unique(rows[rows[:, 2] == plane][:, :2], axis=0)
        # packets choose their routes, or use escape VCs
        if len(pairs) > MOST_PAIRS or (relation.plane_select == EACH).any():
            return False
        way = spread(relation, pairs[:, 0], pairs[:, 1], plane, np.ones(topology.links, np.int64))
        if (way.share < 1).any():
            return False
    return True


def delays(prepared: Prepared, rows: IntArray) -> IntArray:
    """Return the cycles of messages (source, destination, plane, bytes, ...) on the backend without congestion."""
    network = AnalyticalNetwork(prepared.topology, prepared.experiment.network)
    cycles = np.zeros(len(rows), np.int64)
    if len(rows):
        src, dst, plane, size = (np.ascontiguousarray(rows[:, column]) for column in range(4))
        network.send_many(src, dst, size, plane, 0)
    while len((arrived := network.advance(None))[0]):
        cycles[arrived[0]] = arrived[1]
    return cycles


class _Alone:
    """Latencies of uncontended messages; `covered`: the least share of the time for which their links can be busy."""

    def __init__(self, network: Backend) -> None:
        self.network = network
        self.covered = 1.0
        self._stream = cache(partial(stream, network))

    def cycles(self, src: int, dst: int, plane: int, size: int) -> float:
        """Return the cycles of a message: its head along the route, then its packets on the slowest link or lane."""
        config, topology = self.network.config, self.network.topology
        # all lanes of an NPU have the same latency
        lanes = [int(config.inject.start[src]), int(config.eject.start[dst])]
        inject, eject = (config.links.network + config.links.injection * end + lanes[end] for end in (0, 1))
        way = [inject, *(link for link, _ in topology.relation.route(src, dst, plane)), eject]
        packets, full, last = self.network.cut(size)
        streams = [self._stream(link, full) for link in way]
        self.covered = min(self.covered, *(one.certain for one in streams))
        paces = [one.pace for one in streams]
        head = sum(ceil(pace) + int(config.links.delay[link]) for link, pace in zip(way, paces, strict=True))
        body = max((packets - 1) * one.cycles + (last - 1) * one.pace for one in streams)
        if config.options.flow == STORE_AND_FORWARD:  # each router waits for a whole packet
            body += (last - 1) * (sum(paces) - max(paces))
        return float(head + (len(way) - 1) * config.head_wait + body)


def _own_lanes(network: Backend, pairs: IntArray, steps: IntArray) -> bool:
    """Whether lanes are those that models without packets assume: one per link of an NPU, or a single one where NPUs
    share a router. Only links that carry messages count."""
    topology = network.topology
    shared, of_links = _shared(topology), network.settings.lanes in ("auto", "per-link") and not topology.lane_per_plane
    if not len(pairs) or (of_links and not shared.any()):
        return True
    if (shared & (_counts(network.config) > 1))[np.unique(pairs[:, :2])].any():
        return False
    steps = np.column_stack([steps, np.full(len(pairs), -1)])
    last = np.take_along_axis(steps, np.maximum(0, (steps >= 0).sum(axis=1) - 1)[:, None], axis=1)[:, 0]
    return all(_one_link(network, pairs, end, links) for end, links in ((0, steps[:, 0]), (1, last)))


def _one_link(network: Backend, pairs: IntArray, end: int, links: IntArray) -> bool:
    """Whether no lane carries messages of several links. `end`: column of the NPU; `links`: those at its router."""
    topology = network.topology
    npus = pairs[:, end]
    if topology.lane_per_plane:
        keys = pairs[:, 2]
    elif isinstance(network.settings.lanes, int):  # lanes are used in rotation
        keys = np.zeros(len(pairs), np.int64)
    else:
        keys = topology.link_dim[links].astype(np.int64) if network.settings.lanes == "per-dimension" else links
    used = np.unique(np.column_stack([npus, keys, links])[~_shared(topology)[npus] & (links >= 0)], axis=0)
    return len(np.unique(used[:, :2], axis=0)) == len(used)


def _shared(topology: Topology) -> NDArray[np.bool_]:
    """Return, for each NPU, whether other NPUs share its router."""
    shared: NDArray[np.bool_] = np.bincount(topology.home)[topology.home] > 1
    return shared


def _counts(config: EngineConfig) -> IntArray:
    """The larger of the numbers of injection and ejection lanes of each NPU."""
    return np.maximum(config.inject.count, config.eject.count)


def _through_lanes(network: Backend, rows: IntArray) -> int:
    """Cycles that the lanes of the busiest NPU need for its messages."""
    sizes, which = np.unique(rows[:, 3], return_inverse=True)
    cuts = [network.cut(size) for size in sizes.tolist()]
    flits = np.array([(packets - 1) * full + last for packets, full, last in cuts], np.int64)[which] * rows[:, 4]
    links, most = network.config.links, Fraction(0)
    for end, first, lanes in (
        (0, links.network, network.config.inject),
        (1, links.network + links.injection, network.config.eject),
    ):
        carried = np.bincount(rows[:, end], flits, minlength=network.npus).astype(np.int64)
        for npu in np.flatnonzero(carried).tolist():
            mine = range(first + int(lanes.start[npu]), first + int(lanes.start[npu + 1]))
            width = sum((Fraction(int(links.s_den[lane]), int(links.s_num[lane])) for lane in mine), Fraction(0))
            most = max(most, int(carried[npu]) / width)
    return int(most)
