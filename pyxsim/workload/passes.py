"""Repeats a graph: the passes of a trace."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.workload.graph import Kind, TaskGraph

MOST_TASKS = 2**26  # some gigabytes
_NONE = {"peer": -1, "call": -1, "resource": -1, "layer": -1}  # of a mark; its other columns are 0
_LISTS = ("before_start", "before")


def repeated(graph: TaskGraph, passes: int) -> TaskGraph:
    """Return the graph `passes` times. Each NPU begins a pass when it has ended the previous one, independently of
    others.

    Between two passes each NPU has a mark; each pass has collectives of its own. Raises InputError for too many tasks.
    """
    if passes == 1:
        return graph
    tasks, npus = len(graph), graph.npus
    if passes * (tasks + npus) > MOST_TASKS:
        problem = f"{passes} passes of {tasks} tasks are too many"
        raise InputError(problem, key="workload.passes", allowed=f"at most {MOST_TASKS} tasks together")
    turn = np.repeat(np.arange(passes), tasks + npus)[:-npus]  # no marks after the last pass
    columns: dict[str, Any] = {}
    for field in fields(graph):
        column = getattr(graph, field.name)
        if isinstance(column, np.ndarray) and field.name not in _LISTS:
            marks = np.full(npus, _NONE.get(field.name, 0), column.dtype)
            columns[field.name] = np.tile(np.concatenate([column, marks]), passes)[:-npus]
    mark = np.tile(np.arange(tasks + npus) >= tasks, passes)[:-npus]
    columns["npu"][mark] = np.tile(np.arange(npus), passes - 1)
    columns["kind"][mark] = Kind.MARK
    columns["name"][mark] = len(graph.names)
    columns["call"] += np.where(columns["call"] >= 0, turn * len(graph.calls), 0).astype(columns["call"].dtype)
    columns["before_start"], columns["before"] = _waits(graph, passes)
    columns |= {"calls": graph.calls * passes, "names": [*graph.names, "next pass"]}
    rest = {field.name: getattr(graph, field.name) for field in fields(graph) if field.name not in columns}
    return TaskGraph(**rest, **columns)


def _waits(graph: TaskGraph, passes: int) -> tuple[IntArray, IntArray]:
    """Dependencies: those of the graph, the first tasks of a pass on the mark, and the mark on the last tasks
    before."""
    tasks, step = len(graph), len(graph) + graph.npus
    counts = np.diff(graph.before_start)
    task = np.repeat(np.arange(tasks), counts)
    first = np.flatnonzero(counts == 0)
    last = np.flatnonzero(np.bincount(graph.before, minlength=tasks) == 0)
    turns = np.arange(passes)[:, np.newaxis] * step
    edges = (  # dependent, dependency, passes
        (task, graph.before, turns),
        (tasks + graph.npu[last], last, turns[:-1]),
        (step + first, tasks + graph.npu[first], turns[:-1]),
    )
    waiting = np.concatenate([(edge + turns).ravel() for edge, _, turns in edges])
    whom = np.concatenate([(edge + turns).ravel() for _, edge, turns in edges])
    start = np.zeros(passes * step - graph.npus + 1, np.int64)
    np.cumsum(np.bincount(waiting, minlength=len(start) - 1), out=start[1:])
    return start, whom[np.argsort(waiting, kind="stable")]
