"""Slices of workloads: computation, memory accesses and communication of NPUs, and the critical path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.timeline.clock import Clock
from pyxsim.reports.timeline.trace_model import Place, Process, Rows, Slices, Trace
from pyxsim.results.result import Result
from pyxsim.results.work import ACTIVITIES, LAYER_PARTS, REASONS, Columns, Work

COMPUTE, MEMORY, COMMUNICATION = range(len(ACTIVITIES))
_THREADS = {"compute": COMPUTE, "memory": MEMORY}  # by kind of task; marks are no work; the rest communicates
_MARK = "mark"
_PARTS = {int(part): text for part, text in LAYER_PARTS.items()}


def work_rows(work: Work, clock: Clock) -> tuple[Columns, IntArray]:
    """Return the table of the NPUs' activities, and which of its rows are in the range.

    The table has the tasks, or the intervals of /timeline if tasks were not recorded.
    """
    if not work.tasks:
        table = dict(work.timeline)
        return table, clock.shown(table["begin"], table["end"])
    table = {**work.tasks, "begin": work.tasks["start"], "open": work.tasks["end"] < 0}
    table["end"] = np.where(table["open"], clock.end, table["end"])
    table["doing"] = np.array([_THREADS.get(kind, COMMUNICATION) for kind in work.kinds], np.int64)[table["kind"]]
    mark = np.array([kind == _MARK for kind in work.kinds])[table["kind"]]
    rows = clock.shown(table["begin"], table["end"])
    return table, rows[~mark[rows]]


def work_slices(work: Work, clock: Clock, trace: Trace, rows: Rows, process: dict[int, Process]) -> Iterator[Slices]:
    """Return a slice per row on the thread of its NPU and activity; tasks in layers have their layers above them."""
    mine = {name: values[rows.work] for name, values in rows.table.items()}
    if work.tasks:
        yield from _layers(work, clock, trace, mine, process)
    begin, end = clock.ns(mine["begin"]), clock.ns(mine["end"])
    group = mine["npu"].astype(np.int64) * len(ACTIVITIES) + mine["doing"]
    tid = trace.threads(
        group, begin, end, lambda place: (process[place // len(ACTIVITIES)], ACTIVITIES[place % len(ACTIVITIES)])
    )
    cycles = clock.args(mine["begin"], mine["end"])

    def stretch(row: int) -> str:
        return ACTIVITIES[mine["doing"][row]]

    def task(row: int) -> str:
        number = int(mine["name"][row])
        return work.names[number] if number >= 0 and work.names[number] else work.kinds[mine["kind"][row]]

    def args(row: int) -> dict[str, Any]:
        args: dict[str, Any] = {"task": int(rows.work[row]), "kind": work.kinds[mine["kind"][row]]}
        args |= _place(work, mine, row)
        args |= {"bytes": int(mine["bytes"][row])} if mine["bytes"][row] else {}
        args |= {"waited_cycles": int(mine["begin"][row] - mine["ready"][row]), "critical": int(mine["critical"][row])}
        return {**args, **({"unfinished": 1} if mine["open"][row] else {}), **cycles(row)}

    yield Slices("work", tid, begin, end, *((task, args) if work.tasks else (stretch, cycles)))


def _place(work: Work, mine: Columns, row: int) -> dict[str, str]:
    """The layer and part of a row, if any."""
    layer, part = int(mine["layer"][row]), _PARTS.get(int(mine["part"][row]), "")
    args = {"layer": work.layers[layer]} if layer >= 0 else {}
    return {**args, **({"part": part} if part else {})}


def _layers(work: Work, clock: Clock, trace: Trace, mine: Columns, process: dict[int, Process]) -> Iterator[Slices]:
    """Consecutive computation of the same layer and part on an NPU, as one slice."""
    rows = np.flatnonzero((mine["doing"] == COMPUTE) & (mine["layer"] >= 0))
    if not len(rows):
        return
    rows = rows[np.lexsort((mine["begin"][rows], mine["npu"][rows]))]
    key = np.stack([mine[name][rows].astype(np.int64) for name in ("npu", "layer", "part")])
    new = np.ones(len(rows), bool)
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    first = np.flatnonzero(new)
    npu = key[0, first]
    begin, end = mine["begin"][rows][first], np.maximum.reduceat(mine["end"][rows], first)
    start, stop = clock.ns(begin), clock.ns(end)
    tid = trace.threads(npu, start, stop, lambda each: (process[each], "layers"))

    def name(row: int) -> str:
        return ", ".join(_place(work, mine, int(rows[first[row]])).values())

    yield Slices("layer", tid, start, stop, name, clock.args(begin, end))


def arrows(work: Work, result: Result, slices: Slices, rows: Rows, chunks: Slices | None) -> list[tuple[Place, Place]]:
    """Return arrows between tasks on different threads, and from tasks to the chunks of their collectives.

    An arrow leads from the task whose end started another one. `slices` and `chunks` are those of tasks and chunks.
    """
    shown = rows.work
    place = np.full(len(work.tasks["npu"]), -1, np.int64)
    place[shown] = np.arange(len(shown))
    pairs: list[tuple[Place, Place]] = []
    for row, cause in enumerate(work.tasks["cause"][shown].tolist()):
        source = int(place[cause]) if 0 <= cause < len(place) else -1
        if source >= 0 and slices.tid[source] != slices.tid[row]:
            pairs.append(((slices, source), (slices, row)))
    if chunks is None:
        return pairs
    names = [str(row.get("name", "")) for row in result.collectives]
    mine = {name: result.chunks[name][rows.chunks].tolist() for name in ("collective", "phase", "rank", "ready")}
    first: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for row, (collective, phase, rank, ready) in enumerate(zip(*mine.values(), strict=True)):
        if phase == 0 and names[collective]:
            first.setdefault((rank, ready), []).append((names[collective], row))
    columns = (work.tasks[name][shown].tolist() for name in ("name", "npu", "start"))
    for row, (number, npu, start) in enumerate(zip(*columns, strict=True)):
        for name, chunk in first.get((npu, start), ()) if number >= 0 else ():
            # The task may say more: "MLP, sum of outputs, micro-batch 0".
            if work.names[number] == name or work.names[number].startswith(f"{name}, "):
                pairs.append(((slices, row), (chunks, chunk)))
    return pairs


def path_slices(work: Work, clock: Clock, trace: Trace, title: str) -> Slices | None:
    """Return a slice per step of the critical path that takes time, without gaps."""
    path = work.path
    rows = clock.shown(path["begin"], path["end"])
    rows = rows[path["end"][rows] > path["begin"][rows]]
    if not len(rows):
        return None
    mine = {name: values[rows] for name, values in path.items()}
    begin, end = clock.ns(mine["begin"]), clock.ns(mine["end"])
    cycles = clock.args(mine["begin"], mine["end"])

    def name(row: int) -> str:
        number = int(mine["name"][row])
        return work.names[number] if number >= 0 and work.names[number] else work.kinds[mine["kind"][row]]

    def args(row: int) -> dict[str, Any]:
        args: dict[str, Any] = {"npu": int(mine["npu"][row]), "kind": work.kinds[mine["kind"][row]]}
        return {**args, **_place(work, mine, row), "why": REASONS[mine["why"][row]], **cycles(row)}

    thread = trace.thread(trace.process(title), "steps")
    return Slices("critical", np.full(len(rows), thread, np.int64), begin, end, name, args)
