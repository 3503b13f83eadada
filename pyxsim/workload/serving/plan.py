"""Where the instances of a model are, what they hold, and what an iteration computes and communicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.errors import InputError
from pyxsim.models.expert_routing import ExpertRouting
from pyxsim.models.inference import InferenceLayers, Span
from pyxsim.models.layer import Layer, Model, Share, Work
from pyxsim.models.npu import Npu
from pyxsim.models.transformer import Transformer
from pyxsim.settings import Workload
from pyxsim.settings.serving import Instances, Serving
from pyxsim.units import rounded

MOST_KNOWN = 2**14  # times of layers


@dataclass(frozen=True)
class Exchange:
    """A collective of the NPUs of a stage: one per group of positions.

    Attributes
    ----------
    what
        Its name in results.
    groups
        Positions of NPUs in the stage, for each group.
    sizes
        Bytes of each group; a group with 0 bytes, or a single NPU, does nothing.
    matrices
        Of an all-to-all with different amounts: the bytes in each group.
    """

    kind: str
    what: str
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    matrices: tuple[ByteMatrix, ...] | None = None


@dataclass(frozen=True)
class Step:
    """What the NPUs of a stage compute, and the collective that follows.

    Attributes
    ----------
    ticks
        Cycles of each NPU.
    others
        Instead: blocks that take the mean time of those simulated before, over the number of these; None for none.
    begins
        Whether the simulated blocks begin with it.
    """

    ticks: tuple[int, ...]
    exchange: Exchange | None = None
    others: Fraction | None = None
    begins: bool = False


@dataclass(frozen=True)
class Part:
    """What a rank does in an iteration: the tokens of each request, and how many tokens of outputs follow."""

    spans: tuple[Span, ...] = ()
    outputs: int = 0

    @cached_property
    def tokens(self) -> int:
        """Tokens of all requests."""
        return sum(span.new for span in self.spans)


class InstancePlan:
    """The instances of one role. All have the same plan; `first` is the first NPU of the first one."""

    def __init__(
        self,
        role: str,
        instances: Instances,
        first: int,
        model: Model,
        description: Transformer,
        workload: Workload,
        npu: Npu,
        clock: Fraction,
        routing: ExpertRouting | None,
    ) -> None:
        self.role, self.instances, self.first = role, instances, first
        self.model, self.description, self.workload = model, description, workload
        self.npu, self.clock, self.routing = npu, clock, routing
        self.share = Share(instances.tensor, instances.expert)
        self.layers = InferenceLayers(description, self.share)
        self._known: dict[tuple[Any, ...], int] = {}
        assert workload.serving is not None
        self.serving: Serving = workload.serving
        tensor, ranks = instances.tensor, range(instances.expert)
        self.tensor_groups = tuple(tuple(range(rank * tensor, (rank + 1) * tensor)) for rank in ranks)
        self.expert_groups = tuple(tuple(rank * tensor + at for rank in ranks) for at in range(tensor))

    # -- places --

    def npus(self, instance: int, stage: int) -> range:
        """Return the NPUs of a stage of an instance: the tensor-parallel ones of a rank are neighbors."""
        size = self.instances.tensor * self.instances.expert
        begin = self.first + instance * self.instances.size + stage * size
        return range(begin, begin + size)

    def blocks_of(self, stage: int) -> range:
        """Return the blocks of layers of a stage; the first stages have one more if they do not divide evenly."""
        each, more = divmod(self.description.layers, self.instances.pipeline)
        begin = stage * each + min(stage, more)
        return range(begin, begin + each + (stage < more))

    def stage_of(self, block: int) -> int:
        """Return the stage of a block."""
        return next(stage for stage in range(self.instances.pipeline) if block in self.blocks_of(stage))

    def faults(self) -> Iterator[InputError]:
        """Yield the counts that do not divide."""
        instances, model = self.instances, self.description
        key = f"workload.serving.{'instances' if self.role == 'serve' else self.role}"
        if model.heads % instances.tensor:
            problem = f"{model.heads} heads cannot be divided among {instances.tensor} NPUs"
            yield InputError(problem, key=f"{key}.tensor", allowed=f"a divisor of {model.heads}")
        if instances.pipeline > model.layers:
            problem = f"{instances.pipeline} stages, but {self.model.name} has {model.layers} blocks of layers"
            yield InputError(problem, key=f"{key}.pipeline", allowed=f"at most {model.layers}")
        if instances.expert > 1 and (not model.experts or model.experts % instances.expert):
            problem = f"{self.model.name} has {model.experts or 'no'} experts"
            allowed = f"a divisor of {model.experts}" if model.experts else "1"
            yield InputError(problem, key=f"{key}.expert", allowed=allowed)

    # -- memory --

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return self.workload.element_bytes

    def kv_bytes(self, stage: int) -> int:
        """Return the bytes of the keys and values of a token on an NPU of a stage."""
        return len(self.blocks_of(stage)) * self.layers.kv_elements * self.element

    def footprint(self, stage: int) -> dict[str, int]:
        """Return the bytes on an NPU of a stage without its KV cache, by term."""
        blocks = set(self.blocks_of(stage))
        held = [layer.held(self.share) for layer in self._layers(blocks, stage)]
        tokens, model, tensor = self.serving.max_tokens, self.description, self.instances.tensor
        inner = model.ffn * ((3 if model.gated else 2) * max(model.top_k, 1))
        logits = min(self.serving.max_batch, tokens) * model.vocabulary if self._last(stage) else 0
        activations = tokens * (2 * model.hidden + -(-inner // tensor)) + -(-logits // tensor)
        return {
            "weights": sum(others for others, _ in held) * self.element,
            "expert weights": sum(experts for _, experts in held) * self.element,
            "activations": activations * self.element,
        }

    def _layers(self, blocks: set[int], stage: int) -> Iterator[Layer]:
        embedding, *inner, head = self.model.layers
        if stage == 0:
            yield embedding
        yield from (layer for layer in inner if layer.block in blocks)
        if self._last(stage):
            yield head

    def _last(self, stage: int) -> bool:
        return stage == self.instances.pipeline - 1

    def kv_blocks(self, memory: int | None) -> int:
        """Return how many blocks of tokens the KV cache of a rank holds. Raises InputError if none fits.

        `memory`: bytes of an NPU; None if unknown.
        """
        serving = self.serving
        if serving.kv_tokens is not None:
            return self._at_least_one(serving.kv_tokens // serving.kv_block, "workload.serving.kv_tokens")
        if memory is None:
            allowed = "a size, or workload.serving.kv_tokens"
            raise InputError("is missing: the KV cache takes what is left", key="system.npu.memory", allowed=allowed)
        most = int(memory * serving.memory_share)
        tokens = []
        for stage in range(self.instances.pipeline):
            terms = self.footprint(stage)
            left = most - sum(terms.values())
            if left < self.kv_bytes(stage) * serving.kv_block:
                term, size = max(terms.items(), key=lambda each: each[1])
                problem = (
                    f"an NPU of {self.role} needs {rounded(sum(terms.values()), 'B')} without KV cache and has "
                    f"{rounded(most, 'B')}; largest term: {term}, {rounded(size, 'B')}"
                )
                key = f"workload.serving.{'instances' if self.role == 'serve' else self.role}"
                raise InputError(problem, key=key, allowed="a larger tensor, pipeline or expert, a smaller max_tokens")
            tokens.append(left // self.kv_bytes(stage))
        return min(tokens) // serving.kv_block

    def _at_least_one(self, blocks: int, key: str) -> int:
        if not blocks:
            raise InputError("less than one block", key=key, allowed=f"at least kv_block, {self.serving.kv_block}")
        return blocks

    # -- an iteration --

    def cycles(self, works: Sequence[Work]) -> int:
        """Return the time of works in cycles, rounded up."""
        return ceil(self.npu.seconds(works, self.element) * self.workload.compute_scale * self.clock) if works else 0

    def _ticks(self, layer: str, *of: Any) -> int:
        """The cycles of a layer, a method of `InferenceLayers`, for arguments; those of the last ones are kept."""
        key = layer, *of
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = self.cycles(getattr(self.layers, layer)(*of))
        return self._known[key]

    def bytes(self, elements: int) -> int:
        """Return the bytes of communicated elements; 0 for none."""
        return max(int(elements * self.element * self.workload.comm_scale), 1) if elements else 0

    def activations(self, part: Part) -> int:
        """Return the bytes that an NPU of a rank sends to the next stage."""
        return self.bytes(part.tokens * self.description.hidden)

    def steps(self, stage: int, parts: Sequence[Part], iteration: int) -> list[Step]:
        """Return what the NPUs of a stage do in an iteration, in order. `parts`: of each rank."""
        model, blocks = self.description, self.blocks_of(stage)
        steps: list[Step] = []
        if stage == 0:
            ticks = [self._ticks("embedding", part.tokens) for part in parts]
            steps.append(self._step(ticks, self._sum("embedding", parts)))
        ticks = [self._ticks("attention", part.spans) for part in parts]
        attention = self._step(ticks, self._sum("attention", parts))
        simulated = blocks if self.serving.blocks is None else blocks[: self.serving.blocks]
        mlp = None
        if not model.experts:
            mlp = self._step([self._ticks("mlp", part.tokens) for part in parts], self._sum("MLP", parts))
        for block in simulated:
            begins = block == simulated[0] and len(simulated) < len(blocks)
            steps.append(Step(attention.ticks, attention.exchange, begins=begins))
            steps += [mlp] if mlp is not None else self._experts(parts, block, iteration)
        if len(simulated) < len(blocks):
            others = Fraction(len(blocks) - len(simulated), len(simulated))
            steps.append(Step((0,) * len(self.npus(0, stage)), others=others))
        if self._last(stage):
            ticks = [self._ticks("head", part.outputs) for part in parts]
            tensor = self.instances.tensor
            shards = [self.bytes(-(-part.outputs * model.vocabulary // tensor)) for part in parts]
            steps.append(self._step(ticks, Exchange("all-gather", "logits", self.tensor_groups, tuple(shards))))
        return steps

    def _step(self, by_rank: Sequence[int], exchange: Exchange | None) -> Step:
        return Step(tuple(ticks for ticks in by_rank for _ in range(self.instances.tensor)), exchange)

    def _sum(self, what: str, parts: Sequence[Part]) -> Exchange:
        sizes = tuple(self.bytes(part.tokens * self.description.hidden) for part in parts)
        return Exchange("all-reduce", what, self.tensor_groups, sizes)

    def _experts(self, parts: Sequence[Part], block: int, iteration: int) -> Iterator[Step]:
        """The gating layer, tokens to their experts, the experts, tokens back."""
        model, expert = self.description, self.instances.expert
        tokens = [part.tokens for part in parts]
        assert self.routing is not None
        counts = self.routing.counts(tokens, block, iteration).reshape(expert, expert, -1)
        sizes = counts.sum(axis=2) * model.hidden * self.element
        scale = self.workload.comm_scale
        there = ByteMatrix(sizes * scale.numerator // scale.denominator)
        ticks = [self._ticks("router", count) for count in tokens]
        yield self._step(ticks, self._all_to_all("tokens to experts", there))
        rows = counts.sum(axis=0).tolist()
        ticks = [self._ticks("experts", tuple(rows[rank]), tokens[rank]) for rank in range(expert)]
        yield self._step(ticks, self._all_to_all("tokens from experts", there.transposed))
        yield self._step([0] * expert, self._sum("experts", parts))

    def _all_to_all(self, what: str, matrix: ByteMatrix) -> Exchange:
        groups = self.expert_groups
        size = matrix.size if matrix.total else 0
        return Exchange("all-to-all", what, groups, (size,) * len(groups), (matrix,) * len(groups))

    def exchanges(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield each kind of collective with the NPUs of a group, for proofs before the run."""
        for instance in range(self.instances.count):
            for stage in range(self.instances.pipeline):
                npus = self.npus(instance, stage)
                kinds = [("all-reduce", self.tensor_groups), ("all-gather", self.tensor_groups)]
                for kind, groups in [*kinds, ("all-to-all", self.expert_groups)]:
                    yield from ((kind, tuple(npus[at] for at in group)) for group in groups if len(group) > 1)
