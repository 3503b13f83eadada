"""Calls of the Python interface with what a user may try: they work, or raise InputError with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.network.delay.delay_network import DelayedNetwork

ALL_REDUCE: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [3]},
    "collective": {"kind": "all-reduce", "size": "4 KiB"},
}
UNIFORM: dict[str, Any] = {"network": {"topology": "ring", "shape": [4]}, "traffic": {"pattern": "uniform"}}
UNIFORM["traffic"] |= {"load": 0.1, "warmup": 100, "measure": 500}


@pytest.fixture(scope="module")
def result() -> pyxsim.Result:
    return pyxsim.run(ALL_REDUCE)


def test_report_and_timeline_take_a_result(
    result: pyxsim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result.save("r.h5")
    assert pyxsim.report(result, "x.html").chapters == pyxsim.report("r.h5", "y.html").chapters
    assert pyxsim.report(result).file == "report.html"
    assert pyxsim.report([result, "r.h5", result]).chapters == pyxsim.report(["r.h5"] * 3).chapters
    made, read = pyxsim.timeline(result), pyxsim.timeline("r.h5")
    assert (made.file, read.file) == ("result.trace.json.gz", "r.trace.json.gz")
    assert made.trace.count() == read.trace.count()
    with pytest.raises(pyxsim.InputError, match=r"^files: no results"):
        pyxsim.report([])


@pytest.mark.parametrize("shape", [4, "44", 2.5, None])
def test_a_shape_is_a_list(shape: Any) -> None:
    with pytest.raises(pyxsim.InputError, match="shape"):
        pyxsim.Torus(shape)


def test_a_curve_of_one_load() -> None:
    assert len(pyxsim.curve(UNIFORM, 0.1, workers=1).points) == 1


@pytest.mark.parametrize("loads", [["a"], "0.1", [0.1, None], [True], -0.1, [float("nan")]])
def test_loads_are_numbers(loads: Any) -> None:
    with pytest.raises(pyxsim.InputError, match=r"^loads: .* is not a load; allowed: numbers above 0"):
        pyxsim.curve(UNIFORM, loads)


def test_compare_takes_a_percentage() -> None:
    assert pyxsim.compare(ALL_REDUCE, within="10%", backends=["analytical"]).within == 0.1


@pytest.mark.parametrize("within", ["ten", "110 %", 1, None, [0.1]])
def test_within_is_a_share(within: Any) -> None:
    with pytest.raises(pyxsim.InputError, match=r"^within: .* is not a fraction; allowed: between 0 and 1"):
        pyxsim.compare(ALL_REDUCE, within=within)


@pytest.mark.parametrize("name", ["small.toml", Path("small.toml")])
def test_from_toml_takes_no_file_name(name: Any) -> None:
    with pytest.raises(pyxsim.InputError, match=r"^small\.toml: is a file name; pyxsim\.load_experiment reads files"):
        pyxsim.Experiment.from_toml(name)


def test_a_backend_without_a_bound_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pyxsim.run(ALL_REDUCE, backend="analytical").json()["bound_ns"] > 0
    monkeypatch.setattr(DelayedNetwork, "delay_terms", None)
    assert pyxsim.run(ALL_REDUCE, backend="analytical").json()["bound_ns"] is None
    assert pyxsim.check(ALL_REDUCE, backend="analytical")["bound_ns"] is None
