"""The part of docs/extending.md about topologies does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pyxsim.errors import DeadlockError
from pyxsim.routing import prove
from pyxsim.topology import Block, product


@pytest.fixture(scope="module")
def section(tree: Path) -> str:
    text = (tree / "docs" / "extending.md").read_text(encoding="utf-8")
    return text.split("## A topology of your own", 1)[1].split("\n## ", 1)[0]


def parts(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


def python(code: str, folder: Path) -> str:
    """What the code prints when it is run in a folder, by an interpreter of its own: it fills the registries."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def library(section: str, tmp_path: Path) -> Path:
    file = tmp_path / "mylib" / "topologies" / "hybrid_cube_mesh.py"
    assert "`mylib/topologies/hybrid_cube_mesh.py`" in section
    file.parent.mkdir(parents=True)
    file.write_text(parts(section, "python")[0], encoding="utf-8")
    return tmp_path


def test_the_file_and_the_proof(section: str, library: Path) -> None:
    assert python(parts(section, "python")[1], library) == parts(section, "text")[0]


def test_as_one_dimension_of_a_larger_network(section: str, library: Path) -> None:
    dims = tomllib.loads(parts(section, "toml")[0])["network"]["dims"]
    code = f"""
from pyxsim import library
from pyxsim.routing import prove
from pyxsim.topology import build
library.load_all(["mylib"])
net = build(None, None, {dims!r})
prove(net.relation)
print(net)
"""
    # 4 boxes of 2 * 16 links, 8 switches with 4 links up and 4 down.
    expected = "<Topology hybrid-cube-mesh x switch 8x4: 32 NPUs, 8 switches, 192 links>\n"
    assert python(code, library) == expected


def test_the_ring_that_is_refused(section: str) -> None:
    match = re.search(r"`Block\.from_links\(\"five\", 5, (\[.*?\])\)`", section)
    assert match is not None
    links = [tuple(int(n) for n in pair) for pair in re.findall(r"\((\d), (\d)\)", match.group(1))]
    net = product("five", [Block.from_links("five", 5, [(a, b) for a, b in links])])
    with pytest.raises(DeadlockError) as caught:
        prove(net.relation)
    assert len(caught.value.cycle) == 5
