"""What memories did, in the result, the file, JSON and the summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyxsim.errors import InputError
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result
from tests.results.conftest import make_memory

Build = Callable[..., Result]


def test_file_and_json(build: Build, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    result = build(memory=make_memory())
    told = result.json()["memory"]
    assert (told["loaded"], told["stored"], told["written"]) == (50, 150, 350)
    assert told["busy"] == (200 + 50) / 2 / 250
    assert told["used"] == [
        {"name": "pool", "bytes": 500, "busy": 200 / 250},
        {"name": "link", "bytes": 300, "busy": 150 / 250},
    ]
    result.save(tmp_path / "out.h5")
    read = Result.load(tmp_path / "out.h5")
    assert read.json() == result.json()
    assert read.memory is not None
    assert read.memory.used["bandwidth"].tolist() == [2e9, 0]


def test_summary(build: Build) -> None:
    lines = [line.split(maxsplit=2) for line in text(build(memory=make_memory())).splitlines()]
    assert ["remote", "memory", "50 B  loaded by the NPUs, 150 B stored; at most pool 80.0 % busy"] in lines
    assert ["NPUs'", "memory", "50.0 %  busy on average, NPU 0 80.0 %; 600 B of communication"] in lines


def test_none(result: Result) -> None:
    assert "memory" not in result.json()
    with pytest.raises(InputError, match="no table 'memories', which exists only with"):
        result.to_xarray("memories")
