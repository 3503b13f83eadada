"""MICRO: the weight-gradient collective of the first layer, all passes issued at once, no computing.

The times around the collective are ASTRA-sim 1's: an NPU begins 13 cycles after the simulation (10 until its workload
is fired, 3 events), and each collective is followed by the layer's update time (measured: 18 cycles more than the
collective itself with an update time of 5).
"""

from __future__ import annotations

from fractions import Fraction

from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.system import Collective, System
from pyxsim.workload.astra1 import TextWorkload

START = 13  # cycles; see above


class Micro:
    """The loop of a MICRO workload. `ends`: the cycle in which each pass was finished, update time included."""

    def __init__(self, text: TextWorkload, settings: Workload, cycles_per_ns: Fraction) -> None:
        layer = text.layers[0]
        if layer.weight_gradient.kind is None:
            raise InputError(
                f"layer '{layer.name}' has no weight-gradient collective, which is all that MICRO runs", file=text.file
            )
        self.kind = layer.weight_gradient.kind
        # ASTRA-sim multiplies and truncates; less than a byte is nothing that could be sent.
        self.size = int(layer.weight_gradient.size * settings.comm_scale)
        if self.size < 1:
            raise InputError(f"layer '{layer.name}': a {self.kind} of 0 bytes", file=text.file, allowed="1 and more")
        self.passes = settings.passes
        self.start = -(-int(START * cycles_per_ns.numerator) // cycles_per_ns.denominator)
        self.update = -(-layer.update * cycles_per_ns.numerator // cycles_per_ns.denominator)
        self.ends: list[int] = []

    def begin(self, system: System) -> None:
        """Issue everything."""
        for _ in range(self.passes):
            system.issue(self.kind, self.size, self.start, self._finished)

    def _finished(self, collective: Collective) -> None:
        self.ends.append(collective.end + self.update)

    @property
    def end(self) -> int:
        """The cycle in which the workload is finished."""
        return max(self.ends, default=self.start)
