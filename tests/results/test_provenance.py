from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyxsim import __version__
from pyxsim.results import provenance as module
from pyxsim.results.provenance import provenance, settings_sha256, sha256
from pyxsim.settings import load_experiment, resolved_toml


def test_record() -> None:
    record = provenance()
    assert record["source"] == f"pyxsim {__version__}"
    assert set(record) - {"commit"} == {"source", "version", "created", "python", "numpy", "h5py", "platform"}
    created = datetime.datetime.fromisoformat(record["created"])
    assert abs(datetime.datetime.now(datetime.UTC) - created) < datetime.timedelta(minutes=1)


def test_sha256_of_nothing() -> None:
    # FIPS 180-4: the digest of the empty message
    assert sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256("µ") != sha256("u")


def test_how_a_result_is_computed_is_no_part_of_its_hash() -> None:
    tables = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "all-reduce", "size": "1 KiB"}}

    def hashed(**more: Any) -> str:
        return settings_sha256(resolved_toml(load_experiment({**tables, **more})))

    every = {hashed(run=run) for run in ({}, {"skip": False}, {"threads": 3}, {"checkpoint": "7 min"})}
    assert every == {hashed()}
    assert hashed(output={"seed": 2}) != hashed()
    assert settings_sha256("") == sha256("\n")
    assert settings_sha256("no [toml") == sha256("no [toml")


def test_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._commit(tmp_path / "installed") == ""
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    assert module._commit(tmp_path / "broken") == ""

    def no_git(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    assert module._commit(tmp_path / "tree") == ""
