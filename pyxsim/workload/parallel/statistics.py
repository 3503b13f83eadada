"""Statistics of a training step: tasks, bytes by kind of communication, operations, and memory of an NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pyxsim.models import Kind, Layer
from pyxsim.workload.graph import Access, TaskGraph
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.parallel.footprint import ACTIVATIONS, BUFFERS, WEIGHTS, footprint, parameters_held
from pyxsim.workload.parallel.offload import Offload
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.schedules import held_at_most


@dataclass(frozen=True)
class Stage:
    """Work and memory of each NPU of a stage in a step. Bytes; `held`: micro-batches in flight.

    `operations`: of matrix products; a multiplication and an addition are two. `remote`: bytes in remote memory; the
    other columns are then what is on the NPU at a time. `terms`: the same memory by term (`footprint.TERMS`).
    """

    stage: int
    npus: int
    blocks: int
    operations: int
    parameters: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    held: int
    remote: int = 0
    buffers: int = 0
    terms: dict[str, int] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """All bytes on the NPU."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers


@dataclass(frozen=True)
class Traffic:
    """Tasks of one kind of communication or remote access: their number, and their bytes as buffers."""

    kind: str
    tasks: int
    bytes: int


def stages(plan: Plan) -> list[Stage]:
    """Return one row per stage."""
    return [_stage(plan, stage) for stage in range(plan.parallelism.pipeline)]


def _stage(plan: Plan, stage: int) -> Stage:
    layers, sizes = plan.layers(stage), footprint(plan, stage)
    work = [work for layer in layers for part in plan.parts(layer) for work in plan.work(layer, part)]
    return Stage(
        stage=stage,
        npus=len(plan.grid.stage(stage)),
        blocks=sum(len(plan.of_chunk(stage, chunk)) for chunk in range(plan.parallelism.virtual)),
        operations=plan.micro_batches * sum(item.flops for item in work),
        parameters=sum(parameters_held(plan, stage)),
        weights=sum(sizes[term] for term in WEIGHTS),
        gradients=sizes["gradients"],
        optimizer=sizes["optimizer"],
        activations=sum(sizes[term] for term in ACTIVATIONS),
        held=held_at_most(plan.turns(stage)),
        remote=0 if plan.offload is None else _remote(plan, plan.offload, layers, stage),
        buffers=sum(sizes[term] for term in BUFFERS),
        terms=sizes,
    )


def _remote(plan: Plan, offload: Offload, layers: Sequence[Layer], stage: int) -> int:
    """Bytes of an NPU in remote memory."""
    dense = (layer for layer in layers if layer.kind != Kind.TABLES)
    return sum(offload.kept(plan.updated(layer, stage), plan.stored(layer)) for layer in dense)


def traffic(graph: TaskGraph) -> list[Traffic]:
    """Return one row per kind of collective, and one for messages."""
    totals: dict[str, tuple[int, int]] = {}
    members = np.bincount(graph.call[graph.kind == Task.COLLECTIVE], minlength=len(graph.calls))
    for call, count in zip(graph.calls, members.tolist(), strict=True):
        tasks, size = totals.get(call.kind, (0, 0))
        totals[call.kind] = tasks + count, size + count * call.size
    rows = [Traffic(kind, *values) for kind, values in totals.items()]
    sends = graph.of_kind(Task.SEND)
    if len(sends):
        rows.append(Traffic("message", len(sends), int(graph.size[sends].sum())))
    return rows


def accesses(graph: TaskGraph) -> list[Traffic]:
    """Return one row per kind of access to remote memory."""
    tasks = graph.of_kind(Task.MEMORY)
    totals = {access: tasks[graph.match[tasks] == access] for access in Access}
    return [
        Traffic(each.name.lower(), len(own), int(graph.size[own].sum())) for each, own in totals.items() if len(own)
    ]
