"""The tables of flows, ports and windows: ideal times in closed form, and every packet accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim import library
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.from_networkx import from_networkx


def network(rates: list[int], window: int = 1000, **ethernet: Any) -> EthernetNetwork:
    """Hosts 0 .. n-1 at switch n, links of `rates` Gb/s."""
    library.load_all()
    graph = nx.Graph()
    graph.add_nodes_from(range(len(rates)), npus=1)
    graph.add_node(len(rates), npus=0)
    for host, rate in enumerate(rates):
        graph.add_edge(host, len(rates), bandwidth=f"{rate} Gb/s", latency="500 ns")
    settings = {"transport": "none", "mtu": "1000 B", "header": "50 B", **ethernet}
    return EthernetNetwork(
        from_networkx(graph),
        Network(topology="graph", options={"file": "star"}, ethernet=settings, clock="1 GHz"),
        window=window,
    )


def run(backend: EthernetNetwork, src: list[int], dst: list[int], nbytes: int) -> dict[str, Any]:
    """Send messages at once; return the tables."""
    count, last = len(src), 0
    backend.send_many(np.array(src), np.array(dst), np.full(count, nbytes), np.zeros(count, np.int64), 0)
    while len((cycles := backend.advance(None))[0]):
        last = int(cycles[1][-1])
    backend.finish(max(last, backend.now))
    return {name: table.columns for name, table in backend.tables().items()}


@pytest.mark.parametrize("rates", [[100, 100], [100, 40], [40, 100]])
@pytest.mark.parametrize("nbytes", [1, 1000, 1500, 10_500])
@pytest.mark.parametrize("forwarding", ["store-and-forward", "cut-through"])
@pytest.mark.parametrize("end", ["received", "acknowledged"])
def test_a_single_flow_takes_its_ideal_time(rates: list[int], nbytes: int, forwarding: str, end: str) -> None:
    backend = network(rates, forwarding=forwarding, end=end, switch_latency="300 ns", timeout="0 ns")
    flows = run(backend, [0], [1], nbytes)["flows"]
    assert (flows["end"] - flows["start"]).tolist() == flows["ideal"].tolist()


def test_ideal_time_in_closed_form() -> None:
    flows = run(network([100, 100]), [0], [1], 10_500)["flows"]
    # 11 packets over two equal links: the first link carries all, the second the last packet once more
    assert flows["ideal"].tolist() == [(10 * 1050 + 550) * 80 + 500_000 + 1050 * 80 + 500_000]


@pytest.mark.parametrize("trim", ["0 B", "64 B"])
@pytest.mark.parametrize("reliability", ["go-back-n", "selective"])
@pytest.mark.parametrize("pfc", [True, False])
def test_every_packet_is_accounted_for(trim: str, reliability: str, pfc: bool) -> None:
    backend = network(
        [100] * 5,
        trim=trim,
        reliability=reliability,
        pfc={"enabled": pfc},
        buffer={"capacity": "40 kB" if not pfc else "90 kB"},
        ecn={"kmin": "2 kB", "kmax": "8 kB"},
    )
    tables = run(backend, [0, 1, 2, 3], [4, 4, 4, 4], 60_000)
    flows, ports, windows, counts = tables["flows"], tables["ports"], tables["port_windows"], backend.counts()
    lost = flows["dropped"] + flows["trimmed"]
    if counts["packets_in_network"] == 0:
        assert (flows["sent"] == flows["delivered"] + lost).all()
    assert (flows["sent"] - flows["delivered"] - lost).sum() <= counts["packets_in_network"]
    assert (flows["sent"] - flows["resent"] == flows["packets"]).all()
    assert counts["packets"] == sum(counts[f"packets_{name}"] for name in ("delivered", "dropped", "in_network"))
    assert bool(lost.sum()) == (not pfc)
    assert bool(ports["pauses"].sum()) == pfc
    assert counts["packets_marked"] == ports["marked"].sum() == flows["marked"].sum() > 0
    for name in ("marked", "dropped", "trimmed", "pauses", "paused"):
        assert np.array_equal(windows[name].sum(axis=0), ports[name]), name
    assert np.array_equal(windows["depth"].max(axis=0), ports["depth"])


def test_windows_hold_what_happened_in_them() -> None:
    """A burst at the start, then a message alone, 65 us later."""
    backend = network([100, 100, 100], window=10_000, timeout="0 ns")
    plane = np.zeros(2, np.int64)
    backend.send_many(np.array([0, 1]), np.array([2, 2]), np.full(2, 80_000), plane, 0)
    while len(backend.advance(65_000)[0]):
        pass
    backend.send_many(np.array([0]), np.array([2]), np.full(1, 1000), plane[:1], 65_000)
    while len(backend.advance(None)[0]):
        pass
    backend.finish(backend.now)
    table = backend.tables()["port_windows"].columns
    flits = backend.windows_table().counts["flits"].sum(axis=1)
    assert len(flits) == 7
    assert flits[0] > flits[1] > 0
    assert flits[2:6].tolist() == [0, 0, 0, 0]
    assert 0 < flits[6] < flits[1]
    depth = table["depth"].max(axis=1)
    assert depth[0] > 20_000
    assert depth[2:6].tolist() == [0, 0, 0, 0]


def test_check_names_the_routes_of_the_backend(tmp_path: Path) -> None:
    """Not the routing algorithm of the network, which the Ethernet backend does not use."""
    file = tmp_path / "run.toml"
    file.write_text(
        '[network]\ntopology = "leaf-spine"\noptions = { npus = 2, leaves = 2, spines = 2 }\n'
        'ethernet = { load_balancing = "spray" }\n[collective]\nkind = "all-reduce"\nsize = "1 KiB"\n'
    )
    found = pyxsim.check(file, backend="ethernet")
    assert found["routing"] is None
    assert found["pairs"] > 0
