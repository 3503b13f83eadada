"""The ideal completion time of messages: what a message takes alone on its first shortest route (docs/ethernet.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.ethernet.config import EthernetConfig


def first_port(arrays: EthernetConfig, node: IntArray, npu: IntArray) -> IntArray:
    """Return the first port on a shortest route from each node to each NPU."""
    group = arrays.group[npu].astype(np.int64)
    router = np.minimum(node, len(arrays.route) - 1)
    port = arrays.set_port[arrays.set_start[arrays.route[router, group]]].astype(np.int64)
    port = np.where(arrays.nodes[node, 2] == group, arrays.down[npu], port)
    uplink: IntArray = np.where(arrays.nodes[node, 1] >= 0, arrays.nodes[node, 1], port)
    return uplink


def round_trip(arrays: EthernetConfig, src: IntArray, dst: IntArray, size: int, reply: int) -> IntArray:
    """Return int64[K], ps: latency of the links both ways, and transmission of `size` and `reply` bytes on each."""
    total = np.zeros(len(src), np.int64)
    for start, end, nbytes in ((src, dst, size), (dst, src, reply)):
        node, last = arrays.home[start].astype(np.int64), arrays.home[end]
        while (moving := np.flatnonzero(node != last)).size:
            port = first_port(arrays, node[moving], end[moving])
            picoseconds, per_bytes, delay = arrays.ports[port, 3:6].T
            total[moving] += nbytes * picoseconds // per_bytes + delay
            node[moving] = arrays.ports[port, 1]
    return total


def ideal_times(arrays: EthernetConfig, src: IntArray, dst: IntArray, nbytes: IntArray) -> IntArray:
    """Return int64[K], ps: the time of each message on an idle network, without limits by its transport.

    Its packets pass the links of the route as a pipeline, in which the slowest link so far sets the pace. With
    `end = "acknowledged"`, the acknowledgment of the last packet is included.
    """
    keys, which = np.unique(np.stack([src, dst, nbytes]), axis=1, return_inverse=True)
    start, end, size = keys
    rules = arrays.rules
    packets = -(-size // rules["mtu"])
    last = size - (packets - 1) * rules["mtu"] + rules["header"]
    total = _pipeline(arrays, start, end, packets, last)
    if rules["ack_ends"]:
        reply = np.full_like(size, rules["ack"] + rules["telemetry_header"])
        total += _pipeline(arrays, end, start, np.ones_like(packets), reply)
    made: IntArray = total[which.ravel()]
    return made


def _pipeline(arrays: EthernetConfig, src: IntArray, dst: IntArray, packets: IntArray, last: IntArray) -> IntArray:
    """The time until the last of several packets arrives: all of the largest size, but the last one of `last` bytes."""
    rules = arrays.rules
    full = np.full_like(last, rules["mtu"] + rules["header"])
    node, goal = arrays.home[src].astype(np.int64), arrays.home[dst].astype(np.int64)
    # of the first packet, the last full one, and the last one: when its head and its end are at the node
    head = np.zeros((3, len(src)), np.int64)
    tail = np.zeros((3, len(src)), np.int64)
    sizes = np.stack([np.where(packets > 1, full, last), full, last])
    pace = np.zeros(len(src), np.int64)
    while (moving := np.flatnonzero(node != goal)).size:
        port = first_port(arrays, node[moving], dst[moving])
        peer, delay = arrays.ports[port, 1], arrays.ports[port, 5]
        switch = arrays.nodes[peer, 0] < 0
        cut = switch & bool(rules["cut_bytes"])
        ready = head[:, moving]
        time = [_transmission(arrays, port, size) for size in sizes[:, moving]]
        header = _transmission(arrays, port, np.full(len(port), rules["cut_bytes"]))
        pace[moving] = np.maximum(pace[moving], time[0])
        begin = ready[0]
        finished = np.maximum(begin + time[0], tail[0, moving])
        more = packets[moving] > 1
        # the last full packet follows the first one at the pace of the slowest link so far
        full_end = finished + (packets[moving] - 2) * pace[moving]
        begins = [begin, full_end - time[1], np.where(more, np.maximum(ready[2], full_end), begin)]
        ends = [finished, full_end, np.where(more, np.maximum(begins[2] + time[2], tail[2, moving]), finished)]
        for row in range(3):
            early = cut & (sizes[row, moving] > rules["cut_bytes"])
            tail[row, moving] = ends[row] + delay
            head[row, moving] = np.where(early, begins[row] + header, ends[row]) + delay
        node[moving] = peer
    total: IntArray = tail[2]
    return total


def _transmission(arrays: EthernetConfig, port: IntArray, size: Any) -> IntArray:
    """Transmission times in ps, rounded as in the engine (`rounded_time`)."""
    picoseconds, per_bytes = arrays.ports[port, 3], arrays.ports[port, 4]
    step = arrays.rules["step"]
    unit = per_bytes * step
    rounded: IntArray = (2 * size * picoseconds + unit - 1) // (2 * unit) * step
    return rounded
