"""A model as a table: its layers, equal ones once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pyxsim.models.layer import Layer, Model, Part
from pyxsim.models.npu import Npu

_TRAINING = (Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)


@dataclass(frozen=True)
class Line:
    """Equal layers: their number, and of one of them parameters, forward FLOPs and bytes, products.

    `seconds`: forward and backward on an NPU, if one is given.
    """

    name: str
    count: int
    parameters: int
    flops: int
    bytes: int
    products: tuple[tuple[int, int, int, int], ...]
    seconds: Fraction | None


def lines(model: Model, npu: Npu | None = None, samples: int = 1, element: int = 2) -> list[Line]:
    """Return the distinct layers of a model in order. `element`: bytes of one element."""
    counts: dict[Layer, int] = {}
    for layer in model.layers:
        # "block 3: MLP" and "block 4: MLP" are equal.
        plain = replace(layer, name=layer.name.split(": ", 1)[-1], block=-1)
        counts[plain] = counts.get(plain, 0) + 1
    return [_line(layer, count, npu, samples, element) for layer, count in counts.items()]


def _line(layer: Layer, count: int, npu: Npu | None, samples: int, element: int) -> Line:
    forward = layer.work(Part.FORWARD, samples)
    seconds = None
    if npu is not None:
        seconds = sum((npu.seconds(layer.work(part, samples), element) for part in _TRAINING), Fraction(0))
    return Line(
        layer.name,
        count,
        layer.own_parameters,
        sum(work.flops for work in forward),
        sum(work.elements for work in forward) * element,
        tuple((work.m, work.n, work.k, work.count) for work in forward if work.count),
        seconds,
    )
