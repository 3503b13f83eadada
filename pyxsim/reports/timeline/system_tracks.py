"""Slices of collectives, their chunks on NPUs, and messages between NPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.text.facts import dimension_names
from pyxsim.reports.timeline.clock import Clock
from pyxsim.reports.timeline.trace_model import INTO, OUT, Process, Slices, Trace
from pyxsim.results.result import Result
from pyxsim.results.work import Columns


def chunk_rows(result: Result, clock: Clock) -> IntArray:
    """Return the rows of /chunks in the range: phases that have started."""
    return clock.shown(result.chunks["start"], _ended(result.chunks["end"], clock))


def chunk_slices(result: Result, clock: Clock, trace: Trace, rows: IntArray, process: dict[int, Process]) -> Slices:
    """Return slices per chunk and phase on threads of their NPU and dimension, with arrows between phases.

    `process` is that of each NPU; overlapping slices get further threads.
    """
    mine = {name: values[rows] for name, values in result.chunks.items()}
    unfinished = mine["end"] < 0
    mine["end"] = _ended(mine["end"], clock)
    begin, end = clock.ns(mine["start"]), clock.ns(mine["end"])
    width = int(mine["dimension"].max(initial=0)) + 2  # from -1 on
    dims = {-1: "several dimensions", **{dim: f"dim {name}" for dim, name in dimension_names(result).items()}}
    group = mine["rank"] * width + mine["dimension"] + 1

    def where(place: int) -> tuple[Process, str]:
        npu, dim = divmod(place, width)
        return process[npu], dims.get(dim - 1, f"dim {dim - 1}")

    tid = trace.threads(group, begin, end, where)
    chain, role = _chains(mine)
    names = [str(row.get("name") or row.get("kind") or "") for row in result.collectives]
    kinds = _kinds(result)
    cycles = clock.args(mine["start"], mine["end"])

    def name(row: int) -> str:
        collective, phase = int(mine["collective"][row]), int(mine["phase"][row])
        what = kinds.get((collective, phase)) or f"phase {phase}"
        of = f"{names[collective]}: " if len(names) > 1 else ""
        return f"{of}{what}, chunk {mine['chunk'][row]}"

    def args(row: int) -> dict[str, Any]:
        args: dict[str, Any] = {key: int(mine[key][row]) for key in ("collective", "chunk", "phase", "queue")}
        args |= {"bytes": int(mine["bytes"][row]), "waited_cycles": int(mine["start"][row] - mine["ready"][row])}
        args |= {"unfinished": 1} if unfinished[row] else {"messages": int(mine["messages"][row])}
        return {**args, **cycles(row)}

    return Slices("chunk", tid, begin, end, name, args, chain, role)


def _chains(mine: Columns) -> tuple[IntArray, IntArray]:
    """The chain of each row: the phases of a chunk on an NPU."""
    count = len(mine["chunk"])
    order = np.lexsort((mine["phase"], mine["start"], mine["rank"], mine["chunk"]))
    key = np.stack([mine["chunk"], mine["rank"]])[:, order]
    new = np.ones(count, bool)
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    last = np.roll(new, -1)
    role, chain = np.zeros(count, np.int64), np.zeros(count, np.int64)
    role[order] = np.where(new, 0, INTO) + np.where(last, 0, OUT)
    chain[order] = np.cumsum(new)
    return np.where(role > 0, chain, 0), role


def _kinds(result: Result) -> dict[tuple[int, int], str]:
    """The operation of each phase of each collective."""
    phases = result.phases
    if not len(phases.get("kind", ())):
        return {}
    numbers = zip(phases["collective"].tolist(), phases["phase"].tolist(), strict=True)
    return dict(zip(numbers, phases["kind"].tolist(), strict=True))


def collective_slices(result: Result, clock: Clock, trace: Trace, title: str) -> Slices | None:
    """Return a slice per collective, from its issue until its last NPU is done."""
    begin = np.array([row["start"] for row in result.collectives], np.int64)
    end = np.array([row["end"] for row in result.collectives], np.int64)
    rows = clock.shown(begin, _ended(end, clock))

    def args(row: int) -> dict[str, Any]:
        args = {key: value for key, value in result.collectives[rows[row]].items() if value not in (None, "")}
        return {"collective": int(rows[row]), **args}

    def name(row: int) -> str:
        collective = result.collectives[rows[row]]
        return str(collective.get("name") or collective.get("kind") or f"collective {rows[row]}")

    return _in_lanes("collective", clock, trace, title, begin, end, rows, (name, args))


def message_slices(result: Result, clock: Clock, trace: Trace, title: str) -> Slices | None:
    """Return a slice per message that belongs to no collective, until it is received."""
    begin = np.array([row["start"] for row in result.point_to_point], np.int64)
    end = np.array([row["end"] for row in result.point_to_point], np.int64)
    rows = clock.shown(begin, _ended(end, clock))

    def args(row: int) -> dict[str, Any]:
        return {key: result.point_to_point[rows[row]][key] for key in ("src", "dst", "bytes")}

    def name(row: int) -> str:
        message = result.point_to_point[rows[row]]
        return f"{message['name'] or 'message'}: {message['src']} -> {message['dst']}"

    return _in_lanes("message", clock, trace, title, begin, end, rows, (name, args))


def _in_lanes(
    category: str,
    clock: Clock,
    trace: Trace,
    title: str,
    begin: IntArray,
    end: IntArray,
    rows: IntArray,
    labels: tuple[Any, Any],
) -> Slices | None:
    """Slices in a process with as many threads as overlap; `told` returns their name and args."""
    if not len(rows):
        return None
    first, last = begin[rows], _ended(end, clock)[rows]
    start, stop = clock.ns(first), clock.ns(last)
    process = trace.process(title)
    tid = trace.threads(np.zeros(len(rows), np.int64), start, stop, lambda _: (process, title))
    name, args = labels
    cycles, unfinished = clock.args(first, last), end[rows] < 0

    def all_args(row: int) -> dict[str, Any]:
        return {**args(row), **({"unfinished": 1} if unfinished[row] else {}), **cycles(row)}

    return Slices(category, tid, start, stop, name, all_args)


def _ended(end: IntArray, clock: Clock) -> IntArray:
    """Ends of rows; those without an end last until the end of the run."""
    return np.where(end >= 0, end, clock.end)
