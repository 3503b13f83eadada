"""The arrays of the Ultra Ethernet engine for one of htsim's fat trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import BitGenerator

from pyxsim.arrays import Int32Array
from pyxsim.compat.htsim.fat_tree import FatTree, Tier
from pyxsim.compat.htsim.rules import DerivedRules
from pyxsim.network.ethernet.uec.uec_config import UecConfig

DEGRADED = 0.25  # of the rate, the queue and the thresholds of a failed link
NO_MARKS = (-1, -1)
UNLIMITED = 1 << 60
AS_GIVEN, SHUFFLED, SHUFFLED_PER_HOST = 0, 1, 2
SALT = 0x7FFFFFFF


class _Ports:
    """Ports and sets of ports, in the order in which htsim makes them."""

    def __init__(self, rules: DerivedRules) -> None:
        self.rules = rules
        self.rows: list[tuple[int, ...]] = []
        self.sets: list[list[int]] = [[]]
        self.shuffles = [AS_GIVEN]

    def link(self, node: int, peer: int, tier: Tier, *, degraded: bool = False) -> int:
        """Add the port of a switch to another one."""
        rules, share = self.rules, DEGRADED if degraded else 1
        queue, low, high = (int(size * share) for size in (rules.queue, rules.ecn_low, rules.ecn_high))
        return self.add(node, peer, int(tier.speed * share), tier.link_latency, queue, (low, high))

    def add(
        self, node: int, peer: int, rate: int, latency: int, queue: int, marks: tuple[int, int], last: int = 0
    ) -> int:
        """Add a port; htsim counts whole picoseconds per byte."""
        self.rows.append((node, peer, int(8e12 / rate), 1, latency, queue, *marks, last))
        return len(self.rows) - 1

    def group(self, ports: Sequence[int], shuffle: int = AS_GIVEN) -> int:
        """Add a set of ports."""
        self.sets.append(list(ports))
        self.shuffles.append(shuffle)
        return len(self.sets) - 1


def uec_config(
    tree: FatTree,
    rules: DerivedRules,
    engine_rules: dict[str, Any],
    random: BitGenerator,
    *,
    mark_last: bool,
    failed: int = 0,
) -> UecConfig:
    """Return the configuration of the engine; draws the salt of each switch.

    Parameters
    ----------
    mark_last
        Whether ports from a ToR to a host mark packets.
    failed
        The number of degraded links, as of -failed.
    """
    ports, hosts, tier = _Ports(rules), tree.hosts, tree.tiers[0]
    group = np.arange(hosts) // tier.radix_down
    tor = hosts + group
    marks = (rules.ecn_low, rules.ecn_high) if mark_last else NO_MARKS
    link = tier.speed, tier.link_latency
    uplink = [ports.add(host, int(tor[host]), *link, UNLIMITED, NO_MARKS) for host in range(hosts)]
    down = [ports.add(int(tor[host]), host, *link, rules.queue, marks, 1) for host in range(hosts)]
    route = np.zeros((tree.tors + tree.aggs + tree.cores, tree.tors), np.int32)
    _connect_tors(tree, ports, route, failed)
    if tree.cores:
        _connect_cores(tree, ports, route, failed)
    nodes = np.zeros((hosts + len(route), 2), np.int64)
    counts = (tree.tors, tree.aggs, tree.cores)
    nodes[hosts:, 0] = np.repeat([each.switch_latency for each in tree.tiers], counts[: len(tree.tiers)])
    nodes[hosts:, 1] = [int(random.random_raw()) & SALT for _ in range(len(route))]
    return UecConfig(
        np.array(ports.rows, np.int64),
        nodes,
        np.array(uplink, np.int32),
        np.array(down, np.int32),
        tor.astype(np.int32),
        group.astype(np.int32),
        route,
        np.cumsum([0, *map(len, ports.sets)], dtype=np.int32),
        np.array([port for each in ports.sets for port in each], np.int32),
        np.array(ports.shuffles, np.int32),
        engine_rules,
    )


def _connect_tors(tree: FatTree, ports: _Ports, route: Int32Array, failed: int) -> None:
    """Connect ToRs with the aggregation switches of their pod, which are the spines of two tiers."""
    tier, first_agg = tree.tiers[1], tree.hosts + tree.tors
    for tor in range(tree.tors):
        first = tor // tree.tors_per_pod * tree.aggs_per_pod
        upwards: list[int] = []
        for position in range(tree.aggs_per_pod):
            agg, degraded = first + position, len(tree.tiers) == 2 and position < failed
            ends = tree.hosts + tor, first_agg + agg
            downwards = []
            for _ in range(tier.bundle):
                upwards.append(ports.link(*ends, tier, degraded=degraded))
                downwards.append(ports.link(*ends[::-1], tier, degraded=degraded))
            route[tree.tors + agg, tor] = ports.group(downwards)
        route[tor] = ports.group(upwards, SHUFFLED)


def _connect_cores(tree: FatTree, ports: _Ports, route: Int32Array, failed: int) -> None:
    """Connect aggregation switches with cores; the links of core switches downwards can be degraded."""
    tier, first_agg = tree.tiers[2], tree.hosts + tree.tors
    first_core = first_agg + tree.aggs
    pod_of_tor = np.arange(tree.tors) // tree.tors_per_pod
    for agg in range(tree.aggs):
        pod, position = divmod(agg, tree.aggs_per_pod)
        upwards: list[int] = []
        for link in range(tree.core_links):
            core, degraded = link * tree.aggs_per_pod + position, link + agg * tree.aggs_per_pod < failed
            ends = first_agg + agg, first_core + core
            downwards = []
            for _ in range(tier.bundle):
                upwards.append(ports.link(*ends, tier))
                downwards.append(ports.link(*ends[::-1], tier, degraded=degraded))
            route[tree.tors + tree.aggs + core, pod_of_tor == pod] = ports.group(downwards)
        route[tree.tors + agg, pod_of_tor != pod] = ports.group(upwards, SHUFFLED_PER_HOST)
