"""A model as its layers: what each computes, holds, moves and hands on, whatever machine it runs on.

All numbers are for one *sample*: a sequence of tokens, an image, a row of a table. They are counts of elements; how
many bytes an element has is a matter of the run. docs/models.md tells where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum


class Part(IntEnum):
    """The parts of a layer's work, numbered as the graph of tasks numbers them."""

    NONE = 0
    FORWARD = 1
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3
    UPDATE = 4


class Kind(StrEnum):
    """What a layer is, where a parallelism must know it."""

    EMBEDDING = "embedding"  # rows of a table, picked by tokens
    ATTENTION = "attention"
    MLP = "mlp"
    ROUTER = "router"  # says to which experts tokens go
    EXPERTS = "experts"
    HEAD = "head"  # logits and loss
    CONVOLUTION = "convolution"
    LINEAR = "linear"
    TABLES = "tables"  # embedding tables of a recommendation model
    INTERACTION = "interaction"


class Split(StrEnum):
    """What a group of tensor-parallel NPUs divides among itself."""

    NONE = "none"  # nothing: each does all of it
    COLUMN = "column"  # n: each has some of the outputs
    ROW = "row"  # k: each has a part of every sum
    HEADS = "heads"  # the count: each has some of the products


@dataclass(frozen=True, slots=True)
class Share:
    """How many NPUs divide a layer's work: `tensor` of them its matrices, `expert` of them its experts.

    `sequence`: what tensor parallelism leaves whole (norms, residuals, routers) is divided along the tokens (Megatron's
    sequence parallelism).
    """

    tensor: int = 1
    expert: int = 1
    sequence: bool = False

    @property
    def dispatches_own(self) -> bool:
        """Whether each tensor-parallel NPU sends its own tokens, no other's, to who has their experts."""
        return self.sequence and self.expert > 1


ALONE = Share()


