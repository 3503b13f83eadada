"""The flow backend: alone as the analytical one, shared links by max-min fairness, what links carry, and when."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim import library
from pyxsim.errors import SimulationError
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.network.fluid.flow import FlowNetwork
from pyxsim.routing import expected_loads
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from tests.examples import part_of

library.load_all()


def made(table: dict[str, Any]) -> tuple[Topology, Network]:
    settings = Network.model_validate(table)
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in settings.dims or ()]
    topology = build(settings.topology, settings.shape, dims or None, settings.options)
    return topology.routed(settings.router.routing, settings.router.routing_options), settings


def network(window: int = 1000, **table: Any) -> FlowNetwork:
    return FlowNetwork(*made({"bandwidth": "1 GB/s", "latency": "5 ns", **table}), window=window)


TOGETHER = {"sending": "together"}


def ends(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    return np.array([src for src, _ in pairs]), np.array([dst for _, dst in pairs])


def send(net: DelayedNetwork, size: int, *pairs: tuple[int, int], plane: int = 0, at: int = 0) -> None:
    """Messages of equal size, in one cycle."""
    src, dst = ends(*pairs)
    net.send_many(src, dst, np.full(len(src), size), np.full(len(src), plane), at)


def drain(net: DelayedNetwork) -> dict[int, int]:
    """The cycle of each message."""
    found: dict[int, int] = {}
    while len((arrived := net.advance(None))[0]):
        found |= dict(zip(arrived[0].tolist(), arrived[1].tolist(), strict=True))
    return found


# -- alone -------------------------------------------------------------------------------------------------------------

BLOCK = st.fixed_dictionaries(
    {
        "block": st.sampled_from(["ring", "fully-connected", "switch", "mesh"]),
        "npus": st.integers(2, 5),
        "bandwidth": st.sampled_from(["1 GB/s", "7 GB/s", "12.5 GiB/s", "1/3 GB/s"]),
        "latency": st.sampled_from(["1 ns", "2.5 ns", "1/3 us", "0.1 ns"]),
    }
)
PRODUCTS = st.lists(BLOCK, min_size=1, max_size=3).map(lambda dims: {"dims": dims})
WHOLE: list[dict[str, Any]] = [
    {"topology": "dragonfly", "options": {"p": 2, "a": 2, "h": 1}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "leaf-spine", "options": {"npus": 6, "leaves": 3, "spines": 2}},
    {"topology": "concentrated-mesh", "options": {"routers": [2, 2], "concentration": 2}},
    {"topology": "hyperx", "options": {"routers": [2, 3]}},
    {"topology": "garnet-torus", "shape": [2, 2, 2]},
    {"topology": "torus", "shape": [4, 3], "router": {"routing": "minimal-adaptive"}},
    {"topology": "mesh", "shape": [3, 3], "router": {"routing": "xy-yx"}},
]
NETWORKS = PRODUCTS | st.sampled_from(WHOLE).map(
    lambda table: {**table, "bandwidth": "12.5 GiB/s", "latency": "1/3 us"}
)


@settings(max_examples=part_of(80), deadline=None)
@given(data=st.data(), table=NETWORKS, sizes=st.lists(st.integers(1, 2**40), min_size=1, max_size=5))
def test_alone_a_message_takes_what_the_analytical_backend_says(
    data: st.DataObject, table: dict[str, Any], sizes: list[int]
) -> None:
    topology, settings = made(table)
    flow, analytical = FlowNetwork(topology, settings), AnalyticalNetwork(topology, settings)
    planes = {queue.plane for queues in topology.queues for queue in queues}
    pairs = [pair for pair in topology.pairs().tolist() if pair[2] in planes]
    pairs = pairs or [(src, dst, -1) for src, dst, plane in topology.pairs().tolist() if plane == 0]
    for size in sizes:
        src, dst, plane = data.draw(st.sampled_from(pairs))
        times = []
        for net in (flow, analytical):
            begin = net.now
            net.send(src, dst, size, plane=plane, at=begin)
            (cycle,) = drain(net).values()
            times.append(cycle - begin)
        assert times[0] == times[1]


def line(path: Any) -> dict[str, Any]:
    """0 to 1 to 2: 4 and 1 bytes per cycle."""
    graph = nx.DiGraph()
    for a, b, width, late in ((0, 1, "4 GB/s", "10 ns"), (1, 2, "1 GB/s", "5 ns"), (1, 0, "", ""), (2, 1, "", "")):
        graph.add_edge(a, b, **({"bandwidth": width, "latency": late} if width else {}))
    nx.write_graphml(graph, path)
    return {"topology": "graph", "options": {"file": str(path)}, "bandwidth": "2 GB/s", "latency": "100 ns"}


def test_links_of_their_own(tmp_path: Any) -> None:
    net = network(**line(tmp_path / "line.graphml"), analytical=TOGETHER)
    send(net, 1000, (0, 2), (0, 1))
    # The one to 2 has no more than 1 byte per cycle anyway; the other has the 3 that are left.
    assert drain(net) == {0: 15 + 1000, 1: 10 + floor(Fraction(1000, 3))}


# -- together ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["switch", "fully-connected", "ring"])
def test_incast(topology: str) -> None:
    """All to NPU 0: as long as the bytes take over the links into it."""
    net = network(topology=topology, shape=[9])
    send(net, 9000, *[(source, 0) for source in range(1, 9)])
    last = max(drain(net).values())
    assert last == {"switch": 8 * 9000 + 10, "fully-connected": 9000 + 5, "ring": 4 * 9000 + 4 * 5}[topology]


def test_all_to_all_over_a_switch() -> None:
    """At once, and one after the other: who sends in the order of a permutation is in nobody's way."""
    net = network(topology="switch", shape=[16], analytical=TOGETHER)
    send(net, 1000, *[(a, b) for a in range(16) for b in range(16) if a != b])
    assert set(drain(net).values()) == {15 * 1000 + 10}
    net = network(topology="switch", shape=[16])
    send(net, 1000, *[(a, (a + b) % 16) for a in range(16) for b in range(1, 16)])
    assert sorted(drain(net).values()) == [1000 * step + 10 for step in range(1, 16) for _ in range(16)]


