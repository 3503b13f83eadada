"""Statistics of a training step: tasks, bytes by kind of communication, operations, and memory of an NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.models import Kind, Layer
from pyxsim.models.npu import state_bytes
from pyxsim.workload.graph import Access, TaskGraph
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.parallel.offload import Offload
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.schedules import held_at_most

_KEPT = 2  # bytes per element in `Layer.kept`


@dataclass(frozen=True)
class Stage:
    """Work and memory of each NPU of a stage in a step. Bytes; `held`: micro-batches in flight.

    `operations`: of matrix products; a multiplication and an addition are two. `remote`: bytes in remote memory; the
    other columns are then what is on the NPU at a time.
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

    @property
    def memory(self) -> int:
        """All bytes on the NPU."""
        return self.weights + self.gradients + self.optimizer + self.activations


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
    parallelism, workload = plan.parallelism, plan.workload
    layers, turns = plan.layers(stage), plan.turns(stage)
    # Rows of tables are updated in place: they have neither gradients nor optimizer state.
    tables = sum(sum(plan.held(layer, stage)) for layer in layers if layer.kind == Kind.TABLES)
    held = [plan.held(layer, stage) for layer in layers if layer.kind != Kind.TABLES]
    others, experts = sum(count for count, _ in held), sum(count for _, count in held)
    # ZeRO divides experts among fewer replicas.
    divided = -(-others // plan.grid.data) + -(-experts // (plan.grid.data // plan.grid.expert))
    learned = others + experts
    kept = [sum(_kept(plan, block) for block in plan.of_chunk(stage, chunk)) for chunk in range(parallelism.virtual)]
    again = [
        block for chunk in range(parallelism.virtual) for block in plan.of_chunk(stage, chunk) if plan.recomputed(block)
    ]
    work = [work for layer in layers for part in plan.parts(layer) for work in plan.work(layer, part)]
    row = Stage(
        stage=stage,
        npus=len(plan.grid.stage(stage)),
        blocks=sum(len(plan.of_chunk(stage, chunk)) for chunk in range(parallelism.virtual)),
        operations=plan.micro_batches * sum(each.flops for each in work),
        parameters=learned + tables,
        weights=((divided if parallelism.zero >= 3 else learned) + tables) * workload.element_bytes,
        gradients=(divided if parallelism.zero >= 2 else learned) * workload.gradient_bytes,
        optimizer=state_bytes(divided if parallelism.zero >= 1 else learned, workload.element_bytes),
        activations=held_at_most(turns, lambda chunk: kept[chunk])
        + max((sum(_activations(plan, layer) for layer in block) for block in again), default=0),
        held=held_at_most(turns),
    )
    return row if plan.offload is None else _offloaded(plan, plan.offload, row, tables)


def _offloaded(plan: Plan, offload: Offload, row: Stage, tables: int) -> Stage:
    """The same with offload: only the part in use is on the NPU."""
    here = [layer for layer in plan.layers(row.stage) if layer.kind != Kind.TABLES]
    updated = [(plan.updated(layer, row.stage), layer) for layer in here]
    blocks = [block for chunk in range(plan.parallelism.virtual) for block in plan.of_chunk(row.stage, chunk)]
    used = [sum(count for count, _ in plan.replicated(block, row.stage, used=True)) for block in blocks]
    weights, gradients = row.weights, row.gradients
    if offload.parameters:  # of a block and the next one
        weights = (_largest_two(used) + tables) * offload.element
    if plan.parallelism.zero >= 2 or plan.micro_batches == 1:  # of a block, and those that wait for another stage
        waiting = sum(count for count, layer in updated if plan.parted(layer))
        gradients = (max(used, default=0) + waiting) * offload.gradient
    state = _largest_two([offload.old(count, plan.stored(layer)) for count, layer in updated])
    kept = sum(offload.kept(count, plan.stored(layer)) for count, layer in updated)
    return replace(row, weights=weights, gradients=gradients, optimizer=state, remote=kept)


def _largest_two(sizes: Sequence[int]) -> int:
    return sum(sorted(sizes)[-2:])


def _kept(plan: Plan, block: Sequence[Layer]) -> int:
    """Bytes that the backward pass of a block needs of a micro-batch: its inputs, if it is recomputed."""
    if not plan.recomputed(block):
        return sum(_activations(plan, layer) for layer in block)
    size = block[0].inputs * plan.samples * plan.workload.element_bytes
    return -(-size // plan.grid.tensor) if plan.parallelism.sequence else size


def _activations(plan: Plan, layer: Layer) -> int:
    return layer.kept_at(plan.share(layer)) * plan.samples * plan.workload.element_bytes // _KEPT


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
