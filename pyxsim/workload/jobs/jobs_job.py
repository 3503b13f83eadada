"""The jobs of `[[job]]`: each is read as if alone on a network, and all run as one graph of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from pyxsim.workload.job import IssuedCollective, Job, TaskRun
from pyxsim.workload.jobs.merge import PlacedGraph, joined, merged
from pyxsim.workload.jobs.placement import placed, spare_npus
from pyxsim.workload.jobs.restarting import RestartingJob, RestartTimes
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
    """Runs several jobs. The traffic of a job has its name.

    Parameters
    ----------
    graph
        The tasks of the jobs that cannot restart.
    call_keys
        The key of the algorithms of each collective of the graph that sets them.
    restarting
        Functions that make the other jobs, by number; each job adds its collectives to the list that it is given.
    """

    def __init__(
        self,
        arrivals: list[Arrival],
        graph: TaskGraph,
        call_keys: list[str],
        restarting: Mapping[int, Callable[[list[IssuedCollective]], RestartingJob]],
    ) -> None:
        super().__init__(graph, key="job", may_be_empty=bool(restarting))
        self.arrivals = arrivals
        self._call_keys = call_keys
        self.restarting = {number: make(self.collectives) for number, make in restarting.items()}
        self.issues_later = bool(restarting)
        self.traffic = [arrival.name for arrival in arrivals]
        self._job_of = np.full(graph.npus, -1, np.int64)
        for number, arrival in enumerate(arrivals):
            self._job_of[arrival.npus] = number

    def _all_calls(self) -> list[Call]:
        return [*self.graph.calls, *(call for job in self.restarting.values() for call in job.calls)]

    def begin(self, system: Any) -> None:
        """Start the jobs. Raises InputError."""
        super().begin(system)
        for job in self.restarting.values():
            job.begin(system)

    @property
    def end(self) -> int:
        """Cycle in which the last job has ended and all messages of failed jobs have arrived."""
        ends = [job.end for job in self.restarting.values()]
        failed = any(job.failures for job in self.restarting.values())
        return max([super().end, *ends, *([self._system.cycle] if failed else [])])

    @property
    def task_count(self) -> int:
        """Number of tasks, if no job restarts."""
        return super().task_count + sum(job.task_count for job in self.restarting.values())

    def task_graph(self) -> TaskGraph | None:
        """Return the tasks; None with jobs that may restart."""
        return None if self.restarting else super().task_graph()

    def tasks(self) -> TaskRun:
        """Return the tasks and their times, for jobs that may restart those of all iterations."""
        whole = super().tasks()
        runs = [run for job in self.restarting.values() for run in job.runs_so_far()]
        return joined(whole, runs) if runs else whole

    def stuck_report(self) -> list[str]:
        """Return a line per unfinished job that may restart, then one per task of the others."""
        lines = [line for job in self.restarting.values() for line in job.stuck_lines()]
        return lines + super().stuck_report()

    def restarts(self) -> list[dict[str, Any]]:
        """Return a row per job that may restart."""
        return [job.row() for job in self.restarting.values()]

    def failures(self) -> list[dict[str, Any]]:
        """Return a row per failure."""
        return [row for job in self.restarting.values() for row in job.failures]

    def begin_cycles(self, system: Any) -> list[int]:
        """Return the cycle in which each NPU may start tasks."""
        cycles = super().begin_cycles(system)
        for arrival in self.arrivals:
            for npu in arrival.npus.tolist():
                cycles[npu] += arrival.at
        return cycles

    def _algorithm_setting(self, number: int) -> str:
        sets_them = self.graph.calls[number].algorithms is not None
        return self._call_keys[number] if sets_them else super()._algorithm_setting(number)

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
        first = np.where(begun, first, -1)
        for number, restarting in self.restarting.items():
            first[number], last[number] = restarting.start_so_far(), restarting.end
        columns = zip(self.arrivals, first.tolist(), last.tolist(), strict=True)
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
    """Return the job that runs all jobs of an experiment. Raises InputError, with the key of the job."""
    tables, topology = context.experiment.job, context.topology
    arrivals, graphs = [], []
    all_keys: list[str] = []
    restarting: dict[int, Callable[[list[IssuedCollective]], RestartingJob]] = {}
    homes = placed(tables, topology, context.experiment.output.seed)
    spares = spare_npus(tables, homes, topology)
    for number, npus in enumerate(homes):
        table, key = tables[number], f"job[{number}]"
        if table.workload is not None:
            graph, shape, training = _of_workload(_job_context(context, table), table, key)
            call_keys = [f"{key}.workload"] * len(graph.calls)
        else:
            graph, shape, training = _of_collectives(context, table, key, npus), table.grid, None
            call_keys = [f"{key}.{place}.algorithm" for place, _ in table.collectives]
        at = to_cycles(table.at, context.clock)[0]
        arrivals.append(Arrival(table.name, npus, at, _placement_text(table, npus), training))
        one = PlacedGraph(table.name, graph, npus, shape, key)
        if table.restart is None:
            all_keys += call_keys
            graphs.append(one)
            continue
        if len(spares[number]):
            _check_any_npus(one)
        restarting[number] = partial(
            RestartingJob,
            table.name,
            number,
            f"{key}.restart",
            at,
            npus,
            spares[number],
            RestartTimes.of(table.restart, context.clock),
            partial(_on_npus, one, topology.shape),
            call_keys,
        )
    return JobsJob(arrivals, merged(graphs, topology.shape), all_keys, restarting)


def _on_npus(job: PlacedGraph, shape: Sequence[int], npus: IntArray) -> TaskGraph:
    """The tasks of a job on other NPUs."""
    return merged([replace(job, npus=npus)], shape)


def _check_any_npus(job: PlacedGraph) -> None:
    """Raise InputError for algorithms per dimension: with a spare NPU a group may span other dimensions."""
    for call in job.graph.calls:
        if call.algorithms is not None and len(set(call.algorithms)) > 1:
            problem = f"with spares, NPUs may form no grid, but {call.name or call.kind} has an algorithm per dimension"
            raise InputError(problem, key=f"{job.key}.restart.spares", allowed="one algorithm, or no spares")


def _placement_text(table: JobTable, npus: IntArray) -> str:
    word = table.placement if isinstance(table.placement, str) else "list"
    shown = ",".join(map(str, npus[:_MOST_LISTED].tolist()))
    return f"{word} {shown}{',...' if len(npus) > _MOST_LISTED else ''}"


def _job_context(context: WorkloadContext, table: JobTable) -> WorkloadContext:
    """The context in which a reader reads the workload of one job: a network of the shape of the job."""
    system = context.experiment.system
    assert table.workload is not None
    if table.workload.model is None and system.npu is not None and not system.npu.roofline:
        system = system.model_copy(update={"npu": None})  # it is for the models of other jobs
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
    """An error of a workload, with the key of its job."""
    place = f"{key}.{error.key}" if error.key is not None and error.key.startswith("workload") else error.key
    return InputError(error.problem, file=error.file, key=place, allowed=error.allowed, given=error.given)


def _of_collectives(context: WorkloadContext, table: JobTable, key: str, npus: IntArray) -> TaskGraph:
    """A task per collective and member, after a mark that ends at the time of the collective."""
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
