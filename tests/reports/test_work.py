"""What people are told of a workload: its layers, its NPUs, its critical path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyxsim.reports.text import layer_tables, workload_tables
from pyxsim.reports.text.summary import html, text
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.workload.graph import GraphBuilder, Kind
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.layer_table import layer_table
from pyxsim.workload.usage import at_work
from tests.results.conftest import make_layers, make_work
from tests.workload.test_graph_job import run

Build = Callable[..., Result]

TABLES = """
layer        NPUs  compute  communication   exposed  of forward  of weights
embedding é     2    65 ns       142.5 ns  142.5 ns           -    142.5 ns
no layer        1        -              -         -           -           -
all          mean    65 ns       142.5 ns  142.5 ns           -    142.5 ns

time of NPUs            share      mean   least  of       most  of
computing              26.0 %     65 ns   50 ns  NPU 0   80 ns  NPU 1
memory                  6.0 %     15 ns    0 ns  NPU 1   30 ns  NPU 0
communicating          57.0 %  142.5 ns  115 ns  NPU 1  170 ns  NPU 0
exposed communication  57.0 %  142.5 ns  115 ns  NPU 1  170 ns  NPU 0
idle                   11.0 %  27.50 ns    0 ns  NPU 0   55 ns  NPU 1

critical path (5 steps)                    share    time  steps
all-reduce: embedding é, weight gradient  48.0 %  120 ns      2
compute: embedding é, weight gradient     32.0 %   80 ns      1
memory: save                              12.0 %   30 ns      1
not begun                                  8.0 %   20 ns      1

its longest steps      NPU    from    time  more alike  waited
all-reduce: gradients    0  100 ns  120 ns           1  others
compute                  1   20 ns   80 ns
memory: save             0  220 ns   30 ns
not begun                1    0 ns   20 ns
"""


def test_tables(build: Build) -> None:
    result = build(work=make_work(), layers=make_layers())
    shown = text(result)
    assert TABLES in shown
    line = "critical path      48.0 %  all-reduce; compute 32.0 %, memory 12.0 %, not begun 8.0 %"
    assert line in shown.splitlines()
    assert "<td>critical path</td>" in html(result)


def test_narrow(build: Build) -> None:
    """No number is cut off."""
    lines = text(build(work=make_work(), layers=make_layers()), width=80).splitlines()
    assert any(line.startswith("critical path      48.0 %  all-reduce") for line in lines)
    assert any(line.startswith("bandwidth       4.10 GB/s") for line in lines)


def test_nothing_to_tell(build: Build) -> None:
    """Without a graph, and where nothing has ended."""
    assert not list(workload_tables.tables(build()))
    assert workload_tables.facts(build()) == []
    build_graph = GraphBuilder(1)
    build_graph.task(0, Kind.COMPUTE, ticks=7)
    graph, nobody = build_graph.graph(), np.full(1, -1, np.int32)
    times = TaskTimes(np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, -1), nobody, nobody, nobody)
    result = build(work=Work.of(graph, times, 5), complete=False)
    assert workload_tables.facts(result) == []
    assert len(list(workload_tables.tables(result))) == 1


@pytest.mark.parametrize("count", [1, 2, 30])
def test_layers_that_waited_most(build: Build, count: int) -> None:
    """At most six, in their order; all of them in the last line. One alone is no table."""
    zero = np.zeros(count, np.int64)
    columns = {f"{part}_{what}": zero for part in ("fwd", "wg", "ig") for what in ("compute", "comm", "exposed")}
    columns["fwd_exposed"] = np.arange(count)[::-1] * 10
    columns["finished"] = np.full(count, 900)
    result = build(layers={"name": np.array([f"l{number}" for number in range(count)], dtype=object), **columns})
    assert bool(list(layer_tables.tables(result))) == (count > 1)
    shown = text(result)
    for number in range(count):
        assert (f"\nl{number} " in shown) == (count > 1 and number < 6)
    if count == 30:
        assert "all, with 24 more layers" in shown
        assert "4.350 us" in shown


def test_blocks_are_told_together(build: Build) -> None:
    """Of many layers whose names differ by a number; the sums of all NPUs, over all NPUs."""
    b = GraphBuilder(2, layers=["head", *(f"block {number}: MLP" for number in range(30))])
    last = [b.task(npu, Kind.COMPUTE, "head", ticks=10, layer=0, part=1) for npu in (0, 1)]
    for number in range(30):
        npu = number % 2
        name = f"MLP {number}"
        last[npu] = b.task(npu, Kind.COMPUTE, name, ticks=2, layer=number + 1, part=1, before=[last[npu]])
    job, _ = run(b.graph(), (2,))
    table = layer_table(job.graph, at_work(job.graph, job.times(), job.end))
    told = Work.of(job.graph, job.times(), job.end)
    lines = [" ".join(line.split()) for line in text(build(work=told, layers=table, time_cycles=job.end)).splitlines()]
    assert "head 1 10 ns - - - -" in lines
    assert "block *: MLP 30 30 ns - - - -" in lines
    assert "all 40 ns - - - -" in lines
    assert "compute: MLP 0 0 10 ns 2 ns 14" in lines
    assert len(told.totals) == 16, "few enough to be told one by one"


def test_many_totals_are_told_together() -> None:
    b = GraphBuilder(1)
    last: list[int] = []
    for number in range(25):
        last = [b.task(0, Kind.COMPUTE, f"step {number}", ticks=2, before=last)]
    b.task(0, Kind.COMPUTE, "end", ticks=3, before=last)
    job, _ = run(b.graph(), (1,))
    assert Work.of(job.graph, job.times(), job.end).totals == [
        {"kind": "compute", "name": "step *", "part": "", "cycles": 50, "steps": 25},
        {"kind": "compute", "name": "end", "part": "", "cycles": 3, "steps": 1},
    ]
