"""Messages that queue for links: alone they take what the analytical backend says; together they share the links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, SimulationError
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.delay.congestion import CongestionNetwork
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.settings import Network
from tests.examples import part_of
from tests.network.delay.networks import OTHERS, delay, dims, drain, network, topology_of

WHOLE = {"forwarding": "store-and-forward"}
SWITCH = {"topology": "switch", "shape": [8], "bandwidth": "1 GB/s", "latency": "5 ns"}
RING = {**SWITCH, "topology": "ring"}


def congested(compat: str | None = None, **table: Any) -> DelayedNetwork:
    return network(compat, backend=CongestionNetwork, **table)


# -- alone -------------------------------------------------------------------------------------------------------------

BANDWIDTH = st.sampled_from(["1 GB/s", "7 GB/s", "12.5 GiB/s", "53.3 GB/s", "256 GB/s"])
LATE = ("0.01 ns", "1/7 ns", "1 ns", "2.5 ns", "1/3 us")
LATENCY = st.sampled_from(LATE)
BLOCKS = st.sampled_from(["ring", "fully-connected", "switch", "mesh"])
PRODUCTS = st.lists(st.tuples(BLOCKS, st.integers(2, 4), BANDWIDTH, LATENCY), min_size=1, max_size=3).map(
    lambda rows: {"dims": dims(*rows)}
)
MORE: list[dict[str, Any]] = [
    *OTHERS,
    {"topology": "leaf-spine", "options": {"npus": 3, "leaves": 3, "spines": 2}},
    {"topology": "fat-tree", "options": {"children": [2, 3], "parents": [2]}},
    {"topology": "k-ary-n-tree", "options": {"k": 4, "n": 1}},
    {"topology": "torus", "shape": [4, 4], "router": {"routing": "valiant"}},
    {"topology": "torus", "shape": [4, 4], "router": {"routing": "minimal-adaptive"}},
    {"topology": "random-regular", "options": {"routers": 8, "degree": 3, "p": 2}},
    {"topology": "hyperx", "options": {"routers": [3, 2], "concentration": 2, "floor_plan": True}},
    {"topology": "slim-fly", "options": {"q": 3}},
]
WITH_LINKS = st.builds(
    lambda table, bandwidth, latency: {**table, "bandwidth": bandwidth, "latency": latency},
    st.sampled_from(MORE),
    BANDWIDTH,
    LATENCY,
)


@settings(max_examples=part_of(120), deadline=None)
@given(data=st.data(), table=st.one_of(PRODUCTS, WITH_LINKS), size=st.integers(1, 2**40))
def test_alone_it_is_the_analytical_backend_to_the_cycle(data: st.DataObject, table: Any, size: int) -> None:
    topology = topology_of(table)
    src, dst, plane = data.draw(st.sampled_from(topology.pairs().tolist()))
    plane = data.draw(st.sampled_from([plane] if topology.confined else [plane, -1]))
    net = network(**table), congested(**table)
    assert delay(net[0], src, dst, size, plane) == delay(net[1], src, dst, size, plane)


@settings(max_examples=part_of(60), deadline=None)
@given(
    data=st.data(),
    table=st.sampled_from([table for table in MORE if table["topology"] != "torus"]),
    size=st.integers(1, 2**40),
)
def test_and_so_it_is_where_every_link_has_its_own(data: st.DataObject, table: Any, size: int) -> None:
    topology = topology_of(table)
    widths, waits = (
        st.lists(of, min_size=topology.links, max_size=topology.links) for of in (BANDWIDTH, st.sampled_from(LATE))
    )
    topology = replace(topology, link_bandwidth=data.draw(widths), link_latency=data.draw(waits))
    src, dst, plane = data.draw(st.sampled_from(topology.pairs().tolist()))
    told = Network.model_validate(table)
    times = [delay(made(topology, told), src, dst, size, plane) for made in (AnalyticalNetwork, CongestionNetwork)]
    assert times[0] == times[1]


@pytest.mark.parametrize("table", MORE, ids=lambda table: table["topology"])
def test_on_all_its_links(table: dict[str, Any]) -> None:
    """What is counted on links is what was sent over the route, on each of them."""
    net = congested(**table)
    src, dst, plane = next(row for row in net.topology.pairs()[::-1].tolist())
    net.send(src, dst, 1000, plane=plane, at=0)
    drain(net)
    route = {link for link, _ in net.topology.relation.route(src, dst, plane)}
    flits = net.totals()["flits"]
    assert len(np.flatnonzero(flits)) == len(route)
    assert set(flits[flits > 0].tolist()) <= {-(-1000 // 256)}
    assert net.counts()["flits"] == -(-1000 // 256)


# -- together ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [None, "astra-sim-2"])
def test_two_serialisations_through_a_switch(compat: str | None) -> None:
    assert delay(congested(compat, **SWITCH, analytical=WHOLE), 0, 1, 100) == 2 * (100 + 5)


def test_cut_through_a_switch() -> None:
    net = congested(**SWITCH)
    assert delay(net, 0, 1, 100) == 100 + 2 * 5
    # Two to the same NPU: the second waits at the switch, not on its way there.
    ends = np.array([0, 1]), np.array([2, 2])
    net.send_many(*ends, np.full(2, 100), np.zeros(2, np.int64), net.now)
    assert [cycle - 110 for _, cycle in drain(net)] == [110, 210]


@pytest.mark.parametrize(("compat", "way"), [(None, -1), ("astra-sim-2", 1)])
def test_ties_go_round_by_the_plane_or_clockwise(compat: str | None, way: int) -> None:
    net = congested(compat, **{**RING, "shape": [4]})
    net.send(0, 2, 100, plane=1, at=0)
    drain(net)
    carried = np.flatnonzero(net.totals()["flits"])
    assert sorted(net.topology.link_dst[carried].tolist()) == ([1, 2] if way > 0 else [2, 3])


@pytest.mark.parametrize(
    ("forwarding", "expected"),
    [
        # 0 to 1 is there at 105. 0 to 2 leaves at 100, and 7 to 1 waits for both until 200: 305. 0 to 2: 205 + 105.
        ("store-and-forward", [(0, 105), (2, 305), (1, 310)]),
        # The head of 7 to 1 is there in 5, when 0 to 2 waits already: from 200 on as before. 0 to 2: 200 + 2 * 5.
        ("cut-through", [(0, 105), (1, 210), (2, 305)]),
    ],
)
def test_links_are_shared(forwarding: str, expected: list[tuple[int, int]]) -> None:
    net = congested(**RING, analytical={"forwarding": forwarding})
    ends = np.array([0, 0, 7]), np.array([1, 2, 1])
    net.send_many(*ends, np.full(3, 100), np.zeros(3, np.int64), 0)
    assert drain(net) == expected


def test_in_several_dimensions() -> None:
    """Two messages of one NPU go apart in the second dimension, and one behind the other in the first."""
    net = congested(topology="torus", shape=[3, 3], bandwidth="1 GB/s", latency="5 ns")
    ends = np.array([0, 0, 1]), np.array([4, 7, 4])
    net.send_many(*ends, np.full(3, 100), np.zeros(3, np.int64), 0)
    # 0 -> 1 -> 4; 0 -> 1 -> 7 after it; 1 -> 4 is at its link before the first one's head.
    assert drain(net) == [(2, 105), (0, 205), (1, 210)]


def test_npus_at_a_router_have_a_lane_out_and_a_lane_in() -> None:
    """Three leaves of three NPUs, two spines: what an NPU sends, or gets, over both is no more than one carries."""
    net = congested(
        topology="leaf-spine", options={"npus": 3, "leaves": 3, "spines": 2}, bandwidth="1 GB/s", latency="5 ns"
    )
    # From NPU 0 over both spines; to NPU 1 from two leaves.
    for src, dst in (((0, 0), (3, 4)), ((3, 6), (1, 1))):
        begin = net.now
        net.send_many(np.array(src), np.array(dst), np.full(2, 100), np.full(2, -1), begin)
        assert [cycle - begin for _, cycle in drain(net)] == [110, 210]


def test_what_stays_at_a_router_queues_for_the_lanes_of_its_npus() -> None:
    """Two messages of NPU 0 go one after the other, the one of NPU 1 beside them; no link carries anything."""
    net = congested(topology="k-ary-n-tree", options={"k": 4, "n": 1}, bandwidth="1 GB/s", latency="5 ns")
    net.send_many(np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 100), np.zeros(3, np.int64), 0)
    assert drain(net) == [(0, 100), (2, 100), (1, 200)]
    assert net.totals()["flits"].tolist() == []


@pytest.mark.parametrize(("forwarding", "late"), [("cut-through", 0), ("store-and-forward", 100)])
@pytest.mark.parametrize("compat", [None, "astra-sim-2"])
def test_windows(compat: str | None, forwarding: str, late: int) -> None:
    if compat and not late:
        return
    table = {**SWITCH, "shape": [4], "flit": "50 B", "analytical": {"forwarding": forwarding}}
    topology = topology_of(table)
    net = CongestionNetwork(topology, Network.model_validate(table), compat=compat, window=100)
    net.send(0, 3, 100, at=0)
    net.send(1, 3, 100, at=0)
    assert [cycle for _, cycle in drain(net)] == [110 + late, 210 + late]
    net.send(0, 3, 100, at=450)
    drain(net)
    net.finish(net.now)
    windows = net.windows.table()
    up, _, down = (topology.link_name.index(name) for name in ("d0up:(0)->(*)", "d0up:(1)->(*)", "d0down:(*)->(3)"))
    rows = windows.counts["flits"].astype(int)
    assert len(rows) == len(windows) == (7 if late else 6)
    assert rows[:, up].tolist()[:6] == [2, 0, 0, 0, 2, 0]
    # A message is booked when its link begins with it.
    assert rows[:, down].tolist() == ([0, 2, 2, 0, 0, 2, 0] if late else [2, 2, 0, 0, 2, 0])
    assert rows.sum(axis=0).tolist() == net.totals()["flits"].tolist()
    assert net.counts() | {"flits": 6, "flit_hops": 12, "messages": 3} == net.counts()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compat", "table", "told"),
    [
        (
            "astra-sim-1",
            SWITCH,
            "backend: ASTRA-sim 1 does not model messages that queue for links; allowed: analytical or",
        ),
        (
            "astra-sim-2",
            {"topology": "torus", "shape": [2, 2]},
            "backend='analytical-congestion': .* has one dimension; this network has 2; allowed: analytical, packet",
        ),
        (
            "astra-sim-2",
            {**SWITCH, "analytical": {"forwarding": "cut-through"}},
            "network.analytical.forwarding: ASTRA-sim 2 forwards a message only when it has arrived completely",
        ),
        (
            None,
            {**SWITCH, "analytical": {"nic_latency": "1 ns"}},
            "nic_latency: applies only to the delays of ASTRA-sim 1",
        ),
        (None, {**SWITCH, "bandwidth": "53.333333333333336123456 GiB/s"}, "network.bandwidth: .* too fine a fraction"),
        ("astra-sim-3", SWITCH, "do not reproduce the arithmetic of 'astra-sim-3'"),
    ],
)
def test_what_is_refused(compat: str | None, table: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        congested(compat, **table)


def test_messages_that_take_too_long() -> None:
    net = congested(**{**SWITCH, "bandwidth": "1 B/s"})
    with pytest.raises(SimulationError, match="takes more cycles than can be counted"):
        net.send(0, 1, 2**40, at=0)


def test_its_widths_are_those_of_the_analytical_backend() -> None:
    table = {"dims": dims(("ring", 4, "8 GB/s", "1 ns"), ("switch", 3, "2 GB/s", "1 ns"))}
    widths = [net.injection_bandwidths() for net in (network(**table), congested(**table))]
    assert widths == [[16, 2]] * 2
    assert isinstance(network(**table), AnalyticalNetwork)
