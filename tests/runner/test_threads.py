"""Threads do not show in a result: every dataset of its file is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pyxsim.runner.lifecycle import run

TORUS = {"topology": "torus", "shape": [4, 4], "bandwidth": "256 GB/s", "latency": "20 ns"}
LOAD = {"pattern": "uniform", "load": 0.3, "packet_flits": 5, "warmup": 500, "measure": 2000}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "ring": {"network": TORUS, "collective": {"kind": "all-reduce", "size": "64 KiB"}},
    "direct": {
        "network": TORUS,
        "collective": [
            {"kind": "all-to-all", "size": "20 KiB", "algorithm": "direct"},
            {"kind": "all-gather", "size": "4 KiB", "at": "1 us"},
        ],
    },
    "traffic": {"network": TORUS, "traffic": LOAD},
}


def datasets(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return found


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_dataset_is_the_same(name: str, tmp_path: Path) -> None:
    told = {}
    for threads in (1, 2, 3):
        result = run(EXPERIMENTS[name], overrides=[f"run.threads={threads}", "output.window=100 ns"])
        assert result.counts["threads"] == threads
        result.save(tmp_path / f"{threads}.h5")
        told[threads] = datasets(tmp_path / f"{threads}.h5")
    assert told[1]
    for threads in (2, 3):
        assert told[threads].keys() == told[1].keys()
        for key, values in told[1].items():
            assert np.array_equal(told[threads][key], values), key


def test_why_there_is_one() -> None:
    result = run(EXPERIMENTS["ring"], overrides=["run.threads=2", "output.attribution=links"])
    assert (result.counts["threads"], result.json()["threads"]) == (1, 1)
    assert result.json()["threads_why"] == "attribution and --watch need one thread"
    result = run(EXPERIMENTS["ring"])
    assert result.json()["threads"] == 1
