"""Throughput of permutations on fat trees whose cables have failed, against maximum flows over the same links."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

import pyxsim
from pyxsim.arrays import BoolArray, FloatArray
from pyxsim.library import load_all
from pyxsim.routing.degraded import Degraded, degraded
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from pyxsim.topology.topology import Topology
from validation.max_flow import equal_rate, total_rate

FLIT = 64
SELECTIONS: dict[str, dict[str, str]] = {
    "least": {"select": "least"},
    "weighted, capacity": {"select": "weighted", "weights": "capacity"},
    "weighted, messages": {"select": "weighted", "weights": "messages"},
}


@dataclass(frozen=True)
class Tree:
    """A fat tree: children and parents of the routers of each level."""

    children: tuple[int, ...]
    parents: tuple[int, ...]

    @property
    def npus(self) -> int:
        """How many NPUs it has."""
        return int(np.prod(self.children))


SMALL, LARGE, UNEVEN = Tree((4, 4, 4), (4, 4)), Tree((4, 4, 4, 4), (4, 4, 4)), Tree((4, 4, 3), (3, 5))


def tree_network(tree: Tree, host: float = 1.0, **reroute: str) -> dict[str, Any]:
    """Return the network of a tree whose NPUs send so many flits per cycle; the other links send one."""
    return {
        "topology": "folded-clos",
        "options": {"children": list(tree.children), "parents": list(tree.parents)},
        "bandwidth": [f"{64 * host:.2f} GB/s", *["64 GB/s"] * len(tree.parents)],
        "latency": "20 ns",
        "flit": f"{FLIT} B",
        "packet": "256 B",
        "router": {"vcs": 16, "buffer": 64, "internal_speedup": 2},
        "reroute": reroute,
    }


def built(network: dict[str, Any]) -> Topology:
    """Return the topology of a network."""
    load_all()
    message = [{"src": 0, "dst": 1, "size": "1 B"}]
    return network_of(load_experiment({"network": network, "message": message}, ()).network)


def failed(topology: Topology, count: int, seed: int) -> tuple[list[dict[str, Any]], Degraded]:
    """Return cables that are down, as faults, and the routes around them."""
    cables = np.random.default_rng(seed).choice(topology.links // 2, count, replace=False) * 2
    down = np.concatenate([cables, cables + 1]).astype(np.int64)
    faults = [{"link": topology.link_name[link], "down": True} for link in cables.tolist()]
    return faults, degraded(topology.relation, down, "least")


def permutation_of(npus: int, seed: int = 3) -> list[int]:
    """Return a random permutation in which no NPU sends to itself."""
    random, goal = np.random.default_rng(seed), np.arange(npus)
    while (goal == np.arange(npus)).any():
        goal = random.permutation(npus)
    return [int(npu) for npu in goal]


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of a permutation, in flits per cycle and NPU.

    Attributes
    ----------
    pairs
        float64[NPUs]: those that arrived at each NPU in the steady part of the run.
    equal, total
        The maximum concurrent flow, and the maximum total flow on average.
    arriving, window
        Those that arrived on average, by windows of so many cycles.
    """

    pairs: FloatArray
    equal: float
    total: float
    arriving: FloatArray
    window: int


def permutation(
    tree: Tree, count: int, seed: int, size: int, selection: str, *, full: bool = False, goal_seed: int = 3
) -> Rates:
    """Measure the rates of a permutation around failed cables.

    Parameters
    ----------
    tree, count, seed
        The network, how many of its cables are down, and the seed of their draw.
    size
        Bytes of each message.
    selection
        Which of `SELECTIONS` routers use.
    full
        Whether NPUs send as fast as they can; else at the rate of the maximum concurrent flow, so that none takes more
        of a link than its share of it.
    goal_seed
        Seed of the permutation.
    """
    topology = built(tree_network(tree))
    faults, routes = failed(topology, count, seed)
    goal = permutation_of(topology.npus, goal_seed)
    allowed: BoolArray = routes.allowed
    equal = equal_rate(topology, allowed, goal)
    total = total_rate(topology, allowed, goal) if full else equal
    rate = 1.0 if full else floor(6400 * equal + 1e-6) / 6400
    work = [{"src": src, "dst": dst, "size": f"{size} B"} for src, dst in enumerate(goal)]
    network = tree_network(tree, rate, **SELECTIONS[selection])
    result = pyxsim.run({"network": network, "message": work, "faults": faults, "output": {"window": "500 ns"}})
    length = result.windows.length
    arriving = np.asarray(result.windows.counts["flits"])[:, topology.links + topology.npus :] / length
    ideal = size / FLIT / rate  # no message ends before
    steady = arriving[int(0.2 * ideal / length) : int(0.8 * ideal / length)]
    return Rates(steady.mean(axis=0), equal, total, arriving.mean(axis=1), int(length))
