"""A model as its layers: what each computes, stores, moves and passes on, on any NPU.

All numbers are for one *sample*: a sequence of tokens, an image, a row of a table. They count elements; the bytes of an
element depend on the run. docs/models.md gives the sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pyxsim.layer_parts import Part as Part


class Kind(StrEnum):
    """The kind of a layer, where a parallelism depends on it."""

    EMBEDDING = "embedding"  # rows of a table, picked by tokens
    ATTENTION = "attention"
    MLP = "mlp"
    ROUTER = "router"  # assigns tokens to experts
    EXPERTS = "experts"
    HEAD = "head"  # logits and loss
    CONVOLUTION = "convolution"
    LINEAR = "linear"
    TABLES = "tables"  # embedding tables of a recommendation model
    INTERACTION = "interaction"


class Split(StrEnum):
    """What tensor-parallel NPUs divide among themselves."""

    NONE = "none"  # nothing: each computes all of it
    COLUMN = "column"  # n: each has a part of the outputs
    ROW = "row"  # k: each has a part of every sum
    HEADS = "heads"  # the count: each has a part of the products


@dataclass(frozen=True, slots=True)
class Share:
    """How many NPUs divide a layer: `tensor` its matrices, `expert` its experts.

    `sequence`: whether the parts that tensor parallelism leaves whole (norms, residuals, routers) are divided along the
    tokens (Megatron's sequence parallelism).
    """

    tensor: int = 1
    expert: int = 1
    sequence: bool = False

    @property
    def dispatches_own(self) -> bool:
        """Whether each tensor-parallel NPU sends only its own tokens to their experts."""
        return self.sequence and self.expert > 1


ALONE = Share()


@dataclass(frozen=True, slots=True)
class Work:
    """`count` matrix products (m x k) (k x n), and the elements read or written in all."""

    m: int = 0
    n: int = 0
    k: int = 0
    count: int = 0
    elements: int = 0

    @property
    def flops(self) -> int:
        """Operations: a multiplication and an addition for each of m n k."""
        return 2 * self.m * self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class Gemm:
    """A matrix product (m x k) (k x n) of one sample.

    Attributes
    ----------
    weights
        The second operand is parameters, and the rows of all samples form one product. Otherwise it is activations
        (attention), with `count` products per sample.
    experts
        The rows are divided evenly among this many products, each with weights of its own.
    left, result
        Elements of the first operand and of the result that go through memory, where they are not m k and m n (a
        convolution reads its input once; fused attention keeps its scores on the chip).
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
        """Forward operations of one sample."""
        return 2 * self.m * self.n * self.k * self.count

    def work(self, part: Part, samples: int, share: Share = ALONE) -> Iterator[Work]:
        """Return what one NPU computes for a number of samples.

        Each of the three products of a layer has the same three matrices: two are read and the third is written.
        """
        m, n, k, count = self._of_one(samples, share)
        # Without weights the batch is in the count; experts process the rows of all samples together.
        rows = m if self.weights else self.m
        left = rows * k if self.left is None else _part(self.left * k * rows, self.k * self.m)
        result = rows * n if self.result is None else _part(self.result * n * rows, self.n * self.m)
        elements = (left + k * n + result) * count
        if part == Part.FORWARD:
            yield Work(m, n, k, count, elements)
        elif part == Part.INPUT_GRADIENT:
            yield Work(m, k, n, count, elements)
            if not self.weights:  # both operands have gradients
                yield Work(k, n, m, count, elements)
        elif part == Part.WEIGHT_GRADIENT and self.weights:
            yield Work(k, n, m, count, elements)

    def _of_one(self, samples: int, share: Share) -> tuple[int, int, int, int]:
        """m, n, k and the count on the NPU with the largest share."""
        n = _part(self.n, share.tensor) if self.split == Split.COLUMN else self.n
        k = _part(self.k, share.tensor) if self.split == Split.ROW else self.k
        count = _part(self.count, share.tensor) if self.split == Split.HEADS else self.count
        if self.experts:
            # An NPU has its share of the experts, which get the tokens of all NPUs that share them.
            own = _part(self.experts, share.expert)
            return _part(self.m * samples * share.expert, self.experts), n, k, own * count
        if not self.weights:
            return self.m, n, k, count * samples
        own = share.tensor if share.sequence and self.split == Split.NONE else 1  # it has only its own tokens
        return _part(self.m * samples, own), n, k, count


@dataclass(frozen=True, slots=True)
class Elements:
    """A number of elements: `whole` ones on each tensor-parallel NPU, and `divided` ones that they share."""

    whole: int = 0
    divided: int = 0

    @property
    def total(self) -> int:
        """Elements of the layer."""
        return self.whole + self.divided

    def of_one(self, share: Share) -> int:
        """Return the elements on one NPU, for activations: sequence parallelism divides the whole ones, too."""
        whole = _part(self.whole, share.tensor) if share.sequence else self.whole
        return whole + _part(self.divided, share.tensor)


NOTHING = Elements()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. Layers with the same `block` number stay together on one pipeline stage.

    Attributes
    ----------
    parameters
        Whole ones are norms, routers, and biases that are added to sums.
    expert_parameters
        Of all experts or tables together.
    tied
        The layer that shares these divided parameters.
    forward_sum, backward_sum
        Elements that tensor-parallel NPUs sum: outputs forward, input gradients backward.
    gathered
        Outputs of which each of them has a part but needs all.
    dispatched
        Elements that go to the NPUs with the experts or tables; as many return.
    moved
        Elements read and written forward besides matrix products; backward twice as many.
    kept
        Activations that the backward pass needs, in bytes with two per element.
    core_moved, core_kept
        Of the divided parts of `moved` and `kept`: softmax and dropout of the scores, which selective recomputation
        repeats instead of keeping them (Korthikanti et al. 2022).
    parallel
        Parallelism of the layer in an ASTRA-sim table.
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
    core_moved: int = 0
    core_kept: int = 0
    block: int = -1
    parallel: str = ""

    @property
    def own_parameters(self) -> int:
        """Parameters, without those of another layer."""
        return self.parameters.whole + (0 if self.tied else self.parameters.divided) + self.expert_parameters

    @property
    def flops(self) -> int:
        """Forward operations of one sample."""
        return sum(gemm.flops for gemm in self.gemms)

    def held(self, share: Share = ALONE) -> tuple[int, int]:
        """Return the parameters on one NPU, those of a tied layer included: (without experts', experts')."""
        other_parameters = self.parameters.whole + _part(self.parameters.divided, share.tensor)
        return other_parameters, _part(self.expert_parameters, share.tensor * share.expert)

    def work(self, part: Part, samples: int, share: Share = ALONE) -> tuple[Work, ...]:
        """Return what one NPU computes and moves for a number of samples."""
        items = [work for gemm in self.gemms for work in gemm.work(part, samples, share)]
        moved = self.moved.of_one(share) * samples
        if moved and part in (Part.FORWARD, Part.INPUT_GRADIENT):
            items.append(Work(elements=moved if part == Part.FORWARD else 2 * moved))
        return tuple(items)

    def core_work(self, samples: int, share: Share = ALONE) -> tuple[Work, ...]:
        """Return what selective recomputation repeats in the backward pass: scores, softmax and weighted values."""
        if not self.core_kept:
            return ()
        again = [work for gemm in self.gemms if not gemm.weights for work in gemm.work(Part.FORWARD, samples, share)]
        return *again, Work(elements=_part(self.core_moved, share.tensor) * samples)

    def kept_at(self, share: Share = ALONE, *, selective: bool = False) -> int:
        """Return the bytes that one NPU keeps of a sample. Tokens gathered for experts are kept whole.

        `selective`: without what selective recomputation repeats.
        """
        if self.kind == Kind.EXPERTS and share.dispatches_own:
            share = replace(share, sequence=False)
        kept = Elements(self.kept.whole, self.kept.divided - self.core_kept) if selective else self.kept
        return kept.of_one(share)


@dataclass(frozen=True)
class Model:
    """Layers in the order of the forward pass.

    `sample`: description of a sample; `tokens`: its tokens (1 without any). `batch`: samples that the file refers to.
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
        """Number of parameters; shared ones count once."""
        return sum(layer.own_parameters for layer in self.layers)

    @property
    def flops(self) -> int:
        """Operations of the forward pass of one sample."""
        return sum(layer.flops for layer in self.layers)

    def blocks(self) -> list[tuple[Layer, ...]]:
        """The layers in groups that a pipeline does not split, in order."""
        items: list[list[Layer]] = []
        for layer in self.layers:
            if items and layer.block >= 0 and items[-1][-1].block == layer.block:
                items[-1].append(layer)
            else:
                items.append([layer])
        return [tuple(block) for block in items]


def _part(whole: int, among: int) -> int:
    """The largest share of an uneven division."""
    return -(-whole // among)
