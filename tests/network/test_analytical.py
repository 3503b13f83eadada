"""The analytical backend: what a message takes on each kind of network, by whose arithmetic, and what is counted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.errors import InputError, SimulationError
from pyxsim.network import delays
from pyxsim.network.analytical import AnalyticalNetwork
from pyxsim.network.congestion import CongestionNetwork
from pyxsim.network.ways import routes
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.build import build

library.load_all()

Backend = AnalyticalNetwork | CongestionNetwork
GIB = 2**30
BLOCKS = ("ring", "fully-connected", "switch", "mesh")


def network(compat: str | None = None, *, backend: type[Backend] = AnalyticalNetwork, **table: Any) -> Backend:
    settings = Network.model_validate(table)
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in settings.dims or ()]
    topology = build(settings.topology, settings.shape, dims or None, settings.options)
    return backend(topology, settings, compat=compat)


def dims(*blocks: tuple[str, int, str, str]) -> list[dict[str, Any]]:
    return [dict(zip(("block", "npus", "bandwidth", "latency"), block, strict=True)) for block in blocks]


def delay(net: Backend, src: int, dst: int, nbytes: int) -> int:
    """Cycles that one message takes."""
    start = net.now
    number = net.send(src, dst, nbytes, at=start)
    messages, cycles = net.advance(None)
    assert messages.tolist() == [number]
    return int(cycles[0]) - start


# -- one dimension -----------------------------------------------------------------------------------------------------


def expected_hops(block: str, npus: int, src: int, dst: int) -> int:
    apart = abs(src - dst)
    return {"ring": min(apart, npus - apart), "fully-connected": 1, "switch": 2, "mesh": apart}[block]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), block=st.sampled_from(BLOCKS), npus=st.integers(2, 12), size=st.integers(1, 2**40))
def test_hops_times_latency_and_size_over_bandwidth(data: st.DataObject, block: str, npus: int, size: int) -> None:
    src, dst = data.draw(st.permutations(range(npus)))[:2]
    net = network(dims=dims((block, npus, "30 GB/s", "12.7 ns")))
    exact = expected_hops(block, npus, src, dst) * Fraction("12.7") + Fraction(size, 30)
    assert delay(net, src, dst, size) == math.floor(exact)


@pytest.mark.parametrize("compat", [None, "astra-sim-2", "astra-sim-1"])
def test_the_example_of_the_reference(compat: str | None) -> None:
    # 32 KiB over one hop of 50 GB/s (of 2^30 bytes) and 500 ns: 610.35 + 500.
    net = network(compat, topology="ring", shape=[8], bandwidth="50 GiB/s", latency="500 ns")
    assert delay(net, 7, 0, 32768) == 1110


def test_one_way_round() -> None:
    table = [{"block": "ring", "npus": 5, "bidirectional": False, "bandwidth": "1 GB/s", "latency": "10 ns"}]
    assert delay(network(dims=table), 0, 4, 1) == 41


def test_the_clock() -> None:
    # 4 hops of 2.5 ns are 2.5 cycles of 4 ns; 10 bytes at 1 GB/s as many.
    net = network(topology="mesh", shape=[5], clock="250 MHz", bandwidth="1 GB/s", latency="2.5 ns")
    assert delay(net, 0, 4, 10) == 5


def test_latency_in_cycles() -> None:
    assert delay(network(topology="ring", shape=[4], bandwidth="1 GB/s", latency="3 cycles"), 0, 2, 1) == 7


# -- several dimensions ------------------------------------------------------------------------------------------------

MIXED = dims(
    ("ring", 4, "8 GB/s", "10 ns"), ("switch", 3, "2 GB/s", "100 ns"), ("fully-connected", 5, "4 GB/s", "1 us")
)


def npu(*coords: int) -> int:
    return coords[0] + 4 * coords[1] + 12 * coords[2]


@pytest.mark.parametrize(
    ("coords", "everything", "lowest", "highest"),
    [
        ((2, 0, 0), 20 + 1000, 1020, 1020),
        ((0, 1, 0), 200 + 4000, 4200, 4200),
        ((0, 0, 3), 1000 + 2000, 3000, 3000),
        ((1, 2, 0), 10 + 200 + 4000, 10 + 1000, 200 + 4000),
        ((1, 0, 4), 10 + 1000 + 2000, 10 + 1000, 1000 + 2000),
        ((3, 1, 1), 10 + 200 + 1000 + 4000, 10 + 1000, 1000 + 2000),
    ],
)
def test_which_dimension_counts(coords: tuple[int, ...], everything: int, lowest: int, highest: int) -> None:
    expected = {None: everything, "astra-sim-2": lowest, "astra-sim-1": highest}
    for compat, cycles in expected.items():
        assert delay(network(compat, dims=MIXED), npu(0, 0, 0), npu(*coords), 8000) == cycles


DIMENSION = st.tuples(
    st.sampled_from(BLOCKS),
    st.integers(2, 4),
    st.sampled_from(["1 GB/s", "7 GB/s", "12.5 GiB/s"]),
    st.sampled_from(["1 ns", "2.5 ns", "1/3 us"]),
)


@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(DIMENSION, min_size=1, max_size=3), size=st.integers(1, 10**6))
def test_coordinates_say_what_routes_say(blocks: list[tuple[str, int, str, str]], size: int) -> None:
    table = Network.model_validate({"dims": dims(*blocks)})
    topology = build(None, None, [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in table.dims or ()], {})
    src, dst, plane = np.ascontiguousarray(topology.pairs().T)
    times = []
    for model in (delays.unaware(topology, table, None), delays.Routed(topology, table, None)):
        model.extend(src, dst, plane)
        times.append(model.engine.rule.times(np.arange(len(src)), np.full(len(src), size)).tolist())
    assert times[0] == times[1]


# -- other networks ----------------------------------------------------------------------------------------------------

OTHERS: list[dict[str, Any]] = [
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "concentrated-mesh", "options": {"routers": [2, 2], "concentration": 2}},
    {"topology": "garnet-torus", "shape": [2, 2, 2]},
    {"topology": "torus", "shape": [4, 3]},
]


def topology_of(table: dict[str, Any]) -> Topology:
    settings = Network.model_validate(table)
    return build(settings.topology, settings.shape, None, settings.options)


@pytest.mark.parametrize("table", OTHERS, ids=lambda table: table["topology"])
def test_routes_are_those_of_the_relation(table: dict[str, Any]) -> None:
    topology = topology_of(table)
    rows = topology.pairs() if topology.confined else topology.pairs()[:: topology.planes]
    src, dst, plane = rows.T
    found = routes(topology.relation, src, dst, plane)
    for (a, b, p), steps in zip(rows.tolist(), found.tolist(), strict=True):
        assert [link for link in steps if link >= 0] == [link for link, _ in topology.relation.route(a, b, p)]


@pytest.mark.parametrize("table", OTHERS, ids=lambda table: table["topology"])
def test_a_message_pays_the_links_of_its_route(table: dict[str, Any]) -> None:
    net = network(**table, bandwidth="2 GB/s", latency="50 ns")
    topology = net.topology
    rows = topology.pairs() if topology.confined else topology.pairs()[:: topology.planes]
    src, dst, plane = np.ascontiguousarray(rows.T)
    net.send_many(src, dst, np.full(len(rows), 1000), plane, 0)
    times = np.zeros(len(rows), np.int64)
    while len((arrived := net.advance(None))[0]):
        times[arrived[0]] = arrived[1]
    lengths = np.repeat(0, len(rows))
    relation = topology.relation
    for i, (a, b, p) in enumerate(rows.tolist()):
        lengths[i] = sum(int(topology.link_length[link]) for link, _ in relation.route(a, b, p))
    assert times.tolist() == (50 * lengths + 500).tolist()


def test_the_narrowest_link_counts(tmp_path: Any) -> None:
    path = tmp_path / "line.graphml"
    import networkx as nx

    graph = nx.DiGraph()
    for a, b, width, late in ((0, 1, "4 GB/s", "10 ns"), (1, 2, "1 GB/s", "5 ns"), (1, 0, "", ""), (2, 1, "", "")):
        own = {"bandwidth": width, "latency": late} if width else {}
        graph.add_edge(a, b, **own)
    nx.write_graphml(graph, path)
    net = network(topology="graph", options={"file": str(path)}, bandwidth="2 GB/s", latency="100 ns")
    assert delay(net, 0, 2, 1000) == 15 + 1000
    assert delay(net, 2, 0, 1000) == 200 + 500


# -- ASTRA-sim 1's summands --------------------------------------------------------------------------------------------


def test_interfaces_switches_and_memory() -> None:
    extra = {
        "nic_latency": ["7 ns", "1.5 ns"],
        "router_latency": "11 ns",
        "hbm_latency": "500 ns",
        "hbm_bandwidth": "2 GB/s",
        "hbm_scale": [1, 0.5],
    }
    table = dims(("ring", 4, "8 GB/s", "10.6 ns"), ("switch", 4, "3 GB/s", "20 ns"))
    net = network("astra-sim-1", dims=table, analytical=extra)
    # trunc(trunc(2 * 10.6) + 8 / 8) + 2 * 7, in a ring no switch; the memory takes 500 + 8 / 2.
    assert delay(net, 0, 2, 8) == 504
    # 21 + 2000 + 14 against 500 + 8000; then 40 + 5333 + 3 + 11 against half of 500 + 8000.
    assert delay(net, 0, 2, 16000) == 8500
    assert delay(net, 0, 4, 16000) == 40 + 5333 + 3 + 11


@pytest.mark.parametrize(
    ("compat", "extra", "told"),
    [
        (None, {"nic_latency": "1 ns"}, "network.analytical.nic_latency: belongs to the delays of ASTRA-sim 1"),
        ("astra-sim-2", {"hbm_scale": 1}, 'hbm_scale: .* allowed: nothing here, or system.compat = "astra-sim-1"'),
        ("astra-sim-1", {"hbm_scale": 1}, "network.analytical.hbm_bandwidth: is missing, where hbm_scale is not 0"),
        ("astra-sim-1", {"nic_latency": ["1 ns"] * 3}, "the list has 3 entries, the network 2 dimensions"),
        ("astra-sim-3", {}, "have no arithmetic of 'astra-sim-3'"),
    ],
)
def test_what_is_refused(compat: str | None, extra: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        network(compat, topology="torus", shape=[2, 2], analytical=extra)


# -- congestion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [None, "astra-sim-2"])
def test_two_serialisations_through_a_switch(compat: str | None) -> None:
    net = network(compat, backend=CongestionNetwork, topology="switch", shape=[8], bandwidth="1 GB/s", latency="5 ns")
    assert delay(net, 0, 1, 100) == 2 * (100 + 5)


@pytest.mark.parametrize(("compat", "way"), [(None, -1), ("astra-sim-2", 1)])
def test_ties_go_round_by_the_plane_or_clockwise(compat: str | None, way: int) -> None:
    net = network(compat, backend=CongestionNetwork, topology="ring", shape=[4], bandwidth="1 GB/s", latency="5 ns")
    net.send(0, 2, 100, plane=1, at=0)
    while len(net.advance(None)[0]):
        pass
    carried = np.flatnonzero(net.totals()["flits"])
    assert sorted(net.topology.link_dst[carried].tolist()) == ([1, 2] if way > 0 else [2, 3])


def test_links_are_shared() -> None:
    net = network(backend=CongestionNetwork, topology="ring", shape=[8], bandwidth="1 GB/s", latency="5 ns")
    ends = np.array([0, 0, 7]), np.array([1, 2, 1])
    net.send_many(*ends, np.full(3, 100), np.zeros(3, np.int64), 0)
    found = [tuple(int(part[0]) for part in net.advance(None)) for _ in range(3)]
    # 0 to 1 is there at 105. 0 to 2 leaves at 100, and 7 to 1 waits for both until 200: 305. 0 to 2: 205 + 105.
    assert found == [(0, 105), (2, 305), (1, 310)]


def test_what_stays_at_a_router_queues_for_the_lane_of_its_npu() -> None:
    """Two messages of NPU 0 go one after the other, the one of NPU 1 beside them; no link carries anything."""
    table = {"topology": "k-ary-n-tree", "options": {"k": 4, "n": 1}, "bandwidth": "1 GB/s", "latency": "5 ns"}
    net = network(backend=CongestionNetwork, **table)
    net.send_many(np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 100), np.zeros(3, np.int64), 0)
    found = []
    while len(found) < 3:
        found += list(zip(*(part.tolist() for part in net.advance(None)), strict=True))
    assert sorted(found) == [(0, 100), (1, 200), (2, 100)]
    assert net.totals()["flits"].tolist() == []


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_counts_and_links() -> None:
    net = network(topology="ring", shape=[4], bandwidth="1 GB/s", latency="5 ns", flit="16 B")
    src, dst = np.array([0, 0, 0]), np.array([1, 2, 3])
    net.send_many(src, dst, np.array([16, 32, 17]), np.zeros(3, np.int64), 0)
    assert net.bytes_delivered == 0
    while len(net.advance(None)[0]):
        pass
    assert net.bytes_delivered == 65
    assert net.counts() == {
        "npus": 4,
        "messages": 3,
        "packets": 3,
        "flits": 5,
        "flit_hops": 1 + 4 + 2,
        "router_visits": 0,
        "bytes_delivered": 65,
        "skipped_cycles": 0,
    }
    names = dict(zip(net.topology.link_name, net.totals()["flits"].tolist(), strict=True))
    assert {name: flits for name, flits in names.items() if flits} == {
        "d0+:(0)->(1)": 3,
        "d0+:(1)->(2)": 2,
        "d0-:(0)->(3)": 2,
    }
    net.finish(net.now)
    table = net.windows.table()
    assert len(table) == 1
    assert table.counts["flits"][0].tolist() == net.totals()["flits"].tolist()
    assert {(wire.s, wire.latency) for wire in net.link_wires} == {(16, 5)}
    assert net.buffer_max().tolist() == [0] * 8


@pytest.mark.parametrize("backend", [AnalyticalNetwork, CongestionNetwork])
def test_windows(backend: type[Backend]) -> None:
    table = {"topology": "switch", "shape": [4], "bandwidth": "1 GB/s", "latency": "5 ns", "flit": "50 B"}
    settings = Network.model_validate(table)
    topology = build(settings.topology, settings.shape, None, settings.options)
    net = backend(topology, settings, window=100)
    net.send(0, 3, 100, at=0)
    net.send(1, 3, 100, at=0)
    assert net.advance(None)[1].tolist() == ([110, 110] if backend is AnalyticalNetwork else [210])
    if backend is CongestionNetwork:
        assert net.advance(None)[1].tolist() == [310]
    net.send(0, 3, 100, at=450)
    while len(net.advance(None)[0]):
        pass
    net.finish(net.now)
    windows = net.windows.table()
    up, _, down = (topology.link_name.index(name) for name in ("d0up:(0)->(*)", "d0up:(1)->(*)", "d0down:(*)->(3)"))
    rows = windows.counts["flits"].astype(int)
    assert rows[:, up].tolist() == [2, 0, 0, 0, 2, 0] + [0] * (len(rows) - 6)
    # A message is booked when it is sent, or when its link begins with it.
    expected = [4, 0, 0, 0, 2, 0] if backend is AnalyticalNetwork else [0, 2, 2, 0, 0, 2, 0]
    assert rows[:, down].tolist() == expected
    assert rows.sum(axis=0).tolist() == net.totals()["flits"].tolist()


def test_what_an_npu_can_send() -> None:
    table = dims(
        ("ring", 4, "8 GB/s", "1 ns"), ("switch", 3, "2 GB/s", "1 ns"), ("fully-connected", 5, "4 GB/s", "1 ns")
    )
    assert network(dims=table).npu_bandwidths() == [16, 2, 16]
    # Both directions of a ring are one link there.
    assert network("astra-sim-1", dims=table).npu_bandwidths() == [8, 2, 16]


def test_what_links_carry_is_the_same_by_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(topology="torus", shape=[5, 4, 3], flit="16 B")
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 60, (2, 500))
    src, dst = src[src != dst], dst[src != dst]
    net.send_many(src, dst, rng.integers(1, 1000, len(src)), rng.integers(0, 2, len(src)), 0)
    by_matrix = net.totals()["flits"]
    monkeypatch.setattr(delays, "MOST_NPUS", 1)
    monkeypatch.setattr(delays, "BATCH", 100)
    assert net.totals()["flits"].tolist() == by_matrix.tolist()
    assert by_matrix.any()
    monkeypatch.setattr(delays, "MOST_PAIRS", 1)
    assert not net.totals()["flits"].any()


def test_flit_times_of_fine_fractions() -> None:
    net = network("astra-sim-2", topology="ring", shape=[4], bandwidth="53.333333333333336 GiB/s", latency="936.25 ns")
    wire = net.link_wires[0]
    assert float(wire.s) == pytest.approx(256 / (53.333333333333336 * GIB / 1e9))
    assert max(wire.s.numerator, wire.s.denominator) < 2**31
    assert delay(net, 0, 1, 1) == int(936.25 + 1 / (53.333333333333336 * GIB / 1e9))
    with pytest.raises(InputError, match=r"network.bandwidth: a time .* too fine a fraction to be kept exactly"):
        network(topology="ring", shape=[4], bandwidth="53.333333333333336123456 GiB/s", latency="936.256789 ns")


def test_a_run_in_which_nothing_is_sent() -> None:
    net = network(topology="ring", shape=[4])
    assert [part.tolist() for part in net.advance(70)] == [[], []]
    assert net.now == 70
    net.finish(70)
    assert not net.totals()["flits"].any()


def test_impossible_messages() -> None:
    net = network(topology="ring", shape=[4], bandwidth="1 B/s")
    for src, dst in ((1, 1), (0, 4), (-1, 2)):
        with pytest.raises(ValueError, match="a message"):
            net.send(src, dst, 1, at=0)
    with pytest.raises(SimulationError, match="takes more cycles than can be counted"):
        net.send(0, 1, 2**40, at=0)


def test_progress_is_told() -> None:
    ticks = []
    settings = Network.model_validate({"topology": "ring", "shape": [4]})
    topology = build(settings.topology, settings.shape, None, settings.options)
    net = AnalyticalNetwork(topology, settings, tick=lambda: ticks.append(net.now))
    net.send(0, 1, 1000, at=0)
    net.advance(None)
    assert ticks == [510]
