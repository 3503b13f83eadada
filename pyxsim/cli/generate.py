"""`pyxsim workload generate`: the training of a model as Chakra traces or an ASTRA-sim 1 text, and in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.topology import shape_of
from pyxsim.errors import InputError
from pyxsim.paths import need_folder
from pyxsim.reports.text.facts import plural, rounded
from pyxsim.results.hdf5 import check_writable
from pyxsim.settings import Experiment, load_experiment
from pyxsim.topology.build import network_of
from pyxsim.workload.export import export, star
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.parallel import Plan, program, training_plan
from pyxsim.workload.parallel.statistics import Stage, Traffic, accesses, stages, traffic
from pyxsim.workload.parallel.text import astra_text
from pyxsim.workload.passes import repeated

MAX_STAGES = 16  # rows of the table; --json has all
TEXT = ".txt"


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
    """`pyxsim workload generate`. Raises InputError; no file is left that is not whole."""
    settings, folder = _settings(experiment, model, device, shape, overrides)
    if settings.workload is None or settings.workload.model is None:
        problem = "has no model to train"
        raise InputError(problem, file=experiment, key="workload.model", allowed="a model, such as gpt3-175b")
    plan = _plan(settings, folder)
    if target is not None:
        need_folder(target)
    is_text = target is not None and target.endswith(TEXT)
    told: dict[str, Any] = {"file": target}
    text = astra_text(plan) if is_text else ""
    if target is not None and not is_text:
        star(target)  # a name that is none is told before anything is made
    graph = repeated(program(plan), settings.workload.passes)
    rows, kinds, remote = stages(plan), traffic(graph), accesses(graph)
    _tell(out, plan, graph, rows, {"communication": kinds, "remote memory": remote})
    if target is not None and is_text:
        check_writable(target).write_text(text, encoding="ascii")
        out.say("", f"wrote {target}")
    elif target is not None:
        written = export(graph, target, plan.shape, settings.network.clock)
        groups = f", groups in {written.groups}" if written.groups else ""
        out.say(
            "", f"wrote {plural(written.traces, 'trace')}, {plural(written.nodes, 'node')}: {written.files}{groups}"
        )
        told.update(file=written.files, groups=None if written.groups is None else str(written.groups))
    out.put({**told, **_json(plan, graph, rows, kinds, remote)})


def _settings(
    experiment: str | None, model: str | None, device: str | None, shape: str | None, overrides: Sequence[str]
) -> tuple[Experiment, Path]:
    """The experiment, and the folder from which its paths count."""
    given = {"--model": model, "--device": device, "--shape": shape}
    if experiment is not None:
        for name, value in given.items():
            if value is not None:
                raise InputError("the experiment says it", key=name, allowed=f"--set, or no {experiment}")
        return load_experiment(experiment, overrides), Path(experiment).parent
    for name, value in given.items():
        if value is None:
            problem = "is missing, where there is no experiment"
            raise InputError(problem, key=name, allowed="EXPERIMENT.toml; or --model, --device and --shape")
    assert shape is not None
    data = {
        "network": {"topology": "torus", "shape": shape_of(shape)},
        "system": {"npu": {"device": device}},
        "workload": {"model": model},
    }
    return load_experiment(data, overrides), Path()


def _plan(settings: Experiment, folder: Path) -> Plan:
    library.load_all()
    network, workload = settings.network, settings.workload
    assert workload is not None
    topology = network_of(network, folder)
    system = settings.system
    return training_plan(workload, system.npu, topology.shape, network.clock, folder, system.remote_memory)


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


def _json(
    plan: Plan, graph: TaskGraph, rows: list[Stage], kinds: list[Traffic], remote: list[Traffic]
) -> dict[str, Any]:
    own, grid = plan.parallelism, plan.grid
    return {
        "model": plan.model.name,
        "parameters": plan.model.parameters,
        "npus": len(grid),
        "tensor": own.tensor,
        "data": grid.data,
        "pipeline": own.pipeline,
        "expert": own.expert,
        "micro_batches": plan.micro_batches,
        "samples": plan.samples,
        "tasks": {kind.name.lower(): len(graph.of_kind(kind)) for kind in Kind},
        "communication": {each.kind: {"tasks": each.tasks, "bytes": each.bytes} for each in kinds},
        "remote_memory": {each.kind: {"tasks": each.tasks, "bytes": each.bytes} for each in remote},
        "stages": [{**asdict(row), "memory": row.memory} for row in rows],
    }
