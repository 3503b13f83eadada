"""Searches of tiny spaces, against brute force; constraints, continuation, faults."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.results.search import EVALUATIONS, SearchResult, read
from pyxsim.settings.space import read_space
from pyxsim.study.search.cuts import Cutter
from tests.workload.parallel.test_estimate import experiment

SIZES = ["4 KiB", "64 KiB"]
SHAPES = [[2, 8], [4, 4], [16]]


def of_collectives(**search: Any) -> dict[str, Any]:
    return {
        "network": {"topology": "torus", "shape": [4, 4], "bandwidth": "16 GB/s", "latency": "10 ns"},
        "collective": {"kind": "all-reduce", "size": "4 KiB"},
        "search": {"axes": {"collective.size": SIZES, "network.shape": SHAPES}, "objective": "time_ns", **search},
    }


def of_training(folder: Path, **search: Any) -> dict[str, Any]:
    axes = {
        "workload.parallelism.tensor": [1, 2, 4, 8, 16],
        "workload.parallelism.pipeline": [1, 2, 4, 8, 16],
        "workload.parallelism.zero": [0, 1],
        "workload.micro_batch": [1, 2],
    }
    tables = experiment(folder, {})
    del tables["workload"]["parallelism"], tables["workload"]["micro_batch"]
    tables["system"]["npu"]["memory"] = "60 MB"
    return {**tables, "search": {"axes": axes, "decide": "phases", "budget": {"decide": 3}, **search}}


def test_equals_brute_force(tmp_path: Path) -> None:
    found = pyxsim.search(of_collectives(), tmp_path / "out", workers=1)
    times = {}
    for size, shape in itertools.product(SIZES, SHAPES):
        source = of_collectives()
        del source["search"]
        source["collective"]["size"], source["network"]["shape"] = size, shape
        times[size, tuple(shape)] = pyxsim.run(source).time_ns
    best = min(times, key=lambda key: times[key])
    assert (found.best["collective.size"], tuple(found.best["network.shape"])) == best
    assert {(row["collective.size"], tuple(row["network.shape"])): row["time_ns"] for row in found.rows} == times
    assert [row["rank"] for row in found.rows] == [1, 2, 3, 4, 5, 6]
    assert found.counts["decided"] == 6
    again = read(tmp_path / "out")
    assert isinstance(pyxsim.load(tmp_path / "out"), SearchResult)
    assert again.rows == found.rows
    assert (tmp_path / "out" / "table.csv").read_text().count("\n") == 7


def test_training_is_cut_screened_and_decided(tmp_path: Path) -> None:
    axes = {
        "workload.parallelism.tensor": [1, 4, 16],
        "workload.parallelism.pipeline": [1, 4, 16],
        "workload.parallelism.zero": [0, 1],
        "workload.micro_batch": [1],
    }
    source = of_training(tmp_path, axes=axes)
    found = pyxsim.search(source, tmp_path / "out", workers=1)
    can_run = 0
    fastest: dict[tuple[Any, ...], float] = {}
    for values in itertools.product(*source["search"]["axes"].values()):
        tensor, pipeline, zero, micro_batch = values
        single = {**source, "workload": {**source["workload"], "micro_batch": micro_batch}}
        single["workload"]["parallelism"] = {"tensor": tensor, "pipeline": pipeline, "zero": zero}
        del single["search"]
        try:
            pyxsim.check(single, backend="analytical")
        except InputError:
            continue
        can_run += 1
        fastest[values] = 0.0
    assert found.counts["can run"] == can_run
    assert {tuple(row[name] for name in found.axes) for row in found.rows} == set(fastest)
    assert found.counts["decided"] == 3
    assert found.best["state"] == "decided"
    assert found.best["step_time"] == min(row["step_time"] for row in found.rows if row["state"] == "decided")
    assert {row["cause"] for row in found.cuts} == {"memory", "settings"}
    assert sum(row["points"] for row in found.cuts) == found.counts["cut"]
    assert {row["resource"] for row in found.sensitivities} >= {"system.npu.peak", "network.dims[1].bandwidth"}
    assert found.confidence["decided"] == 3


def test_killed_and_continued(tmp_path: Path) -> None:
    """A file of evaluations that is cut off anywhere gives the same table, to the byte."""
    source = of_training(tmp_path, method="tpe", budget={"screen": 12, "decide": 2})
    pytest.importorskip("optuna")
    pyxsim.search(source, tmp_path / "whole", workers=1)
    lines = (tmp_path / "whole" / EVALUATIONS).read_bytes()
    table = (tmp_path / "whole" / "table.csv").read_bytes()
    for seed in range(3):
        folder = tmp_path / f"cut{seed}"
        pyxsim.search(source, folder, overrides=["search.budget.screen=1", "search.budget.decide=0"], workers=1)
        (folder / EVALUATIONS).write_bytes(lines[: random.Random(seed).randrange(len(lines))])
        pyxsim.search(source, folder, workers=1)
        assert (folder / "table.csv").read_bytes() == table


def test_constraints(tmp_path: Path) -> None:
    """Each constraint keeps exactly the points for which it holds."""
    axes = {"workload.parallelism.tensor": [1, 2, 4], "workload.parallelism.pipeline": [1, 2, 3, 4]}
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"product": ["tensor", "pipeline"], "equals": 4}, lambda t, p: t * p == 4),
        ({"product": ["tensor", "pipeline"], "divides": "npus"}, lambda t, p: 16 % (t * p) == 0),
        ({"sum": ["tensor", "pipeline"], "at_most": 5}, lambda t, p: t + p <= 5),
        ({"product": ["pipeline"], "at_least": "tensor"}, lambda t, p: p >= t),
        ({"product": ["tensor"], "at_most": "workload.batch"}, lambda t, p: True),
    ]
    library.load_all(())
    for constraint, holds in cases:
        space = read_space(of_training(tmp_path, axes=axes, constraint=[constraint]))
        cutter = Cutter(space, tmp_path)
        kept = {place for place in space.places() if (cut := cutter.check(place)) is None or cut.cause != "constraint"}
        values = [tuple(space.values(place).values()) for place in kept]
        assert sorted(values) == sorted(pair for pair in itertools.product(*axes.values()) if holds(*pair))


def test_faults(tmp_path: Path) -> None:
    out = tmp_path / "out"
    nothing = of_training(tmp_path, constraint=[{"product": ["tensor"], "at_least": 100}])
    line = r"none of 100 points can run; 100 are cut by constraint \(tensor >= 100\); the nearest misses by 84.0 %"
    with pytest.raises(InputError, match=line):
        pyxsim.search(nothing, out, workers=1)
    tight = of_training(tmp_path)
    tight["system"]["npu"]["memory"] = "1 MB"
    with pytest.raises(InputError, match=r"the nearest misses by .* largest term: "):
        pyxsim.search(tight, out, workers=1)
    cases = [
        ({"constraint": [{"product": ["tensr"], "equals": 4}]}, r"search.constraint\[0\]: .*"),
        ({"objective": "step_tim"}, "search.objective: .*did you mean 'step_time'"),
        ({"screen": "analytica"}, "search.screen: .*did you mean 'analytical'"),
        ({"method": "exhaustive", "budget": {"screen": 2}}, "search.budget.screen: .*more than the budget of 2"),
    ]
    for search, line in cases:
        with pytest.raises(InputError, match=line):
            pyxsim.search(of_training(tmp_path, **search), out, workers=1)
