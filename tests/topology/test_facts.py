"""What `pyxsim topology` tells of networks with routers, kinds of links and several routings."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.topology import facts_of, show_topology
from pyxsim.errors import InputError
from pyxsim.settings import Network
from pyxsim.topology import build


def shown(capsys: pytest.CaptureFixture[str], name: str, *overrides: str) -> dict[str, object]:
    with CommandOutput(json=True) as out:
        show_topology(out, name, overrides=overrides)
    data = json.loads(capsys.readouterr().out)
    assert isinstance(data, dict)
    return data


def test_options_behind_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    data = shown(capsys, "dragonfly p=2 a=4 h=2 arrangement=palm-tree routing=ugal")
    assert (data["npus"], data["routers"], data["switches"], data["links"]) == (72, 36, 0, 2 * 72 + 180)
    assert data["kinds"] == {"host": 144, "local": 108, "global": 72}
    assert (data["routing"], data["degree"], data["vc_classes"]) == ("ugal", [5, 5], 4)
    assert data["routings"] == ["minimal", "valiant", "ugal", "ugal-booksim2"]
    assert (data["load_exact"], data["deadlock_free"]) == (False, True)
    hyperx = shown(capsys, "hyperx routers=4x4 concentration=2,2 floor_plan=true")
    assert (hyperx["shape"], hyperx["mean_hops"], hyperx["mean_routers"]) == ([8, 8], 1.5, 2.5)


def test_the_same_as_settings(capsys: pytest.CaptureFixture[str]) -> None:
    data = shown(capsys, "k-ary-n-tree", "network.options.k=2", "network.options.n=3")
    assert data == shown(capsys, "k-ary-n-tree k=2 n=3")
    assert (data["npus"], data["switches"], data["deadlock_free"]) == (8, 8, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dragonfly p=2 a=4 h=2 routing=ugall", "network.router.routing: dragonfly has no routing 'ugall'"),
        ("dragonfly p=2 a=4 H=2", "network.options"),
        ("dragonfly p=2 a h=2", "'a' is not an option of a topology; allowed: options such as k=4 after the name"),
        ("dragonfli p=2", "unknown topology 'dragonfli'"),
    ],
)
def test_faults(name: str, words: str) -> None:
    with CommandOutput(json=True) as out, pytest.raises(InputError) as caught:
        show_topology(out, name)
    assert words in str(caught.value)


def test_a_routing_that_can_deadlock() -> None:
    net = build("dragonfly", options={"p": 1, "a": 4, "h": 1}).routed("ugal-booksim2")
    found = facts_of(net, Network(topology="dragonfly"))
    assert not found.deadlock_free
    assert "can form a cycle" in str(found.deadlock)


def test_what_a_router_does_decides_of_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    name = "mesh routing=minimal-adaptive"
    for reuse, free in (("tail", False), ("drained", True)):
        with CommandOutput(json=True) as out:
            show_topology(out, name, shape="3,3", overrides=[f'network.router.vc_reuse="{reuse}"'])
        assert json.loads(capsys.readouterr().out)["deadlock_free"] is free


def test_a_graph_is_written_and_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "tree.graphml"
    with CommandOutput(json=True) as out:
        show_topology(out, "leaf-spine npus=4 leaves=3 spines=2", file=str(file))
    before = json.loads(capsys.readouterr().out)
    assert nx.read_graphml(file).number_of_edges() == 12
    after = shown(capsys, f"graph file={file}")
    assert [after[key] for key in ("npus", "routers", "links")] == [before[key] for key in ("npus", "routers", "links")]
    assert after["mean_hops"] == before["mean_hops"]
    # A name in an experiment starts at the folder of the experiment.
    text = '[network]\ntopology = "graph"\noptions = { file = "tree.graphml" }\n'
    (tmp_path / "net.toml").write_text(text, encoding="utf-8")
    assert shown(capsys, str(tmp_path / "net.toml"))["npus"] == 12
