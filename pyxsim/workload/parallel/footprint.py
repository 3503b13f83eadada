"""Memory of an NPU per pipeline stage: what a training step holds at most, term by term.

Bytes per parameter as in ZeRO (Rajbhandari et al. 2020, section 3.1): 2 of a weight, 2 of its gradient, 12 of Adam's
state; Megatron-LM accumulates gradients in FP32 (4 bytes, `gradient`). Activations: Korthikanti et al. 2022, table 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.models import Kind, Layer
from pyxsim.models.npu import state_bytes
from pyxsim.workload.parallel.offload import Offload
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.schedules import held_at_peak

WEIGHTS = ("weights", "expert weights", "tables")
ACTIVATIONS = ("activations", "logits", "recomputed block")
BUFFERS = ("parameters in use", "gradients in use", "communication")
TERMS = (*WEIGHTS, "gradients", "optimizer", *ACTIVATIONS, *BUFFERS)
_KEPT = 2  # bytes per element in `Layer.kept`


def footprint(plan: Plan, stage: int) -> dict[str, int]:
    """Return the bytes of each of TERMS on an NPU of a stage. Offloaded states count only where they are in use."""
    states = _states(plan, stage) if plan.offload is None else _offloaded_states(plan, plan.offload, stage)
    sizes = states | _activations(plan, stage) | {"communication": _communication_buffer(plan, stage)}
    return {term: sizes.get(term, 0) for term in TERMS}


def parameters_held(plan: Plan, stage: int) -> tuple[int, int, int]:
    """Return the parameters on an NPU of a stage: of experts, of tables, and all others."""
    layers = plan.layers(stage)
    # Rows of tables are updated in place: they have neither gradients nor optimizer state.
    tables = sum(sum(plan.held(layer, stage)) for layer in layers if layer.kind == Kind.TABLES)
    held = [plan.held(layer, stage) for layer in layers if layer.kind != Kind.TABLES]
    return sum(count for _, count in held), tables, sum(count for count, _ in held)


def _states(plan: Plan, stage: int) -> dict[str, int]:
    """Weights, gradients and optimizer state, as ZeRO divides them, and what is whole while a block is computed."""
    workload, zero = plan.workload, plan.parallelism.zero
    experts, tables, others = parameters_held(plan, stage)
    parts = plan.shard(others, "data"), plan.shard(experts, "replica")  # ZeRO divides experts among fewer replicas
    weights, expert_weights = parts if zero >= 3 else (others, experts)
    used = _used(plan, stage)
    return {
        "weights": weights * workload.element_bytes,
        "expert weights": expert_weights * workload.element_bytes,
        "tables": tables * workload.element_bytes,
        "gradients": (sum(parts) if zero >= 2 else others + experts) * workload.gradient_bytes,
        "optimizer": state_bytes(sum(parts) if zero >= 1 else others + experts, workload.element_bytes),
        # A block and the next one, which is gathered meanwhile; gradients of a block until they are scattered.
        "parameters in use": _largest_two(used) * workload.element_bytes if zero >= 3 else 0,
        "gradients in use": max(used, default=0) * workload.gradient_bytes if zero >= 2 else 0,
    }


def _offloaded_states(plan: Plan, offload: Offload, stage: int) -> dict[str, int]:
    """The same with offload: only the part in use is on the NPU."""
    sizes = _states(plan, stage) | {"parameters in use": 0, "gradients in use": 0}
    layers = [layer for layer in plan.layers(stage) if layer.kind != Kind.TABLES]
    updated = [(plan.updated(layer, stage), layer) for layer in layers]
    used = _used(plan, stage)
    if offload.parameters:  # of a block and the next one
        sizes |= {"weights": _largest_two(used) * offload.element, "expert weights": 0}
    if plan.parallelism.zero >= 2 or plan.micro_batches == 1:  # of a block, and those that wait for another stage
        waiting = sum(count for count, layer in updated if plan.parted(layer))
        sizes["gradients"] = (max(used, default=0) + waiting) * offload.gradient
    state = [offload.old(count, plan.stored(layer)) for count, layer in updated]
    return sizes | {"optimizer": _largest_two(state)}


def _used(plan: Plan, stage: int) -> list[int]:
    """Parameters that each block of a stage computes with."""
    return [sum(count for count, _ in plan.replicated(block, stage, used=True)) for block in _blocks(plan, stage)]


def _blocks(plan: Plan, stage: int) -> list[tuple[Layer, ...]]:
    return [block for chunk in range(plan.parallelism.virtual) for block in plan.of_chunk(stage, chunk)]


def _activations(plan: Plan, stage: int) -> dict[str, int]:
    """What the micro-batches in flight keep for their backward pass when they are most, by the order of the stage."""
    chunks = [plan.of_chunk(stage, chunk) for chunk in range(plan.parallelism.virtual)]
    logits = [sum(_logits(plan, layer) for block in blocks for layer in block) for blocks in chunks]
    kept = [sum(_kept(plan, block) for block in blocks) for blocks in chunks]
    held = held_at_peak(plan.turns(stage), kept)
    again = (block for blocks in chunks for block in blocks if plan.recomputed(block))
    most_logits = sum(count * size for count, size in zip(held, logits, strict=True))
    return {
        "activations": sum(count * size for count, size in zip(held, kept, strict=True)) - most_logits,
        "logits": most_logits,
        "recomputed block": max((sum(_of_layer(plan, layer) for layer in block) for block in again), default=0),
    }


def _kept(plan: Plan, block: Sequence[Layer]) -> int:
    """Bytes that the backward pass of a block needs of a micro-batch: its inputs, if it is recomputed."""
    if not plan.recomputed(block):
        return sum(_of_layer(plan, layer) for layer in block)
    size = block[0].inputs * plan.samples * plan.workload.element_bytes
    return -(-size // plan.grid.tensor) if plan.parallelism.sequence else size


def _of_layer(plan: Plan, layer: Layer) -> int:
    kept = layer.kept_at(plan.share(layer), selective=plan.workload.recompute == "selective")
    return kept * plan.samples * plan.workload.element_bytes // _KEPT


def _logits(plan: Plan, layer: Layer) -> int:
    """Of what a head keeps, all but the inputs of its norm and its product."""
    if layer.kind != Kind.HEAD:
        return 0
    size = -(-layer.kept.divided // plan.share(layer).tensor)
    return size * plan.samples * plan.workload.element_bytes // _KEPT


def _communication_buffer(plan: Plan, stage: int) -> int:
    """The largest operand of a collective on activations."""
    sizes = [0]
    for layer in plan.layers(stage):
        share = plan.share(layer)
        if plan.parallelism.tensor > 1:
            sizes.append(max(layer.forward_sum, layer.backward_sum, layer.gathered))
        if plan.parallelism.expert > 1 or (layer.kind == Kind.TABLES and plan.grid.data > 1):
            sizes.append(-(-layer.dispatched // share.tensor) if share.dispatches_own else layer.dispatched)
    return max(sizes) * plan.samples * plan.workload.element_bytes


def _largest_two(sizes: Sequence[int]) -> int:
    return sum(sorted(sizes)[-2:])
