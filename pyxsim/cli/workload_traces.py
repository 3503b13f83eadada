"""`pyxsim workload`: show, check and convert traces, texts and schedules."""

from __future__ import annotations

import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from pyxsim import chakra
from pyxsim.chakra.check import check
from pyxsim.chakra.groups import groups_beside, read_groups
from pyxsim.chakra.statistics import Statistics, statistics, together
from pyxsim.chakra.trace_graph import load
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.goal import check_goal, convert_goal, is_goal_target, show_goal, traces_to_goal
from pyxsim.cli.texts import Loop, check_text, convert_text, show_text
from pyxsim.cli.workload_making import Devices
from pyxsim.errors import InputError, raise_all
from pyxsim.rank_files import ENDS, are_traces, find, refuse_others
from pyxsim.reports.files import check_plot, save_picture
from pyxsim.reports.plots.task_graph import trace_graph
from pyxsim.reports.text.facts import plural
from pyxsim.results.hdf5 import check_writable
from pyxsim.settings import read_toml
from pyxsim.textfile import read_text
from pyxsim.units import format_bytes, format_time_ns
from pyxsim.workload import read_text_workload
from pyxsim.workload.goal import is_goal
from pyxsim.workload.making.devices import TimeScale, scaled_node
from pyxsim.workload.nsight import is_nsight

MAX_RANKS = 16  # rows of the table; --json has all
STAR = "PREFIX.*.et: one trace per rank, with the rank at '*'"


def show_workload(out: CommandOutput, name: str, *, plot: str | None = None, rank: int | None = None) -> None:
    """`pyxsim workload show`. `rank`: which one is drawn (default: the first). Raises InputError for what cannot be
    read."""
    no_experiment(name)
    if rank is not None and plot is None:
        raise InputError("has no effect without --plot", key="--rank", allowed="with --plot")
    if is_goal(name):
        if plot is not None:
            raise InputError("is a GOAL schedule", file=name, key="--plot", allowed="traces; `convert` writes them")
        show_goal(out, name)
        return
    if _is_text(name):
        if plot is not None:
            problem = "is a workload text, whose graph depends on the network"
            raise InputError(problem, file=name, key="--plot", allowed="traces, which `pyxsim workload convert` writes")
        show_text(out, read_text_workload(name))
        return
    target = None if plot is None else check_plot(plot)
    traces = find(name)
    if rank is not None and rank not in traces:
        known = f"{min(traces)} to {max(traces)}" if len(traces) > 1 else str(min(traces))
        raise InputError(f"there is no trace of rank {rank}", key="--rank", allowed=known)
    drawn = min(traces) if rank is None else rank
    ranks: dict[int, Statistics] = {}
    faults = 0
    for number, path in traces.items():
        graph = load(path, number)
        ranks[number] = statistics(graph)
        faults += len(graph.faults)
        if target is not None and number == drawn:
            save_picture(trace_graph(graph), target)
    total = together(ranks.values())
    _tables(out, ranks, total)
    if faults:
        out.say("", f"{plural(faults, 'fault')} in single nodes: `pyxsim workload check` lists them")
    if plot is not None:
        out.say("", f"wrote {plot}")
    of_ranks = {str(number): _json(counts) for number, counts in ranks.items()}
    out.put({"ranks": of_ranks, "total": _json(total), "faults": faults, "file": plot})


def no_experiment(name: str) -> None:
    """Raises InputError for an experiment, which says what its workload is: that is what can be shown. Also for a file
    of that kind, or a text, that is not there, and for an export of Nsight Systems."""
    if name.endswith(".txt") and "*" not in name:
        read_text(name)
    if is_nsight(name):
        allowed = "traces, a text or a GOAL schedule; [workload] file and `pyxsim workload learn` read exports"
        raise InputError("is an export of Nsight Systems", file=name, allowed=allowed)
    if not name.endswith(".toml"):
        return
    table = read_toml(name).get("workload")
    workload = table if isinstance(table, dict) else {}
    allowed = "a text of ASTRA-sim 1, or traces: PREFIX.*.et"
    if "file" in workload:
        allowed += f"; its workload is {Path(name).parent / str(workload['file'])}"
    elif "model" in workload:
        allowed += f"; `pyxsim workload generate {name} -o NAME.*.et` writes the traces of its model"
    raise InputError("is an experiment, not a workload", file=name, allowed=allowed)


def _is_text(name: str) -> bool:
    """Whether a name is a file other than a trace."""
    return Path(name).is_file() and not are_traces(name)


def _json(each: Statistics) -> dict[str, Any]:
    return {"total": each.total, **asdict(each)}


