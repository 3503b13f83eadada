"""The optimum of a collective: published figures, closed forms, and simulated times that are never below it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.analysis.optimum import NetworkOptimum
from pyxsim.collective.communicator import Communicator
from pyxsim.network.link_paths import link_rates_of
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from tests.examples import part_of
from tests.runner.experiments import networks

GB = 10**9
KINDS = (
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
    *("broadcast", "reduce", "gather", "scatter", "barrier"),
)


def optimum_of(network: dict[str, Any], *, thorough: bool = False) -> tuple[NetworkOptimum, Any]:
    settings = load_experiment({"network": network, "collective": {"kind": "barrier"}}).network
    topology = network_of(settings, None).with_hosts()
    rates, latencies = link_rates_of(topology, settings)
    return NetworkOptimum(topology, rates, latencies, thorough=thorough), Communicator.whole(topology.shape)


def per_byte(network: dict[str, Any], kind: str, **options: Any) -> tuple[Fraction, str]:
    """Cycles (of 1 GHz, so ns) per byte, and what limits."""
    bounds, group = optimum_of({"clock": "1 GHz", "bandwidth": "1 GB/s", "flit": "4 B", **network})
    limit = bounds.limit(kind, group, **options)
    assert limit is not None
    return limit.per_byte, limit.limit


TORUS = {"topology": "torus", "shape": [4, 4, 4]}
SWITCH = {"topology": "switch", "shape": [8]}
MESH = {"topology": "mesh", "shape": [4, 4]}
DGX = {
    "dims": [
        {"block": "switch", "npus": 8, "bandwidth": "12 GB/s"},
        {"block": "switch", "npus": 4, "bandwidth": "1 GB/s"},
    ]
}


@pytest.mark.parametrize(
    ("network", "kind", "wanted"),
    [
        # Of a block from each of n: n - 1 come over the six links of an NPU.
        (TORUS, "all-gather", Fraction(63, 6)),
        (TORUS, "reduce-scatter", Fraction(63, 6)),
        (TORUS, "all-reduce", Fraction(2 * 63, 64 * 6)),
        # A quarter of the NPUs must send to a distance of 1, two quarters..: 1 hop on average in each of 3 dimensions.
        (TORUS, "all-to-all", Fraction(64 * 3, 6)),
        (TORUS, "broadcast", Fraction(1, 6)),
        (TORUS, "reduce", Fraction(1, 6)),
        (TORUS, "gather", Fraction(63, 6)),
        (TORUS, "scatter", Fraction(63, 6)),
        (TORUS, "barrier", Fraction(0)),
        (SWITCH, "all-gather", Fraction(7)),
        (SWITCH, "all-reduce", Fraction(2 * 7, 8)),
        (SWITCH, "all-to-all", Fraction(7)),
        # A corner has two links; trees in which all links take part both ways beat reduce-scatter and all-gather.
        (MESH, "all-gather", Fraction(15, 2)),
        (MESH, "all-reduce", Fraction(2 * 15, 48)),
        # Four boxes: three quarters of the data over 8 links of 1; 24 blocks for each of 8 NPUs over them.
        (DGX, "all-gather", Fraction(24, 8)),
        (DGX, "all-reduce", Fraction(2 * 3, 4 * 8)),
        (DGX, "all-to-all", Fraction(8 * 24, 8)),
    ],
)
def test_closed_forms(network: dict[str, Any], kind: str, wanted: Fraction) -> None:
    assert per_byte(network, kind)[0] == wanted


def test_a_switch_that_adds_carries_everything_once() -> None:
    assert per_byte(SWITCH, "all-reduce", in_network=True)[0] == 1


def test_the_limit_is_named() -> None:
    assert per_byte(DGX, "all-gather")[1] == "bottleneck cut before 8 of 32 NPUs"
    assert per_byte(DGX, "all-reduce")[1] == "links out of 4 groups of NPUs"
    assert per_byte(DGX, "all-to-all")[1] == "cut before 8 of 32 NPUs"
    assert per_byte(TORUS, "all-reduce")[1] == "links out of 64 NPUs"


def test_host_links_count() -> None:
    """A fat tree whose hosts are slower than its switches."""
    tree = {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}, "bandwidth": ["1 GB/s", "9 GB/s", "9 GB/s"]}
    assert per_byte(tree, "all-gather")[0] == 7


def test_a_group_may_use_all_links() -> None:
    """Two neighbors of a ring: directly, and the other way around."""
    bounds, _ = optimum_of({"topology": "ring", "shape": [6], "clock": "1 GHz", "bandwidth": "1 GB/s", "flit": "4 B"})
    limit = bounds.limit("all-gather", Communicator.of((0, 1), (6,)))
    assert limit is not None
    assert limit.per_byte == Fraction(1, 2)


@pytest.mark.parametrize("kind", ["all-to-all", "all-reduce", "all-gather"])
def test_no_bound_without_a_way_back(kind: str) -> None:
    """NPUs of a butterfly send into its first stage and receive from its last one: no path leads back to a node."""
    network = {"topology": "butterfly", "options": {"k": 2, "n": 3}}
    prepared = prepare(load_experiment({"network": network, "collective": {"kind": kind, "size": "64 KiB"}}))
    assert isinstance(prepared, Prepared)
    optimum = prepared.optimum()
    assert optimum is not None
    assert (optimum.cycles, optimum.limit) == (0, "")


def test_latency_alone() -> None:
    """Half around a ring of 8 with 500 ns each, for a barrier and for a byte."""
    bounds, group = optimum_of({"topology": "ring", "shape": [8], "clock": "1 GHz"})
    limit = bounds.limit("barrier", group)
    assert limit is not None
    assert limit.optimum(0, 0).cycles == 4 * 500
    assert limit.optimum(0, 0).limit == "latency between the farthest NPUs"


def test_collectives_at_once_add_up_at_their_npus() -> None:
    """Two groups of two on one switch: each NPU is in one; two collectives of all: twice the bytes."""
    network = {"topology": "switch", "shape": [4], "bandwidth": "1 GB/s", "clock": "1 GHz", "flit": "4 B"}
    twice = [{"kind": "all-reduce", "size": "4 kB"}, {"kind": "all-gather", "size": "1 kB"}]
    prepared = prepare(load_experiment({"network": network, "collective": twice}), backend="flow")
    assert isinstance(prepared, Prepared)
    optimum = prepared.optimum()
    assert optimum is not None
    # An NPU receives 4 kB of sums at least, and 3 kB of shards.
    assert optimum.cycles >= 7000
    assert simulate(prepared).time_cycles >= optimum.cycles


ALGORITHMS = {
    "broadcast": ("ring", "binomial-tree", "double-binary-tree", "direct"),
    "reduce": ("ring", "binomial-tree", "double-binary-tree", "direct"),
    "gather": ("ring", "binomial-tree", "direct"),
    "scatter": ("ring", "binomial-tree", "direct"),
    "barrier": ("direct", "bruck", "ring"),
    "all-reduce": ("ring", "direct", "halving-doubling", "double-binary-tree", "bruck", "one-ring", "one-bruck"),
    "all-gather": ("ring", "direct", "halving-doubling", "bruck", "one-direct"),
    "reduce-scatter": ("ring", "direct", "halving-doubling", "bruck", "one-direct"),
    "all-to-all": ("ring", "direct", "bruck", "one-direct"),
}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(KINDS))
    network = draw(networks(most=12, dims=2))
    network |= {"header": "0 B"}
    algorithm = draw(st.sampled_from(ALGORITHMS[kind]))
    collective: dict[str, Any] = {"kind": kind}
    if kind != "barrier":
        collective["size"] = f"{draw(st.integers(1, 5000))} B"
    return {"network": network, "system": {kind.replace("-", "_"): algorithm}, "collective": collective}


@given(tables(), st.sampled_from(["packet", "flow", "analytical-congestion"]))
@settings(max_examples=part_of(300))
def test_no_simulated_collective_is_faster(experiment: dict[str, Any], backend: str) -> None:
    check(experiment, backend)


def check(experiment: dict[str, Any], backend: str) -> None:
    prepared = prepare(load_experiment(experiment), backend=backend)
    assert isinstance(prepared, Prepared)
    quick, thorough = prepared.optimum(), prepared.optimum(thorough=True)
    assert quick is not None
    assert thorough is not None
    assert quick.cycles <= thorough.cycles
    result = simulate(prepared)
    assert result.time_cycles >= thorough.cycles, thorough
    assert result.of_optimum is None or result.of_optimum <= 1


@given(st.data())
@settings(max_examples=part_of(200))
def test_no_collective_is_faster_on_a_random_graph(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """NPUs and switches with links of different bandwidths, and without some of them."""
    npus, switches = data.draw(st.integers(2, 6)), data.draw(st.integers(0, 3))
    graph = nx.Graph()
    nodes = npus + switches
    for node in range(nodes):
        graph.add_node(node, npus=int(node < npus))
    for node in range(1, nodes):
        graph.add_edge(node, data.draw(st.integers(0, node - 1)))
    for a, b in data.draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=8)):
        if a != b:
            graph.add_edge(a, b)
    for edge in graph.edges:
        graph.edges[edge]["bandwidth"] = f"{data.draw(st.integers(1, 4))} GB/s"
    file = tmp_path_factory.mktemp("graph") / "net.graphml"
    nx.write_graphml(graph, file)
    kind = data.draw(st.sampled_from(KINDS))
    collective = {"kind": kind} | ({} if kind == "barrier" else {"size": f"{data.draw(st.integers(1, 3000))} B"})
    network = {"topology": "graph", "options": {"file": str(file)}, "clock": "1 GHz", "flit": "4 B", "packet": "16 B"}
    algorithm = data.draw(st.sampled_from(ALGORITHMS[kind]))
    system = {kind.replace("-", "_"): algorithm}
    check(
        {"network": network | {"latency": "3 ns"}, "system": system, "collective": collective},
        data.draw(st.sampled_from(["packet", "flow"])),
    )
