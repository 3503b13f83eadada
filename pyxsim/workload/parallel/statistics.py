"""What a training step amounts to: tasks, bytes of each kind of communication, operations, and the memory of an NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.models import Kind, Layer
from pyxsim.models.npu import state_bytes
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.schedules import held_at_most

_KEPT = 2  # bytes of an element where a layer says what it keeps


@dataclass(frozen=True)
class Stage:
    """What each NPU of a stage has to do in a step, and holds at most. Bytes; `held`: micro-batches on their way.

    `operations`: of matrix products, a multiplication and an addition being two.
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

    @property
    def memory(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True)
class Traffic:
    """Tasks that communicate in one way: how many, and the bytes of all of them, as buffers."""

    kind: str
    tasks: int
    bytes: int


def stages(plan: Plan) -> list[Stage]:
    """A row for each stage."""
    return [_stage(plan, stage) for stage in range(plan.parallelism.pipeline)]


def _stage(plan: Plan, stage: int) -> Stage:
    own, workload = plan.parallelism, plan.workload
    layers, turns = plan.layers(stage), plan.turns(stage)
    # The rows of tables are changed in place: they have neither gradients nor an optimizer's state.
    tables = sum(sum(plan.held(layer, stage)) for layer in layers if layer.kind == Kind.TABLES)
    held = [plan.held(layer, stage) for layer in layers if layer.kind != Kind.TABLES]
    others, experts = sum(count for count, _ in held), sum(count for _, count in held)
    # Of experts, so many replicas divide what ZeRO divides.
    divided = -(-others // plan.grid.data) + -(-experts // (plan.grid.data // plan.grid.expert))
    learned = others + experts
    kept = [sum(_kept(plan, block) for block in plan.of_chunk(stage, chunk)) for chunk in range(own.virtual)]
    again = [block for chunk in range(own.virtual) for block in plan.of_chunk(stage, chunk) if plan.recomputed(block)]
    work = [work for layer in layers for part in plan.parts(layer) for work in plan.work(layer, part)]
    return Stage(
        stage=stage,
        npus=len(plan.grid.stage(stage)),
        blocks=sum(len(plan.of_chunk(stage, chunk)) for chunk in range(own.virtual)),
        operations=plan.micro_batches * sum(each.flops for each in work),
        parameters=learned + tables,
        weights=((divided if own.zero >= 3 else learned) + tables) * workload.element_bytes,
        gradients=(divided if own.zero >= 2 else learned) * workload.gradient_bytes,
        optimizer=state_bytes(divided if own.zero >= 1 else learned, workload.element_bytes),
        activations=held_at_most(turns, lambda chunk: kept[chunk])
        + max((sum(_activations(plan, layer) for layer in block) for block in again), default=0),
        held=held_at_most(turns),
    )


def _kept(plan: Plan, block: Sequence[Layer]) -> int:
    """Bytes that the backward pass of a block needs of a micro-batch: its inputs, where it is computed again."""
    if not plan.recomputed(block):
        return sum(_activations(plan, layer) for layer in block)
    size = block[0].inputs * plan.samples * plan.workload.element_bytes
    return -(-size // plan.grid.tensor) if plan.parallelism.sequence else size


def _activations(plan: Plan, layer: Layer) -> int:
    return layer.kept.of_one(plan.share(layer)) * plan.samples * plan.workload.element_bytes // _KEPT


def traffic(graph: TaskGraph) -> list[Traffic]:
    """A row for each kind of collective, and one for messages."""
    found: dict[str, tuple[int, int]] = {}
    members = np.bincount(graph.call[graph.kind == Task.COLLECTIVE], minlength=len(graph.calls))
    for call, count in zip(graph.calls, members.tolist(), strict=True):
        tasks, size = found.get(call.kind, (0, 0))
        found[call.kind] = tasks + count, size + count * call.size
    rows = [Traffic(kind, *values) for kind, values in found.items()]
    sends = graph.of_kind(Task.SEND)
    if len(sends):
        rows.append(Traffic("message", len(sends), int(graph.size[sends].sum())))
    return rows
