"""The key of a point changes with whatever its result depends on, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.settings import load_experiment
from pyxsim.study.sweep.keys import Keys
from tests.study.sweep.small import RING


def key(folder: Path, overrides: tuple[str, ...] = (), source: dict[str, Any] = RING, **more: Any) -> str:
    more = {"backend": "packet", **more}
    return Keys(folder, **more).key(load_experiment(source, overrides))


def test_it_is_that_of_the_settings_however_they_are_written(tmp_path: Path) -> None:
    same = key(tmp_path)
    assert len(same) == 64
    assert key(tmp_path, ("network.latency=1 ns",)) != same  # a time is another setting than a cycle
    assert key(tmp_path, ("network.bandwidth=0.1 TB/s",)) == key(tmp_path, ("network.bandwidth=100 GB/s",))
    assert key(tmp_path, ("run.threads=2", "run.skip=false")) == same


@pytest.mark.parametrize("change", ["output.seed=2", "traffic.load=0.2", "output.window=2 us", "network.router.vcs=8"])
def test_settings_that_count(tmp_path: Path, change: str) -> None:
    assert key(tmp_path, (change,)) != key(tmp_path)


def test_how_it_is_run_counts_where_it_changes_the_result(tmp_path: Path) -> None:
    keys = {key(tmp_path), key(tmp_path, backend="flow"), key(tmp_path, allow_deadlock=True)}
    assert len(keys) == 3


def test_what_stands_in_named_files_counts(tmp_path: Path) -> None:
    source = {"network": RING["network"], "workload": {"file": "train.txt"}}
    file = tmp_path / "train.txt"
    file.write_text("DATA\n1\n")
    first = key(tmp_path, source=source)
    assert key(tmp_path, source=source) == first
    file.write_text("DATA\n2\n")
    assert key(tmp_path, source=source) != first


def test_traces_are_files_by_the_begin_of_their_names(tmp_path: Path) -> None:
    source = {"network": RING["network"], "workload": {"file": "traces/step"}}
    (tmp_path / "traces").mkdir()
    for rank in range(2):
        (tmp_path / "traces" / f"step.{rank}.et").write_bytes(b"a")
    first = key(tmp_path, source=source)
    (tmp_path / "traces" / "step.1.et").write_bytes(b"b")
    assert key(tmp_path, source=source) != first


def test_shelves_of_ones_own_count(tmp_path: Path) -> None:
    shelf = tmp_path / "mine" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "star.py").write_text("a = 1\n")
    (shelf / "__pycache__").mkdir()
    more = {"libraries": [str(shelf.parent)]}
    first = key(tmp_path, **more)
    assert first != key(tmp_path)
    (shelf / "__pycache__" / "star.pyc").write_bytes(b"x")
    assert key(tmp_path, **more) == first
    (shelf / "star.py").write_text("a = 2\n")
    assert key(tmp_path, **more) != first
