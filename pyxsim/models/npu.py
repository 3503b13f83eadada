"""An NPU: how long it takes for work. Times are exact fractions of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from pyxsim.models import scalesim, systolic
from pyxsim.models.devices import device
from pyxsim.models.layer import Work
from pyxsim.settings.npu import Array
from pyxsim.settings.npu import Npu as NpuSettings

_STATE = 4  # bytes of each of an optimizer's numbers, at least
_CYCLES: dict[str, Callable[[int, int, int, Array], int]] = {
    "systolic": systolic.cycles,
    "scalesim": scalesim.cycles,
}


@dataclass(frozen=True)
class Roofline:
    """What an NPU can do at most: operations per second, and bytes of its memory per second (Williams et al. 2009)."""

    peak: Fraction
    bandwidth: Fraction

    def seconds(self, operations: int, size: int) -> Fraction:
        """How long so many operations on so many bytes take."""
        return max(operations / self.peak, size / self.bandwidth)


@dataclass(frozen=True)
class Npu:
    """How long an NPU takes: `product` for the operations of a matrix product, its memory for bytes.

    A product takes whichever is longer. One kernel follows the other: nothing else overlaps.
    """

    product: Callable[[Work], Fraction]
    bandwidth: Fraction

    def seconds(self, works: Iterable[Work], element: int) -> Fraction:
        """For works whose elements have so many bytes."""
        return sum((self._one(work, element) for work in works), Fraction(0))

    def _one(self, work: Work, element: int) -> Fraction:
        moving = work.elements * element / self.bandwidth
        return max(self.product(work), moving) if work.count else moving

    def update_seconds(self, parameters: int, element: int) -> Fraction:
        """For an optimizer's step over so many parameters."""
        return self.update_bytes(parameters, element) / self.bandwidth

    def update_bytes(self, parameters: int, element: int) -> int:
        """What that step reads and writes."""
        return parameters * _update_bytes(element)


def state_bytes(parameters: int, element: int) -> int:
    """What Adam (Kingma and Ba 2015) holds beside parameters and gradients of so many bytes.

    Momentum and variance; in mixed precision also a copy of the parameter (Rajbhandari et al. 2020, ZeRO): 12 bytes.
    """
    return parameters * max(element, _STATE) * (3 if has_copy(element) else 2)


def has_copy(element: int) -> bool:
    """Whether the optimizer has a longer copy of parameters of so many bytes."""
    return element < _STATE


def _update_bytes(element: int) -> int:
    """A step reads the gradient, reads and writes parameter, momentum and variance, and writes a short copy if any."""
    return element + 6 * max(element, _STATE) + (element if has_copy(element) else 0)


def roofline(settings: NpuSettings) -> Roofline:
    """Of [system.npu]. Raises InputError with a key below it."""
    found = device(settings.device) if settings.device is not None else None
    peak, bandwidth = settings.peak, settings.memory_bandwidth
    if found is not None:
        peak = peak or found.peak(settings.precision)
        bandwidth = bandwidth or found.bandwidth
    assert peak is not None  # the settings see to it
    assert bandwidth is not None
    return Roofline(peak * settings.efficiency, bandwidth)


def processor(settings: NpuSettings) -> Npu:
    """The NPU of [system.npu]. Raises InputError with a key below it."""
    if settings.array is None:
        roof = roofline(settings)
        return Npu(lambda work: work.flops / roof.peak, roof.bandwidth)
    array, count = settings.array, _CYCLES[settings.compute]
    bandwidth = settings.memory_bandwidth
    if bandwidth is None:
        assert settings.device is not None  # the settings see to it
        bandwidth = device(settings.device).bandwidth

    def product(work: Work) -> Fraction:
        return work.count * count(work.m, -(-work.n // array.count), work.k, array) / array.clock

    return Npu(product, bandwidth)
