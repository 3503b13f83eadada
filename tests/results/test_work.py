"""What the tasks of a workload did, in the result, in the file and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.results import work
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.workload.critical_path import Link
from pyxsim.workload.graph_job import GraphJob
from tests.examples import part_of
from tests.results.conftest import make_graph, make_layers, make_work
from tests.system.test_memory import memory
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.services import FixedHands

Build = Callable[..., Result]


@pytest.fixture
def told(build: Build) -> Result:
    return build(work=make_work(), layers=make_layers())


def steps(found: Work) -> list[tuple[Any, ...]]:
    path = found.path
    return [
        (task, npu, found.kinds[kind], work.REASONS[why], begin, end)
        for task, npu, kind, why, begin, end in zip(
            *(path[name].tolist() for name in ("task", "npu", "kind", "why", "begin", "end")), strict=True
        )
    ]


def test_npus_and_path(told: Result) -> None:
    assert {name: told.npus[name].tolist() for name in work.TIMES} == {
        "compute": [50, 80],
        "memory": [30, 0],
        "communication": [170, 115],
        "exposed": [170, 115],
        "busy": [250, 195],
        "idle": [0, 55],
    }
    assert told.npus["finished"].tolist() == [250, 215]
    assert told.work is not None
    assert steps(told.work) == [
        (-1, 1, "not begun", "begin", 0, 20),
        (1, 1, "compute", "begin", 20, 100),
        (3, 1, "all-reduce", "dependency", 100, 100),
        (2, 0, "all-reduce", "members", 100, 220),
        (4, 0, "memory", "dependency", 220, 250),
    ]
    assert told.tasks["critical"].tolist() == [0, 1, 1, 1, 1]
    assert told.tasks["bytes"].tolist() == [0, 0, 1024, 1024, 0]
    assert told.work.totals == [
        {"kind": "all-reduce", "name": "embedding é", "part": "weight gradient", "cycles": 120, "steps": 2},
        {"kind": "compute", "name": "embedding é", "part": "weight gradient", "cycles": 80, "steps": 1},
        {"kind": "memory", "name": "save", "part": "", "cycles": 30, "steps": 1},
        {"kind": "not begun", "name": "", "part": "", "cycles": 20, "steps": 1},
    ]


def test_json(told: Result) -> None:
    summary = told.json()
    assert summary["idle_ns"] == {"min": 0, "mean": 27.5, "max": 55, "min_npu": 0, "max_npu": 1}
    path = summary["critical_path"]
    assert path["steps"] == 5
    assert sum(row["ns"] for row in path["totals"]) == told.time_ns
    assert list(path["by_kind"].items()) == [("all-reduce", 120), ("compute", 80), ("memory", 30), ("not begun", 20)]
    assert path["longest"][0] == {
        **{"task": 2, "npu": 0, "kind": "all-reduce", "name": "gradients", "layer": "embedding é"},
        **{"part": "weight gradient", "why": "members", "begin_ns": 100, "end_ns": 220},
    }
    (layer, rest) = told.tables()["layers"]
    assert (layer["name"], layer["npus"], layer["wg_compute"], layer["exposed_npu"]) == ("embedding é", 2, 65, 0)
    assert rest["name"] == "no layer"
    json.dumps({**summary, **told.tables()}, allow_nan=False)


@pytest.mark.parametrize("tasks", [False, True])
def test_file(build: Build, tmp_path: Path, tasks: bool) -> None:
    pytest.importorskip("h5py")
    result = build(work=make_work(tasks=tasks), layers=make_layers())
    result.save(tmp_path / "out.h5")
    read = Result.load(tmp_path / "out.h5")
    assert read.json() == result.json()
    for name in ("npus", "critical_path", "tasks"):
        first, second = getattr(result, name), getattr(read, name)
        assert list(first) == list(second)
        for column in first:
            assert first[column].dtype == second[column].dtype
            assert (first[column] == second[column]).all()
    assert (result.tasks == {}) != tasks
    assert read.tables()["layers"] == result.tables()["layers"]


def test_xarray(told: Result) -> None:
    pytest.importorskip("xarray")
    path, tasks = told.to_xarray("critical_path"), told.to_xarray("tasks")
    assert path.why_name.to_numpy()[path.why].tolist() == ["begin", "begin", "dependency", "members", "dependency"]
    assert tasks.task_name.to_numpy()[tasks.name][-1] == "save"
    assert tasks.layer_name.to_numpy().tolist() == ["embedding é"]
    assert list(path.why_name.to_numpy()) == [link.value for link in Link]


def test_no_graph(result: Result) -> None:
    assert result.npus == result.critical_path == result.tasks == {}
    with pytest.raises(InputError, match="no table 'npus', which exists only with a workload"):
        result.to_xarray("npus")


def test_what_is_too_much_is_told(monkeypatch: pytest.MonkeyPatch, build: Build, tmp_path: Path) -> None:
    """The first rows are there, with what they all add up to."""
    pytest.importorskip("h5py")
    whole = make_work()
    monkeypatch.setattr(work, "MOST_ROWS", 3)
    result = build(work=make_work())
    assert result.work is not None
    assert [len(result.tasks["npu"]), len(result.critical_path["npu"])] == [3, 3]
    assert (result.work.totals, result.work.steps) == (whole.totals, 5)
    assert result.work.warnings == [
        "2 tasks are missing in the file, which contains the first 3",
        "2 steps of the critical path are missing in the file, which contains the first 3",
    ]
    result.save(tmp_path / "out.h5")
    assert Result.load(tmp_path / "out.h5").json() == result.json()


def test_nothing_has_ended(build: Build, tmp_path: Path) -> None:
    """Interrupted in cycle 30."""
    pytest.importorskip("h5py")
    graph, times = make_graph()
    times.end[:] = -1
    times.start[2:] = -1
    result = build(complete=False, time_cycles=30, work=Work.of(graph, times, 30))
    assert result.npus["compute"].tolist() == [30, 10]
    assert result.npus["idle"].tolist() == [0, 20]
    assert len(result.critical_path["task"]) == 0
    result.save(tmp_path / "out.h5")
    read = Result.load(tmp_path / "out.h5")
    assert read.json()["critical_path"] == {"steps": 0, "by_kind": {}, "totals": [], "longest": []}
    assert not np.any(read.npus["finished"])


@settings(max_examples=part_of(60))
@given(drawn=drawn_graphs(remote=True), sharing=st.sampled_from(["fifo", "fair"]), more=st.integers(0, 2))
def test_whatever_the_graph(drawn: Drawn, sharing: str, more: int) -> None:
    """With messages, collectives, a pool of remote memory; also where it does not come to its end."""
    graph = drawn.graph
    pool = memory({"kind": "pool", "latency": 1, "bandwidth": Fraction(2), "sharing": sharing}, graph.npus)
    hands = FixedHands(drawn.shape, remote_memory=pool, start_skew=drawn.skew, slowdown=drawn.slow)
    job = GraphJob(graph)
    job.begin(hands)
    hands.run()
    times = job.times()
    end = max(times.last, int(times.start.max())) + more * (job.left > 0)
    found = Work.of(graph, times, end, tasks=True)
    assert (found.npus["busy"] + found.npus["idle"] == end).all()
    assert sum(found.by_kind.values()) == times.last
    assert found.steps == len(found.path["task"])
    if not job.left:
        assert int((found.path["end"] - found.path["begin"]).sum()) == end == job.end
    on_it = set(found.path["task"].tolist()) - {-1}
    assert set(np.flatnonzero(found.tasks["critical"]).tolist()) == on_it
    for task in range(len(graph)):
        assert found.names[found.tasks["name"][task]] == graph.names[graph.name[task]]
    # The picture tells the same as the sums.
    table = found.timeline
    shown = work.representatives(found.npus["like"], found.npus["idle"], found.path).tolist()
    for npu in range(graph.npus):
        like = int(found.npus["like"][npu])
        assert like in shown
        for number, name in enumerate(work.ACTIVITIES):
            which = (table["npu"] == like) & (table["doing"] == number)
            assert (table["end"][which] - table["begin"][which]).sum() == found.npus[name][npu]
        assert all(found.npus[name][npu] == found.npus[name][like] for name in work.TIMES)
