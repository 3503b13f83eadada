"""`pyxsim list` and `pyxsim topology`."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from tests.cli.inputs import SMALL, Command


def test_list_in_words(pyxsim: Command) -> None:
    ended = pyxsim("list")
    assert (ended.code, ended.out) == (0, "")
    for part in (
        "topologies",
        "torus",
        "blocks",
        "switch",
        "collective algorithms",
        "halving-doubling",
        "halvingDoubling",
    ):
        assert part in ended.err


def test_list_in_json(pyxsim: Command, tree: Path) -> None:
    ended = pyxsim("list", "--json")
    assert ended.err == ""
    data = json.loads(ended.out)
    names = {
        shelf: [entry["name"] for entry in data[shelf]]
        for shelf in ("topologies", "blocks", "routings", "patterns", "collectives", "readers")
    }
    assert {"torus", "mesh", "ring", "switch", "fully-connected", "garnet-torus"} <= set(names["topologies"])
    assert {"ring", "mesh", "switch", "fully-connected"} <= set(names["blocks"])
    kinds = {entry["name"]: entry["kinds"] for entry in data["collectives"]}
    assert {"all-reduce", "reduce-scatter", "all-gather"} <= set(kinds["halving-doubling"])
    assert "all-to-all" not in kinds["halving-doubling"]
    assert "all-to-all" in kinds["ring"]
    for shelf, entries in names.items():
        for entry, name in zip(data[shelf], entries, strict=True):
            assert len(entry["help"]) > 20, f"{name} does not say what it is"
            assert Path(entry["file"]).exists()
    routings = {(entry["name"], entry["when"]): entry for entry in data["routings"]}
    assert routings["adaptive-xy-yx", "grids of two dimensions or more"]["adaptive"]
    assert not routings["up-down", "graphs"]["adaptive"]
    assert routings["ugal", "grids"]["options"] == {"bias": "0", "via": '"any"'}
    assert routings["ugal", "graphs"]["options"] == {"bias": "0"}
    options = {entry["name"]: entry["options"] for entry in data["topologies"]}
    assert options["torus"] == {"bidirectional": "true"}
    assert all(Path(folder).is_dir() for folders in data["folders"].values() for folder in folders)


def test_list_shows_a_library(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "collectives"
    shelf.mkdir(parents=True)
    (shelf / "cli_test_listed.py").write_text(
        '"""Listed: an algorithm for this test."""\n'
        "from pyxsim.registry import collectives\n"
        'collectives.register("cli-test-listed", kinds=("all-reduce",))(lambda kind, n: None)\n',
        encoding="utf-8",
    )
    data = json.loads(pyxsim("list", "--library", "mine", "--json").out)
    (entry,) = [entry for entry in data["collectives"] if entry["name"] == "cli-test-listed"]
    assert (entry["help"], entry["kinds"]) == ("Listed: an algorithm for this test.", ["all-reduce"])
    (shelf / "cli_test_listed_too.py").write_text("x = 1\n1 / 0\n", encoding="utf-8")
    ended = pyxsim("list", "--library", "mine")
    assert ended.code == 2
    assert ended.lines == [
        f"pyxsim: {shelf / 'cli_test_listed_too.py'}:2: cannot be loaded: ZeroDivisionError: division by zero"
    ]


def facts(pyxsim: Command, *words: str) -> dict[str, object]:
    ended = pyxsim("topology", *words, "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert isinstance(data, dict)
    return data


def test_a_torus(pyxsim: Command) -> None:
    # Dally and Towles: bisection 4 k^(n-1) channels; k/4 hops in each dimension; channel load k/8 on the bidirectional
    # torus with its ties shared between the directions.
    data = facts(pyxsim, "torus", "--shape", "4,4,4")
    assert (data["npus"], data["links"], data["switches"], data["degree"]) == (64, 384, 0, [6, 6])
    assert data["bisection"] == 4 * 4 * 4
    assert data["mean_hops"] == pytest.approx(3 * 4 / 4)
    assert data["max_hops"] == 3 * 2
    assert data["channel_load"] == pytest.approx(4 / 8)
    assert (data["deadlock_free"], data["vc_classes"]) == (True, 2)


def test_a_switch(pyxsim: Command) -> None:
    data = facts(pyxsim, "switch", "--shape", "8")
    assert (data["npus"], data["links"], data["switches"], data["degree"]) == (8, 16, 1, [1, 1])
    assert data["mean_hops"] == pytest.approx(2 * 7 / 8)  # up and down, to all but oneself
    assert data["bisection"] == 4 + 4  # half of the NPUs away from the switch and the others


@pytest.mark.parametrize("shape", ["2,4", "2x4", "2, 4"])
def test_ways_to_write_a_shape(pyxsim: Command, shape: str) -> None:
    assert facts(pyxsim, "mesh", "--shape", shape)["shape"] == [2, 4]


def test_options(pyxsim: Command) -> None:
    one_way = facts(pyxsim, "ring", "--shape", "6", "--set", "network.options.bidirectional=false")
    assert (one_way["links"], one_way["max_hops"]) == (6, 5)


def test_an_experiment(pyxsim: Command, folder: Path) -> None:
    assert facts(pyxsim, "small.toml")["npus"] == 4
    assert facts(pyxsim, "small.toml", "--shape", "3,5")["npus"] == 15
    # What the network has to do need not be said.
    (folder / "network.toml").write_text(SMALL.partition("[collective]")[0], encoding="utf-8")
    assert facts(pyxsim, "network.toml")["npus"] == 4


def test_a_list_of_a_wrong_length_names_its_file(pyxsim: Command, folder: Path) -> None:
    (folder / "topologies").mkdir()
    (folder / "topologies" / "mine.toml").write_text(
        'help = "a ring"\nnpus = 4\nsource = [{title = "none", url = "https://example.org", year = 2024, says = "-"}]\n'
        '[network]\ntopology = "ring"\nshape = [4]\nbandwidth = ["1 GB/s", "2 GB/s"]\n',
        encoding="utf-8",
    )
    ended = pyxsim("list", "mine", "--library", ".")
    assert ended.code == 2
    assert "topologies/mine.toml: network.bandwidth: the list has 2 entries" in ended.err


def test_rings_without_datelines(pyxsim: Command) -> None:
    data = facts(pyxsim, "garnet-torus", "--shape", "4,2,2")
    assert data["deadlock_free"] is False
    assert "d0LocalEast0" in str(data["deadlock"])
    assert (data["mean_hops"], data["unreachable"]) == (None, None)
    ended = pyxsim("topology", "garnet-torus", "--shape", "4,2,2")
    assert ended.code == 0
    assert "can form a cycle" in " ".join(ended.err.split())


def test_in_words(pyxsim: Command) -> None:
    ended = pyxsim("topology", "torus", "--shape", "4,4,4")
    assert (ended.code, ended.out) == (0, "")
    for part in ("64", "384", "6 links from each NPU", "3 links under uniform traffic", "none, proved"):
        assert part in ended.err


def test_graphml(pyxsim: Command, folder: Path) -> None:
    words = ("topology", "torus", "--shape", "3,4")
    ended = pyxsim(*words, "--export", "graphml")
    assert ended.code == 0
    assert "12" in ended.err
    graph = nx.parse_graphml(ended.out)
    assert (len(graph), graph.number_of_edges()) == (12, 48)
    assert pyxsim(*words, "-o", "net.graphml").code == 0
    assert nx.is_isomorphic(nx.read_graphml(folder / "net.graphml"), graph)
    assert (folder / "net.graphml").read_text() == ended.out


@pytest.mark.parametrize(("name", "magic"), [("net.png", b"\x89PNG"), ("net.pdf", b"%PDF"), ("net.svg", b"<?xml")])
def test_a_picture(pyxsim: Command, folder: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    ended = pyxsim("topology", "torus", "--shape", "3,4", "-o", name)
    assert ended.code == 0, ended.err
    assert ended.lines[-1] == f"wrote {name}"
    assert (folder / name).read_bytes().startswith(magic)


def test_list_shows_systems(pyxsim: Command) -> None:
    ended = pyxsim("list", "systems")
    assert ended.code == 0
    for part in ("dgx-h100", "8 NPUs, 900 GB/s each; switch 8", "torus 16 x 16 x 16", "dragonfly (p = 16, a = 32"):
        assert part in ended.err
    data = json.loads(pyxsim("list", "systems", "--json").out)
    (dgx,) = [each for each in data["systems"] if each["name"] == "dgx-h100"]
    assert dgx["published"] == {
        "payload": 37 / 45,
        "npu": 900_000_000_000,
        "all": 7_200_000_000_000,
        "bisection": 3_600_000_000_000,
    }
    assert all(set(each) == {"title", "url", "year", "says"} for each in dgx["sources"])
    assert dgx["assumed"][0]["key"] == "network.topology"
    assert Path(dgx["file"]).name == "dgx-h100.toml"


def test_a_system_is_shown_with_its_sources(pyxsim: Command) -> None:
    words = pyxsim("list", "dgx-h100").err
    assert words == pyxsim("topology", "dgx-h100").err
    for part in ("740 GB/s per NPU", "published", "900 GB/s per NPU", "82.2 % of it is payload", "https://", "assumed"):
        assert part in words
    data = json.loads(pyxsim("topology", "dgx-h100", "--json").out)
    assert (data["name"], data["npus"], data["system"]["name"]) == ("dgx-h100", 8, "dgx-h100")
    assert data["capacity"] == {
        "npu": 740_000_000_000,
        "all": 5_920_000_000_000,
        "bisection": 2_960_000_000_000,
        "exact": True,
        "all_gather": 370 * 10**9 * 8 // 7,
    }
    assert json.loads(pyxsim("topology", "switch", "--shape", "4", "--json").out)["system"] is None


def test_a_part_of_a_system_is_not_compared_with_the_whole(pyxsim: Command) -> None:
    words = pyxsim("topology", "tpu-v4", "--shape", "4,4,4").err
    (published,) = [line for line in words.splitlines() if line.startswith("published")]
    assert published.split() == ["published", "600", "GB/s", "per", "NPU"]


def test_a_system_of_ones_own(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "topologies"
    shelf.mkdir(parents=True)
    text = """
        help = "A box"
        npus = 4
        network = { topology = "ring", shape = [4], bandwidth = "10 GB/s", latency = "1 us" }
        source = [{ title = "Nobody", url = "https://example.org", year = 2020 }]
    """
    (shelf / "my-box.toml").write_text(text, encoding="utf-8")
    (folder / "exp.toml").write_text('network.topology = "my-box"\n' + SMALL.split("\n\n", 1)[1], encoding="utf-8")
    ended = pyxsim("run", "exp.toml", "--library", "mine")
    assert ended.code == 0, ended.err
    assert "my-box 4, all-reduce" in ended.err
    assert "A box" in pyxsim("list", "my-box", "--library", "mine").err
    ended = pyxsim("run", "exp.toml")
    assert (ended.code, "unknown topology 'my-box'" in ended.err) == (2, True)
    assert ended.err.endswith("w-2d, or your own: give its folder with --library DIR\n")
    (shelf / "my-box.toml").write_text(text.replace("ring", "rong"), encoding="utf-8")
    ended = pyxsim("run", "exp.toml", "--library", "mine")
    assert "exp.toml: network.topology: unknown topology 'rong', which the system 'my-box' uses; allowed: " in ended.err


def test_a_model_that_there_is_not_may_be_a_system(pyxsim: Command) -> None:
    ended = pyxsim("list", "dgx-h10")
    assert ended.code == 2
    assert "unknown shelf, model or system 'dgx-h10'" in ended.err
    assert "did you mean 'dgx-h100'?" in ended.err
