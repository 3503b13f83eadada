"""The jobs of `[[job]]`: each read as for a network of its own, all carried out as one graph of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError, InputErrors, bundle
from pyxsim.settings.algorithms import ROOTED
from pyxsim.settings.job import JobTable
from pyxsim.units import to_cycles
from pyxsim.workload.communication_job import algorithms_of_group, collective_matrix
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import Job
from pyxsim.workload.jobs.merge import PlacedGraph, merged
from pyxsim.workload.jobs.placement import placed
from pyxsim.workload.readers import WorkloadContext, read_workload
from pyxsim.workload.training_step import TrainingStep

_MOST_LISTED = 16  # NPUs in the text of a placement


@dataclass(frozen=True)
class Arrival:
    """A job with its NPUs.

    Attributes
    ----------
    npus
        int64[ranks], the NPU of each rank.
    at
        Cycle of its arrival.
    training
        Its training step; None for other work.
    """

    name: str
    npus: IntArray
    at: int
    placement: str
    training: TrainingStep | None = None


class JobsJob(GraphJob):
    """Carries out several jobs. The traffic of a job has its name.

    `call_keys`: the setting of the algorithms of each collective of the graph that has its own.
    """

    def __init__(self, arrivals: list[Arrival], graph: TaskGraph, call_keys: list[str]) -> None:
        super().__init__(graph, key="job")
        self.arrivals = arrivals
        self._call_keys = call_keys
        self.traffic = [arrival.name for arrival in arrivals]
        self._job_of = np.full(graph.npus, -1, np.int64)
        for number, arrival in enumerate(arrivals):
            self._job_of[arrival.npus] = number

    def begin_cycles(self, system: Any) -> list[int]:
        """Return the cycle in which each NPU may start tasks."""
        cycles = super().begin_cycles(system)
        for arrival in self.arrivals:
            for npu in arrival.npus.tolist():
                cycles[npu] += arrival.at
        return cycles

    def _algorithm_setting(self, number: int) -> str:
        own = self.graph.calls[number].algorithms is not None
        return self._call_keys[number] if own else super()._algorithm_setting(number)

    def _tag(self, name: str, npu: int) -> int:
        number: int = self._job_of[npu].item()
        return number

    def memory_warnings(self) -> list[str]:
        """Return a line for each job that needs more memory than its NPUs have."""
        steps = [(arrival.name, arrival.training) for arrival in self.arrivals if arrival.training is not None]
        return [f"job '{name}': {line}" for name, step in steps for line in step.check_memory(allowed=True)]

    def jobs(self) -> list[dict[str, Any]]:
        """Return a row per job: `start` and `end` are -1 before the first task starts and the last one ends.

        `alone` and `slowdown` are not known.
        """
        times, job = self.times(), self._job_of[self.graph.npu]
        started, unfinished = times.start >= 0, np.bincount(job[times.end < 0], minlength=len(self.arrivals))
        first = np.full(len(self.arrivals), np.iinfo(np.int64).max)
        last = np.full(len(self.arrivals), -1, np.int64)
        np.minimum.at(first, job[started], times.start[started])
        np.maximum.at(last, job, times.end)
        last[unfinished > 0] = -1
        begun = np.bincount(job[started], minlength=len(self.arrivals)) > 0
        columns = zip(self.arrivals, np.where(begun, first, -1).tolist(), last.tolist(), strict=True)
        return [
            {
                "name": arrival.name,
                "npus": len(arrival.npus),
                "placement": arrival.placement,
                "at": arrival.at,
                "start": start,
                "end": end,
                "time": -1 if end < 0 else end - arrival.at,
                "alone": -1,
                "slowdown": float("nan"),
            }
            for arrival, start, end in columns
        ]


def jobs_job(context: WorkloadContext) -> Job:
    """Return the job that carries out all jobs of an experiment. Raises InputError, with the key of the job."""
    tables, topology = context.experiment.job, context.topology
    arrivals, graphs = [], []
    all_keys: list[str] = []
    for number, npus in enumerate(placed(tables, topology, context.experiment.output.seed)):
        table, key = tables[number], f"job[{number}]"
        if table.workload is not None:
            graph, shape, training = _of_workload(_own_context(context, table), table, key)
            call_keys = [f"{key}.workload"] * len(graph.calls)
        else:
            graph, shape, training = _of_collectives(context, table, key, npus), table.grid, None
            call_keys = [f"{key}.{place}.algorithm" for place, _ in table.collectives]
        all_keys += call_keys
        at = to_cycles(table.at, context.clock)[0]
        arrivals.append(Arrival(table.name, npus, at, _placement_text(table, npus), training))
        graphs.append(PlacedGraph(table.name, graph, npus, shape, key))
    return JobsJob(arrivals, merged(graphs, topology.shape), all_keys)


def _placement_text(table: JobTable, npus: IntArray) -> str:
    word = table.placement if isinstance(table.placement, str) else "list"
    shown = ",".join(map(str, npus[:_MOST_LISTED].tolist()))
    return f"{word} {shown}{',...' if len(npus) > _MOST_LISTED else ''}"


def _own_context(context: WorkloadContext, table: JobTable) -> WorkloadContext:
    """What a reader knows of the workload of one job: a network of the shape of the job."""
    system = context.experiment.system
    assert table.workload is not None
    if table.workload.model is None and system.npu is not None and not system.npu.roofline:
        system = system.model_copy(update={"npu": None})  # that of the models of other jobs
    experiment = context.experiment.model_copy(update={"system": system, "workload": table.workload, "job": ()})
    return replace(context, experiment=experiment, shape=table.grid)


def _of_workload(
    context: WorkloadContext, table: JobTable, key: str
) -> tuple[TaskGraph, tuple[int, ...], TrainingStep | None]:
    """The tasks of a workload, the shape that their dimensions refer to, and a training step."""
    try:
        job = read_workload(context)
    except InputError as error:
        faults = error.faults if isinstance(error, InputErrors) else [error]
        raise bundle([_below(fault, key) for fault in faults]) from None
    graph = job.task_graph()
    place = f"{key}.workload.{'model' if context.workload.file is None else 'file'}"
    if graph is None:
        allowed = "traces, or a text of a training loop"
        raise InputError("its tasks are not known before the run", key=place, allowed=allowed)
    if graph.npus != table.size:
        problem = f"the workload has {graph.npus} NPUs, but the job has {table.size}"
        raise InputError(problem, key=place, allowed="equal numbers")
    return graph, table.grid if job.dims is None else job.dims.shape, job.training


def _below(error: InputError, key: str) -> InputError:
    """A fault of a workload with the key of its job."""
    place = f"{key}.{error.key}" if error.key is not None and error.key.startswith("workload") else error.key
    return InputError(error.problem, file=error.file, key=place, allowed=error.allowed, given=error.given)


def _of_collectives(context: WorkloadContext, table: JobTable, key: str, npus: IntArray) -> TaskGraph:
    """A task per collective and member, after a mark that lasts until the time of the collective."""
    builder = GraphBuilder(table.size)
    for place, each in table.collectives:
        where = f"{key}.{place}"
        ranks = tuple(range(table.size)) if each.npus is None else each.npus
        group = Communicator.of(npus[list(ranks)].tolist(), context.topology.shape)
        matrix = collective_matrix(each, where, len(ranks), context.folder)
        call = Call(
            each.kind,
            each.bytes if matrix is None else matrix.size,
            members=ranks,
            algorithms=algorithms_of_group(each.algorithm, group, each.kind, f"{where}.algorithm"),
            priority=each.priority,
            name=each.label,
            root=ranks[0] if each.root is None and each.kind in ROOTED else each.root,
            matrices=None if matrix is None else (matrix,),
        )
        at = to_cycles(each.at, context.clock)[0]
        waits = [builder.tasks(ranks, Kind.MARK, f"until {each.label}", ticks=at)] if at else []
        builder.tasks(ranks, Kind.COLLECTIVE, each.label, call=builder.call(call), before=waits)
    return builder.graph()
