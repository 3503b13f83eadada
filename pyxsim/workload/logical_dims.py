"""The dimensions of the collectives of a workload text: model parallelism and data parallelism.

The model of a transformer may end within a dimension of the network, which is then split in two (`logical_dims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.workload.text_workload import DLRM, TRANSFORMER, TextWorkload

Dims = tuple[int, ...]


@dataclass(frozen=True)
class LogicalDims:
    """The dimensions as a workload sees them.

    Attributes
    ----------
    shape
        NPUs per dimension.
    model
        The number of first dimensions that hold one copy of the model.
    broken
        The dimension of the network that is split into this one and the next; None for none.
    """

    shape: Dims
    model: int = 0
    broken: int | None = None

    def physical(self, dims: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the dimensions of the network for logical `dims`."""
        return dims if self.broken is None else dims - (dims > self.broken)


@dataclass(frozen=True)
class LayerDims:
    """The dimensions of the collectives of a layer: of activations and their gradients, and of weight gradients."""

    activations: Dims
    weights: Dims


def logical_dims(text: TextWorkload, shape: Sequence[int]) -> LogicalDims:
    """Return the dimensions as a workload sees them. Raises InputError if its model does not fit them."""
    whole = LogicalDims(tuple(shape))
    if text.parallelism not in TRANSFORMER or text.groups is not None:
        return whole
    npus, below = text.header.model_npus, 1
    if npus == 1:
        return whole
    for dim, size in enumerate(shape):
        if below * size == npus:
            return LogicalDims(whole.shape, dim + 1)
        if below * size > npus:
            first = npus // below
            if npus % below or size % first:
                break
            return LogicalDims((*shape[:dim], first, size // first, *shape[dim + 1 :]), dim + 1, dim)
        below *= size
    problem = f"a copy of the model on {npus} NPUs does not fit a network of {' x '.join(map(str, shape))}"
    allowed = "the product of the first dimensions and a divisor of the next one"
    raise InputError(problem, file=text.file, key="model_parallel_NPU_group:", allowed=allowed)


def layer_dims(text: TextWorkload, dims: LogicalDims) -> list[LayerDims]:
    """Return the dimensions of each layer."""
    dims_of = []
    for number, layer in enumerate(text.layers):
        if text.parallelism in DLRM and not number:
            everywhere = _all(dims)
            dims_of.append(LayerDims(everywhere, everywhere))  # embeddings are distributed over all NPUs
        else:
            dims_of.append(_INVOLVED[layer.policy or text.parallelism](dims))
    return dims_of


def is_alone(dims: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether an NPU has no partner along these dimensions."""
    return prod(shape[dim] for dim in dims) == 1


def _all(dims: LogicalDims) -> Dims:
    return tuple(range(len(dims.shape)))


def _data(dims: LogicalDims) -> LayerDims:
    return LayerDims((), _all(dims))


def _model(dims: LogicalDims) -> LayerDims:
    return LayerDims(_all(dims), ())


def _first_for_the_model(dims: LogicalDims) -> LayerDims:
    return LayerDims(_all(dims)[:1], _all(dims)[1:])


def _first_for_the_data(dims: LogicalDims) -> LayerDims:
    return LayerDims(_all(dims)[1:], _all(dims)[:1])


def _transformer(dims: LogicalDims) -> LayerDims:
    return LayerDims(_all(dims)[: dims.model], _all(dims)[dims.model :])


_INVOLVED: dict[str, Callable[[LogicalDims], LayerDims]] = {
    "MICRO": _data,
    "DATA": _data,
    "HYBRID_DLRM": _data,
    "HYBRID_DLRM_ENHANCED": _data,
    "MODEL": _model,
    "DISTRIBUTED_INFERENCE": _model,
    "HYBRID_DATA_MODEL": _first_for_the_model,
    "HYBRID_MODEL_DATA": _first_for_the_data,
    "HYBRID_TRANSFORMER": _transformer,
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": _transformer,
}
