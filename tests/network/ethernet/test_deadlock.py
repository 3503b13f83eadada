"""PFC deadlock: the proof against a search of single routes, and runs that deadlock or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim.library import load_all
from pyxsim.network.ethernet.config import DATA_CLASS, EthernetConfig, make_config
from pyxsim.network.ethernet.deadlock import pause_cycle
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.topology import build, graph_network
from pyxsim.topology.routings import graph_routings
from pyxsim.topology.topology import Topology

Pairs = list[tuple[int, int]]
ROUTINGS = graph_routings("minimal")


def config_of(topology: Topology) -> EthernetConfig:
    settings = load_experiment({"network": {"topology": "ring", "shape": [4]}, "message": [message(0, 1)]}).network
    return make_config(topology, settings, seed=1)


def message(src: int, dst: int, size: str = "1 MiB") -> dict[str, Any]:
    return {"src": src, "dst": dst, "size": size}


def graph_of(config: EthernetConfig, pairs: Pairs) -> nx.DiGraph:
    """The dependencies of packets that take every candidate of their routes, one packet after the other."""
    graph = nx.DiGraph()
    for src, dst in {*pairs, *((dst, src) for src, dst in pairs)}:
        group = config.group[dst]
        uplink = config.nodes[config.home[src], 1]
        at = int(config.ports[uplink, 1] if uplink >= 0 else config.home[src])
        front, seen = [(at, -1)], set()
        while front:
            router, came = front.pop()
            number = config.route[router, group]
            for port in config.set_port[config.set_start[number] : config.set_start[number + 1]].tolist():
                if came >= 0:
                    graph.add_edge(came, port)
                if (state := (int(config.ports[port, 1]), port)) not in seen:
                    seen.add(state)
                    front.append(state)
    return graph


def check_proof(config: EthernetConfig, pairs: Pairs | None, npus: int) -> bool:
    """Whether there is a cycle; proof and reference agree."""
    every = [(a, b) for a in range(npus) for b in range(npus) if a != b] if pairs is None else pairs
    cycle = pause_cycle(config, None if pairs is None else np.array(pairs, np.int64))
    graph = graph_of(config, every)
    assert bool(cycle) != nx.is_directed_acyclic_graph(graph)
    for held, wanted in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert graph.has_edge(held, wanted)
    return bool(cycle)


@pytest.mark.parametrize("seed", range(30))
def test_proof_on_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    routers, npus = int(rng.integers(3, 9)), int(rng.integers(3, 12))
    tree = [(int(rng.integers(0, i)), i) for i in range(1, routers)]
    extra = [tuple(sorted(rng.choice(routers, 2, replace=False).tolist())) for _ in range(int(rng.integers(0, 6)))]
    if seed % 2:
        npus, homes = routers, np.arange(routers)  # direct networks: NPUs forward
    else:
        homes = np.sort(rng.integers(0, routers, npus))
    topology = graph_network("random", homes, sorted([*tree, *extra]), ROUTINGS, routers=routers, indirect=not seed % 2)
    config = config_of(topology.with_hosts())
    check_proof(config, None, npus)
    pairs = [tuple(rng.choice(npus, 2, replace=False).tolist()) for _ in range(int(rng.integers(1, 6)))]
    check_proof(config, pairs, npus)


@pytest.mark.parametrize(
    ("name", "options", "free"),
    [
        ("k-ary-n-tree", {"k": 2, "n": 3}, True),
        ("leaf-spine", {"npus": 2, "leaves": 4, "spines": 3}, True),
        ("dragonfly", {"p": 1, "a": 2, "h": 1}, False),
    ],
)
def test_proof_on_known_networks(name: str, options: dict[str, Any], free: bool) -> None:
    load_all()
    topology = build(name, None, None, options, Path()).with_hosts()
    assert check_proof(config_of(topology), None, topology.npus) is not free


def test_acknowledgments_of_another_class_are_apart() -> None:
    """On a ring of five, clockwise messages close one cycle and their acknowledgments the other."""
    ring = graph_network(
        "ring", np.arange(5), [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], ROUTINGS, indirect=True
    ).with_hosts()
    config = config_of(ring)
    one_way = np.array([(0, 2), (1, 3), (2, 4)])
    assert pause_cycle(config, one_way) == []
    halves = np.array([(0, 2), (1, 3), (2, 4), (0, 3), (1, 4)])  # three clockwise, two counterclockwise
    assert config.rules["ack_class"] == DATA_CLASS
    assert len(pause_cycle(config, halves)) == 5
    config.rules["ack_class"] = 0
    assert pause_cycle(config, halves) == []
    config.rules["pfc"] = False
    assert pause_cycle(config, None) == []


def ring_of(folder: Path, *, hop: int = 2, **ethernet: Any) -> dict[str, Any]:
    """Five switches in a ring with two NPUs each, which send `hop` switches clockwise without congestion control."""
    edges = folder / "ring.edges"
    edges.write_text("".join(f"s{i} s{(i + 1) % 5}\n" for i in range(5)))
    return {
        "network": {
            "topology": "graph",
            "options": {"file": str(edges), "npus": 2},
            "bandwidth": "12.5 GB/s",
            "latency": "500 ns",
            "ethernet": {
                "transport": "none",
                "transport_options": {"window": False},
                "buffer": {"capacity": "300 KiB"},
                "ecn": {"enabled": False},
                **ethernet,
            },
        },
        "message": [message(2 * i + k, 2 * ((i + hop) % 5) + k) for i in range(5) for k in range(2)],
    }


@pytest.mark.parametrize("timeout", ["1 ms", "0 ns"])
def test_deadlock_names_the_ports_that_wait(tmp_path: Path, timeout: str) -> None:
    with pytest.raises(pyxsim.DeadlockError, match="15 paused ports can never resume") as caught:
        pyxsim.run(ring_of(tmp_path, timeout=timeout), backend="ethernet")
    names = [f"link:(s{i})->(s{(i + 1) % 5}) class {DATA_CLASS}" for i in range(5)]
    assert caught.value.cycle == names
    assert f"{names[0]} paused by (s1), where packets wait for {names[1]}" in str(caught.value)
    assert caught.value.exit_code == 3
    result = caught.value.result  # type: ignore[attr-defined]
    assert not result.complete
    assert result.warnings[-1].startswith("PFC can deadlock on these routes: 5 links")


@pytest.mark.parametrize("change", [{"buffer": {"capacity": "64 MiB"}}, {"pfc": {"enabled": False}}, {"hop": 1}])
def test_a_cycle_is_not_yet_a_deadlock(tmp_path: Path, change: dict[str, Any]) -> None:
    result = pyxsim.run(ring_of(tmp_path, **change), backend="ethernet")
    assert result.complete
    assert any("PFC can deadlock" in line for line in result.warnings) == ("buffer" in change)


def test_check_shows_the_cycle(tmp_path: Path) -> None:
    report = pyxsim.check(ring_of(tmp_path), backend="ethernet")
    assert report["deadlock_free"] is False
    assert report["deadlock_cycle"] == [f"link:(s{i})->(s{(i + 1) % 5})" for i in range(5)]
    assert "they CAN deadlock under PFC" in str(report)
    off = pyxsim.check(ring_of(tmp_path, pfc={"enabled": False}), backend="ethernet")
    assert off["deadlock_free"] is True
    assert "PFC is off" in str(off)
    free = pyxsim.check(ring_of(tmp_path, hop=1), backend="ethernet")
    assert (free["deadlock_free"], free["deadlock_cycle"]) == (True, [])
    assert "no links can wait for each other under PFC" in str(free)


def paused_network(experiment: dict[str, Any]) -> EthernetNetwork:
    """The network after a run."""
    prepared = prepare(load_experiment(experiment), folder=".", backend="ethernet")
    assert prepared.mode == "closed"
    simulate(prepared, backend="ethernet")
    network = prepared.network
    assert isinstance(network, EthernetNetwork)
    return network


def leaf_spine(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Four leaves with two NPUs each below one spine, whose links are wide."""
    return {
        "network": {
            "topology": "leaf-spine",
            "options": {"npus": 2, "leaves": 4, "spines": 1},
            "bandwidth": ["12.5 GB/s", "100 GB/s"],
            "latency": "500 ns",
            "ethernet": {
                "transport": "none",
                "transport_options": {"window": False},
                "buffer": {"capacity": "1 MiB"},
                "ecn": {"enabled": False},
            },
        },
        "message": messages,
    }


