"""Estimates of a training step, against the analytical backend, which simulates every task of every NPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim import library
from pyxsim.settings import load_experiment
from pyxsim.study.search.evaluate import Estimator
from pyxsim.workload.parallel.estimate import dims_along
from pyxsim.workload.parallel.grid import Grid
from tests.in_turn import in_turn

MODEL = """
kind = "transformer"
help = "a small model"
source = "none"
layers = 8
hidden = 256
heads = 8
ffn = 1024
vocabulary = 1000
sequence = 64
"""


def experiment(folder: Path, parallelism: dict[str, Any], **workload: Any) -> dict[str, Any]:
    (folder / "small.toml").write_text(MODEL, encoding="utf-8")
    fast = {"block": "switch", "npus": 4, "bandwidth": "100 GB/s", "latency": "100 ns"}
    slow = {"block": "switch", "npus": 4, "bandwidth": "10 GB/s", "latency": "500 ns"}
    rings = dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather"), "ring")
    npu = {"peak": "1 TFLOP/s", "memory_bandwidth": "1 TB/s"}
    model = {"model": str(folder / "small.toml"), "batch": 32, "micro_batch": 1, "parallelism": parallelism}
    return {
        "network": {"dims": [fast, slow]},
        "system": {**rings, "npu": npu},
        "workload": {**model, **workload},
        "output": {"window": "1 s"},
    }


# The analytical backend has no contention, so what differs is how collectives under way at the same time take turns.
CLOSE = [
    ({"tensor": 4}, {}),
    ({"tensor": 4, "sequence": True, "zero": 1}, {}),
    ({"tensor": 2, "pipeline": 4}, {}),
    ({"tensor": 4, "pipeline": 4}, {"recompute": "full"}),
    ({"tensor": 4, "pipeline": 2, "schedule": "gpipe"}, {}),
    ({"tensor": 4, "pipeline": 2, "schedule": "interleaved", "chunks": 2}, {}),
    ({"pipeline": 8}, {"micro_batch": 2}),
    ({"zero": 3}, {}),
]


@in_turn(("parallelism", "workload"), CLOSE)
def test_like_the_analytical_backend(tmp_path: Path, parallelism: dict[str, Any], workload: dict[str, Any]) -> None:
    tables = experiment(tmp_path, parallelism, **workload)
    simulated = pyxsim.run(tables, backend="analytical").time_ns
    library.load_all(())
    estimated = Estimator(tmp_path).values(load_experiment(tables), "estimate")["step_time"]
    assert estimated == pytest.approx(simulated, rel=0.02)


def test_dimensions_of_an_axis(tmp_path: Path) -> None:
    """Of 4 x 4 NPUs in the order of their numbers, 8 adjacent ones differ in both dimensions, 2 in the first."""

    class Plan:
        shape = (4, 4)
        grid = Grid(tensor=2, data=4, pipeline=2)

    plan: Any = Plan()
    assert dims_along(plan, "tensor") == {0}
    assert dims_along(plan, "data") == {0, 1}
    assert dims_along(plan, "pipeline") == {1}
