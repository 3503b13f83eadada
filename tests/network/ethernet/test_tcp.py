"""TCP NewReno and CUBIC against their RFCs and against the square-root law, on a network that drops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.from_networkx import from_networkx

MSS = 1460
PACKET = MSS + 78
TO_RECEIVER = "link:({hosts})->(0)"


def dumbbell(transport: str, hosts: int = 2, gbps: int = 10, ethernet: Any = None, **options: Any) -> EthernetNetwork:
    """Senders 1, 2, ... with 100 Gb/s and the receiver 0 with `gbps` at one switch that drops; 25 us per link."""
    graph = nx.Graph()
    graph.add_nodes_from(range(hosts), npus=1)
    graph.add_node(hosts, npus=0)
    for host in range(hosts):
        graph.add_edge(host, hosts, bandwidth=f"{100 if host else gbps} Gb/s", latency="25 us")
    settings: dict[str, Any] = {
        "transport": transport,
        "transport_options": {"min_rto": "500 us", "initial_rto": "1 ms", **options},
        "mtu": f"{MSS} B",
        "header": f"{PACKET - MSS} B",
        "pfc": {"enabled": False},
        "ecn": {"enabled": False},
        "buffer": {"alpha": 0, "queue": "64 KiB"},
        **(ethernet or {}),
    }
    network = Network(topology="graph", options={"file": "dumbbell"}, ethernet=settings, clock="1 GHz")
    return EthernetNetwork(from_networkx(graph), network)


def send(network: EthernetNetwork, nbytes: int) -> None:
    """A message from each sender to the receiver."""
    src = np.arange(1, network.npus)
    zeros = np.zeros(len(src), np.int64)
    network.send_many(src, zeros, np.full(len(src), nbytes), zeros, 0)


def arrival(network: EthernetNetwork) -> int:
    """When the last message arrives, in ns."""
    last = 0
    while len(cycles := network.advance(None)[1]):
        last = int(cycles[-1])
    return last


def windows(network: EthernetNetwork, start: int, end: int, step: int) -> tuple[IntArray, FloatArray]:
    """Times (ns) and the congestion window of the first flow, in packets."""
    times = np.arange(start, end, step)
    values = np.zeros(len(times))
    for i, time in enumerate(times.tolist()):
        network.advance(time)
        values[i] = (network.engine.flow_control()["window"][0] + MSS - 1) / MSS
    return times, values


def test_slow_start_doubles_the_window_in_each_round_trip() -> None:
    network = dumbbell("newreno", ethernet={"buffer": {"queue": "8 MiB"}})
    send(network, 10**7)
    _, window = windows(network, 50_000, 400_000, 104_000)
    assert window.tolist() == [10, 20, 40, 80]


@pytest.mark.parametrize(("mtu", "packets"), [(1000, 10), (1460, 10), (4096, 3), (9000, 2)])
def test_the_initial_window_is_that_of_rfc_6928(mtu: int, packets: int) -> None:
    network = dumbbell("newreno", ethernet={"mtu": f"{mtu} B"})
    send(network, 10**6)
    network.advance(40_000)
    assert network.engine.flow_table()["sent"].tolist() == [packets]


@pytest.mark.parametrize("sack", [False, True])
def test_newreno_halves_its_window_once_per_loss(sack: bool) -> None:
    """After slow start, the window oscillates between what the path and the queue hold and half of it."""
    network = dumbbell("newreno", sack=sack)
    send(network, 10**8)
    times, window = windows(network, 15_000_000, 40_000_000, 20_000)
    cuts = np.flatnonzero(np.diff(window) < 0)
    dropped = network.engine.flow_table()["dropped"][0]
    held = 100_000 / (PACKET * 0.8) + 65536 // PACKET  # packets on the way, and in the queue
    assert len(cuts) >= 3
    assert window[cuts] == pytest.approx(held, abs=4)
    assert window[cuts + 1] == pytest.approx(window[cuts] / 2, abs=1)
    for first, second in pairwise(cuts):  # a packet per round trip, which the queue prolongs
        steps, grown = times[second] - times[first + 1], window[second] - window[first + 1]
        assert steps / 180_000 < grown < steps / 100_000
    network.advance(41_000_000)
    assert network.engine.flow_table()["resent"][0] >= dropped  # all losses were found without a timeout
    assert not network.engine.flow_table()["timeouts"][0] or sack


@pytest.mark.parametrize("rate", [0.002, 0.005])
@pytest.mark.parametrize("sack", [False, True])
def test_throughput_follows_the_square_root_law(rate: float, sack: bool) -> None:
    """Mathis et al. 1997: MSS / RTT x C / sqrt(p); C = 1.22 for periodic losses, up to 1.31 for random ones.

    Timeouts, which the law leaves out, take less than 20 % at these rates.
    """
    flows = 6
    link = {"link": TO_RECEIVER.format(hosts=flows + 1), "packet_error_rate": rate, "both_directions": False}
    ethernet = {"links": [link], "buffer": {"queue": "8 MiB", "alpha": 0}}
    network = dumbbell("newreno", hosts=flows + 1, gbps=400, ethernet=ethernet, sack=sack)
    send(network, 10**8)
    begin, end = 5_000_000, 50_000_000
    network.advance(begin)
    before = network.engine.flow_table()["delivered"].sum()
    network.advance(end)
    per_round_trip = (network.engine.flow_table()["delivered"].sum() - before) / flows / (end - begin) * 100_300
    assert 0.8 * 1.22 < per_round_trip * np.sqrt(rate) < 1.31


@pytest.mark.parametrize("fast", [False, True])
def test_cubic_grows_by_its_cubic_function(fast: bool) -> None:
    """Between two losses, the window is C (t - K)^3 + W_max, a round trip ahead at most; C as for 2000 x faster time.

    With fast convergence, W_max is (1 + beta) / 2 of the window at a loss below the last W_max.
    """
    c, beta = 3e9, 0.7
    network = dumbbell("cubic", c=c, beta=beta, fast_convergence=fast)
    send(network, 10**8)
    times, window = windows(network, 15_000_000, 32_000_000, 10_000)
    cuts = np.flatnonzero(np.diff(window) < -5)
    assert len(cuts) >= 5
    lowered = 0
    for first, second in pairwise(cuts):
        low = window[first + 1]
        assert low == pytest.approx(beta * window[first], abs=2)
        growing = np.flatnonzero(np.diff(window[first + 1 : second]) > 0)[0] + first + 1  # recovery is over
        since = (times[growing:second] - times[growing]) * 1e-9

        def follows(w_max: float) -> bool:
            k = np.cbrt((w_max - low) / c)  # noqa: B023
            early, late = (c * (since + shift - k) ** 3 + w_max for shift in (-2.2e-4, 2.2e-4))  # noqa: B023
            part = window[growing:second]  # noqa: B023
            return bool((part > early - 1).all() and (part < late + 1).all())

        lowered += not follows(low / beta)
        assert follows(low / beta) or (fast and follows(low / beta * (1 + beta) / 2))
    assert bool(lowered) == fast


def test_cubic_without_time_grows_like_newreno() -> None:
    """At C = 0.4, short round trips are in the Reno-friendly region: 3 (1 - beta) / (1 + beta) per round trip."""
    network = dumbbell("cubic", sack=False)
    send(network, 10**8)
    times, window = windows(network, 20_000_000, 32_000_000, 20_000)
    cut = np.flatnonzero(np.diff(window) < -5)[0]
    part = slice(cut + 20, cut + 200)
    round_trip = np.maximum(window[part] * PACKET * 0.8, 101_500)
    growth = (np.diff(window[part]) * round_trip[1:]).sum() / (times[part][-1] - times[part][0])
    assert growth == pytest.approx(3 * 0.3 / 1.7, rel=0.05)


def test_the_timeout_doubles_and_the_window_restarts_at_one_packet() -> None:
    """The first packet is lost twice: sent at 0, 1 ms and 3 ms."""
    link = {"link": TO_RECEIVER.format(hosts=2), "down": True, "end": "2 ms", "routes": "stale"}
    network = dumbbell("newreno", ethernet={"links": [link]})
    send(network, MSS)
    once = 2 * 25_000 + PACKET * 0.8 + PACKET * 0.08
    assert arrival(network) == pytest.approx(3_000_000 + once, abs=1)
    assert network.engine.flow_table()["timeouts"].tolist() == [2]


@pytest.mark.parametrize(("minimum", "timeout"), [("2 ms", 2_000_000), ("1 ns", 3 * 101_428)])
def test_the_timeout_follows_the_round_trip(minimum: str, timeout: int) -> None:
    """The last packet is lost: no duplicate acknowledgment reports it. RFC 6298: srtt + 4 rttvar = 3 x first sample."""
    link = {"link": TO_RECEIVER.format(hosts=2), "down": True, "start": "140 us", "end": "200 us", "routes": "stale"}
    network = dumbbell("newreno", min_rto=minimum, ethernet={"links": [link]})
    send(network, 11 * MSS)
    last_acknowledgment = 101_428 + 9 * PACKET * 0.8
    assert arrival(network) == pytest.approx(last_acknowledgment + timeout + 51_353, abs=200)
    assert network.engine.flow_table()["timeouts"].tolist() == [1]


def test_a_mark_halves_the_window_once_per_round_trip_and_nothing_is_lost() -> None:
    """RFC 3168: marks instead of drops; the link stays busy, as its queue at the mark holds as much as the path."""
    ethernet = {
        "ecn": {"enabled": True, "kmin": "150 KiB", "kmax": "150 KiB"},
        "buffer": {"alpha": 0, "queue": "8 MiB"},
    }
    network = dumbbell("newreno", ethernet=ethernet)
    send(network, 2 * 10**7)
    _, window = windows(network, 3_000_000, 12_000_000, 20_000)
    cuts = np.flatnonzero(np.diff(window) < 0)
    assert window[cuts + 1] == pytest.approx(window[cuts] / 2, abs=1)
    ideal = 2 * 10**7 / MSS * PACKET * 0.8
    assert ideal < arrival(network) < 1.02 * ideal + 300_000
    table = network.engine.flow_table()
    assert table["marked"][0] > 0 == table["dropped"][0] == table["resent"][0]


def test_without_ecn_marks_change_nothing() -> None:
    ethernet = {"ecn": {"enabled": True, "kmin": "9 KiB", "kmax": "9 KiB"}, "buffer": {"queue": "8 MiB", "alpha": 0}}
    network = dumbbell("newreno", ethernet=ethernet, ecn=False)
    send(network, 10**6)
    arrival(network)
    assert network.engine.flow_control()["window"][0] > 100 * MSS


@pytest.mark.parametrize("transport", ["newreno", "cubic"])
def test_flows_share_a_link_that_drops(transport: str) -> None:
    network = dumbbell(transport, hosts=5, sack=True)
    send(network, 5 * 10**6)
    ideal = 4 * 5 * 10**6 / MSS * PACKET * 0.8
    assert ideal < arrival(network) < 1.5 * ideal
    counts = network.engine.counts
    assert counts["dropped"] > 0 == counts["in_network"]


@pytest.mark.parametrize(("option", "value"), [("c", 0.0), ("beta", 1.0)])
def test_cubic_has_parameters_in_range(option: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"transport_options\.{option}"):
        dumbbell("cubic", **{option: value})


@pytest.mark.parametrize("transport", ["newreno", "cubic"])
@pytest.mark.parametrize("packets", [45, 180, 700])
def test_slow_start_at_the_rate_of_acknowledgments(transport: str, packets: int) -> None:
    """Both links have the same rate: rounds of 10, 20, 40, ... packets, until a round takes a round trip."""
    network = dumbbell(transport, gbps=100)
    send(network, packets * MSS)
    packet = PACKET * 0.08
    round_trip = 2 * 50_000 + 2 * packet + 2 * 84 * 0.08
    sent, time, window = 0, 0.0, 10
    while sent + window < packets and window * packet < round_trip:
        sent, time, window = sent + window, time + round_trip, 2 * window
    expected = time + (packets - sent) * packet + 50_000 + packet
    assert arrival(network) == pytest.approx(expected, rel=0.03)
