"""`pyxsim workload generate`: write a model's training as Chakra traces or an ASTRA-sim 1 text, and print its size."""

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
    workload = generate(source, target, overrides=overrides)
    moves = {"communication": workload.communication, "remote memory": workload.remote_memory}
    _print_summary(out, workload.plan, workload.graph, workload.stages, moves)
    if workload.traces:
        groups = f", groups in {workload.groups}" if workload.groups else ""
        counts = f"{plural(workload.traces, 'trace')}, {plural(workload.nodes, 'node')}"
        out.say("", f"wrote {counts}: {workload.file}{groups}")
    elif target is not None:
        out.say("", f"wrote {target}")
    out.put(workload.json())


def _source(experiment: str | None, model: str | None, device: str | None, shape: str | None) -> Source:
    """The experiment: a file, or the options. Raises InputError."""
    options = {"--model": model, "--device": device, "--shape": shape}
    if experiment is not None:
        for name, value in options.items():
            if value is not None:
                raise InputError(
                    "cannot be combined with an experiment file", key=name, allowed=f"--set, or no {experiment}"
                )
        return experiment
    for name, value in options.items():
        if value is None:
            problem = "is required without an experiment file"
            raise InputError(problem, key=name, allowed="EXPERIMENT.toml; or --model, --device and --shape")
    assert shape is not None
    return {
        "network": {"topology": "torus", "shape": shape_of(shape)},
        "system": {"npu": {"device": device}},
        "workload": {"model": model},
    }


def _print_summary(
    out: CommandOutput, plan: Plan, graph: TaskGraph, rows: list[Stage], moves: dict[str, list[Traffic]]
) -> None:
    if out.silent:
        return
    from rich.table import Table

    parallelism, grid = plan.parallelism, plan.grid
    out.say(
        f"{plan.model.name}: {plan.model.parameters:,} parameters; a sample is {plan.model.sample}",
        f"{len(grid):,} NPUs: tensor {parallelism.tensor} x data {grid.data} x pipeline {parallelism.pipeline}; each "
        f"replica runs {plan.micro_batches:,} micro-batches of {plural(plan.samples, 'sample')}",
        f"{len(graph):,} tasks, {len(graph.calls):,} collectives",
        "",
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = (
        "stage",
        "NPUs",
        "blocks",
        "TFLOP",
        "weights",
        "gradients",
        "optimizer",
        "activations",
        "buffers",
        "held",
        "memory",
    )
    remote = plan.offload is not None
    for column in (*columns, "remote") if remote else columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows[:MAX_STAGES]:
        sizes = (row.weights, row.gradients, row.optimizer, row.activations, row.buffers)
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
        for kind in kinds:
            moved.add_row(kind.kind, f"{kind.tasks:,}", _bytes(kind.bytes))
        out.say("", moved)


def _bytes(size: int) -> str:
    return rounded(size, "B", 1024)
