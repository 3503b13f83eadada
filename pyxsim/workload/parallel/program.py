"""The training of a model as a graph of tasks: what the NPUs of each stage compute and communicate, in order.

A stage is a thread: it computes and waits for what it needs, layer by layer, one micro-batch after the other in the
order of its schedule. Operations that it begins without waiting run in the background (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.models import Kind as LayerKind
from pyxsim.models import Layer, Part
from pyxsim.workload.graph import Access, Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.parallel.experts import UnevenExperts
from pyxsim.workload.parallel.grid import Groups, dims_of
from pyxsim.workload.parallel.offload import Offload
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.schedules import Turn

Tasks = list[IntArray]
Cost = tuple[int, int] | tuple[IntArray, IntArray]
COMPUTE = ("compute", 1)  # communication overlaps computation; the system layer orders it
MEMORY = ("memory", 1)  # accesses of an NPU to remote memory, one after the other
_OF = {"data": "", "replica": " of experts"}  # suffix of names of parameters, by the axis of NPUs with the same ones


def program(plan: Plan) -> TaskGraph:
    """Return the graph of one training step on all NPUs."""
    names = [layer.name for layer in plan.model.layers]
    resources = [COMPUTE] if plan.offload is None else [COMPUTE, MEMORY]
    builder = GraphBuilder(len(plan.grid), resources, layers=names)
    shared: dict[tuple[int, ...], int] = {}
    for stage in range(plan.parallelism.pipeline):
        StageWriter(plan, builder, stage, shared).write()
    return builder.graph()


class StageWriter:
    """Writes the tasks of the NPUs of a stage. `front`: the last tasks of the thread.

    `shared`: collectives of several stages, created by the first stage that needs them.
    """

    def __init__(self, plan: Plan, builder: GraphBuilder, stage: int, shared: dict[tuple[int, ...], int]) -> None:
        self.plan, self.builder, self.stage = plan, builder, stage
        self._shared = shared
        self.npus = plan.grid.stage(stage)
        self.front: Tasks = []
        self._number = {layer.name: number for number, layer in enumerate(plan.model.layers)}
        self._groups: dict[tuple[str, tuple[int, ...]], tuple[Groups, tuple[int, ...] | None]] = {}
        self._synced: dict[str, Tasks] = {}
        self._fetched: Tasks = []  # parameters of the next block
        self._vectors: Tasks = []  # vectors of tables in flight
        self._together: Tasks = []  # the last joint access: the same order on each NPU, or they wait forever
        self._label = ""
        self._micro_batch = 0
        self._uneven = None if plan.routing is None else UnevenExperts(plan, plan.routing)
        self._last: dict[int, Turn] = {}
        self._following: Iterator[Sequence[Layer] | None] = iter(())

    def write(self) -> None:
        """Write all micro-batches, then the optimizer step."""
        turns = self.plan.turns(self.stage)
        self.open(turns)
        for turn in turns:
            self.pass_through(turn)
        self.close()

    def open(self, turns: Sequence[Turn]) -> None:
        """Begin with the parameters of the first block; `turns`: all that `pass_through` will be called with."""
        self._last = {turn.chunk: turn for turn in turns if not turn.forward}
        visits = [block for turn in turns for block in self._blocks(turn)]
        self._following = iter([*visits[1:], None])
        if visits:
            self._label = f"micro-batch {turns[0].micro_batch}"
            self._fetched = self._fetch(visits[0])

    def pass_through(self, turn: Turn) -> None:
        """Write a turn: receive, compute block by block, send."""
        self._label, self._micro_batch = f"micro-batch {turn.micro_batch}", turn.micro_batch
        self._receive(turn)
        for block in self._blocks(turn):
            self._arrive(next(self._following))
            if turn.forward:
                self._forward(block)
            else:
                self._backward(block, final=turn is self._last[turn.chunk])
        if not turn.forward:
            self._tables_backward()
        self._send(turn)

    def close(self) -> None:
        """Write the optimizer step."""
        self._label = "step"
        self._update()

    def _blocks(self, turn: Turn) -> Sequence[tuple[Layer, ...]]:
        """Return the blocks of a turn, in its order; tables first, so that their vectors travel while other layers
        compute."""
        blocks = self.plan.of_chunk(self.stage, turn.chunk)
        if not turn.forward:
            return blocks[::-1]
        return sorted(blocks, key=lambda block: block[0].kind != LayerKind.TABLES)

    # -- tasks --

    def _name(self, what: str) -> str:
        return f"{what}, {self._label}"

    def _compute(self, layer: Layer, part: Part, cost: Cost, before: Tasks) -> Tasks:
        """Compute after some tasks; return these if it takes no time. `cost`: as of Plan.cost, or one for each NPU."""
        ticks, size = cost
        if not np.any(ticks):
            return before
        name = self._name(f"{layer.name}, {part.name.lower().replace('_', ' ')}")
        number = self._number[layer.name]
        task = self.builder.tasks(
            self.npus,
            Kind.COMPUTE,
            name,
            ticks=ticks,
            size=size,
            resource="compute",
            layer=number,
            part=part,
            before=before,
        )
        return [task]

    def _work(self, layer: Layer, part: Part, before: Tasks) -> Tasks:
        if self._uneven is not None and layer.kind == LayerKind.EXPERTS:
            return self._compute(layer, part, self._uneven.cost(layer, part, self._micro_batch), before)
        return self._compute(layer, part, self.plan.cost(layer, part), before)

    def _collective(
        self,
        kind: str,
        size: int,
        axis: str,
        what: str,
        layer: Layer,
        part: Part,
        before: Tasks,
        stages: Sequence[int] = (),
        matrices: tuple[ByteMatrix, ...] | None = None,
    ) -> Tasks:
        """A collective of the groups along an axis, after some tasks; returns these where groups have one member.

        `stages`: those of the groups, if not this one alone. `matrices`: of each group, if pairs exchange different
        amounts.
        """
        groups, dims = self._along(axis, tuple(stages))
        if matrices is not None:
            dims = None  # whose groups have another order
        if len(groups[0]) == 1:
            return before
        number = self._shared.get(tuple(stages)) if stages else None
        if number is None:
            called = f"{layer.name}, {what}"
            call = Call(kind, size, dims=dims, groups=None if dims else groups, name=called, matrices=matrices)
            number = self.builder.call(call)
            if stages:
                self._shared[tuple(stages)] = number
        key, name = self._number[layer.name], self._name(f"{layer.name}, {what}")
        return [self.builder.tasks(self.npus, Kind.COLLECTIVE, name, call=number, layer=key, part=part, before=before)]

    def _along(self, axis: str, stages: tuple[int, ...]) -> tuple[Groups, tuple[int, ...] | None]:
        """The groups along an axis, and the dimensions of the network whose groups they are, if any."""
        if (axis, stages) not in self._groups:
            groups = self.plan.grid.groups(axis, stages or (self.stage,))
            self._groups[axis, stages] = groups, dims_of(groups, self.plan.shape)
        return self._groups[axis, stages]

    def _access(self, access: Access, size: int, what: str, layer: Layer, part: Part, before: Tasks) -> Tasks:
        """An access to remote memory, after some tasks."""
        if access.together:
            before = _joined(before, self._together)
        task = self.builder.tasks(
            self.npus,
            Kind.MEMORY,
            self._name(f"{layer.name}, {what}"),
            size=size,
            match=access,
            resource="memory",
            layer=self._number[layer.name],
            part=part,
            before=before,
        )
        if access.together:
            self._together = [task]
        return [task]

    # -- between stages --

    def _receive(self, turn: Turn) -> None:
        """Wait for activations, or for their gradients."""
        stage = self._place(turn)
        other = stage - 1 if turn.forward else stage + 1
        if 0 <= other < self.plan.stages:
            self.front = [*self.front, self._message(Kind.RECEIVE, turn, other, [])]

    def _send(self, turn: Turn) -> None:
        """Send activations, or their gradients, without waiting for their arrival."""
        stage = self._place(turn)
        other = stage + 1 if turn.forward else stage - 1
        if 0 <= other < self.plan.stages:
            self._message(Kind.SEND, turn, other, self.front)

    def _place(self, turn: Turn) -> int:
        """The stage of the model: those of the first chunk come first."""
        return turn.chunk * self.plan.parallelism.pipeline + self.stage

    def _message(self, kind: Kind, turn: Turn, other: int, before: Tasks) -> IntArray:
        """A message from or to another stage of the model; the tag identifies it."""
        plan = self.plan
        border = min(self._place(turn), other)
        layer = plan.blocks[border][-1][-1]
        elements = layer.outputs * plan.samples
        if plan.parallelism.sequence:
            elements = -(-elements // plan.grid.tensor)
        word = "activations" if turn.forward else "gradients"
        return self.builder.tasks(
            self.npus,
            kind,
            self._name(f"{word} behind {layer.name}"),
            size=plan.bytes(elements),
            peer=plan.grid.stage(other % plan.parallelism.pipeline),
            match=(turn.micro_batch * plan.stages + border) * 2 + (not turn.forward),
            layer=self._number[layer.name],
            part=Part.FORWARD if turn.forward else Part.INPUT_GRADIENT,
            before=before,
        )

    # -- forward and backward --

    def _forward(self, block: Sequence[Layer]) -> None:
        for layer in block:
            if layer.kind == LayerKind.TABLES:
                self._tables_forward(layer)
                continue
            if layer.kind == LayerKind.INTERACTION:
                self.front, self._vectors = [*self.front, *self._vectors], []
            self._layer_forward(layer)

    def _layer_forward(self, layer: Layer) -> None:
        part = Part.FORWARD
        self.front = self._collect(layer, layer.backward_sum, part, ("inputs", "tokens"), self.front)
        self.front = self._work(layer, part, self.front)
        self.front = self._hand_back(layer, layer.forward_sum, part, ("outputs", "tokens"), self.front)
        self.front = self._gather(layer, layer.gathered, part, "outputs", self.front)

    def _backward(self, block: Sequence[Layer], *, final: bool) -> None:
        """`final`: the last micro-batch, after which gradients are complete."""
        if self.plan.recomputed(block):
            self._forward(block)
        for layer in reversed(block):
            if layer.kind == LayerKind.TABLES:
                continue  # see _tables_backward
            self._layer_backward(layer)
            if layer.kind == LayerKind.INTERACTION:
                self._return_vectors()
            if final or self.plan.parallelism.zero >= 2:
                self._synchronize(layer)

    def _layer_backward(self, layer: Layer) -> None:
        """The gradient of the inputs travels while that of the weights is computed."""
        part, weights = Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT
        parts = self.plan.parts(layer)
        self.front = self._collect(layer, layer.forward_sum, part, ("gradients of outputs", "gradients"), self.front)
        inputs: Tasks = []
        if self.plan.parallelism.sequence and layer.backward_sum and not self._own_tokens(layer):  # stays divided, too
            inputs = self._gather(layer, layer.backward_sum, weights, "inputs again", self.front)
        passed: Tasks = []
        if part in parts:
            self.front = self._work(layer, part, self.front)
            passed = self._hand_back(layer, layer.backward_sum, part, ("input gradients", "gradients"), self.front)
        self.front = self._work(layer, weights, _joined(self.front, inputs))
        self.front = _joined(self.front, passed)

    def _tables_forward(self, layer: Layer) -> None:
        """Each NPU looks up its tables for all; the vectors travel until they are needed."""
        self.front = self._work(layer, Part.FORWARD, self.front)
        size = self.plan.bytes(layer.dispatched * self.plan.samples)
        self._vectors = self._collective("all-to-all", size, "data", "vectors", layer, Part.FORWARD, self.front)

    def _return_vectors(self) -> None:
        """Send the gradients of the vectors to the NPUs with the tables, while other layers compute."""
        for layer in self.plan.layers(self.stage):
            if layer.kind == LayerKind.TABLES:
                part, size = Part.INPUT_GRADIENT, self.plan.bytes(layer.dispatched * self.plan.samples)
                self._vectors = self._collective("all-to-all", size, "data", "gradients", layer, part, self.front)

    def _tables_backward(self) -> None:
        """Each NPU adds the gradients to the rows of its tables: also their optimizer step."""
        for layer in self.plan.layers(self.stage):
            if layer.kind == LayerKind.TABLES:
                self.front, self._vectors = _joined(self.front, self._vectors), []
                for part in self.plan.parts(layer)[1:]:
                    self.front = self._work(layer, part, self.front)

    # -- communication within layers --

    def _own_tokens(self, layer: Layer) -> bool:
        """Whether tensor-parallel NPUs each dispatch their own tokens, and gather them at the experts."""
        return layer.kind == LayerKind.EXPERTS and self.plan.share(layer).dispatches_own

    def _collect(self, layer: Layer, elements: int, part: Part, what: tuple[str, str], before: Tasks) -> Tasks:
        """Communication before a layer computes. `what`: names of the elements and of those for experts."""
        whole, sent = what
        tokens = self._own_tokens(layer)
        if self.plan.parallelism.sequence and not tokens:
            before = self._gather(layer, elements, part, whole, before)
        before = self._exchange(layer, part, f"{sent} to experts", before)
        return self._gather(layer, layer.dispatched, part, f"{sent} of experts", before) if tokens else before

    def _hand_back(self, layer: Layer, elements: int, part: Part, what: tuple[str, str], before: Tasks) -> Tasks:
        """Communication after a layer has computed, the reverse of `_collect`."""
        whole, sent = what
        tokens = self._own_tokens(layer)
        if tokens:
            before = self._sum(layer, layer.dispatched, part, f"sum of {whole}", before)
        before = self._exchange(layer, part, f"{sent} from experts", before)
        return before if tokens else self._sum(layer, elements, part, f"sum of {whole}", before)

    def _gather(self, layer: Layer, elements: int, part: Part, what: str, before: Tasks) -> Tasks:
        """All-gather elements of which each tensor-parallel NPU has a part."""
        if not elements:
            return before
        shard = -(-elements * self.plan.samples // self.plan.grid.tensor)
        return self._collective("all-gather", self.plan.bytes(shard), "tensor", what, layer, part, before)

    def _sum(self, layer: Layer, elements: int, part: Part, what: str, before: Tasks) -> Tasks:
        """Sum elements over the tensor-parallel NPUs."""
        if not elements:
            return before
        kind = "reduce-scatter" if self.plan.parallelism.sequence else "all-reduce"
        size = self.plan.bytes(elements * self.plan.samples)
        return self._collective(kind, size, "tensor", what, layer, part, before)

    def _exchange(self, layer: Layer, part: Part, what: str, before: Tasks) -> Tasks:
        """Send tokens, or their gradients, to the NPUs with the experts, or back."""
        if not layer.dispatched or layer.kind != LayerKind.EXPERTS:
            return before
        if self._uneven is not None and self.plan.grid.expert > 1:
            back = what.endswith("from experts")
            matrices = self._uneven.matrices(layer, self._micro_batch, back=back)
            size = max(max(matrix.size for matrix in matrices), 1)
            return self._collective("all-to-all", size, "expert", what, layer, part, before, matrices=matrices)
        among = self.plan.grid.tensor if self._own_tokens(layer) else 1
        size = self.plan.bytes(-(-layer.dispatched * self.plan.samples // among))
        return self._collective("all-to-all", size, "expert", what, layer, part, before)

    # -- communication between replicas --

    def _gathered(self, layers: Sequence[Layer], part: Part, what: str, before: Tasks, *, used: bool = False) -> Tasks:
        """All-gather parameters of which each replica has a part. `used`: see `Plan.held`."""
        tasks: Tasks = []
        for count, axis in self.plan.replicated(layers, self.stage, used=used):
            size = self.plan.bytes(self.plan.shard(count, axis))
            tasks += self._collective("all-gather", size, axis, what + _OF[axis], layers[0], part, before)
        return tasks

    def _fetch(self, block: Sequence[Layer]) -> Tasks:
        """Fetch the parameters of a block from the replicas or remote memory, for the time of their use."""
        offload = self.plan.offload
        if offload is not None and offload.parameters:
            return self._fetch_remote(block, offload)
        if self.plan.parallelism.zero < 3:
            return []
        return self._gathered(block, Part.FORWARD, "parameters", self.front, used=True)

    def _fetch_remote(self, block: Sequence[Layer], offload: Offload) -> Tasks:
        """Each NPU loads its part, and the network brings the others; or all NPUs load all parameters."""
        plan, layer, part, tasks = self.plan, block[0], Part.FORWARD, list[IntArray]()
        for count, axis in plan.replicated(block, self.stage, used=True):
            what = f"parameters{_OF[axis]}"
            if offload.in_switch:
                tasks += self._access(Access.GATHER, count * offload.element, what, layer, part, self.front)
            else:
                shard = plan.shard(count, axis)
                access = self._access(Access.LOAD, shard * offload.element, what, layer, part, self.front)
                tasks += self._collective("all-gather", plan.bytes(shard), axis, what, layer, part, access)
        return tasks

    def _arrive(self, following: Sequence[Layer] | None) -> None:
        """Enter a block: wait for its parameters if they are fetched; fetch those of the next one while it computes."""
        self.front = _joined(self.front, self._fetched)
        self._fetched = [] if following is None else self._fetch(following)

    def _synchronize(self, layer: Layer) -> None:
        """Sum the gradients of a layer's parameters while other layers compute theirs."""
        plan, part, synced = self.plan, Part.WEIGHT_GRADIENT, self._synced.setdefault(layer.name, [])
        kind, offload = "reduce-scatter" if plan.parallelism.zero else "all-reduce", plan.offload
        for count, axis in plan.replicated([layer], self.stage):
            size, what = count * plan.workload.gradient_bytes, f"gradients{_OF[axis]}"
            if offload is not None and offload.in_switch:
                synced += self._access(Access.REDUCE, size, what, layer, part, self.front)
                continue
            summed = self._collective(kind, plan.scaled(size), axis, what, layer, part, self.front)
            if offload is not None and not plan.parted(layer):
                elements = plan.shard(count, axis) if plan.parallelism.zero else count
                summed = self._access(Access.STORE, elements * offload.gradient, what, layer, part, summed)
            synced += summed

    def _synchronize_tied(self) -> None:
        """Sum the gradients of embedding and head, which are the same parameters on the first and last stage."""
        plan, part = self.plan, Part.WEIGHT_GRADIENT
        for layer, stage in plan.tied:
            if stage == self.stage:
                count = -(-layer.parameters.divided // plan.grid.tensor)
                if plan.parallelism.zero:
                    count = plan.shard(count, "data")
                size = plan.scaled(count * plan.workload.gradient_bytes)
                stages = [tensor for _, tensor in plan.tied]
                synced = self._collective(
                    "all-reduce", size, "pipeline", "tied gradients", layer, part, self._synced[layer.name], stages
                )
                if plan.offload is not None:
                    nbytes = plan.updated(layer, stage) * plan.offload.gradient
                    synced = self._access(Access.STORE, nbytes, "tied gradients", layer, part, synced)
                self._synced[layer.name] = synced

    def _update(self) -> None:
        """Write the optimizer step: each layer when its gradients are there, first come first served."""
        self._synchronize_tied()
        plan, ahead, last = self.plan, self.front, self.front
        for layer in reversed(plan.layers(self.stage)):
            updated = plan.updated(layer, self.stage)
            if updated:
                synced = self._synced.get(layer.name, [])
                if plan.offload is None:
                    self._step(layer, updated, _joined(self.front, synced))
                else:
                    ready = _joined(ahead, synced)
                    ahead, last = last, self._step_remote(layer, updated, plan.offload, ready)

    def _step(self, layer: Layer, own: int, before: Tasks) -> None:
        """Update a layer and send the result to the replicas."""
        updated = self._compute(layer, Part.UPDATE, self.plan.update_cost(own), before)
        if self.plan.parallelism.zero in (1, 2):
            self._gathered([layer], Part.UPDATE, "updated parameters", updated)

    def _step_remote(self, layer: Layer, own: int, offload: Offload, before: Tasks) -> Tasks:
        """Load a layer's state, update it, store it; return the update, during which the next layer is loaded."""
        plan, part = self.plan, Part.UPDATE
        old = offload.old(own, plan.stored(layer))
        loads = self._access(Access.LOAD, old, "gradients and state", layer, part, before)
        updated = self._compute(layer, part, plan.update_cost(own), loads)
        stored = self._access(Access.STORE, offload.new(own), "new state", layer, part, updated)
        if offload.hands_out:
            size = sum(count for count, _ in plan.replicated([layer], self.stage)) * offload.element
            self._access(Access.GATHER, size, "updated parameters", layer, part, stored)
        elif plan.parallelism.zero in (1, 2):
            self._gathered([layer], part, "updated parameters", updated)
        return updated


def _joined(one: Tasks, other: Tasks) -> Tasks:
    """Both lists, each task once."""
    known = {id(item) for item in one}
    return [*one, *(item for item in other if id(item) not in known)]
