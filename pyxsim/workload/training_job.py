"""A training loop of ASTRA-sim 1 as a job, and the columns of its layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.system import Options
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.logical_dims import LogicalDims
from pyxsim.workload.text_workload import TextWorkload
from pyxsim.workload.training_loop import LAYER_COLUMNS, SHORT, LoopOptions, training_loop


class TrainingLoopJob(GraphJob):
    """Carries out a workload text on a network with the dimensions `dims`. Raises InputError."""

    per_npu = False

    def __init__(self, text: TextWorkload, settings: Workload, dims: LogicalDims, manner: LoopOptions) -> None:
        try:
            graph, self.record = training_loop(text, settings, dims, manner)
        except InputError as error:
            raise error.named_by("workload.file") from None
        super().__init__(graph, key="workload.file")
        self.dims: LogicalDims = dims

    def layers(self) -> dict[str, Any]:
        """Return the columns of the layers as NPU 0 saw them.

        `name`; cycles of computation (`compute`), of communication (`comm`) and of waiting for communication
        (`exposed`), each for the forward pass (`fwd_`), weight gradients (`wg_`) and input gradients (`ig_`);
        `finished`, when it finished everything.
        """
        times, rows = self.times(), self.record.layers
        columns: dict[str, IntArray] = {name: np.zeros(len(rows), np.int64) for name in LAYER_COLUMNS}
        for (layer, part), cycles in self.record.compute.items():
            columns[f"{SHORT[part]}_compute"][layer] += cycles
        for began in self.record.began:
            columns[f"{SHORT[began.part]}_comm"][began.layer] += times.end[began.updated] - times.start[began.task]
        for waited in self.record.waited:
            over = times.end[list(waited.wanted)].max() - times.end[list(waited.front)].max()
            columns[f"{SHORT[waited.part]}_exposed"][waited.layer] += max(over, 0)
        finished = times.end[self.graph.npu == 0].max()
        return {"name": np.array(rows, dtype=object), **columns, "finished": np.full(len(rows), finished)}

    def system_options(self, options: Options) -> Options:
        """Return the options with explicit scheduling: the loop sets the priorities of its collectives."""
        return super().system_options(replace(options, scheduling="explicit"))

    def pass_ends(self) -> list[int]:
        """Return the cycles in which NPU 0 finished each pass."""
        end = self.times().end
        return [int(end[list(tasks)].max()) for tasks in self.record.passes]
