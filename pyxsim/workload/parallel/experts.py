"""A training step whose experts receive different numbers of tokens: times of each NPU, bytes of each pair."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.models import Layer, Model, Part
from pyxsim.models.expert_routing import ExpertRouting
from pyxsim.models.expert_work import copy_elements, expert_work, rows_per_sample
from pyxsim.models.layer import Kind
from pyxsim.workload.parallel.plan import Plan


def expert_choice(model: Model) -> tuple[int, int]:
    """Return the number of experts of a model, and of those that each token goes to; (0, 0) without experts."""
    layer = next((layer for layer in model.layers if layer.kind == Kind.EXPERTS), None)
    return (0, 0) if layer is None else (layer.gemms[0].experts, rows_per_sample(layer) // model.tokens)


class UnevenExperts:
    """The layers of experts of a plan. Replicas are the sources; tensor-parallel NPUs do the same."""

    def __init__(self, plan: Plan, routing: ExpertRouting) -> None:
        self.plan, self.routing = plan, routing
        layers = [layer.name for layer in plan.model.layers if layer.kind == Kind.EXPERTS]
        self._number = {name: number for number, name in enumerate(layers)}
        self._counts: dict[tuple[str, int], IntArray] = {}
        self._costs: dict[tuple[str, Part, int], tuple[IntArray, IntArray]] = {}

    def counts(self, layer: Layer, micro_batch: int) -> IntArray:
        """Return the tokens from each replica to each expert, int64[replicas, experts]."""
        key = layer.name, micro_batch
        if key not in self._counts:
            tokens = [self.plan.samples * self.plan.model.tokens] * self.plan.grid.data
            self._counts[key] = self.routing.counts(tokens, self._number[layer.name], micro_batch)
        return self._counts[key]

    def _exchanged(self, layer: Layer, micro_batch: int) -> IntArray:
        """Tokens between replicas that divide experts, by expert: int64[groups, expert, expert, own experts]."""
        counts, expert = self.counts(layer, micro_batch), self.plan.grid.expert
        return counts.reshape(-1, expert, expert, counts.shape[1] // expert)

    def cost(self, layer: Layer, part: Part, micro_batch: int) -> tuple[IntArray, IntArray]:
        """Return the cycles and the bytes through memory of each NPU of a stage, in the order of `Grid.stage`."""
        key = layer.name, part, micro_batch
        if key not in self._costs:
            plan = self.plan
            received = self._exchanged(layer, micro_batch).sum(axis=1).reshape(plan.grid.data, -1)
            costs = np.array([self._of_rows(layer, part, tuple(rows)) for rows in received.tolist()], np.int64)
            ticks, size = np.repeat(costs, plan.grid.tensor, axis=0).T
            self._costs[key] = ticks, size
        return self._costs[key]

    def _of_rows(self, layer: Layer, part: Part, rows: tuple[int, ...]) -> tuple[int, int]:
        plan, element = self.plan, self.plan.workload.element_bytes
        work = expert_work(layer, part, rows, plan.samples, plan.share(layer))
        return plan.cycles(plan.npu.seconds(work, element)), sum(item.elements for item in work) * element

    def matrices(self, layer: Layer, micro_batch: int, *, back: bool) -> tuple[ByteMatrix, ...]:
        """Return the bytes between the NPUs of each group along the axis `expert`, in the order of `Grid.groups`.

        `back`: from the experts to the sources of the tokens.
        """
        plan = self.plan
        copies = self._exchanged(layer, micro_batch).sum(axis=3)
        sizes = copies * copy_elements(layer) * plan.workload.element_bytes
        scale = plan.workload.comm_scale
        sizes = sizes * scale.numerator // scale.denominator
        matrices = [ByteMatrix(size.T if back else size) for size in sizes]
        return tuple(matrices) * plan.grid.tensor