def test_messages_of_one_lane_leave_one_after_the_other() -> None:
    """Clockwise 0 to 1, then 0 to 2, which has the link from 1 to 2 alone when that from 1 has gone; back is free."""
    net = network(topology="ring", shape=[6])
    send(net, 1000, (0, 1), (0, 2), (1, 2), (0, 5))
    assert drain(net) == {0: 1005, 1: 2010, 2: 1005, 3: 1005}


def test_what_may_leave_by_several_links_takes_their_lanes_by_turns() -> None:
    """To 15 and to 11, both up and right from 0: lanes by the parity of the destination, so the same one."""
    net = network(topology="mesh", shape=[4, 4], router={"routing": "minimal-adaptive"})
    send(net, 1000, (0, 15), (0, 11), plane=-1)
    assert net.model.engine.messages().tolist() == [1, 0]
    assert drain(net) == {0: 1030, 1: 2025}


def test_a_lane_with_room_lets_the_next_message_start() -> None:
    """Clockwise: 0 to 3 shares the link from 2 to 3 with two others; what is left of the lane is for 0 to 1."""
    net = network(topology="ring", shape=[8])
    send(net, 900, (0, 3), (0, 1), (1, 3), (2, 3))
    # A half of the link from 1 to 2, a third of the one after it.
    assert drain(net) == {0: 2715, 1: 1355, 2: 2710, 3: 2705}


def test_two_lanes_that_crowd_one_link_and_then_another(tree: Path) -> None:
    """The example of the page: fluids fill both links all the time, packets one after the other."""
    sends = [{"src": src, "dst": dst, "size": "1 MiB"} for src in (0, 1) for dst in (2, 3)]
    switch = {"topology": "switch", "shape": [4], "bandwidth": "100 GB/s", "latency": "100 ns"}
    times = {
        backend: pyxsim.run({"network": switch, "message": sends}, backend=backend).time_ns
        for backend in ("flow", "packet", "analytical-congestion")
    }
    bytes_ns = 2**20 / 100
    assert times["flow"] == floor(2 * bytes_ns + 200)
    assert times["packet"] > 1.95 * times["flow"]
    page = (tree / "docs" / "flow.md").read_text(encoding="utf-8")
    assert all(f"{time / 1000:.1f} us" in page for time in times.values())


