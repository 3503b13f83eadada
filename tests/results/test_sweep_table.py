"""The tables of a sweep: read back they are what was written."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.results.sweep import Point, Sweep
from pyxsim.results.sweep_table import names_of, save, write_tables

SHAPE = "network.shape"


def made(folder: Path, **more: Any) -> Sweep:
    """Points with every kind of value, one of them failed."""
    values = [
        {"time_ns": 3, "rate": 0.1, "saturated": True, "big": 2**70},
        {"time_ns": 4, "rate": 1e-30, "saturated": False, "big": 1},
        {},
    ]
    points = [
        Point(key, {SHAPE: shape, "name": name}, state, numbers, label=name, cost={"sim_cpu_s": 0.5} if numbers else {})
        for key, shape, name, state, numbers in zip(
            "abc", ([4], [4, 4], [8]), ('x, "y"', "é", "z"), ("done", "done", "failed"), values, strict=True
        )
    ]
    return Sweep(folder, "a title", {SHAPE: [[4], [4, 4], [8]], "name": ['x, "y"', "é", "z"]}, points, **more)


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_csv(tmp_path: Path) -> None:
    sweep = made(tmp_path, goal={"kind": "x"}, answers=[{"name": "x", "state": "found"}, {"name": "y", "value": 2}])
    write_tables(sweep)
    table = rows(tmp_path / "table.csv")
    assert list(table[0]) == [SHAPE, "name", "state", "time_ns", "rate", "saturated", "big", "warnings", "key", "file"]
    assert [row["name"] for row in table] == ['x, "y"', "é", "z"]
    assert [row[SHAPE] for row in table] == ["[4]", "[4, 4]", "[8]"]
    assert [row["rate"] for row in table] == ["0.1", "1e-30", ""]
    assert [row["saturated"] for row in table] == ["true", "false", ""]
    assert table[0]["big"] == str(2**70)
    assert rows(tmp_path / "timing.csv") == [
        {SHAPE: "[4]", "name": 'x, "y"', "sim_cpu_s": "0.5", "key": "a"},
        {SHAPE: "[4, 4]", "name": "é", "sim_cpu_s": "0.5", "key": "b"},
        {SHAPE: "[8]", "name": "z", "sim_cpu_s": "", "key": "c"},
    ]
    assert rows(tmp_path / "answers.csv")[1] == {"name": "y", "state": "", "value": "2"}
    assert {path.name for path in tmp_path.iterdir()} == set(names_of(sweep))


def test_hdf5(tmp_path: Path) -> None:
    write_tables(made(tmp_path, answers=[{"a/b": 1, "state": "found"}]))
    with h5py.File(tmp_path / "table.h5") as file:
        points = file["points"]
        assert points["time_ns"][:2].tolist() == [3, 4]
        assert math.isnan(points["time_ns"][2])
        assert points["saturated"][:2].tolist() == [1, 0]
        assert points["name"].asstr()[1] == "é"
        assert points["big"][0] == 2.0**70
        assert file["answers"]["a_b"][()].tolist() == [1]
        assert (file.attrs["done"], file.attrs["failed"], file.attrs["title"]) == (2, 1, "a title")
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(tmp_path / "table.h5", group="points") as points:
        assert set(points.coords) == {"point", SHAPE, "name"}
        assert np.isnan(points["rate"][2])


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    save(made(tmp_path), tmp_path / "some.parquet")
    table = parquet.read_table(tmp_path / "some.parquet").to_pydict()
    assert table["time_ns"] == [3, 4, None]
    assert table["saturated"] == [True, False, None]
    assert table[SHAPE] == ["[4]", "[4, 4]", "[8]"]
    assert table["big"] == [2.0**70, 1.0, None]


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a table cannot be written as '\.xls'; allowed: \.h5, .*\.csv, \.parquet"):
        save(made(tmp_path), tmp_path / "table.xls")


def test_a_sweep_of_nothing_has_tables(tmp_path: Path) -> None:
    write_tables(Sweep(tmp_path, "nothing", {"a": [1]}, []))
    assert (tmp_path / "table.csv").read_text() == "a,state,warnings,key,file\n"
    with h5py.File(tmp_path / "table.h5") as file:
        assert len(file["points"]["a"]) == 0
