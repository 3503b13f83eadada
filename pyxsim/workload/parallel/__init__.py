"""From a model and a parallelism to a graph of tasks: training steps on all NPUs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path

from pyxsim.errors import InputError, InputErrors
from pyxsim.models import load_model
from pyxsim.models.expert_routing import expert_routing
from pyxsim.models.npu import capacity, peak_flops, processor
from pyxsim.settings import Workload
from pyxsim.settings.faults import join
from pyxsim.settings.memory import RemoteMemory
from pyxsim.settings.npu import Npu
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.parallel.experts import expert_choice
from pyxsim.workload.parallel.footprint import footprint
from pyxsim.workload.parallel.plan import Plan, make_plan
from pyxsim.workload.parallel.program import program
from pyxsim.workload.passes import repeated
from pyxsim.workload.training_step import StageMemory, TrainingStep

__all__ = ["Plan", "make_plan", "program", "training_graph", "training_plan", "training_step"]


def training_plan(
    workload: Workload,
    npu: Npu | None,
    shape: Sequence[int],
    clock: Fraction,
    folder: Path = Path(),
    memory: RemoteMemory | None = None,
) -> Plan:
    """Return how the model of a workload is trained on a network of `shape`. Raises InputError with the key.

    `folder`: where relative paths start. `memory`: the remote memory for offloaded states.
    """
    name = workload.model
    assert name is not None  # callers check it
    if npu is None:
        allowed = "a table [system.npu] with `device`, or with `peak` and `memory_bandwidth`"
        raise InputError("the speed of the NPUs is missing", key="system.npu", allowed=allowed)
    if Path(name).suffix:
        name = str(folder / name)
    try:
        model = load_model(name, workload.sequence)
    except InputError as error:
        raise _below("workload", error) from None
    try:
        machine = processor(npu)
    except InputError as error:
        raise _below("system.npu", error) from None
    try:
        routing = expert_routing(workload.experts, *expert_choice(model), folder)
    except InputError as error:
        raise error.named_by("workload.experts.file") from None
    in_switch = workload.offloaded and memory is not None and bool(memory.in_switch)
    return make_plan(model, workload, machine, shape, clock, in_switch=in_switch, routing=routing)


def training_graph(
    workload: Workload,
    npu: Npu | None,
    shape: Sequence[int],
    clock: Fraction,
    folder: Path = Path(),
    memory: RemoteMemory | None = None,
) -> TaskGraph:
    """Return the graph of all steps (`passes`). Raises InputError, like `training_plan`."""
    return repeated(program(training_plan(workload, npu, shape, clock, folder, memory)), workload.passes)


def training_step(plan: Plan, npu: Npu) -> TrainingStep:
    """Return what a step of a plan computes, and the memory of each stage."""
    samples = plan.samples * plan.micro_batches * plan.grid.data
    return TrainingStep(
        model=plan.model.name,
        npus=len(plan.grid),
        passes=plan.workload.passes,
        samples=samples,
        tokens=samples * plan.model.tokens if plan.model.tokens > 1 else 0,
        model_flops=3 * plan.model.flops * samples,
        peak=peak_flops(npu),
        stages=tuple(
            StageMemory(stage, len(plan.grid.stage(stage)), with_overhead(footprint(plan, stage), npu))
            for stage in range(plan.parallelism.pipeline)
        ),
        capacity=capacity(npu),
    )


def with_overhead(terms: dict[str, int], npu: Npu) -> dict[str, int]:
    """Return the terms of the memory of an NPU with what its allocator and its context take."""
    fragments = ceil(sum(terms.values()) * npu.fragments)
    more = {"fragments": fragments, "reserved": npu.reserved}
    return terms | {term: size for term, size in more.items() if size}


def _below(table: str, error: InputError) -> InputError:
    """A fault with its key as in the experiment; faults in a file of its own keep their place."""
    if isinstance(error, InputErrors):
        return InputErrors([_below(table, fault) for fault in error.faults])
    if error.file is not None:
        return error.named_by(f"{table}.model")
    return InputError(error.problem, key=join(table, error.key), allowed=error.allowed, given=error.given)
