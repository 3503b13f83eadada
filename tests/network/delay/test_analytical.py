"""The analytical backend: what a message takes on each kind of network, by whose arithmetic, and what is counted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, SimulationError
from pyxsim.network.delay import unaware as delays
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.link_paths import routes
from pyxsim.settings import Network
from tests.examples import part_of
from tests.network.delay.networks import OTHERS, delay, dims, network, topology_of

GIB = 2**30
BLOCKS = ("ring", "fully-connected", "switch", "mesh")


# -- one dimension -----------------------------------------------------------------------------------------------------


def expected_hops(block: str, npus: int, src: int, dst: int) -> int:
    apart = abs(src - dst)
    return {"ring": min(apart, npus - apart), "fully-connected": 1, "switch": 2, "mesh": apart}[block]


@settings(max_examples=part_of(60), deadline=None)
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


@settings(max_examples=part_of(30), deadline=None)
@given(blocks=st.lists(DIMENSION, min_size=1, max_size=3), size=st.integers(1, 10**6))
def test_coordinates_say_what_routes_say(blocks: list[tuple[str, int, str, str]], size: int) -> None:
    table = Network.model_validate({"dims": dims(*blocks)})
    topology = topology_of({"dims": dims(*blocks)})
    src, dst, plane = np.ascontiguousarray(topology.pairs().T)
    times = []
    for model in (delays.unaware(topology, table, None), delays.Routed(topology, table, None)):
        model.extend(src, dst, plane)
        times.append(model.engine.rule.times(np.arange(len(src)), np.full(len(src), size)).tolist())
    assert times[0] == times[1]


# -- other networks ----------------------------------------------------------------------------------------------------


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
    steps = routes(topology.relation, src, dst, plane)
    lengths = np.where(steps < 0, 0, topology.link_length[steps]).sum(axis=1)
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
        (None, {"nic_latency": "1 ns"}, "network.analytical.nic_latency: applies only to the delays of ASTRA-sim 1"),
        ("astra-sim-2", {"hbm_scale": 1}, 'hbm_scale: .* allowed: no value, or system.compat = "astra-sim-1"'),
        ("astra-sim-1", {"hbm_scale": 1}, "network.analytical.hbm_bandwidth: is missing, but hbm_scale is not 0"),
        ("astra-sim-1", {"nic_latency": ["1 ns"] * 3}, "the list has 3 entries, but the network has 2 dimensions"),
        ("astra-sim-3", {}, "do not reproduce the arithmetic of 'astra-sim-3'"),
    ],
)
def test_what_is_refused(compat: str | None, extra: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        network(compat, topology="torus", shape=[2, 2], analytical=extra)


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
        "threads": 1,
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
    assert {(wire.s, wire.latency) for wire in net.link_params} == {(16, 5)}
    assert net.buffer_max().tolist() == [0] * 8


def test_a_pair_without_a_way_spoils_no_statistics() -> None:
    net = network(topology="garnet-torus", shape=[2, 2, 2], flit="64 B")
    net.send(1, 0, 100, at=0)
    with pytest.raises(SimulationError, match="no route from NPU 3 to NPU 0"):
        net.send(3, 0, 100, at=0)
    assert net.totals()["flits"].sum() == 2


def test_windows() -> None:
    table = {"topology": "switch", "shape": [4], "bandwidth": "1 GB/s", "latency": "5 ns", "flit": "50 B"}
    topology = topology_of(table)
    net = AnalyticalNetwork(topology, Network.model_validate(table), window=100)
    net.send(0, 3, 100, at=0)
    net.send(1, 3, 100, at=0)
    assert net.advance(None)[1].tolist() == [110, 110]
    net.send(0, 3, 100, at=450)
    while len(net.advance(None)[0]):
        pass
    net.finish(net.now)
    windows = net.windows.table()
    up, _, down = (topology.link_name.index(name) for name in ("d0up:(0)->(*)", "d0up:(1)->(*)", "d0down:(*)->(3)"))
    rows = windows.counts["flits"].astype(int)
    assert rows[:, up].tolist() == [2, 0, 0, 0, 2, 0] + [0] * (len(rows) - 6)
    # A message is booked when it is sent.
    assert rows[:, down].tolist() == [4, 0, 0, 0, 2, 0]
    assert rows.sum(axis=0).tolist() == net.totals()["flits"].tolist()


def test_what_an_npu_can_send() -> None:
    table = dims(
        ("ring", 4, "8 GB/s", "1 ns"), ("switch", 3, "2 GB/s", "1 ns"), ("fully-connected", 5, "4 GB/s", "1 ns")
    )
    assert network(dims=table).injection_bandwidths() == [16, 2, 16]
    # Both directions of a ring are one link there.
    assert network("astra-sim-1", dims=table).injection_bandwidths() == [8, 2, 16]


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
    wire = net.link_params[0]
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
    table = {"topology": "ring", "shape": [4]}
    net = AnalyticalNetwork(topology_of(table), Network.model_validate(table), tick=lambda: ticks.append(net.now))
    net.send(0, 1, 1000, at=0)
    net.advance(None)
    assert ticks == [510]