def test_a_permutation_over_a_fat_tree_runs_at_full_speed() -> None:
    """Messages spread over all roots: with full bisection none is in the way of another."""
    net = network(topology="k-ary-n-tree", shape=None, options={"k": 4, "n": 2})
    send(net, 4000, *[(npu, (npu + 5) % 16) for npu in range(16)], plane=-1)
    times = drain(net)
    assert {times[npu] for npu in range(16) if npu // 4 != (npu + 5) % 16 // 4} == {4000 + 10}


def test_npus_at_one_router_have_a_lane_out_and_a_lane_in() -> None:
    times = []
    for sending in ("together", "in-order"):
        net = network(topology="k-ary-n-tree", options={"k": 4, "n": 1}, analytical={"sending": sending})
        send(net, 100, (0, 1), (0, 2), (1, 2), (3, 0))
        times.append(drain(net))
        assert net.totals()["flits"].tolist() == []
    # 0 sends twice and 2 receives twice; nothing is in the way of 3 to 0.
    assert times == [{0: 200, 1: 200, 2: 200, 3: 100}, {0: 100, 1: 200, 2: 100, 3: 100}]


def test_lanes_are_as_wide_as_the_links_of_their_router() -> None:
    """What goes out over several links of a router is no more than the NPU's lane carries."""
    net = network(topology="leaf-spine", options={"npus": 3, "leaves": 2, "spines": 3}, analytical=TOGETHER)
    send(net, 1000, (0, 3), (0, 4), (0, 1), plane=-1)
    assert drain(net) == {0: 3010, 1: 3010, 2: 3000}


ROUTINGS: list[dict[str, Any]] = [
    {"topology": "torus", "shape": [4, 3], "router": {"routing": "valiant"}},
    {"topology": "torus", "shape": [4, 4], "router": {"routing": "romm"}},
    {"topology": "mesh", "shape": [4, 2], "router": {"routing": "xy-yx"}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "leaf-spine", "options": {"npus": 8, "leaves": 4, "spines": 3}},
]


@pytest.mark.parametrize("table", ROUTINGS, ids=lambda table: table["topology"])
def test_links_carry_what_is_expected_of_the_routing(table: dict[str, Any]) -> None:
    net = network(**table, flit="10 B")
    npus, rng = net.npus, np.random.default_rng(1)
    matrix = rng.integers(0, 1000, (npus, npus)) * (1 - np.eye(npus, dtype=np.int64))
    src, dst = (np.ascontiguousarray(each) for each in np.nonzero(matrix))
    net.send_many(src, dst, matrix[src, dst] * 10, np.full(len(src), -1), 0)
    drain(net)
    wanted, _ = expected_loads(net.topology.relation, matrix, -1)
    assert wanted is not None
    np.testing.assert_allclose(net.totals()["flits"], wanted, rtol=0, atol=0.5 + 1e-6)
    assert net.counts()["flits"] == int(matrix.sum())


def test_a_spread_message_pays_the_latency_of_its_longest_path() -> None:
    net = network(topology="ring", shape=[6], router={"routing": "valiant"})
    send(net, 10**6, (0, 1), plane=-1)
    # From 0 to 3 and on to 1 are five links. It takes both ways out, but has one lane.
    assert drain(net) == {0: 25 + 10**6}


def test_messages_that_adapt_share_what_all_their_ways_carry() -> None:
    """Two from corner to corner of a square: half of each over either side."""
    net = network(topology="mesh", shape=[2, 2], router={"routing": "minimal-adaptive"}, analytical=TOGETHER)
    send(net, 1000, (0, 3), (1, 2), plane=-1)
    assert drain(net) == {0: 1010, 1: 1010}
    send(net, 1000, (0, 3), (0, 1), plane=-1, at=2000)
    # On the link from 0 to 1 half of one and all of the other: 2/3 of a byte per cycle each.
    assert drain(net) == {2: 2000 + 1510, 3: 2000 + 1505}


# -- whole collectives -------------------------------------------------------------------------------------------------


def experiment(kind: str, algorithm: str, size: str, **table: Any) -> dict[str, Any]:
    return {
        "network": {"bandwidth": "50 GB/s", "latency": "500 ns", **table},
        "system": {kind.replace("-", "_"): algorithm},
        "collective": {"kind": kind, "size": size},
    }


@pytest.mark.parametrize(
    ("algorithm", "topology"), [("ring", "ring"), ("direct", "fully-connected"), ("halving-doubling", "switch")]
)
@pytest.mark.parametrize("size", ["1 B", "1000003 B", "16 MiB"])
def test_collectives_without_contention_are_those_of_the_analytical_backend(
    algorithm: str, topology: str, size: str
) -> None:
    tables = experiment("all-reduce", algorithm, size, topology=topology, shape=[8])
    flow, analytical = (pyxsim.run(tables, backend=name) for name in ("flow", "analytical"))
    assert flow.time_cycles == analytical.time_cycles


def test_direct_over_a_switch_is_close_to_its_bound() -> None:
    """The links of an NPU carry (n-1)/n of the size twice: 39 375 us of 1 GiB over 50 GiB/s, and four latencies."""
    tables = experiment("all-reduce", "direct", "1 GiB", topology="switch", shape=[64], bandwidth="50 GiB/s")
    result = pyxsim.run(tables, backend="flow")
    assert 39_375_000 + 4 * 500 - 2 <= result.time_ns <= 39_375_000 + 4 * 500


# -- what links carry, and when ----------------------------------------------------------------------------------------


def test_windows_have_what_links_carried_in_them() -> None:
    net = network(window=100, topology="switch", shape=[4], flit="10 B")
    send(net, 100, (0, 3), (1, 3))
    send(net, 250, (0, 2), at=300)
    assert drain(net) == {0: 210, 1: 210, 2: 560}
    net.finish(net.now)
    windows = net.windows.table()
    names = ("d0up:(0)->(*)", "d0up:(1)->(*)", "d0down:(*)->(3)", "d0down:(*)->(2)")
    up, other, down, later = (net.topology.link_name.index(name) for name in names)
    rows = windows.counts["flits"].astype(int)
    assert rows[:, up].tolist() == [5, 5, 0, 10, 10, 5]
    assert rows[:, other].tolist() == [5, 5, 0, 0, 0, 0]
    assert rows[:, down].tolist() == [10, 10, 0, 0, 0, 0]
    assert rows[:, later].tolist() == [0, 0, 0, 10, 10, 5]
    assert rows.sum(axis=0).tolist() == net.totals()["flits"].tolist()


def test_windows_while_nothing_is_told() -> None:
    """A caller that lets time pass bit by bit."""
    net = network(window=100, topology="ring", shape=[4], flit="10 B")
    send(net, 1000, (0, 1))
    for cycle in range(0, 1000, 37):
        assert not len(net.advance(cycle)[0])
        assert net.now == cycle
    assert drain(net) == {0: 1005}
    net.finish(net.now)
    rows = net.windows.table().counts["flits"].astype(int)
    assert rows[:, net.topology.link_name.index("d0+:(0)->(1)")].tolist() == [10] * 10 + [0]


def test_counts() -> None:
    net = network(topology="ring", shape=[4], flit="16 B")
    src, dst = ends((0, 1), (0, 2), (0, 3))
    net.send_many(src, dst, np.array([16, 32, 17]), np.zeros(3, np.int64), 0)
    drain(net)
    assert net.counts() == {
        "npus": 4,
        "messages": 3,
        "packets": 3,
        "flits": 5,
        "flit_hops": 1 + 4 + 2,
        "router_visits": 0,
        "bytes_delivered": 65,
        "skipped_cycles": 0,
        "threads": 1,
    }


def test_a_message_that_takes_too_long() -> None:
    with pytest.raises(SimulationError, match="takes more cycles than can be counted"):
        send(network(topology="ring", shape=[4]), 2**61, (0, 1))
    net = network(topology="ring", shape=[4], analytical=TOGETHER)
    send(net, 2**59, (0, 1), (0, 1), (0, 1))
    with pytest.raises(SimulationError, match="take more cycles than can be counted"):
        drain(net)


def test_more_links_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyxsim.network.fluid.filling.MOST_STEPS", 3)
    net = network(topology="ring", shape=[8])
    with pytest.raises(SimulationError, match="more than 3 links together"):
        send(net, 1, (0, 4))