def test_pauses_of_an_incast_are_due_to_its_receiver() -> None:
    """Six NPUs of other leaves send to NPU 0: pauses reach them over two switches, and their root is its host link."""
    network = paused_network(leaf_spine([message(src, 0) for src in range(2, 8)]))
    tree, counters = network.engine.pause_tree(), network.engine.port_counters()
    paused = counters["pauses"] > 0
    down = int(network.arrays.down[0])
    into_leaf = int(np.flatnonzero(paused & (tree["cause"] == down))[0])
    assert network.arrays.ports[into_leaf, 1] == network.arrays.ports[down, 0]
    uplinks = network.arrays.nodes[network.arrays.home[2:], 1]
    assert paused[uplinks].all()
    above = tree["cause"][uplinks]
    assert (tree["cause"][above] == into_leaf).all()
    assert not paused[down]
    assert tree["caused_time"].sum() == counters["paused_time"].sum()
    assert tree["caused_time"][down] > 0.9 * counters["paused_time"].sum()


def test_victims_do_not_hide_the_root() -> None:
    """NPU 2 also sends to NPU 1, whose own link is idle: its pauses are due to NPU 0 all the same."""
    network = paused_network(leaf_spine([*(message(src, 0) for src in range(2, 8)), message(2, 1)]))
    tree, counters = network.engine.pause_tree(), network.engine.port_counters()
    assert tree["caused_time"].sum() == counters["paused_time"].sum()
    assert tree["caused_time"][network.arrays.down[0]] > 0.9 * counters["paused_time"].sum()
