"""ASTRA-sim's report at the end of a run, line by line, as users' scripts parse it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.models import Roofline
from pyxsim.results.result import Result
from pyxsim.settings import System
from pyxsim.settings.algorithms import ASTRA_KINDS
from pyxsim.workload import Job
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.job import TaskRun, TaskTimes
from pyxsim.workload.spans import merged

_UNSIGNED = 2**64  # ASTRA-sim prints a negative exposed time, possible in replays, as an unsigned number
_TREE = "double-binary-tree"


class Line(NamedTuple):
    """A line of the log with its logger and level."""

    who: str
    text: str
    level: str = "info"


def finished(
    job: Job, result: Result, system: System, shape: Sequence[int], roofline: Roofline | None = None
) -> list[Line]:
    """Return the report of a complete run.

    Version 2 reports the rings of NPU 0 and each NPU at its end, with a roofline also its utilization; version 1
    reports each pass of a training loop, and all together.
    """
    run = job.tasks()
    if run is None or not job.per_npu:
        passes = [f"pass: {number} finished at time: {_ns(end, result)}" for number, end in enumerate(job.pass_ends())]
        return [Line("workload", line) for line in (*passes, f"all passes finished at time: {result.time_ns}")]
    lines = [Line(*line) for line in _of_npus(run, result, roofline)]
    if not job.sequential:  # pyxsim's own semantics
        return lines
    rings = [Line("system::topology::RingTopology", line) for line in _rings(system, shape)]
    return [*rings, *lines, Line("system", "Exiting", "warning")]


def _rings(system: System, shape: Sequence[int]) -> Iterator[str]:
    """The rings that start at NPU 0, by the algorithms of the system; trees have none."""
    for kind in ASTRA_KINDS:
        setting = system.algorithms(kind) or ()
        names = (setting,) * len(shape) if isinstance(setting, str) else setting
        if any(name.endswith(".et") for name in names):  # a custom collective
            continue
        one = any(name.startswith("one-") for name in names)
        sizes = [prod(shape)] if one else shape
        for dim, (name, size) in enumerate(zip(names, sizes, strict=False)):
            if name != _TREE:
                yield (
                    f"ring of node 0, id: 0 dimension: local total nodes in ring: {size} index in ring: 0 "
                    f"offset: {prod(shape[:dim])} total nodes in ring: {size}"
                )


def _of_npus(run: TaskRun, result: Result, roofline: Roofline | None) -> Iterator[tuple[str, str]]:
    """Yield the lines of each NPU in nanoseconds: its end, and the busy time of each type of task."""
    graph, times = run.graph, run.times
    npus, kind = graph.npus, graph.kind
    names = [name for name, _ in graph.resources]
    cpu = np.array([name == "cpu" for name in names] + [False])[graph.resource]
    # A replayed task is a computation; its resource says whether it was communication.
    replayed = np.array([name == "communication" for name in names] + [True])[graph.resource]
    communicating = np.array([name == "communication" for name in names] + [False])[graph.resource]
    computing = kind == Kind.COMPUTE
    types = {
        "CPU": computing & cpu,
        "GPU": computing & ~cpu & ~replayed,
        "Comm": np.isin(kind, (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE))
        | (computing & replayed)
        | ((kind == Kind.MARK) & communicating),
        "Remote mem": kind == Kind.MEMORY,
    }

    def ns(cycles: IntArray) -> list[int]:
        return [_ns(cycle, result) for cycle in cycles.tolist()]

    end = np.zeros(npus, np.int64)
    np.maximum.at(end, graph.npu, times.end)
    computed = np.zeros(npus, np.int64)
    working = computing & ~cpu
    np.add.at(computed, graph.npu[working], (times.end - times.start)[working])
    wall, gpu = ns(end), ns(computed)
    present = {name: np.bincount(graph.npu[of], minlength=npus) > 0 for name, of in types.items()}
    used = () if roofline is None else _used(graph, times, roofline, result)
    spent = {name: ns(_covered(graph, times, of)) for name, of in types.items()}
    for npu in np.lexsort((np.arange(npus), end)).tolist():
        exposed = (wall[npu] - gpu[npu]) % _UNSIGNED
        yield "workload", f"sys[{npu}] finished, {wall[npu]} cycles, exposed communication {exposed} cycles."
        yield "statistics", f"sys[{npu}]. Post statistics processing start."
        yield "statistics", f"sys[{npu}]. Post statistics processing end."
        yield "statistics", f"sys[{npu}], Wall time: {wall[npu]}"
        for name in types:
            if present[name][npu]:
                yield "statistics", f"sys[{npu}], {name} time: {spent[name][npu]}"
        overlap = spent["GPU"][npu] + spent["Comm"][npu] - wall[npu]
        if overlap > 0:
            yield "statistics", f"sys[{npu}], Total compute-communication overlap: {overlap}"
        for what, unit, values in used:
            yield "statistics", f"sys[{npu}], {what}: {values[npu]:.3f}{unit}"


def _ns(cycles: int, result: Result) -> int:
    return int(cycles * 10**9 / result.clock_hz)


def _used(graph: TaskGraph, times: TaskTimes, roofline: Roofline, result: Result) -> list[tuple[str, str, FloatArray]]:
    """Utilization of the roofline: averages over the time of the computations of each NPU plus 1 ns."""
    tasks = np.flatnonzero((graph.kind == Kind.COMPUTE) & (times.end >= 0))
    took = (times.end - times.start)[tasks] * float(10**9 / result.clock_hz)
    known = (graph.match[tasks] > 0) & (graph.size[tasks] > 0)
    peak, bandwidth = float(roofline.peak), float(roofline.bandwidth)
    intensity = np.where(known, graph.match[tasks] / np.maximum(graph.size[tasks], 1), 0)
    reached = np.minimum(bandwidth * intensity, peak)
    busy = reached / np.where(known, intensity, 1) / bandwidth
    cycles = np.bincount(graph.npu[tasks], weights=took, minlength=graph.npus) + 1

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(graph.npu[tasks], weights=values * took, minlength=graph.npus) / cycles

    return [
        ("Compute bound percentage", "%", 100 * mean((known & (reached >= peak)).astype(np.float64))),
        ("Average compute utilization", "%", 100 * mean(reached / peak)),
        ("Average memory utilization", "%", 100 * mean(busy)),
        ("Average operation intensity", "", mean(intensity)),
    ]


def _covered(graph: TaskGraph, times: TaskTimes, which: np.ndarray) -> IntArray:
    """Cycles per NPU in which at least one of some tasks runs."""
    tasks = np.flatnonzero(which & (times.end >= 0))
    tasks = tasks[np.lexsort((times.start[tasks], graph.npu[tasks]))]
    first, begin, end = merged(graph.npu[tasks].astype(np.int64), times.start[tasks], times.end[tasks], graph.npus)
    return np.diff(np.concatenate([[0], np.cumsum(end - begin)])[first])
