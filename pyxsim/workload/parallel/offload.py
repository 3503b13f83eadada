"""Model states in remote memory: what a training step loads and stores, and which settings fit together.

ZeRO-Offload: Ren et al. 2021. ZeRO-Infinity: Rajbhandari et al. 2021. docs/memory.md describes the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyxsim.errors import InputError
from pyxsim.models import Kind, Model
from pyxsim.models.npu import has_copy, state_bytes
from pyxsim.settings import Workload
from pyxsim.settings.parallelism import Parallelism

_ZERO = "workload.parallelism.zero"


@dataclass(frozen=True)
class Offload:
    """What is in remote memory besides gradients and optimizer state.

    `parameters`: whether parameters are, and are fetched from there. `in_switch`: data common to all NPUs are loaded by
    a gather and stored by a reduce. `element`, `gradient`: bytes of a parameter and of its gradient.
    """

    parameters: bool
    in_switch: bool
    zero: int
    element: int
    gradient: int

    @property
    def hands_out(self) -> bool:
        """Whether updated parameters come whole out of the memory, so that the network need not gather them."""
        return self.in_switch and self.zero in (1, 2)

    def new(self, own: int) -> int:
        """Return the bytes that an optimizer step on `parameters` stores."""
        return state_bytes(own, self.element) + (own * self.element if self.parameters or self.hands_out else 0)

    def old(self, own: int, gradients: int) -> int:
        """Return the bytes that it loads if its gradients were stored `gradients` times. A copy replaces the
        parameters."""
        parameters = own * self.element if self.parameters and not has_copy(self.element) else 0
        return gradients * own * self.gradient + state_bytes(own, self.element) + parameters

    def kept(self, own: int, gradients: int) -> int:
        """Return the bytes of `parameters` in remote memory."""
        return gradients * own * self.gradient + self.new(own)


def offload_of(workload: Workload, parallelism: Parallelism, *, in_switch: bool) -> Offload | None:
    """Return the offload of the settings; None if everything stays on the NPUs."""
    if not workload.offloaded:
        return None
    parameters = workload.offload == "parameters"
    return Offload(parameters, in_switch, parallelism.zero, workload.element_bytes, workload.gradient_bytes)


def offload_faults(
    offload: Offload, model: Model, parallelism: Parallelism, data: int, npus: int
) -> Iterator[InputError]:
    """Settings that do not fit together."""
    learned = (layer for layer in model.layers if layer.kind != Kind.TABLES)
    if not any(sum(layer.held()) for layer in learned):
        problem = f"{model.name} has no parameters for an optimizer"
        yield InputError(problem, key="workload.offload", allowed='"none"')
    if offload.parameters and data > 1 and parallelism.zero < 3:
        problem = (
            f"ZeRO-{parallelism.zero} keeps whole parameters on each NPU"
            if parallelism.zero
            else "each NPU has all its parameters"
        )
        yield InputError(problem, key=_ZERO, allowed='3 with offload = "parameters"')
    if not offload.in_switch:
        return
    if data != npus:
        problem = f"switches reduce the data of all {npus} NPUs, but there are {data} replicas"
        yield InputError(problem, key="system.remote_memory.in_switch", allowed="false, or tensor = 1 and pipeline = 1")
    elif not parallelism.zero:
        problem = "in_switch: the switches store one sum, and each replica would update all of it"
        yield InputError(problem, key=_ZERO, allowed="1, 2 or 3, or in_switch = false")
    if parallelism.expert > 1:
        problem = "in_switch: switches reduce the data of all NPUs, but experts differ"
        yield InputError(problem, key="workload.parallelism.expert", allowed="1, or in_switch = false")
