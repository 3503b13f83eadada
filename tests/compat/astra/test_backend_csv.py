"""backend_end_to_end.csv and backend_dim_info.csv: what ASTRA-sim 1 (e4aed7e) wrote for the same files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.astra import backend_csv as backend_tables
from pyxsim.compat.astra.files import read_astra
from pyxsim.compat.astra.files.network_cost import network_cost
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare

FILES = Path(__file__).resolve().parents[3] / "inputs" / "astra"

TORUS = [FILES / name for name in ("torus_network.json", "torus_system.txt", "micro_all_reduce.txt")]
MEASURED = [
    ["run", "35.013000", "0.000000", "35.013000", "8192.000000", "2.953125", "2.250000", "0.562500", "0.140625"],
    [["run", "0", "2.188000"], ["run", "1", "1.114000"], ["run", "2", "0.610000"]],
]


def read(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_as_measured(tmp_path: Path) -> None:
    """Two passes of an all-reduce; a second run fills the row behind."""
    run = read_astra(*TORUS, passes=2)
    prepared: Any = prepare(run.experiment, backend="analytical")
    result = simulate(prepared, backend="analytical")
    assert run.cost is not None
    for row, name in enumerate(("run", "again")):
        backend_tables.write(tmp_path, name, 2, row, prepared, result, run.cost)
    first, second = (read(name) for name in backend_tables.files(tmp_path))
    assert first[0][:6] == ["RunName", "CommsTime", "ComputeTime", "ExposedCommsTime", "Cost", "TotalPayloadSize"]
    assert first[1:] == [[name, *MEASURED[0][1:], *["-1"] * 4] for name in ("run", "again")]
    assert second[0] == ["RunName", "DimensionIndex", "AverageChunkLatency"]
    assert second[1:4] == MEASURED[1]
    assert second[11:14] == [["again", *row[1:]] for row in MEASURED[1]]
    assert len(second) == 21
    assert all(row == ["", "", ""] for row in (*second[4:11], *second[14:]))


@pytest.mark.parametrize(
    ("blocks", "units", "links", "bandwidth", "places", "cost"),
    [
        (["Ring", "FullyConnected", "Switch"], [2, 4, 8], [2, 3, 1], [20, 30, 25.5], ["T", "N", "P"], 57700),
        (["Switch", "Switch"], [4, 16], [3, 2], [50, 10], ["N", "PP"], 90196),
        (["FullyConnected", "Switch"], [4, 8], [6, 4], [50, 100], ["T", "PP"], 498590),
        (["Switch", "Ring"], [8, 4], [2, 5], [37, 12], ["T", "P"], 25218),
        (["Ring", "Switch", "Switch"], [4, 4, 4], [2, 1, 3], [200, 50, 25], ["T", "N", "PP"], 233992),
    ],
)
def test_costs_as_measured(
    tmp_path: Path,
    blocks: list[str],
    units: list[int],
    links: list[int],
    bandwidth: list[float],
    places: list[str],
    cost: int,
) -> None:
    data = json.loads((FILES / "torus_network.json").read_text(encoding="utf-8"))
    dims = len(blocks)
    data = {key: value[:1] * dims if isinstance(value, list) else value for key, value in data.items()}
    data |= {"dimensions-count": dims, "topologies-per-dim": blocks, "units-count": units, "links-count": links}
    data |= {"link-bandwidth": bandwidth, "dimension-type": places}
    path = tmp_path / "network.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert network_cost(path, {}) == cost


def test_other_networks_have_no_price() -> None:
    assert read_astra(FILES / "torus_network.txt", *TORUS[1:]).cost is None