@dataclass(frozen=True, slots=True)
class Work:
    """`count` matrix products (m x k) (k x n), and how many elements are read or written for all of it."""

    m: int = 0
    n: int = 0
    k: int = 0
    count: int = 0
    elements: int = 0

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each of m n k."""
        return 2 * self.m * self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class Gemm:
    """A product of matrices, (m x k) (k x n), of one sample.

    With `weights` the second operand is parameters, and the rows of all samples make one product. Without, it is made
    of activations (attention), and there are `count` products for each sample. `experts`: the rows are spread evenly
    over so many products, each with weights of its own. `left` and `result`: elements of the first operand and of the
    result that go through the memory, where they are not m k and m n (a convolution reads its input once; a fused
    attention keeps its scores on the chip).
    """

    name: str
    m: int
    n: int
    k: int
    count: int = 1
    split: Split = Split.NONE
    weights: bool = True
    experts: int = 0
    left: int | None = None
    result: int | None = None

    @property
    def flops(self) -> int:
        """Of one sample, forward."""
        return 2 * self.m * self.n * self.k * self.count

    def work(self, part: Part, samples: int, share: Share = ALONE) -> Iterator[Work]:
        """What one NPU computes of it for so many samples.

        Each of the three products of a layer has the same three matrices: two are read and the third is written.
        """
        m, n, k, count = self._of_one(samples, share)
        # Without weights the batch is in the count; experts see the rows of all samples anew.
        rows = m if self.weights else self.m
        left = rows * k if self.left is None else _part(self.left * k * rows, self.k * self.m)
        result = rows * n if self.result is None else _part(self.result * n * rows, self.n * self.m)
        elements = (left + k * n + result) * count
        if part == Part.FORWARD:
            yield Work(m, n, k, count, elements)
        elif part == Part.INPUT_GRADIENT:
            yield Work(m, k, n, count, elements)
            if not self.weights:  # both operands have gradients that go on
                yield Work(k, n, m, count, elements)
        elif part == Part.WEIGHT_GRADIENT and self.weights:
            yield Work(k, n, m, count, elements)

    def _of_one(self, samples: int, share: Share) -> tuple[int, int, int, int]:
        """m, n, k and the count at one NPU, the one with the largest share."""
        n = _part(self.n, share.tensor) if self.split == Split.COLUMN else self.n
        k = _part(self.k, share.tensor) if self.split == Split.ROW else self.k
        count = _part(self.count, share.tensor) if self.split == Split.HEADS else self.count
        if self.experts:
            # An NPU has its share of the experts, and these get the tokens of all NPUs that share them.
            own = _part(self.experts, share.expert)
            return _part(self.m * samples * share.expert, self.experts), n, k, own * count
        if not self.weights:
            return self.m, n, k, count * samples
        own = share.tensor if share.sequence and self.split == Split.NONE else 1  # then it has its own tokens only
        return _part(self.m * samples, own), n, k, count


@dataclass(frozen=True, slots=True)
class Elements:
    """A number of elements: `whole` ones that each tensor-parallel NPU has, and `divided` ones that they share."""

    whole: int = 0
    divided: int = 0

    @property
    def total(self) -> int:
        """Of the layer."""
        return self.whole + self.divided

    def of_one(self, share: Share) -> int:
        """What one NPU has, if these are activations: sequence parallelism divides the whole ones, too."""
        whole = _part(self.whole, share.tensor) if share.sequence else self.whole
        return whole + _part(self.divided, share.tensor)


NOTHING = Elements()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. Layers with the same `block` number stay together on one stage of a pipeline.

    `parameters`: whole ones are norms, routers, and biases that are added to sums. `expert_parameters`: of all experts
    or tables together. `tied`: the layer whose divided parameters these are, too.
    `forward_sum`, `backward_sum`: elements that tensor-parallel NPUs sum, of the outputs forward and of the input
    gradients backward. `gathered`: outputs of which each of them has a part and needs all.
    `dispatched`: elements that go to the NPUs with the experts or tables; as many come back.
    `moved`: read and written forward by what is no matrix product; backward it is twice as much.
    `kept`: activations that the backward pass needs: bytes, where an element has two.
    `parallel`: what an ASTRA-sim table says of this layer.
    """

    name: str
    kind: Kind
    inputs: int
    outputs: int
    gemms: tuple[Gemm, ...] = ()
    parameters: Elements = NOTHING
    expert_parameters: int = 0
    tied: str = ""
    forward_sum: int = 0
    backward_sum: int = 0
    gathered: int = 0
    dispatched: int = 0
    moved: Elements = NOTHING
    kept: Elements = NOTHING
    block: int = -1
    parallel: str = ""

    @property
    def own_parameters(self) -> int:
        """All that are not another layer's."""
        return self.parameters.whole + (0 if self.tied else self.parameters.divided) + self.expert_parameters

    @property
    def flops(self) -> int:
        """Of one sample, forward."""
        return sum(gemm.flops for gemm in self.gemms)

    def held(self, share: Share = ALONE) -> tuple[int, int]:
        """Parameters that one NPU holds, those of a tied layer, too: (all but experts', its experts')."""
        others = self.parameters.whole + _part(self.parameters.divided, share.tensor)
        return others, _part(self.expert_parameters, share.tensor * share.expert)

    def work(self, part: Part, samples: int, share: Share = ALONE) -> tuple[Work, ...]:
        """What one NPU computes and moves for so many samples."""
        found = [work for gemm in self.gemms for work in gemm.work(part, samples, share)]
        moved = self.moved.of_one(share) * samples
        if moved and part in (Part.FORWARD, Part.INPUT_GRADIENT):
            found.append(Work(elements=moved if part == Part.FORWARD else 2 * moved))
        return tuple(found)

    def kept_at(self, share: Share = ALONE) -> int:
        """Bytes that one NPU keeps of a sample. What experts have gathered of others' tokens they keep whole."""
        if self.kind == Kind.EXPERTS and share.dispatches_own:
            share = replace(share, sequence=False)
        return self.kept.of_one(share)


@dataclass(frozen=True)
class Model:
    """Layers in the order of the forward pass.

    `sample`: what one is, in words; `tokens`: how many it has (1 where there are none). `batch`: how many samples the
    file itself speaks of.
    """

    name: str
    layers: tuple[Layer, ...]
    sample: str
    tokens: int = 1
    batch: int = 1
    help: str = ""
    source: str = ""

    @property
    def parameters(self) -> int:
        """How many there are; those that two layers use count once."""
        return sum(layer.own_parameters for layer in self.layers)

    @property
    def flops(self) -> int:
        """Of the forward pass of one sample."""
        return sum(layer.flops for layer in self.layers)

    def blocks(self) -> list[tuple[Layer, ...]]:
        """The layers in groups that a pipeline does not part, in order."""
        found: list[list[Layer]] = []
        for layer in self.layers:
            if found and layer.block >= 0 and found[-1][-1].block == layer.block:
                found[-1].append(layer)
            else:
                found.append([layer])
        return [tuple(block) for block in found]


def _part(whole: int, among: int) -> int:
    """The largest share, where it does not come out even."""
    return -(-whole // among)
