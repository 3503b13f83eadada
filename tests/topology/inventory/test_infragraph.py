"""InfraGraph files become networks with the names of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.routing import prove
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from pyxsim.topology.from_networkx import read_graph
from pyxsim.topology.inventory.parts import NOTES

yaml = pytest.importorskip("yaml")
library.load_all()

SAMPLE = Path("inputs/inventories/two_servers.yaml").resolve()

OLD = """
infrastructure:
  devices:
    - name: box
      components:
        - {name: xpu, description: a chip, type: xpu}
        - {name: nic, type: nic, external: true}
      links:
        - {name: pcie, bandwidth: {choice: giga_bytes_per_second, giga_bytes_per_second: 25}}
      connections:
        - xpu.0.pcie.nic.0
        - xpu.1.pcie.nic.1
---
infrastructure:
  devices:
    - {name: switch, components: [{name: port, type: custom, count: 4}], links: [], connections: []}
  links: [{name: eth}]
  instances: [{name: box, device: box}, {name: sw, device: switch}]
  connections: [box.0.nic.0.eth.sw.0.port.0, box.0.nic.1.eth.sw.0.port.0, box.1.nic.0.eth.sw.0.port.0,
    box.1.nic.1.eth.sw.0.port.0]
"""

NESTED = """
devices:
  - name: card
    components: [{name: asic, choice: custom, custom: {type: chip}, count: 1}, {name: port, choice: port, count: 2}]
    links: [{name: ic}]
    edges: [{ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: ic}]
  - name: host
    components: [{name: xpu, choice: xpu, count: 2}, {name: card, choice: device, count: 2}]
    links: [{name: pcie}]
    edges: [{ep1: {component: xpu}, ep2: {device: "card[0:2]", component: "asic[0]"}, scheme: one2one, link: pcie}]
instances: [{name: host, device: host, count: 2}]
links: [{name: wire}]
edges:
  - {ep1: {instance: "host[0]", component: "card[0:2].port[0]"}, ep2: {instance: "host[1]", component: "card.port[1]"},
     scheme: one2one, link: wire}
"""


def network(path: Path, **options: Any) -> Topology:
    return build("graph", options={"file": str(path), **options})


def written(folder: Path, text: str) -> Path:
    path = folder / "net.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_parts_links_and_names() -> None:
    net = network(SAMPLE, dims=[4, 2])
    assert (net.npus, net.switches, net.links) == (8, 2 * 6 + 9, 2 * (2 * (4 + 8) + 8 + 8))
    assert [net.router_name[router] for router in net.home[:2]] == ["host.0.xpu.0", "host.0.xpu.1"]
    assert net.link_kinds == ("pcie", "nvlink", "eth", "fabric")
    link = list(net.link_name).index("eth:host.1.nic.2->leaf.0.port.6")
    assert net.link_bandwidth is not None
    assert net.link_latency is not None
    assert (net.link_bandwidth[link], net.link_latency[link]) == ("50 GB/s", "0.5 us")


def test_packets_take_the_fastest_links() -> None:
    net = network(SAMPLE)
    prove(net.relation)
    assert net.routing == "fastest"
    assert kinds_on_the_way(net, 0, 1) == ["nvlink", "nvlink"]
    assert kinds_on_the_way(net, 0, 4) == ["pcie", "eth", "fabric", "fabric", "eth", "pcie"]
    assert net.relation.classes == 1


def kinds_on_the_way(net: Topology, src: int, dst: int) -> list[str]:
    return [net.link_kinds[net.link_dim[link]] for link, _ in net.relation.route(src, dst)]


def test_the_schema_of_connections(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, OLD))
    assert graph.number_of_nodes() == 2 * 4 + 4
    assert graph.edges["box.1.xpu.0", "box.1.nic.0", 0]["bandwidth"] == "25 GB/s"
    assert [edge for edge in graph.edges(data="bandwidth") if edge[2] is None] == [
        (f"box.{box}.nic.{nic}", "sw.0.port.0", None) for box in range(2) for nic in range(2)
    ]
    assert "no bandwidth of links eth" in graph.graph[NOTES][0]
    assert network(tmp_path / "net.yaml").npus == 4


def test_devices_in_devices(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, NESTED))
    assert graph.has_edge("host.1.card.0.asic.0", "host.1.card.0.port.1")
    assert graph.has_edge("host.0.xpu.1", "host.0.card.1.asic.0")
    assert set(graph["host.0.card.1.port.0"]) == {"host.0.card.1.asic.0", "host.1.card.1.port.1"}
    assert not graph.has_edge("host.0.card.0.asic.0", "host.0.card.1.port.0")


def test_a_rate_for_a_kind_of_links(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, OLD), rates={"eth": "100 Gb/s"})
    assert graph.graph[NOTES] == []
    assert graph.edges["box.0.nic.0", "sw.0.port.0", 0]["bandwidth"] == "12.5 GB/s"
    with pytest.raises(InputError, match=r"options\.rates\.ethh: no links of this kind; .*did you mean 'eth'"):
        read_graph(tmp_path / "net.yaml", rates={"ethh": "100 Gb/s"})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("device: server", "device: sever", r"net.yaml:\d+: instances\[0\]: no device 'sever'; .*mean 'server'"),
        ('"xpu[0:4]"', '"xpu[0:5]"', r"devices\[0\].edges\[0\].*ends after the last of 4"),
        ('"xpu[0:4]"', '"xpu[4]"', r"there is no xpu\[4\]; allowed: 0 to 3"),
        ('"xpu[0:4]"', '"xpu[0:4"', "is not an endpoint"),
        ('"xpu[0:4]"', '"xpu[a]"', "is not a slice"),
        ('"xpu[0:4]"', "gpu", "no component 'gpu'"),
        ("link: eth", "link: ether", r"edges\[0\]: no link 'ether'; allowed: eth"),
        ("scheme: many2many, link: nvlink", "link: nvlink", "scheme is missing"),
        ("scheme: many2many, link: nvlink", "scheme: ring, link: nvlink", "'ring' is unknown; allowed: one2one"),
        ("count: 2 }\n  - { name: leaf", "count: 1000000000 }\n  - { name: leaf", "'1000000000' is not allowed"),
        ("count: 2 }\n  - { name: leaf", "count: 999999999 }\n  - { name: leaf", "too many; allowed: at most 1048576"),
        ("choice: xpu", "choice: gpu", "'gpu' is unknown; .*mean 'cpu'|did you mean 'xpu'"),
        ("choice: xpu", "choice: cpu", "has no NPU"),
        ("gigabits_per_second: 400", "gigabits_per_second: fast", "'fast' is not allowed"),
        ("name: two-servers", "name: &a two-servers\ndescription: *a", "has an alias"),
        ("name: two-servers", "name: [two", "not valid YAML"),
        ("name: two-servers", "name: x\nname: y", "is given twice"),
        ("name: leaf, device: switch", "name: host, device: switch", "two instances are named 'host'"),
        ("choice: port, count: 8", "name: port", "is given twice"),
    ],
)
def test_faults(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(InputError, match=words):
        network(written(tmp_path, text.replace(old, new)))


def test_a_device_that_contains_itself(tmp_path: Path) -> None:
    text = NESTED.replace("{name: port, choice: port, count: 2}", "{name: host, choice: device, count: 2}")
    with pytest.raises(InputError, match="contains itself"):
        network(written(tmp_path, text))
