"""How a model is trained on a number of NPUs: combines settings, model and network, and checks that they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, prod
from typing import Protocol

from pyxsim.errors import InputError, raise_all
from pyxsim.models import Kind, Layer, Model, Part, Share, Work
from pyxsim.models.expert_routing import ExpertRouting
from pyxsim.models.layer import Split
from pyxsim.settings import Workload
from pyxsim.settings.parallelism import Parallelism
from pyxsim.workload.parallel.grid import Grid
from pyxsim.workload.parallel.offload import Offload, offload_faults, offload_of
from pyxsim.workload.parallel.schedules import SCHEDULES, Turn
from pyxsim.workload.parallel.stages import balanced

_PLACE = "workload.parallelism"
MOST_PASSES = 2**21  # forward passes of layers: 10 kB each with all that follows them
_BACKWARD = (Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)


class Machine(Protocol):
    """Times of work on an NPU."""

    def seconds(self, works: Sequence[Work], element: int) -> Fraction:
        """Return the time of matrix products and moved bytes."""

    def update_seconds(self, parameters: int, element: int) -> Fraction:
        """Return the time of an optimizer step."""

    def update_bytes(self, parameters: int, element: int) -> int:
        """Return the bytes that such a step reads and writes."""


@dataclass(frozen=True)
class Plan:
    """The model and how it is trained.

    `samples`: of a micro-batch; `shape`: of the network; `routing`: of tokens to experts, None if each gets as many.
    """

    model: Model
    workload: Workload
    parallelism: Parallelism
    grid: Grid
    shape: tuple[int, ...]
    samples: int
    micro_batches: int
    npu: Machine
    clock: Fraction
    offload: Offload | None = None
    routing: ExpertRouting | None = None

    @property
    def stages(self) -> int:
        """Stages of all NPUs of a pipeline, chunks included."""
        return self.parallelism.pipeline * self.parallelism.virtual

    def turns(self, stage: int) -> list[Turn]:
        """Return the turns of the NPUs of a stage, in order."""
        parallelism = self.parallelism
        return list(
            SCHEDULES[parallelism.schedule](stage, parallelism.pipeline, self.micro_batches, parallelism.virtual)
        )

    @cached_property
    def blocks(self) -> list[list[tuple[Layer, ...]]]:
        """Blocks of each stage: of the first chunk of all NPUs of a pipeline, then of the second."""
        blocks = self.model.blocks()
        if self.stages == 1:
            return [blocks]
        costs = [sum(self.ticks(layer, part) for layer in block for part in self.parts(layer)) for block in blocks]
        return [blocks[stage.start : stage.stop] for stage in balanced(costs, self.stages)]

    def of_chunk(self, stage: int, chunk: int) -> list[tuple[Layer, ...]]:
        """Return the blocks of one chunk of the NPUs of a stage."""
        return self.blocks[chunk * self.parallelism.pipeline + stage]

    def layers(self, stage: int) -> list[Layer]:
        """Return the layers of the NPUs of a stage."""
        chunks = range(self.parallelism.virtual)
        return [layer for chunk in chunks for block in self.of_chunk(stage, chunk) for layer in block]

    def recomputed(self, block: Sequence[Layer]) -> bool:
        """Return whether a block is recomputed in its backward pass."""
        return self.workload.recompute == "full" and block[0].block >= 0

    def parts(self, layer: Layer) -> tuple[Part, ...]:
        """Return the parts of a layer to compute for a micro-batch; the first layer needs no input gradients."""
        forward = (Part.FORWARD,) * (2 if self.recomputed([layer]) else 1)
        first = layer is self.model.layers[0] and layer.kind not in (Kind.EMBEDDING, Kind.TABLES)
        return (*forward, Part.WEIGHT_GRADIENT) if first else (*forward, *_BACKWARD)

    def share(self, layer: Layer) -> Share:
        """Return how a layer is divided; tables are divided among all NPUs."""
        parallelism = self.parallelism
        if layer.kind == Kind.TABLES:
            return Share(tensor=self.grid.data)
        return Share(parallelism.tensor, parallelism.expert, parallelism.sequence)

    def work(self, layer: Layer, part: Part) -> tuple[Work, ...]:
        """Return what an NPU computes of a layer for a micro-batch; its tables it computes for all replicas."""
        samples = self.samples * (self.grid.data if layer.kind == Kind.TABLES else 1)
        work = layer.work(part, samples, self.share(layer))
        if part == Part.INPUT_GRADIENT and self.workload.recompute == "selective":
            return *layer.core_work(samples, self.share(layer)), *work
        return work

    def ticks(self, layer: Layer, part: Part) -> int:
        """Return the cycles of a part of a layer."""
        return self.cost(layer, part)[0]

    @cached_property
    def cost(self) -> Callable[[Layer, Part], tuple[int, int]]:
        """Return the cycles of a part of a layer and the bytes through memory; equal layers are computed once."""
        known: dict[tuple[int, Part], tuple[int, int]] = {}  # by the identity of a layer, which is here as long
        alike: dict[tuple[Work, ...], tuple[int, int]] = {}
        element = self.workload.element_bytes

        def cost(layer: Layer, part: Part) -> tuple[int, int]:
            place = id(layer), part
            if place not in known:
                work = self.work(layer, part)
                if work not in alike:
                    ticks = self.cycles(self.npu.seconds(work, element)) if work else 0
                    alike[work] = ticks, sum(item.elements for item in work) * element
                known[place] = alike[work]
            return known[place]

        return cost

    def update_cost(self, parameters: int) -> tuple[int, int]:
        """Return the same for an optimizer step."""
        element = self.workload.element_bytes
        seconds = self.npu.update_seconds(parameters, element)
        return self.cycles(seconds), self.npu.update_bytes(parameters, element)

    def cycles(self, seconds: Fraction) -> int:
        """Return a compute time in cycles."""
        return ceil(seconds * self.workload.compute_scale * self.clock)

    def bytes(self, elements: int) -> int:
        """Return the bytes of communicated activations or parameters."""
        return self.scaled(elements * self.workload.element_bytes)

    def scaled(self, size: int) -> int:
        """Return bytes times the communication scale, at least one."""
        return max(int(size * self.workload.comm_scale), 1)

    def held(self, layer: Layer, stage: int) -> tuple[int, int]:
        """Return the parameters of a layer on an NPU of a stage (others, experts'); tied ones count once."""
        others, experts = layer.held(self.share(layer))
        if layer.tied and layer.tied in {one.name for one in self.layers(stage)}:
            others = layer.parameters.whole
        return others, experts

    def replicated(self, layers: Sequence[Layer], stage: int, *, used: bool = False) -> Iterator[tuple[int, str]]:
        """Return the parameters of some layers on an NPU of a stage, and the axis of the NPUs with the same ones.

        `used`: whether parameters of another layer that a layer uses count, too.
        """
        dense = [layer for layer in layers if layer.kind != Kind.TABLES]
        held = [layer.held(self.share(layer)) if used else self.held(layer, stage) for layer in dense]
        if others := sum(count for count, _ in held):
            yield others, "data"
        if experts := sum(count for _, count in held):
            yield experts, "replica"

    def shard(self, count: int, axis: str) -> int:
        """Return the share of parameters that one of the NPUs with the same ones keeps where they are divided."""
        return -(-count // (self.grid.data if axis == "data" else self.grid.data // self.grid.expert))

    def updated(self, layer: Layer, stage: int) -> int:
        """Return the parameters of a layer that an NPU of a stage updates."""
        divided = self.parallelism.zero > 0
        return sum(self.shard(*copy) if divided else copy[0] for copy in self.replicated([layer], stage))

    def parted(self, layer: Layer) -> bool:
        """Return whether a layer shares its parameters with one of another stage."""
        return any(layer is tensor for tensor, _ in self.tied)

    def stored(self, layer: Layer) -> int:
        """Return how often the gradients of a layer go to remote memory; those shared by stages wait for their sum."""
        return self.micro_batches if self.parallelism.zero >= 2 and not self.parted(layer) else 1

    @cached_property
    def tied(self) -> tuple[tuple[Layer, int], ...]:
        """Return layers that share parameters but are on different stages, with the stages; empty if there are none."""
        at = {layer.name: stage for stage in range(self.parallelism.pipeline) for layer in self.layers(stage)}
        by_name = {layer.name: layer for layer in self.model.layers}
        for layer in self.model.layers:
            if layer.tied and at[layer.name] != at[layer.tied]:
                return (by_name[layer.tied], at[layer.tied]), (layer, at[layer.name])
        return ()


def make_plan(
    model: Model,
    workload: Workload,
    npu: Machine,
    shape: Sequence[int],
    clock: Fraction,
    *,
    in_switch: bool = False,
    routing: ExpertRouting | None = None,
) -> Plan:
    """Return the plan of a training.

    `in_switch`: whether its remote memory has collectives. `routing`: of tokens to experts.

    Raises
    ------
    InputError
        If numbers do not divide, with the key.
    """
    parallelism, npus = workload.parallelism or Parallelism(), prod(shape)
    part = parallelism.tensor * parallelism.pipeline
    data = parallelism.data if parallelism.data is not None else npus // part
    if part * data != npus:
        product = f"tensor {parallelism.tensor} x pipeline {parallelism.pipeline}" + (
            f" x data {data}" if parallelism.data is not None else ""
        )
        key = "data" if parallelism.data is not None else "tensor" if parallelism.tensor > 1 else "pipeline"
        allowed = f"a product of {npus}" if parallelism.data is not None else f"a divisor of {npus}"
        raise InputError(
            f"{product} does not equal the {npus} NPUs of the network", key=f"{_PLACE}.{key}", allowed=allowed
        )
    batch = workload.batch if workload.batch is not None else model.batch * data
    if batch % data:
        problem = f"{batch} samples cannot be divided among {data} replicas"
        raise InputError(problem, key="workload.batch", allowed=f"a multiple of {data}")
    replica = batch // data
    samples = workload.micro_batch or (1 if parallelism.pipeline > 1 else replica)
    grid = Grid(parallelism.tensor, data, parallelism.pipeline, parallelism.expert, parallelism.order)
    micro_batches, rest = divmod(replica, samples)
    faults = [*_division_faults(model, parallelism, data), *_kind_faults(model, workload, parallelism)]
    if (offload := offload_of(workload, parallelism, in_switch=in_switch)) is not None:
        faults += offload_faults(offload, model, parallelism, data, npus)
    if rest:
        problem = f"{samples} is not a divisor of the replica's {replica} samples"
        faults.append(InputError(problem, key="workload.micro_batch", allowed=f"a divisor of {replica}"))
    elif parallelism.schedule == "interleaved" and micro_batches % parallelism.pipeline:
        problem = f"{micro_batches} micro-batches on {parallelism.pipeline} stages"
        allowed = f"a multiple of {parallelism.pipeline} micro-batches with interleaved"
        faults.append(InputError(problem, key="workload.batch", allowed=allowed))
    raise_all(faults)
    tasks = micro_batches * len(model.layers) * len(grid) // parallelism.pipeline  # forward passes alone
    if tasks > MOST_PASSES:
        problem = f"{micro_batches} micro-batches of {len(model.layers)} layers are more than {tasks} tasks"
        raise InputError(problem, key="workload.batch", allowed=f"at most {MOST_PASSES} tasks; or larger micro-batches")
    return Plan(model, workload, parallelism, grid, tuple(shape), samples, micro_batches, npu, clock, offload, routing)


def _division_faults(model: Model, parallelism: Parallelism, data: int) -> Iterator[InputError]:
    """Counts that are too small or do not divide."""
    blocks = len(model.blocks())
    if parallelism.pipeline * parallelism.virtual > blocks:
        key = "chunks" if parallelism.virtual > 1 and parallelism.pipeline <= blocks else "pipeline"
        problem = f"{parallelism.pipeline * parallelism.virtual} stages, but {model.name} has {blocks} blocks of layers"
        yield InputError(problem, key=f"{_PLACE}.{key}", allowed=f"at most {blocks} stages in all")
    if data % parallelism.expert:
        problem = f"{parallelism.expert} does not divide the {data} replicas"
        yield InputError(problem, key=f"{_PLACE}.expert", allowed=f"a divisor of {data}")
    gemms = [gemm for layer in model.layers for gemm in layer.gemms]
    heads = min((gemm.count for gemm in gemms if gemm.split == Split.HEADS), default=0)
    if heads % parallelism.tensor:
        problem = f"{heads} heads cannot be divided among {parallelism.tensor} NPUs"
        yield InputError(problem, key=f"{_PLACE}.tensor", allowed=f"a divisor of {heads}")
    experts = min((gemm.experts for gemm in gemms if gemm.experts), default=0)
    if parallelism.expert > 1 and (not experts or experts % parallelism.expert):
        problem = f"{model.name} has {experts or 'no'} experts"
        yield InputError(problem, key=f"{_PLACE}.expert", allowed=f"a divisor of {experts}" if experts else "1")
    if parallelism.sequence and model.tokens % parallelism.tensor:
        problem = f"{model.tokens} tokens cannot be divided among {parallelism.tensor} NPUs"
        yield InputError(
            problem, key=f"{_PLACE}.sequence", allowed=f"false, or a multiple of {parallelism.tensor} tokens"
        )


def _kind_faults(model: Model, workload: Workload, parallelism: Parallelism) -> Iterator[InputError]:
    """Settings that only some kinds of models support."""
    layers = model.layers
    if workload.experts is not None and not any(layer.kind == Kind.EXPERTS for layer in layers):
        yield InputError(f"{model.name} has no experts", key="workload.experts", allowed="a model with experts")
    elif workload.experts is not None and parallelism.sequence and parallelism.expert > 1:
        problem = "tensor-parallel NPUs would gather different numbers of tokens, which is not modeled"
        yield InputError(problem, key="workload.experts", allowed="sequence = false, or expert = 1")
    if any(layer.kind == Kind.TABLES for layer in layers):
        for key in ("tensor", "pipeline"):
            if getattr(parallelism, key) > 1:
                problem = f"{model.name} has tables, which all NPUs share, while each replica holds everything else"
                yield InputError(problem, key=f"{_PLACE}.{key}", allowed="1")
    if parallelism.tensor > 1 and all(gemm.split == Split.NONE for layer in layers for gemm in layer.gemms):
        yield InputError(
            f"{model.name} does not define how tensor parallelism divides it", key=f"{_PLACE}.tensor", allowed="1"
        )
    blocks = any(layer.block >= 0 for layer in layers)
    if parallelism.sequence and not blocks:
        yield InputError(f"{model.name} has no blocks of layers", key=f"{_PLACE}.sequence", allowed="false")
    if workload.recompute == "full" and not blocks:
        problem = f"{model.name} has no blocks of layers to recompute"
        yield InputError(problem, key="workload.recompute", allowed='"none"')
    if workload.recompute == "selective" and not any(layer.core_kept for layer in layers):
        problem = f"{model.name} stores no attention scores"
        yield InputError(problem, key="workload.recompute", allowed='"none" or "full"' if blocks else '"none"')
