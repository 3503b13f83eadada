"""NDP: receivers pull packets at the rate of their link, switches trim, and nothing but the first window is unasked."""

from __future__ import annotations

import pickle
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from tests.network.ethernet.closed_form_networks import (
    DELAY,
    begin,
    chain,
    durations,
    engine_of,
    network_of,
    run_until,
    star,
)

MTU, HEADER, GBPS = 4000, 82, 100
PACKET = (MTU + HEADER) * 8000 // GBPS  # ps
FRAME = {"transport": "ndp", "mtu": f"{MTU} B", "header": f"{HEADER} B"}


def incast(senders: int, packets: int, **ethernet: Any) -> EthernetNetwork:
    network = star(senders, GBPS * 1000, **(FRAME | ethernet))
    begin(network, list(range(1, senders + 1)), [0] * senders, packets * MTU)
    return network


def core(pairs: int, mbps: int, **ethernet: Any) -> EthernetNetwork:
    """NPUs 0, 1, ... at one switch, as many at another, and one link between both."""
    graph = nx.Graph()
    graph.add_nodes_from(range(2 * pairs + 2))
    for npu in range(2 * pairs):
        graph.add_edge(npu, 2 * pairs + npu // pairs, mbps=GBPS * 1000)
    graph.add_edge(2 * pairs, 2 * pairs + 1, mbps=mbps)
    return network_of(graph, {**FRAME, **ethernet}, 1)


@pytest.mark.parametrize("packets", [1, 5, 300])
def test_a_flow_alone_is_never_held_up(packets: int) -> None:
    """Store and forward over three equal links: the pulls keep the pipe full."""
    network = chain([GBPS * 1000] * 3, **FRAME, transport_options={})
    begin(network, [0], [1], packets * MTU)
    assert durations(network) == [(packets + 2) * PACKET + 3 * DELAY]
    assert engine_of(network).flow_table()["resent"].tolist() == [0]


def test_a_receiver_pulls_what_is_missing_and_no_more() -> None:
    """The first window is unasked; every further packet takes a pull and gives an acknowledgment."""
    network = chain([GBPS * 1000] * 2, **FRAME, transport_options={"initial_window": 7})
    begin(network, [0], [1], 100 * MTU)
    durations(network)
    assert engine_of(network).counts["made"] == 100 + 100 + 93


@pytest.mark.parametrize("window", [1, 4])
def test_a_window_bounds_the_rate(window: int) -> None:
    """A small window: so many packets per round trip of data and pull."""
    network = chain([GBPS * 1000] * 2, **FRAME, transport_options={"initial_window": window})
    packets = 40
    begin(network, [0], [1], packets * MTU)
    # acknowledgment and pull leave the receiver at the same time, one behind the other
    round_trip = 2 * (PACKET + DELAY) + 3 * 84 * 8000 // GBPS + 2 * DELAY
    last = 2 * (PACKET + DELAY) + (window - 1) * PACKET
    assert durations(network)[0] == pytest.approx((packets // window - 1) * round_trip + last, rel=0.005)


@pytest.mark.parametrize("senders", [4, 32])
def test_an_incast_fills_the_last_link(senders: int) -> None:
    packets = 256
    network = incast(senders, packets)
    times = durations(network)
    flows = engine_of(network).flow_table()
    bound = (senders * packets + 1) * PACKET + 2 * DELAY
    headers = flows["trimmed"].sum() * 84 * 8000 // GBPS
    assert bound <= max(times) <= 1.005 * bound + headers
    assert flows["resent"].tolist() == flows["trimmed"].tolist()
    assert flows["dropped"].sum() == flows["timeouts"].sum() == flows["duplicates"].sum() == 0
    assert engine_of(network).port_counters()["peak"].max() <= 8 * (MTU + HEADER)


def test_only_first_windows_are_trimmed_in_an_incast() -> None:
    """After them, packets arrive at the rate of the pulls, which is that of the link."""
    network = incast(16, 400, transport_options={"initial_window": 20})
    run_until(network, 16 * 20 * PACKET)
    before = engine_of(network).flow_table()["trimmed"].sum()
    durations(network)
    after = engine_of(network).flow_table()["trimmed"].sum()
    assert 0 < before <= 16 * 20
    assert after == before


def test_senders_take_turns() -> None:
    """From the end of the first windows on, equal shares within 2 %."""
    network = incast(10, 1000)
    run_until(network, 1000 * PACKET)
    first = engine_of(network).flow_table()["delivered"]
    run_until(network, 9000 * PACKET)
    shares = engine_of(network).flow_table()["delivered"] - first
    assert shares / shares.mean() == pytest.approx(np.ones(10), abs=0.02)


def test_control_packets_do_not_starve_data() -> None:
    """An overloaded link carries headers and pulls both ways. With strict priority, these are all that it carries."""
    delivered = []
    for control in (10, 0):
        options = {"control_packets": control}
        network = core(8, 30_000, mtu="256 B", transport_options=options)
        begin(network, list(range(16)), [*range(8, 16), *range(8)], 200 * 256)
        run_until(network, 10**9)
        delivered.append(engine_of(network).flow_table()["delivered"].sum())
    assert delivered[0] == 16 * 200 > 5 * delivered[1]


@pytest.mark.parametrize("rate", [0.001, 0.03])
def test_lost_pulls_and_headers_cost_time_only(rate: float) -> None:
    links = [{"link": "*", "packet_error_rate": rate}]
    network = incast(8, 200, links=links, timeout="50 us")
    durations(network)
    flows = engine_of(network).flow_table()
    assert (flows["end"] > 0).all()
    assert engine_of(network).port_counters()["errors"].sum() > 0


def test_a_restored_engine_goes_on_as_the_first_one() -> None:
    network = core(8, 30_000)
    begin(network, list(range(16)), [*range(8, 16), *range(8)], 100 * MTU)
    run_until(network, 30_000_000)
    engine = engine_of(network)
    other = pickle.loads(pickle.dumps(engine))
    tables = []
    for each in engine, other:
        each.run(1 << 60, 1, 1, 1 << 60)
        tables.append({name: column.tolist() for name, column in each.flow_table().items()})
    assert tables[0] == tables[1]
    assert sum(tables[0]["trimmed"]) > 100


def test_packets_are_sprayed() -> None:
    """Four parallel routes carry a quarter each; without spraying, one route carries all."""
    graph = nx.Graph()
    graph.add_edge(0, 2, mbps=400_000)
    graph.add_edge(1, 3, mbps=400_000)
    for spine in range(4, 8):
        graph.add_edge(2, spine, mbps=100_000)
        graph.add_edge(spine, 3, mbps=100_000)
    for spray, shares in ((True, [250] * 4), (False, [0, 0, 0, 1000])):
        network = network_of(graph.copy(), {**FRAME, "transport_options": {"spray": spray}}, 1)
        begin(network, [0], [1], 1000 * MTU)
        durations(network)
        sent = engine_of(network).port_counters()["sent_bytes"]
        ends = zip(network.topology.link_src.tolist(), network.topology.link_dst.tolist(), strict=True)
        up = [sent[i] // (MTU + HEADER) for i, (a, b) in enumerate(ends) if a == 2 and b >= 4]
        assert sorted(up) == pytest.approx(shares, abs=60 if spray else 200)


@pytest.mark.parametrize(
    ("ethernet", "key"),
    [
        ({"trim": "0 B"}, "network.ethernet.trim"),
        ({"load_balancing": "adaptive"}, "network.ethernet.load_balancing"),
        ({"transport_options": {"initial_window": 1 << 31}}, "transport_options.initial_window"),
        ({"transport_options": {"window": 3}}, "transport_options.window"),
    ],
)
def test_settings_that_ndp_refuses(ethernet: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key.replace(".", r"\.")):
        star(2, 1000, **(FRAME | ethernet))


def test_without_spray_load_balancing_applies() -> None:
    network = star(2, 1000, **FRAME, load_balancing="adaptive", transport_options={"spray": False})
    assert network.arrays.rules["balance"] == 2
    assert network.settings.ethernet.trim == 84
    assert not network.settings.ethernet.pfc.enabled
