"""Links that are slow, lose packets or are down: against other networks, counts in closed form, and binomial bounds."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim import library
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.from_networkx import from_networkx

PACKET = 1050  # bytes on the wire


def star(rates: list[int], *links: dict[str, Any], seed: int = 1, **ethernet: Any) -> EthernetNetwork:
    """Hosts 0 .. n-1 at switch n, links of `rates` Gb/s and 500 ns, without congestion control."""
    library.load_all()
    graph = nx.Graph()
    graph.add_nodes_from(range(len(rates)), npus=1)
    graph.add_node(len(rates), npus=0)
    for host, rate in enumerate(rates):
        graph.add_edge(host, len(rates), bandwidth=f"{rate} Gb/s", latency="500 ns")
    settings = {
        "transport": "none",
        "transport_options": {"window": False},
        "mtu": "1000 B",
        "header": "50 B",
        "pfc": {"enabled": False},
        "ecn": {"enabled": False},
        "links": list(links),
        **ethernet,
    }
    network = Network(topology="graph", options={"file": "star"}, ethernet=settings, clock="1 GHz")
    return EthernetNetwork(from_networkx(graph), network, seed=seed)


def run(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: int) -> dict[str, Any]:
    """Send messages at once; return the table of flows."""
    count = len(src)
    network.send_many(np.array(src), np.array(dst), np.full(count, nbytes), np.zeros(count, np.int64), 0)
    while len(network.advance(None)[0]):
        pass
    return network.engine.flow_table()


def spine(*links: dict[str, Any], **ethernet: Any) -> dict[str, Any]:
    """Four NPUs below leaf (0) send to four below leaf (1), over the spines (2) to (5)."""
    return {
        "network": {
            "topology": "leaf-spine",
            "options": {"npus": 4, "leaves": 2, "spines": 4},
            "bandwidth": "12.5 GB/s",
            "latency": "500 ns",
            "ethernet": {
                "transport": "none",
                "reliability": "selective",
                "load_balancing": "spray",
                "ecn": {"enabled": False},
                "links": list(links),
                **ethernet,
            },
        },
        "message": [{"src": npu, "dst": 4 + npu, "size": "4 MiB"} for npu in range(4)],
    }


def test_a_degraded_link_equals_a_slow_one() -> None:
    slow = run(star([100, 50]), [0], [1], 100_000)["end"]
    assert run(star([100, 100], {"link": "link:(2)->(1)", "rate_factor": 0.5}), [0], [1], 100_000)["end"] == slow
    every = star([200, 100], {"link": "*", "rate_factor": 0.5})
    assert run(every, [0], [1], 100_000)["end"] == slow


def test_factors_multiply_and_one_direction_is_enough() -> None:
    half = {"link": "link:(0)->(2)", "rate_factor": 0.5, "both_directions": False}
    network = star([100, 100], half, half)
    assert run(network, [0], [1], 100_000)["end"] == run(star([25, 100]), [0], [1], 100_000)["end"]
    assert run(network, [1], [0], 100_000)["end"][1] - network.engine.flow_table()["start"][1] == (
        100 * PACKET * 80 + 500_000 + PACKET * 80 + 500_000
    )


def test_a_link_is_slow_for_a_while() -> None:
    """Packets of 84 ns: 100 until 8.4 us, then 168 ns for 50 of them, then 84 ns again."""
    fault = {"link": "link:(0)->(2)", "rate_factor": 0.5, "start": "8.4 us", "end": "16.8 us"}
    flows = run(star([100, 100], fault), [0], [1], 300_000)
    assert flows["end"].tolist() == [100 * 84_000 + 50 * 168_000 + 150 * 84_000 + 500_000 + 84_000 + 500_000]


@pytest.mark.parametrize("routes", ["avoid", "stale"])
def test_packets_on_a_link_that_is_down_are_lost(routes: str) -> None:
    """The link to the receiver is down for 10 packets of 84 ns; the k-th of them arrives at 1.084 us + 84 k."""
    fault: dict[str, Any] = {
        "link": "link:(2)->(1)",
        "down": True,
        "start": "2.01 us",
        "end": "2.85 us",
        "routes": routes,
    }
    fault |= {"convergence": "10 us", "both_directions": False}
    network = star([100, 100], fault, reliability="selective")
    flows = run(network, [0], [1], 200_000)
    assert flows["errors"].tolist() == flows["resent"].tolist() == [10]
    assert network.engine.port_counters()["errors"].sum() == 10
    assert network.engine.counts["errored"] == 10


@pytest.mark.parametrize("load_balancing", ["spray", "adaptive"])
def test_the_remaining_links_share_the_load(load_balancing: str) -> None:
    """4 x 4 MiB over three links of 12.5 GB/s, with headers; all 4 NPUs send at line rate."""
    down = {"link": "level1:(0)->(2)", "down": True}
    times = [
        pyxsim.run(spine(*links, load_balancing=load_balancing), backend="ethernet").time_ns
        for links in ((), (down,), (down, {"link": "level1:(3)->(1)", "down": True}))
    ]
    least = [4 * 2**20 * 4 * (4178 / 4096) / (links * 12.5) for links in (4, 3, 2)]
    assert all(bound < time < 1.12 * bound + 10_000 for time, bound in zip(times, least, strict=True))


def test_routes_avoid_the_link_after_convergence() -> None:
    fault = {"link": "level1:(0)->(2)", "down": True, "start": "20 us"}
    for convergence, end in (("0 ns", None), ("30 us", None), ("10 us", "200 us")):
        given = {**fault, "convergence": convergence, **({"end": end} if end else {})}
        result = pyxsim.run(spine(given, timeout="50 us"), backend="ethernet")
        link = list(result.links.name).index("level1:(0)->(2)")
        sent, lost = int(result.ports["packets"][link]), int(result.ports["errors"][link])
        # a quarter of 334 ns packets at 4 x line rate: one each 334 ns; then what was queued leaves
        assert lost < 200 if convergence == "0 ns" else lost > 20
        assert (sent > 500) == (end is not None)
        assert result.flows["errors"].sum() <= result.counts["packets_errored"] == result.ports["errors"].sum()
        assert result.port_windows["errors"].sum() == result.ports["errors"].sum()


def test_ecmp_without_convergence_gives_up() -> None:
    fault = {"link": "level1:(0)->(*", "down": True, "routes": "stale"}
    with pytest.raises(
        SimulationError, match=r"from NPU \d to NPU \d timed out 4 times in a row .*retries.* lost on"
    ) as e:
        pyxsim.run(spine(fault, load_balancing="ecmp", retries=3), backend="ethernet")
    assert e.value.result.counts["packets_errored"] > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rates", "chance"),
    [({"packet_error_rate": 0.01}, 0.01), ({"bit_error_rate": 1e-6}, 1 - (1 - 1e-6) ** (8 * PACKET))],
)
def test_losses_are_binomial(rates: dict[str, Any], chance: float, seed: int) -> None:
    """Of n packets that cross the link, n p are lost, within 4 standard deviations; each is sent again once."""
    fault = {"link": "link:(2)->(1)", "both_directions": False, **rates}
    network = star([100, 100], fault, reliability="selective", seed=seed)
    flows = run(network, [0], [1], 10**7)
    sent, lost = int((flows["sent"] + flows["resent"])[0]), int(flows["errors"][0])
    assert abs(lost - sent * chance) < 4 * (sent * chance * (1 - chance)) ** 0.5
    assert flows["resent"].tolist() == [lost]
    assert flows["delivered"].tolist() == [10_000]


def test_lost_acknowledgments_and_go_back_n() -> None:
    network = star([100, 100], {"link": "*", "packet_error_rate": 0.01}, nack_interval="10 us", timeout="20 us")
    flows, counts = run(network, [0], [1], 10**6), network.engine.counts
    assert flows["end"] > 0
    assert flows["sent"] + flows["resent"] == flows["delivered"] + flows["errors"]
    assert flows["resent"] > flows["errors"] > 0
    assert counts["made"] == counts["delivered"] + counts["errored"]


def test_a_pickled_network_continues_to_the_bit() -> None:
    def make() -> EthernetNetwork:
        faults = {"link": "*", "packet_error_rate": 0.01}, {"link": "*", "rate_factor": 0.5, "start": "40 us"}
        return star([100, 100], *faults, nack_interval="10 us", timeout="20 us")

    parts = make()
    parts.send_many(np.array([0]), np.array([1]), np.array([10**6]), np.zeros(1, np.int64), 0)
    while parts.engine.pending:
        parts.advance(parts.now + 7001)
        parts = pickle.loads(pickle.dumps(parts))
    for name, column in run(make(), [0], [1], 10**6).items():
        assert np.array_equal(column, parts.engine.flow_table()[name]), name


def test_routes_around_links_can_deadlock(tmp_path: Path) -> None:
    """Without its hub, a wheel is a ring, whose paused links can wait for each other."""
    edges = tmp_path / "wheel.edges"
    edges.write_text("".join(f"s{i} s{(i + 1) % 6}\n" for i in range(6)) + "".join(f"s{i} hub\n" for i in range(6)))
    experiment = spine()
    experiment["network"] |= {"topology": "graph", "options": {"file": str(edges), "npus": 1}}
    experiment["message"] = [{"src": i, "dst": (i + 3) % 6, "size": "1 KiB"} for i in range(6)]
    links = [{"link": f"link:(s{i})->(hub)", "down": True, "start": "1 ms"} for i in range(1, 6)]
    for faults, free in (([], True), (links, False)):
        experiment["network"]["ethernet"]["links"] = faults
        assert pyxsim.check(experiment, backend="ethernet")["deadlock_free"] is free


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"link": "link:(0)->(3)"}, r"links\[0\].link: no link has the name 'link:\(0\)->\(3\)'.*did you mean"),
        ({"link": "link:(0)->(2)", "down": True}, r"links\[0\].down: without these links, \(\d\) does not reach"),
        ({"link": "*", "start": "2 us", "end": "1 us"}, r"links\[0\].end: the end is not after the start"),
        ({"link": "*", "rate_factor": 0}, r"links\[0\].rate_factor: a link without bandwidth"),
        ({"link": "*", "bit_error_rate": 1}, r"links\[0\].bit_error_rate: no packet would arrive"),
    ],
)
def test_faulty_settings(fault: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        star([100, 100], fault)


def test_links_that_lose_packets_need_a_timeout() -> None:
    with pytest.raises(InputError, match=r"ethernet\.timeout: links lose packets"):
        star([100, 100], {"link": "*", "packet_error_rate": 0.1}, timeout="0 ns")


def test_a_host_link_cannot_be_avoided() -> None:
    with pytest.raises(InputError, match=r"the NPU of 'host:NPU 0->\(0\)' has no other link; allowed: .*'stale'"):
        pyxsim.run(spine({"link": "host:NPU 0->*", "down": True}), backend="ethernet")