def _tables(out: CommandOutput, ranks: dict[int, Statistics], total: Statistics) -> None:
    if out.silent:
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("rank", "nodes", "dependencies", "depth", "width", "compute", "longest way"):
        table.add_column(column, justify="right", no_wrap=True)
    rows = [(str(rank), counts) for rank, counts in list(ranks.items())[:MAX_RANKS]]
    for label, each in [*rows, ("all", total)]:
        counts = (each.total, each.dependencies, each.depth, each.width)
        times = (format_time_ns(ns) for ns in (each.compute_ns, each.critical_ns))
        table.add_row(label, *(f"{count:,}" for count in counts), *times)
    out.say(table)
    if len(ranks) > MAX_RANKS:
        out.say(f"  and {plural(len(ranks) - MAX_RANKS, 'more rank')}; --json has all of them")
    kinds = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("type", "nodes", "", "bytes of", "bytes"):
        kinds.add_column(column, justify="right" if column in ("nodes", "bytes") else "left", no_wrap=True)
    left = [(kind, f"{count:,}") for kind, count in total.nodes.items()]
    right = [(kind, format_bytes(size)) for kind, size in total.bytes.items()]
    for row in range(max(len(left), len(right))):
        one, other = ((cells[row] if row < len(cells) else ("", "")) for cells in (left, right))
        kinds.add_row(*one, "", *other)
    out.say("", kinds)


def check_workload(out: CommandOutput, name: str, loop: Loop, *, groups: str | None = None) -> None:
    """`pyxsim workload check`. Raises InputErrors: all that is wrong."""
    no_experiment(name)
    if is_goal(name):
        _no_loop(name, loop)
        if groups is not None:
            raise InputError("is a GOAL schedule", file=name, key="--groups", allowed="with traces")
        check_goal(out, name)
        return
    if _is_text(name):
        if groups is not None:
            raise InputError(
                "is a workload text, which has no groups", file=name, key="--groups", allowed="with traces"
            )
        check_text(out, read_text_workload(name), loop)
        return
    _no_loop(name, loop)
    traces = find(name)
    alone = len(traces) == 1 and "*" not in name and Path(name).is_file()
    of_groups = groups or groups_beside(name)
    members = None if of_groups is None else read_groups(of_groups, None if alone else max(traces) + 1)
    graphs, faults = {}, []
    for rank, path in traces.items():
        try:
            graphs[rank] = load(path, rank)
        except InputError as error:  # report the faults of the other files, too
            faults.append(error)
    whole = not alone and not faults
    faults += check(graphs, members, between=whole)
    raise_all(faults)
    nodes = sum(map(len, graphs.values()))
    summary = f"{plural(len(graphs), 'trace')}, {plural(nodes, 'node')}: no faults"
    out.say(summary if whole else f"{summary} within this trace; PREFIX.*.et also compares the ranks")
    out.put({"traces": len(graphs), "nodes": nodes, "between": whole})


def _no_loop(name: str, loop: Loop) -> None:
    """Raise InputError for options that only texts use."""
    for field in fields(loop):
        if getattr(loop, field.name) != field.default:
            problem = f"{name} is no text, and defines this itself"
            raise InputError(problem, key=f"--{field.name}".replace("_", "-"), allowed="with a text of ASTRA-sim 1")


def convert_workload(out: CommandOutput, source: str, target: str, loop: Loop, devices: Devices) -> None:
    """`pyxsim workload convert`. Raises InputError; an error leaves no partial file."""
    no_experiment(source)
    if is_goal(source):
        _no_loop(source, loop)
        devices.refuse(source)
        convert_goal(out, source, target)
        return
    if _is_text(source):
        devices.refuse_devices(source)
        loop = replace(loop, compute_scale=devices.compute_scale or loop.compute_scale)
        convert_text(out, read_text_workload(source), target, loop)
        return
    _no_loop(source, loop)
    if is_goal_target(target):
        devices.refuse(target)
        traces_to_goal(out, source, target)
        return
    scale = devices.scale()
    traces = find(source)
    if "*" not in Path(target).name and not (len(traces) == 1 and "*" not in source and Path(source).is_file()):
        raise InputError(f"is one file, but {source} has one trace per rank", file=target, allowed=STAR)
    if (end := chakra.form(target)) not in ENDS:
        allowed = [*ENDS, *(f"{end}.gz" for end in ENDS)]
        raise InputError("the extension is not one of a trace", file=target, allowed=allowed, given=end)
    if "*" in Path(target).name:
        refuse_others(target, traces)
    written = []
    for rank, path in traces.items():
        to = check_writable(target.replace("*", str(rank)))
        if to == Path(os.path.realpath(path)):
            raise InputError("is also an input", file=target, allowed="another name")
        written.append(_converted(path, to, scale))
    out.say(f"wrote {plural(len(written), 'trace')}, {plural(sum(written), 'node')}: {target}")
    out.put({"file": target, "traces": len(written), "nodes": sum(written)})


def _converted(path: Path, to: Path, scale: TimeScale | None) -> int:
    """Write a trace in another format, and with other times; return its number of nodes."""
    count = 0

    def counted() -> Any:
        nonlocal count
        for node in trace.nodes:
            count += 1
            yield node if scale is None else scaled_node(node, scale, str(path))

    trace = chakra.read(path)
    chakra.write(to, counted(), trace.metadata)
    return count
