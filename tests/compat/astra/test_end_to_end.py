"""EndToEnd.csv of workloads that are not ASTRA-sim 1's: means over the NPUs that have a layer."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from pyxsim.compat.astra.end_to_end_csv import COLUMNS, write_end_to_end
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.workload.graph import GraphBuilder, Kind
from pyxsim.workload.layer_table import layer_table
from pyxsim.workload.usage import at_work
from tests.results.conftest import make_layers, make_work
from tests.workload.test_graph_job import run

Build = Callable[..., Result]


def rows_of(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return [row[:14] for row in csv.reader(file) if any(row)]


def test_means(build: Build, tmp_path: Path) -> None:
    """50 and 80 cycles of computing, 170 and 115 of communication, all exposed; 250 in all."""
    write_end_to_end(build(work=make_work(), layers=make_layers()), tmp_path / "out.csv", "first")
    head, layer, rest = rows_of(tmp_path / "out.csv")
    assert head[2:] == [*COLUMNS.values(), "total comp", "total exposed comm"]
    assert layer == [
        *("embedding é", "first", "0.000000", "0.065000", "0.000000", "0.000000", "0.142500", "0.000000"),
        *("0.000000", "0.142500", "0.000000", "0.250000", "0.065000", "0.185000"),
    ]
    assert rest[:2] == ["no layer", "first"]
    assert rest[11] == "0.250000"


def test_without_layers(build: Build, tmp_path: Path) -> None:
    """One row; what is computed is the mean over the NPUs, also over those that do nothing."""
    b = GraphBuilder(4)
    b.tasks([0, 1], Kind.COMPUTE, ticks=[1000, 3000])
    job, _ = run(b.graph(), (4,))
    table = layer_table(job.graph, at_work(job.graph, job.times(), job.end))
    work = Work.of(job.graph, job.times(), job.end)
    write_end_to_end(build(work=work, layers=table, time_cycles=job.end), tmp_path / "out.csv")
    (_, row) = rows_of(tmp_path / "out.csv")
    assert (row[0], row[11:]) == ("all", ["3.000000", "1.000000", "2.000000"])
