"""Every file of inputs/training/ runs, and the table of docs/training.md tells what comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pyxsim.runner.lifecycle import run
from pyxsim.settings import load_experiment
from pyxsim.workload.graph import check
from pyxsim.workload.parallel import training_graph

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "inputs" / "training").glob("*.toml"))
LONG = {"llama3", "transformer_1t", "gpt3_128", "gpt3_1024"}  # seconds each


def table() -> dict[str, list[str]]:
    """The rows of the page, by file."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if ".toml`" in line]
    return {row[0].strip("`").removesuffix(".toml"): row[1:] for row in rows if row[0].endswith(".toml`")}


def result_of(path: Path, *overrides: str) -> Any:
    """On the backend that the file names."""
    found = re.search(r"--backend ([\w-]+)", path.read_text(encoding="utf-8"))
    assert found, "the file says how it is run"
    return run(path, backend=found[1], overrides=overrides)


def compare(result: Any, row: list[str]) -> None:
    told = result.json()
    grid = [int(each) for each in row[1].split(" x ")]
    assert int(row[0]) == grid[0] * grid[1] * grid[2] == result.topology.npus
    assert f"{result.time_ns / 1e9:.4g} s" == row[3]
    for column, key in enumerate(("compute_ns", "exposed_ns", "idle_ns"), 4):
        assert f"{100 * told[key]['mean'] / result.time_ns:.1f} %" == row[column]


def test_each_file_stands_in_the_table() -> None:
    assert set(table()) == {path.stem for path in FILES}


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in LONG], ids=lambda path: path.stem)
def test_the_table(path: Path) -> None:
    result = result_of(path)
    assert result.complete
    assert not result.warnings
    compare(result, table()[path.stem])


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in FILES if path.stem in LONG], ids=lambda path: path.stem)
def test_the_rest_of_the_table(path: Path) -> None:
    result = result_of(path)
    assert not result.warnings
    compare(result, table()[path.stem])


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in LONG], ids=lambda path: path.stem)
def test_large_ones_are_made(path: Path) -> None:
    """What takes long is the simulation: the graph of each is made, and can be carried out."""
    experiment = load_experiment(path, ["workload.batch=16"])
    network, workload = experiment.network, experiment.workload
    assert workload is not None
    shape = tuple(dim.npus for dim in network.dims or ())
    graph = training_graph(workload, experiment.system.npu, shape, network.clock)
    check(graph, shape)


def test_1024_npus() -> None:
    """GPT-3 with a sequence for each replica."""
    result = result_of(ROOT / "inputs" / "training" / "gpt3_1024.toml", "workload.batch=8")
    assert result.complete
    assert not result.warnings
