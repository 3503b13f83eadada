"""Workload texts of ASTRA-sim 1 and SimAI: a keyword, the number of layers, and a line per layer (docs/workload.md)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import readers
from pyxsim.workload.job import Job
from pyxsim.workload.logical_dims import logical_dims
from pyxsim.workload.micro_job import START, MicroJob
from pyxsim.workload.readers import WorkloadContext
from pyxsim.workload.text_workload import read_text_workload
from pyxsim.workload.training_job import TrainingLoopJob
from pyxsim.workload.training_loop import LoopOptions


@readers.register("astra-sim-1", uses=("workload.comm_scale", "workload.compute_scale"))
def read(name: str, context: WorkloadContext) -> Job:
    """Workload texts of ASTRA-sim 1 and SimAI, layer by layer; any file that no other reader reads."""
    text, workload = read_text_workload(name), context.workload
    start = START if context.packets else 0
    cycles_per_ns = context.clock / 10**9
    system, topology = context.experiment.system, context.topology
    compat = system.compat is not None
    if compat and text.groups is not None:
        problem = f"{name} is a text of SimAI, which ASTRA-sim does not read"
        raise InputError(problem, key="system.compat", allowed="no compat")
    number = _single if compat else Fraction  # ASTRA-sim 1 takes scales in single precision, over Garnet, too
    if text.parallelism == "MICRO":
        return MicroJob(text, workload, cycles_per_ns, start=start, number=number)
    dims = logical_dims(text, context.shape)
    if compat and topology.confined and dims.broken is not None:
        problem = f"{text.header.model_npus} NPUs for one copy of the model do not fill whole rings"
        raise InputError(f"{problem}; in ASTRA-sim 1 the messages would circulate forever", allowed="whole dimensions")
    manner = LoopOptions(newest_first=system.scheduling != "FIFO", cycles_per_ns=cycles_per_ns, number=number)
    alone = compat and system.inter_dimension != "ascending"
    manner = replace(manner, alone=alone, start=manner.cycles(start), step=manner.cycles(1) if compat else 0)
    return context.job_class(TrainingLoopJob)(text, workload, dims, manner)


def _single(scale: Fraction) -> float:
    return float(np.float32(float(scale)))
