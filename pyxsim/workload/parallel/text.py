"""A training step as a workload text of ASTRA-sim 1, as far as the format can express it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from pyxsim.errors import InputError, raise_all
from pyxsim.models import Kind, Layer, Part
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.text_workload import COLLECTIVES

_P = "workload.parallelism"
_WORDS = {kind: word for word, kind in COLLECTIVES.items() if kind is not None}
_NONE = ("NONE", 0)
_NS = 10**9


def astra_text(plan: Plan) -> str:
    """Return the text. Raises InputError for what the format cannot express."""
    raise_all(list(_faults(plan)))
    layers = list(plan.model.layers)
    tables = [layer for layer in layers if layer.kind == Kind.TABLES]
    head = _keyword(plan)
    if tables:  # tables are the first layer there; the last layer below the interaction has a number
        layers = [*tables, *(layer for layer in layers if layer.kind != Kind.TABLES)]
        last = next((i for i, layer in enumerate(layers) if layer.kind == Kind.INTERACTION), len(layers)) - 1
        head = f"HYBRID_DLRM {last}"
    return "\n".join([head, str(len(layers)), *(_line(plan, layer) for layer in layers)]) + "\n"


def _faults(plan: Plan) -> Iterator[InputError]:
    parallelism = plan.parallelism
    said = "a workload text of ASTRA-sim 1 cannot express it"
    for key, usual in (("pipeline", 1), ("expert", 1), ("zero", 0), ("sequence", False)):
        if getattr(parallelism, key) != usual:
            yield InputError(said, key=f"{_P}.{key}", allowed=f"{str(usual).lower()}; or traces, PREFIX.*.et")
    if plan.micro_batches > 1:
        problem = f"{plan.micro_batches} micro-batches: {said}"
        yield InputError(problem, key="workload.micro_batch", allowed="one; or traces, PREFIX.*.et")
    if plan.workload.recompute == "full":
        yield InputError(said, key="workload.recompute", allowed='"none"; or traces, PREFIX.*.et')
    if plan.routing is not None:
        yield InputError(said, key="workload.experts", allowed="without this table")
    if plan.offload is not None:
        yield InputError(said, key="workload.offload", allowed='"none"; or traces, PREFIX.*.et')
    if parallelism.tensor > 1 and plan.grid.data not in (1, plan.shape[0]) and _replicas_first(plan):
        problem = f"replicas are adjacent, but dimension 0 has {plan.shape[0]} NPUs: {said}"
        yield InputError(problem, key=f"{_P}.order", allowed="tensor before data; or traces, PREFIX.*.et")


def _replicas_first(plan: Plan) -> bool:
    order = plan.parallelism.order
    return order.index("data") < order.index("tensor")


def _keyword(plan: Plan) -> str:
    parallelism, grid = plan.parallelism, plan.grid
    if parallelism.tensor == 1:
        return "DATA"
    if grid.data == 1:
        return "MODEL"
    if _replicas_first(plan):
        return "HYBRID_MODEL_DATA"
    if parallelism.tensor == plan.shape[0]:
        return "HYBRID_DATA_MODEL"
    return f"HYBRID_TRANSFORMER model_parallel_NPU_group: {parallelism.tensor}"


def _line(plan: Plan, layer: Layer) -> str:
    """A layer. In ASTRA-sim its update follows every collective: it is written if there is exactly one."""
    gradient = plan.held(layer, 0)[0] * plan.workload.gradient_bytes
    forward, inputs, weights = _outputs(plan, layer), _inputs(plan, layer), _NONE
    if layer.kind != Kind.TABLES and gradient and plan.grid.data > 1:
        weights = ("ALLREDUCE", plan.scaled(gradient))
    alone = [forward, inputs, weights].count(_NONE) == 2 and weights != _NONE
    update = plan.npu.update_seconds(plan.held(layer, 0)[0], plan.workload.element_bytes) if alone else Fraction(0)
    fields = ["_".join(layer.name.replace(":", " ").split()), -1]
    parts = plan.parts(layer)
    for part, communication in (
        (Part.FORWARD, forward),
        (Part.INPUT_GRADIENT, inputs),
        (Part.WEIGHT_GRADIENT, weights),
    ):
        work = plan.work(layer, part) if part in parts else ()
        seconds = plan.npu.seconds(work, plan.workload.element_bytes) * plan.workload.compute_scale
        fields += [ceil(seconds * _NS), *communication]
    return " ".join(map(str, [*fields, ceil(update * plan.workload.compute_scale * _NS)]))


def _outputs(plan: Plan, layer: Layer) -> tuple[str, int]:
    """Communication after the forward pass of a layer."""
    if layer.kind == Kind.TABLES:
        return _WORDS["all-to-all"], plan.bytes(layer.dispatched * plan.samples)
    if plan.grid.tensor == 1:
        return _NONE
    if layer.forward_sum:
        return _WORDS["all-reduce"], plan.bytes(layer.forward_sum * plan.samples)
    if layer.gathered:
        return _WORDS["all-gather"], plan.bytes(-(-layer.gathered * plan.samples // plan.grid.tensor))
    return _NONE


def _inputs(plan: Plan, layer: Layer) -> tuple[str, int]:
    """Communication after the input gradients of a layer."""
    if layer.kind == Kind.TABLES:
        return _outputs(plan, layer)
    if plan.grid.tensor == 1 or not layer.backward_sum or Part.INPUT_GRADIENT not in plan.parts(layer):
        return _NONE
    return _WORDS["all-reduce"], plan.bytes(layer.backward_sum * plan.samples)
