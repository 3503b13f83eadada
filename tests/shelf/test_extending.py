"""What docs/extending_topology.md says of topologies and blocks is so; tests/test_docs.py runs docs/extending.md."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import prove
from pyxsim.topology import Block, product
from pyxsim.topology.routings import graph_routings
from tests import fork_server

MOST_LINES = 40


def section(tree: Path, title: str, page: str = "extending_topology.md") -> str:
    text = (tree / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"## {title}", 1)[1].split("\n## ", 1)[0]


def parts(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}(?: title=.*?)?\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def python(code: str, folder: Path) -> str:
    """What the code prints when it is run in a folder, by a process of its own: it fills the registries."""
    command = [sys.executable, "-c", f"import warnings; warnings.simplefilter('error')\n{code}"]
    run = fork_server.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def topology(tree: Path) -> str:
    return section(tree, "How do I define routes?")


@pytest.fixture
def block(tree: Path) -> str:
    return section(tree, "How do I define a block?")


@pytest.fixture
def library(topology: str, block: str, tmp_path: Path) -> Path:
    """A folder of a user's with the files that the page tells to write."""
    shelf = tmp_path / "mylib" / "topologies"
    shelf.mkdir(parents=True)
    for text, name in ((topology, "spidergon.py"), (block, "hybrid_cube_mesh.py")):
        assert f"`mylib/topologies/{name}`" in text
        (shelf / name).write_text(parts(text, "python")[0], encoding="utf-8")
    return tmp_path


def test_a_topology_with_its_routing_is_one_short_file(topology: str) -> None:
    assert len(parts(topology, "python")[0].splitlines()) <= MOST_LINES


def test_the_file_and_the_proof(topology: str, library: Path) -> None:
    assert python(parts(topology, "python")[1], library) == parts(topology, "text")[0]


def test_it_is_simulated(topology: str, library: Path) -> None:
    network = tomllib.loads(parts(topology, "toml")[0])["network"]
    experiment = {"network": network, "collective": {"kind": "all-reduce", "size": "64 KiB"}}
    code = f"""
import pyxsim
from pyxsim import library
library.load_all(["mylib"])
result = pyxsim.run({experiment!r})
print(result.topology, result.topology.routing, result.time_ns > 0)
"""
    assert python(code, library) == "<Topology spidergon 32: 32 NPUs, 0 switches, 48 links> ugal True\n"


def test_routes_of_the_file(topology: str, library: Path) -> None:
    """Every way is a shortest one, and without the classes they are refused."""
    file = library / "mylib" / "topologies" / "spidergon.py"
    code = """
from pyxsim import library
from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import prove
from pyxsim.topology import build
from pyxsim.topology.bounds import hop_counts
import networkx as nx
library.load_all(["mylib"])
for n in (4, 6, 8, 10, 12, 16, 18):
    net = build("spidergon", options={"n": n})
    away = dict(nx.all_pairs_shortest_path_length(nx.Graph(net.to_networkx())))
    assert hop_counts(net).tolist() == [[away[a][b] for b in range(n)] for a in range(n)], n
try:
    prove(net.relation)
except DeadlockError:
    print("refused")
try:
    build("spidergon", options={"n": 7})
except InputError as error:
    print(error)
"""
    told = "network.options.n: 7 routers have no opposites; allowed: an even number from 4\n"
    assert python(code, library) == told
    text = file.read_text(encoding="utf-8")
    assert text.count("== step, crosses, classes=2)") == 1
    file.write_text(text.replace("== step, crosses, classes=2)", "== step)"), encoding="utf-8")
    assert python(code, library) == "refused\n" + told


def test_a_topology_that_needs_only_its_links(tree: Path, tmp_path: Path) -> None:
    """Its routings are proved, but for those that close a circle, as docs/extending.md says of `table`."""
    file = tmp_path / "mylib" / "topologies" / "circulant.py"
    file.parent.mkdir(parents=True)
    file.write_text(parts(section(tree, "How do I add a network?", "extending.md"), "python")[0], encoding="utf-8")
    code = """
from pyxsim import library
from pyxsim.errors import DeadlockError
from pyxsim.routing import prove
from pyxsim.topology import build
library.load_all(["mylib"])
net = build("circulant", options={"n": 16, "step": 4})
for name in net.routings:
    try:
        prove(net.routed(name).relation)
    except DeadlockError:
        print(name)
"""
    assert python(code, tmp_path).split() == ["minimal-adaptive", "table"]


def test_graphs_have_no_other_routings() -> None:
    assert next(iter(graph_routings())) == "up-down"
    with pytest.raises(InputError, match=r"graphs have no routing 'minimum'; allowed: up-down, .*'minimal'"):
        graph_routings("minimum")


def test_a_block_as_one_dimension_of_a_larger_network(block: str, library: Path) -> None:
    dims = tomllib.loads(parts(block, "toml")[0])["network"]["dims"]
    code = f"""
from pyxsim import library
from pyxsim.routing import prove
from pyxsim.topology import build
library.load_all(["mylib"])
prove(build("hybrid-cube-mesh", [8]).relation)
net = build(None, None, {dims!r})
prove(net.relation)
print(net)
"""
    # 4 boxes of 2 * 16 links, 8 switches with 4 links up and 4 down.
    expected = "<Topology hybrid-cube-mesh x switch 8x4: 32 NPUs, 8 switches, 192 links>\n"
    assert python(code, library) == expected


def test_the_ring_that_is_refused(block: str) -> None:
    match = re.search(r"`Block\.from_links\(\"five\", 5, (\[.*?\])\)`", block)
    assert match is not None
    links = [tuple(int(n) for n in pair) for pair in re.findall(r"\((\d), (\d)\)", match.group(1))]
    net = product("five", [Block.from_links("five", 5, [(a, b) for a, b in links])])
    with pytest.raises(DeadlockError) as caught:
        prove(net.relation)
    assert len(caught.value.cycle) == 5
