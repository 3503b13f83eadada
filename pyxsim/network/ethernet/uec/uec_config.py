"""The arrays of the Ultra Ethernet engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, Int32Array, IntArray


@dataclass(frozen=True, eq=False)
class UecConfig:
    """What the engine knows of the network. Nodes are the hosts, then the switches.

    Attributes
    ----------
    ports
        int64[ports, 9], a row per directed link: node, peer, picoseconds per byte as a fraction (2 columns), delay
        (ps), bytes of the data queue, bytes below which no packet is marked, bytes beyond which every packet is
        (negative: no marks), and whether it leads from a switch to a host.
    nodes
        int64[nodes, 2]: latency (ps) of a switch, salt of its hash.
    uplink, down, tor, group
        int32[hosts]: the port of a host, the port to it, its switch; hosts with the same group share routes.
    route, set_start, set_port
        int32[switches, groups]: the set of ports that lead from a switch to a group; the ports of each set.
    set_shuffle
        int32[sets]: 0: the order of a set is as given; 1: random; 2: random for each destination.
    rules
        The fields of `Rules` (uec_records.pxd).
    survival
        float64[ports, 2]: logarithms of the probability that a packet, and a byte of it, is not lost on the link; no
        rows: nothing is lost.
    """

    ports: IntArray
    nodes: IntArray
    uplink: Int32Array
    down: Int32Array
    tor: Int32Array
    group: Int32Array
    route: Int32Array
    set_start: Int32Array
    set_port: Int32Array
    set_shuffle: Int32Array
    rules: dict[str, Any]
    survival: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))

    @property
    def shift(self) -> int:
        """Binary logarithm of the slots of the timing wheel (ps): 4,096 hold twice the time of a packet on a link."""
        packet = self.rules["mtu"] * self.ports[:, 2] // self.ports[:, 3] + self.ports[:, 4]
        return min(31, max(0, int(2 * packet.max(initial=1)).bit_length() - 12))  # offsets have 32 bits
