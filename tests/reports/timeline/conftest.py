"""Runs whose traces are looked at, in files: what is in a trace is compared with what HDF5 says."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyxsim
from pyxsim.results import Result

TORUS = {
    "network": {"topology": "torus", "shape": [4, 2]},
    "system": {"chunks": 8, "active_chunks": 2},
    "collective": {"kind": "all-reduce", "size": "64 KiB"},
    "output": {"window": "20 ns"},
}


@pytest.fixture(scope="session")
def torus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An all-reduce in 8 chunks and 3 phases on 8 NPUs; two chunks at a time share a dimension."""
    path = tmp_path_factory.mktemp("timeline") / "torus.h5"
    pyxsim.run(TORUS).save(path)
    return path


@pytest.fixture(scope="session")
def workload(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight NPUs that load, gather, compute, scatter and store, task by task."""
    path = tmp_path_factory.mktemp("timeline") / "workload.h5"
    file = tree / "inputs" / "memory" / "zero_infinity.toml"
    pyxsim.run(str(file), backend="analytical", overrides=["output.tasks=true"]).save(path)
    return path


@pytest.fixture(scope="session")
def traffic() -> Result:
    """Open traffic: no chunks at all."""
    return pyxsim.run(
        {
            "network": {"topology": "torus", "shape": [4]},
            "traffic": {"pattern": "uniform", "load": 0.2, "warmup": 100, "measure": 500},
        }
    )
