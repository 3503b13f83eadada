"""`pyxsim doctor`: good here; and it finds what is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command


def test_all_good(pyxsim: Command, folder: Path) -> None:
    before = sorted(folder.iterdir())
    ended = pyxsim("doctor")
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert ended.lines[-1] == "all good"
    assert sorted(folder.iterdir()) == before


def test_json(pyxsim: Command) -> None:
    ended = pyxsim("doctor", "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert data["ok"] is True
    found = {finding["name"]: finding for finding in data["findings"]}
    for name in (
        "python",
        "pyxsim",
        "numpy",
        "h5py",
        "engine",
        "topologies",
        "collectives",
        "output",
        "self-test",
        "HDF5",
    ):
        assert found[name]["ok"] is True
    assert "build" in found["engine"]["text"]


def broken(pyxsim: Command, name: str) -> str:
    """The first finding that is broken, which has this name; others may be so because of it."""
    ended = pyxsim("doctor", "--json")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    data = json.loads(ended.out)
    assert data["ok"] is False
    bad = [finding for finding in data["findings"] if finding["ok"] is False]
    assert bad[0]["name"] == name
    spoken = pyxsim("doctor")
    assert spoken.code == 1
    assert spoken.lines[-1] == "some checks failed; see above"
    return str(bad[0]["text"])


def test_a_wrong_engine_is_found(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test can fail: here the closed form is another one."""
    monkeypatch.setattr("pyxsim.collective.closed_form.ring_all_reduce_time", lambda *_: 1)
    assert "the closed form gives 1" in broken(pyxsim, "self-test")


def test_a_missing_package_is_found(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyxsim.study.installation.REQUIRED", ("numpy", "pyxsim-needs-this-too"))
    assert broken(pyxsim, "pyxsim-needs-this-too") == "missing: pip install pyxsim-needs-this-too"


def test_a_missing_extra_is_only_told(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyxsim.study.installation.EXTRAS", {"report": ("pyxsim-has-this-not",)})
    ended = pyxsim("doctor")
    assert ended.code == 0
    assert "pip install 'pyxsim[report]'" in ended.err


def test_a_broken_shelf_is_found(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyxsim.errors import InputError

    def fail() -> None:
        raise InputError("is no valid Python", file="torus.py:3")

    monkeypatch.setattr("pyxsim.library.load_all", fail)
    assert broken(pyxsim, "shelves") == "torus.py:3: is no valid Python"


def test_a_folder_that_cannot_be_written_is_found(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", fail)
    assert "cannot be written: Permission denied" in broken(pyxsim, "output")
