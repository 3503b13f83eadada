"""An NPU: the time that it needs for work, as exact fractions of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from pyxsim.models import scalesim, systolic
from pyxsim.models.devices import device
from pyxsim.models.layer import Work
from pyxsim.settings.npu import Array
from pyxsim.settings.npu import Npu as NpuSettings

_STATE = 4  # least bytes of each number of an optimizer
_CYCLES: dict[str, Callable[[int, int, int, Array], int]] = {
    "systolic": systolic.cycles,
    "scalesim": scalesim.cycles,
}


@dataclass(frozen=True)
class Roofline:
    """The limits of an NPU: operations per second, and memory bytes per second (Williams et al. 2009)."""

    peak: Fraction
    bandwidth: Fraction

    def seconds(self, operations: int, size: int) -> Fraction:
        """Return the seconds of `operations` on `size` bytes."""
        return max(operations / self.peak, size / self.bandwidth)


@dataclass(frozen=True)
class Npu:
    """Times of work on an NPU: `product` for the operations of a matrix product, its memory for bytes.

    A product takes the longer of both. Kernels run one after the other: nothing else overlaps.
    """

    product: Callable[[Work], Fraction]
    bandwidth: Fraction

    def seconds(self, works: Iterable[Work], element: int) -> Fraction:
        """Return the seconds of work with elements of `element` bytes."""
        return sum((self._one(work, element) for work in works), Fraction(0))

    def _one(self, work: Work, element: int) -> Fraction:
        moving = work.elements * element / self.bandwidth
        return max(self.product(work), moving) if work.count else moving

    def update_seconds(self, parameters: int, element: int) -> Fraction:
        """Return the seconds of an optimizer step on `parameters`."""
        return self.update_bytes(parameters, element) / self.bandwidth

    def update_bytes(self, parameters: int, element: int) -> int:
        """Return the bytes that such a step reads and writes."""
        return parameters * _update_bytes(element)


def state_bytes(parameters: int, element: int) -> int:
    """Return the bytes per parameter that Adam (Kingma and Ba 2015) holds besides parameters and gradients.

    Momentum and variance; in mixed precision also a copy of the parameter (Rajbhandari et al. 2020, ZeRO): 12 bytes.
    """
    return parameters * max(element, _STATE) * (3 if has_copy(element) else 2)


def has_copy(element: int) -> bool:
    """Return whether the optimizer has a longer copy of parameters of `element` bytes."""
    return element < _STATE


def _update_bytes(element: int) -> int:
    """A step reads the gradient, reads and writes parameter, momentum and variance, and writes a short copy, if any."""
    return element + 6 * max(element, _STATE) + (element if has_copy(element) else 0)


def roofline(settings: NpuSettings) -> Roofline:
    """Return the roofline of [system.npu]. Raises InputError with a key below it."""
    known_device = device(settings.device) if settings.device is not None else None
    peak, bandwidth = settings.peak, settings.memory_bandwidth
    if known_device is not None:
        peak = peak or known_device.peak(settings.precision)
        bandwidth = bandwidth or known_device.bandwidth
    assert peak is not None  # checked by the settings
    assert bandwidth is not None
    return Roofline(peak * settings.efficiency, bandwidth)


def peak_flops(settings: NpuSettings) -> Fraction:
    """Return the peak of [system.npu] in FLOP/s, whatever its efficiency. Raises InputError as `roofline`."""
    if settings.array is None:
        return roofline(settings).peak / settings.efficiency
    array = settings.array
    return 2 * array.rows * array.columns * array.count * array.clock


def capacity(settings: NpuSettings) -> int | None:
    """Return the bytes of memory of [system.npu]; None if neither they nor a device are set."""
    if settings.memory is not None or settings.device is None:
        return settings.memory
    return device(settings.device).memory


def processor(settings: NpuSettings) -> Npu:
    """Return the NPU of [system.npu]. Raises InputError with a key below it."""
    if settings.array is None:
        roof = roofline(settings)
        return Npu(partial(_at_peak, roof.peak), roof.bandwidth)
    bandwidth = settings.memory_bandwidth
    if bandwidth is None:
        assert settings.device is not None  # checked by the settings
        bandwidth = device(settings.device).bandwidth
    return Npu(partial(_on_array, settings.array, _CYCLES[settings.compute]), bandwidth)


# Functions of the module, as a serving run keeps its NPU and checkpoints pickle it.
def _at_peak(peak: Fraction, work: Work) -> Fraction:
    return work.flops / peak


def _on_array(array: Array, cycles: Callable[[int, int, int, Array], int], work: Work) -> Fraction:
    return work.count * cycles(work.m, -(-work.n // array.count), work.k, array) / array.clock
