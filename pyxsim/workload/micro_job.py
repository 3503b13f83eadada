"""MICRO: the weight-gradient collective of the first layer, issued once per pass at the same time, without computation.

The times around the collectives are those of ASTRA-sim 1: NPUs begin after 13 cycles (10 until the workload fires, 3
events), and the layer's update time follows each collective (measured: 18 cycles more than the collective itself with
an update time of 5). They hold for its Garnet backend; over the analytical one NPUs begin at once (`start`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.settings.algorithms import algorithm_key
from pyxsim.system import SystemLayer
from pyxsim.workload.job import IssuedCollective, Job, LayerCollectives
from pyxsim.workload.text_workload import TextWorkload
from pyxsim.workload.training_loop import LAYER_COLUMNS

START = 13  # cycles; see above


class MicroJob(Job):
    """A MICRO workload. `number`: see `LoopOptions`."""

    def __init__(
        self,
        text: TextWorkload,
        settings: Workload,
        cycles_per_ns: Fraction,
        *,
        start: int = START,
        number: Callable[[Fraction], Fraction | float] = Fraction,
    ) -> None:
        layer = text.layers[0]
        if layer.weight_gradient.kind is None:
            raise InputError(
                f"layer '{layer.name}' has no weight-gradient collective, the only thing that MICRO runs",
                file=text.file,
            )
        self.kind = layer.weight_gradient.kind
        # ASTRA-sim multiplies and truncates.
        self.size = int(layer.weight_gradient.size * number(settings.comm_scale))
        if self.size < 1:
            raise InputError(f"layer '{layer.name}': a {self.kind} of 0 bytes", file=text.file, allowed="1 or more")
        self.passes = settings.passes
        self.start = -(-int(start * cycles_per_ns.numerator) // cycles_per_ns.denominator)
        self.update = -(-layer.update * cycles_per_ns.numerator // cycles_per_ns.denominator)
        self.layer = layer.name
        self.layer_names = [one.name for one in text.layers]
        self.collectives: list[IssuedCollective] = []
        self.traffic: list[str] = []

    def begin(self, system: SystemLayer) -> None:
        """Issue the collectives of all passes."""
        for number in range(self.passes):
            name, place = f"{self.layer}, pass {number}", f"system.{algorithm_key(self.kind)}"
            try:
                issued = system.issue(self.kind, self.size, at=self.start, name=name, tag=number)
            except InputError as error:
                raise error.named_by(place) from None
            self.collectives.append(IssuedCollective(name, place, per_group=[issued]))
            self.traffic.append(name)

    @property
    def ends(self) -> list[int]:
        """Cycles in which the passes end, update time included."""
        return [collective.end + self.update for collective in self.collectives if collective.end >= 0]

    def layers(self) -> dict[str, Any]:
        """Return the columns of `TrainingLoopJob.layers`; exposed is the time until the first collective ends, as
        there."""
        columns = {name: np.zeros(len(self.layer_names), np.int64) for name in LAYER_COLUMNS}
        columns["wg_comm"][0] = sum(
            end - collective.start for end, collective in zip(self.ends, self.collectives, strict=True)
        )
        columns["wg_exposed"][0] = min(self.ends) - self.start
        finished = np.full(len(self.layer_names), self.end)
        return {"name": np.array(self.layer_names, dtype=object), **columns, "finished": finished}

    def layer_collectives(self) -> LayerCollectives:
        """Return the collectives, all of the first layer."""
        begun = {number: (0, collective.start) for number, collective in enumerate(self.collectives)}
        return LayerCollectives(list(self.layer_names), begun, self.end)

    @property
    def end(self) -> int:
        """Cycle in which the workload ends."""
        return max(self.ends, default=self.start)
