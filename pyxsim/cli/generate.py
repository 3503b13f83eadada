"""`pyxsim workload generate`: the training of a model as Chakra traces or an ASTRA-sim 1 text, and in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.topology import shape_of
from pyxsim.errors import InputError
from pyxsim.reports.text.facts import plural, rounded
from pyxsim.settings.load import Source
from pyxsim.study.generate import generate
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.parallel import Plan
from pyxsim.workload.parallel.statistics import Stage, Traffic

MAX_STAGES = 16  # rows of the table; --json has all


def generate_workload(
    out: CommandOutput,
    experiment: str | None,
    target: str | None,
    *,
    model: str | None = None,
    device: str | None = None,
    shape: str | None = None,
    overrides: Sequence[str] = (),
) -> None:
    """Run `pyxsim workload generate`. Raises InputError."""
    source = _source(experiment, model, device, shape)
    found = generate(source, target, overrides=overrides)
    moves = {"communication": found.communication, "remote memory": found.remote_memory}
    _tell(out, found.plan, found.graph, found.stages, moves)
    if found.traces:
        groups = f", groups in {found.groups}" if found.groups else ""
        counts = f"{plural(found.traces, 'trace')}, {plural(found.nodes, 'node')}"
        out.say("", f"wrote {counts}: {found.file}{groups}")
    elif target is not None:
        out.say("", f"wrote {target}")
    out.put(found.json())


def _source(experiment: str | None, model: str | None, device: str | None, shape: str | None) -> Source:
    """The experiment: a file, or what the options say. Raises InputError."""
    given = {"--model": model, "--device": device, "--shape": shape}
    if experiment is not None:
        for name, value in given.items():
            if value is not None:
                raise InputError("the experiment says it", key=name, allowed=f"--set, or no {experiment}")
        return experiment
    for name, value in given.items():
        if value is None:
            problem = "is missing, where there is no experiment"
            raise InputError(problem, key=name, allowed="EXPERIMENT.toml; or --model, --device and --shape")
    assert shape is not None
    return {
        "network": {"topology": "torus", "shape": shape_of(shape)},
        "system": {"npu": {"device": device}},
        "workload": {"model": model},
    }


def _tell(out: CommandOutput, plan: Plan, graph: TaskGraph, rows: list[Stage], moves: dict[str, list[Traffic]]) -> None:
    if out.silent:
        return
    from rich.table import Table

    own, grid = plan.parallelism, plan.grid
    out.say(
        f"{plan.model.name}: {plan.model.parameters:,} parameters; a sample is {plan.model.sample}",
        f"{len(grid):,} NPUs: tensor {own.tensor} x data {grid.data} x pipeline {own.pipeline}; each replica takes "
        f"{plan.micro_batches:,} times {plural(plan.samples, 'sample')}",
        f"{len(graph):,} tasks, {len(graph.calls):,} collectives",
        "",
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = ("stage", "NPUs", "blocks", "TFLOP", "weights", "gradients", "optimizer", "activations", "held", "memory")
    remote = plan.offload is not None
    for column in (*columns, "remote") if remote else columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows[:MAX_STAGES]:
        sizes = (row.weights, row.gradients, row.optimizer, row.activations)
        table.add_row(
            str(row.stage),
            f"{row.npus:,}",
            str(row.blocks),
            f"{row.operations / 10**12:,.1f}",
            *map(_bytes, sizes),
            str(row.held),
            _bytes(row.memory),
            *([_bytes(row.remote)] if remote else []),
        )
    out.say(table)
    if len(rows) > MAX_STAGES:
        out.say(f"  and {plural(len(rows) - MAX_STAGES, 'more stage')}; --json has all of them")
    for title, kinds in moves.items():
        if not kinds:
            continue
        moved = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for column in (title, "tasks", "bytes"):
            moved.add_column(column, justify="left" if column == title else "right", no_wrap=True)
        for each in kinds:
            moved.add_row(each.kind, f"{each.tasks:,}", _bytes(each.bytes))
        out.say("", moved)


def _bytes(size: int) -> str:
    return rounded(size, "B", 1024)
