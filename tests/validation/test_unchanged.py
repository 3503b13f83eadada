"""The fixed experiments of validation/unchanged.py run, and a difference is found."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import pytest

from tests import fork_server
from validation import unchanged
from validation.unchanged import RUNS, difference, simulate

PYXSIM = str(Path(sys.executable).with_name("pyxsim"))


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command begins as a copy of a process that has imported it."""

    def run(words: list[str], **options: Any) -> Any:
        assert words[0] == PYXSIM
        return fork_server.run([sys.executable, "-m", "pyxsim", *words[1:]], **options)

    monkeypatch.setattr(unchanged, "subprocess", SimpleNamespace(run=run))


def test_equal_and_different_files(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    assert simulate("torus-analytical", before, PYXSIM) is None
    shutil.copytree(before, after)
    assert difference("torus-analytical", after, before, PYXSIM) is None
    with h5py.File(after / "torus-analytical.h5", "a") as file:
        file["links/flits"].attrs["long_name"] = "another description"
    assert difference("torus-analytical", after, before, PYXSIM) is None
    with h5py.File(after / "torus-analytical.h5", "a") as file:
        file["links/flits"][0, 0] += 1
    found = difference("torus-analytical", after, before, PYXSIM)
    assert found is not None
    assert "links/flits" in found


def test_a_failure_is_one_line(tmp_path: Path) -> None:
    RUNS["broken"] = ["run", "inputs/no_such_file.toml"]
    try:
        problem = simulate("broken", tmp_path, PYXSIM)
    finally:
        del RUNS["broken"]
    assert problem is not None
    assert "no such file" in problem
