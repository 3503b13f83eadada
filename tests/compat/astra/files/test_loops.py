"""Training loops of ASTRA-sim 1, to the nanosecond: every cell of its EndToEnd.csv, over both of its networks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.compat.astra.end_to_end_csv import NAME, write_end_to_end
from pyxsim.compat.astra.files import read_astra
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.workload.critical_path import critical_path
from pyxsim.workload.training_job import TrainingLoopJob
from pyxsim.workload.usage import usage
from validation.reference import reference

CASES: list[dict[str, Any]] = reference("astra1_loops")["cases"]
SMALL = {
    "network.json": """{"topology-name": "Hierarchical", "topologies-per-dim": ["Ring", "Ring"],
        "dimension-type": ["N", "N"], "dimensions-count": 2, "units-count": [4, 2], "links-count": [2, 2],
        "link-latency": [1, 1], "link-bandwidth": [32, 16], "nic-latency": [0, 0], "router-latency": [0, 0],
        "hbm-latency": [500, 500], "hbm-bandwidth": [370, 370], "hbm-scale": [0, 0]}""",
    "system.txt": """scheduling-policy: LIFO endpoint-delay: 1 active-chunks-per-dimension: 1
        preferred-dataset-splits: 2 all-reduce-implementation: ring_ring all-gather-implementation: ring_ring
        reduce-scatter-implementation: ring_ring all-to-all-implementation: ring_ring
        collective-optimization: localBWAware""",
}
LAYERS = "a -1 500 ALLGATHER 4096 700 REDUCESCATTER 8192 900 ALLREDUCE 65536 10"
HEADS = {
    "DATA": "",
    "MODEL": "",
    "HYBRID_DATA_MODEL": "",
    "HYBRID_MODEL_DATA": "",
    "HYBRID_DLRM": "1",
    "HYBRID_DLRM_ENHANCED": "1",
    "HYBRID_TRANSFORMER": "model_parallel_NPU_group: 2",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": "model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 1 2",
    "HYBRID_CUSTOMIZED": "",
    "DISTRIBUTED_INFERENCE": "",
}


def read(folder: Path, files: dict[str, str], **options: Any) -> Any:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return read_astra(*(folder / name for name in files), **options)


def table(result: Result, folder: Path, name: str) -> list[list[str]]:
    write_end_to_end(result, folder / NAME, name)
    with open(folder / NAME, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {50}
    assert not any(cell for row in rows for cell in row[14:])
    return [row[:14] for row in rows if any(row)]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_every_cell(case: dict[str, Any], tmp_path: Path) -> None:
    told = read(tmp_path, case["files"], passes=case["passes"], **case["options"])
    prepared = prepare(told.experiment, backend=told.backend)
    result = simulate(prepared, backend=told.backend)
    assert table(result, tmp_path, case["run_name"]) == case["table"]
    assert isinstance(prepared.job, TrainingLoopJob)
    if case["pass_finish"] is not None:
        assert prepared.job.pass_ends() == case["pass_finish"]


def work(word: str) -> str:
    policy = " HYBRID_DATA_MODEL" if word == "HYBRID_CUSTOMIZED" else ""
    return f"{word} {HEADS[word]}\n3\n" + f"{LAYERS}{policy}\n" * 3


@pytest.mark.parametrize("word", HEADS)
@pytest.mark.parametrize("compat", [True, False], ids=["as there", "as here"])
def test_every_loop_runs(word: str, compat: bool, tmp_path: Path) -> None:
    """To its end, the same from the file of its experiment, with nothing idle and busy at once, and every cycle of its
    end explained."""
    told = read(tmp_path, {**SMALL, "workload.txt": work(word)}, passes=2)
    experiment = (
        told.experiment
        if compat
        else told.experiment.model_copy(update={"system": told.experiment.system.model_copy(update={"compat": None})})
    )
    prepared = prepare(experiment, backend="analytical")
    result = simulate(prepared, backend="analytical")
    job = prepared.job
    assert isinstance(job, TrainingLoopJob)
    times = job.times()
    assert (usage(job.graph, times).busy + usage(job.graph, times).idle == times.last).all()
    steps = critical_path(job.graph, times)
    assert sum(step.end - step.begin for step in steps) == result.time_cycles == times.last
    columns = result.layers
    computed = sum(int(columns[f"{part}_compute"].sum()) for part in ("fwd", "wg", "ig"))
    # NPU 0 computes, or waits, or takes a step.
    exposed = sum(int(columns[f"{part}_exposed"].sum()) for part in ("fwd", "wg", "ig"))
    assert 0 < computed < result.time_cycles
    assert result.time_cycles <= computed + exposed + len(job.graph)
    # A model within a dimension of the network: what is told is told of the network's.
    assert set(result.chunks["dimension"].tolist()) <= {0, 1}
    again = run(experiment, backend="analytical")
    assert again.time_cycles == result.time_cycles
    assert all(np.array_equal(columns[name], again.layers[name]) for name in columns)


def test_rows_of_several_runs(tmp_path: Path) -> None:
    """As ASTRA-sim's --total-stat-rows and --stat-row: a file for several runs, of which each fills its rows."""
    told = read(tmp_path, {**SMALL, "workload.txt": work("DATA")})
    result = run(told.experiment, backend=told.backend)
    path = tmp_path / NAME
    write_end_to_end(result, path, "first", 2, 0)
    write_end_to_end(result, path, "second", 2, 1)
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 3 * 2 + 20
    assert [row[:2] for row in rows[:7]] == [
        ["", ""],
        ["a", "first"],
        ["", "second"],
        ["a", "first"],
        ["", "second"],
        ["a", "first"],
        ["", "second"],
    ]
    assert rows[1][2:] == rows[2][2:]


def test_a_loop_loaded_again(tmp_path: Path) -> None:
    told = read(tmp_path, {**SMALL, "workload.txt": work("DATA")})
    result = run(told.experiment, backend=told.backend)
    result.save(tmp_path / "out.h5")
    again = Result.load(tmp_path / "out.h5")
    assert table(again, tmp_path, "x") == table(result, tmp_path, "x")
