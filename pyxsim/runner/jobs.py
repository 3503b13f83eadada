"""What an experiment has the NPUs do, as a job of the system layer: collectives, a workload text, traces, a model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from pyxsim.chakra.files import are_traces
from pyxsim.chakra.groups import read_groups
from pyxsim.compat.astra.files.node_algorithms import node_algorithms
from pyxsim.errors import InputError
from pyxsim.models import roofline
from pyxsim.settings import Experiment, Workload
from pyxsim.system.options import ASTRA_SIM_1
from pyxsim.topology import Topology
from pyxsim.workload import START, Communication, Job, Micro, TextWorkload, read_text_workload
from pyxsim.workload.in_turn import InTurn
from pyxsim.workload.involved import logical
from pyxsim.workload.loops import Manner
from pyxsim.workload.parallel import training_graph
from pyxsim.workload.passes import repeated
from pyxsim.workload.rendezvous import Rendezvous
from pyxsim.workload.run import GraphJob
from pyxsim.workload.trace_head import seen_dims
from pyxsim.workload.traces import Rules, read_traces
from pyxsim.workload.training import TrainingLoop, TrainingLoopInTurn


def make_job(experiment: Experiment, topology: Topology, folder: Path, backend: str) -> Job:
    """The job. `folder`: where relative paths count from. Raises InputError."""
    workload = experiment.workload
    if workload is None:
        return Communication(experiment, topology)
    if workload.file is None:
        return _model(workload, experiment, topology, folder)
    name = str(folder / workload.file)
    try:
        if are_traces(name):
            return _traces(name, workload, experiment, topology, folder)
        return _text(read_text_workload(name), workload, experiment, topology, packets=backend == "packet")
    except InputError as error:
        raise error.named_by("workload.file") from None


def _model(workload: Workload, experiment: Experiment, topology: Topology, folder: Path) -> GraphJob:
    clock = experiment.network.clock
    graph = training_graph(
        workload, experiment.system.npu, topology.shape, clock, folder, experiment.system.remote_memory
    )
    return GraphJob(graph, place="workload.model")


def _traces(name: str, workload: Workload, experiment: Experiment, topology: Topology, folder: Path) -> GraphJob:
    compat = experiment.system.compat
    if compat == ASTRA_SIM_1:
        problem = "version 1 of ASTRA-sim reads texts: traces are those of version 2"
        raise InputError(problem, key="system.compat", allowed="astra-sim-2, or no compat")
    groups = None
    if workload.groups is not None:
        try:
            groups = read_groups(folder / workload.groups, topology.npus)
        except InputError as error:
            raise error.named_by("workload.groups") from None
    npu = experiment.system.npu
    rules = Rules(
        experiment.network.clock,
        roofline=roofline(npu) if npu is not None and npu.roofline else None,
        groups=groups,
        exact=compat is None,
        comm_scale=workload.comm_scale,
        compute_scale=workload.compute_scale,
        replay=workload.replay,
        algorithms=_node_algorithms(workload.algorithms, folder),
    )
    dims = seen_dims(name, topology.shape)
    graph = repeated(read_traces(name, dims.shape, rules), workload.passes)
    carry_out = GraphJob if compat is None else Rendezvous if experiment.system.rendezvous else InTurn
    job = carry_out(graph, place="workload.file")
    job.dims = dims
    return job


def _node_algorithms(name: str | None, folder: Path) -> dict[int, str]:
    if name is None:
        return {}
    try:
        return node_algorithms(folder / name, folder)
    except InputError as error:
        raise error.named_by("workload.algorithms") from None


def _text(
    text: TextWorkload, workload: Workload, experiment: Experiment, topology: Topology, *, packets: bool
) -> Micro | TrainingLoop:
    if workload.groups is not None:
        problem = f"{text.file} is a text, which names no groups"
        raise InputError(problem, key="workload.groups", allowed="with traces")
    if workload.algorithms is not None:
        problem = f"{text.file} is a text, which has no nodes"
        raise InputError(problem, key="workload.algorithms", allowed="with traces")
    if workload.replay:
        problem = f"{text.file} is a text, in which nothing was recorded"
        raise InputError(problem, key="workload.replay", allowed="with traces")
    if experiment.system.remote_memory is not None:
        problem = f"{text.file} is a text, which accesses none"
        raise InputError(problem, key="system.remote_memory", allowed="with traces")
    if experiment.system.npu is not None:
        problem = f"{text.file} is a text, which says how long everything takes"
        raise InputError(problem, key="system.npu", allowed="with traces, or with [workload] model")
    start = START if packets else 0
    cycles_per_ns = experiment.network.clock / 10**9
    system = experiment.system
    compat = system.compat is not None
    number = _single if compat else Fraction  # what ASTRA-sim 1 takes scales as, over Garnet, too
    if text.parallelism == "MICRO":
        return Micro(text, workload, cycles_per_ns, start=start, number=number)
    dims = logical(text, topology.shape)
    if compat and topology.confined and dims.broken is not None:
        problem = f"{text.header.model_npus} NPUs for one copy of the model end within a ring"
        raise InputError(f"{problem}: in the original the messages would go round for ever", allowed="whole dimensions")
    manner = Manner(newest_first=system.scheduling != "FIFO", cycles_per_ns=cycles_per_ns, number=number)
    alone = compat and system.inter_dimension != "ascending"
    manner = replace(manner, alone=alone, start=manner.cycles(start), step=manner.cycles(1) if compat else 0)
    carry_out = TrainingLoopInTurn if compat else TrainingLoop
    return carry_out(text, workload, dims, manner)


def _single(scale: Fraction) -> float:
    return float(np.float32(float(scale)))
