"""`pyxsim workload` with GOAL schedules: show, check and convert them, and convert others into them."""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np

from pyxsim.chakra.groups import groups_beside, read_groups
from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.reports.text.facts import plural
from pyxsim.results.hdf5 import check_writable
from pyxsim.units import format_bytes, format_time_ns
from pyxsim.workload.export import export
from pyxsim.workload.goal import ENDINGS, Op, read_goal, write_goal
from pyxsim.workload.goal.expand import without_collectives
from pyxsim.workload.goal.tasks import graph_of, schedule_of
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.graph import check as check_graph

_CLOCK = Fraction(10**9)
_WORDS = {Op.SEND: "send", Op.RECV: "recv", Op.CALC: "calc"}


def is_goal_target(target: str) -> bool:
    """Return whether a target is a GOAL schedule, by its ending."""
    return target.endswith(ENDINGS)


def show_goal(out: CommandOutput, name: str) -> None:
    """Count operations, bytes and times of a schedule, one rank at a time. Raises InputError."""
    operations: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    dependencies = 0
    with read_goal(name) as schedule:
        for rank in schedule.ranks:
            dependencies += len(rank.after)
            for op, word in _WORDS.items():
                mine = rank.size[rank.kind == op]
                operations[word] += len(mine)
                sizes[word] += int(mine.sum(dtype=object)) if len(mine) else 0
    count = sum(operations.values())
    out.say(f"{plural(schedule.count, 'rank')}, {plural(count, 'operation')}, {dependencies:,} dependencies")
    for word, number in operations.items():
        amount = format_time_ns(sizes[word]) if word == "calc" else format_bytes(sizes[word])
        out.say(f"{word}  {number:,}  {amount}")
    facts = {"ranks": schedule.count, "operations": dict(operations), "dependencies": dependencies}
    out.put({**facts, "calc_ns": sizes["calc"], "sent_bytes": sizes["send"]})


def check_goal(out: CommandOutput, name: str) -> None:
    """Check that a schedule can be carried out on one NPU for each rank. Raises InputErrors: all that is wrong."""
    graph = _graph(name)
    check_graph(graph)
    out.say(f"{plural(graph.npus, 'rank')}, {plural(len(graph), 'task')}: no faults")
    out.put({"ranks": graph.npus, "tasks": len(graph)})


def convert_goal(out: CommandOutput, source: str, target: str) -> None:
    """Write a schedule in the other form, rank by rank, or as traces. Raises InputError."""
    if not is_goal_target(target):
        graph = _graph(source)
        written = export(graph, target, (graph.npus,))
        out.say(f"wrote {plural(written.traces, 'trace')}, {plural(written.nodes, 'node')}: {written.files}")
        out.put({"file": written.files, "traces": written.traces, "nodes": written.nodes})
        return
    if check_writable(target) == Path(os.path.realpath(source)):
        raise InputError("is also the input", file=target, allowed="another name")
    with read_goal(source) as schedule:
        operations = write_goal(schedule, target)
    _wrote(out, target, schedule.count, operations, [])


def traces_to_goal(out: CommandOutput, source: str, target: str) -> None:
    """Write traces as a schedule. Raises InputError."""
    from pyxsim.workload.traces import Rules, read_traces

    ranks = max(find(source)) + 1
    beside = groups_beside(source)
    groups = None if beside is None else read_groups(beside, ranks)
    write_graph(out, read_traces(source, (ranks,), Rules(_CLOCK, groups=groups)), target)


def write_graph(out: CommandOutput, graph: TaskGraph, target: str) -> None:
    """Write a graph with a clock of 1 GHz as a schedule, and say what is left out. Raises InputError."""
    check_writable(target)
    schedule, left_out = schedule_of(without_collectives(graph), _CLOCK)
    if graph.calls:
        left_out.append("collectives are the messages of their algorithm, or of ring or direct; none waits for another")
    if np.any(graph.before_start[1:] > graph.before_start[:-1]):
        left_out.append("a send ends when its message has arrived: run LogGOPSim with -S 0, or it ends at once")
    _wrote(out, target, schedule.count, write_goal(schedule, target), left_out)


def _wrote(out: CommandOutput, target: str, ranks: int, operations: int, left_out: list[str]) -> None:
    out.say(f"wrote {plural(ranks, 'rank')}, {plural(operations, 'operation')}: {target}")
    for text in left_out:
        out.say(f"  {text}")
    out.put({"file": target, "ranks": ranks, "operations": operations, "warnings": left_out})


def _graph(name: str) -> TaskGraph:
    with read_goal(name) as schedule:
        return graph_of(schedule, name)
