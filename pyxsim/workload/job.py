"""The contract between what the NPUs do and those who run it and report on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.system import Options, SystemLayer
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.logical_dims import LogicalDims
from pyxsim.workload.serving_record import ServingRecord
from pyxsim.workload.system_services import MemoryTotals
from pyxsim.workload.training_step import TrainingStep


@dataclass
class IssuedCollective:
    """A collective of an experiment, and the collectives of the system layer that carry it out, one per group.

    Attributes
    ----------
    name
        Its name in the results.
    key
        Setting that names its algorithms; errors cite it.
    group
        Its NPUs, in a word: ``"all"``, ``"dims 0"``, the name of a group.
    root
        An NPU; None without a root, or with a root in each group.
    per_group
        The collectives of the system layer.
    repeated
        Whether these are calls of different sizes, one after the other, instead of groups at the same time.
    """

    name: str
    key: str
    group: str = "all"
    root: int | None = None
    per_group: list[Any] = field(default_factory=list)
    repeated: bool = False

    @property
    def start(self) -> int:
        """Cycle in which the first group begins."""
        return min((group_work.start for group_work in self.per_group), default=0)

    @property
    def end(self) -> int:
        """Cycle in which the last group ends; -1 if one has not ended."""
        ends = [group_work.end for group_work in self.per_group]
        return -1 if min(ends, default=-1) < 0 else max(ends)


@dataclass(frozen=True)
class TaskTimes:
    """When each task became ready, started and ended: arrays of shape (tasks,), cycles, -1 if it did not.

    Attributes
    ----------
    ready
        Everything that it depends on had ended.
    start
        It also had its resource.
    end
        It ended.
    cause
        The task whose end let it start; -1 for none.
    partner
        Of a receive the matching send, and vice versa; -1 for other tasks.
    group
        The collective that it is a member of, counted over all groups of all calls, then over the collectives of
        remote memory; -1 for other tasks.
    """

    ready: IntArray
    start: IntArray
    end: IntArray
    cause: Int32Array
    partner: Int32Array
    group: Int32Array

    @property
    def last(self) -> int:
        """Cycle in which the last task ended."""
        return int(self.end.max(initial=0))


@dataclass(frozen=True)
class TaskRun:
    """A graph of tasks and the times at which they ran."""

    graph: TaskGraph
    times: TaskTimes


@dataclass(frozen=True)
class LayerCollectives:
    """The collectives of NPU 0, by layer.

    Attributes
    ----------
    layers
        Names of the layers.
    begun
        Layer and start cycle by collective, counted over all groups of all collectives of the job.
    end
        Cycle in which NPU 0 finished everything.
    """

    layers: list[str]
    begun: dict[int, tuple[int, int]]
    end: int


class Job(Protocol):
    """What the NPUs do in one experiment. A class that derives from it inherits the defaults below.

    The runner calls `system_options` and `system_shape`, makes the system layer with them, calls `begin` once, and runs
    the system layer until nothing is left to do. The other members may be read at any time after `begin`.

    Attributes
    ----------
    collectives
        The collectives, in the order of the rows of the results.
    traffic
        Names of the tags of messages: message tag `i` belongs to ``traffic[i]``.
    planned
        Whether `begin` issues everything at a known cycle, so that all messages and a bound of the run time are known
        before the run. Otherwise tasks decide while they run.
    per_npu
        Whether NPUs have tasks of their own and finish one by one; otherwise all do the same.
    issues_later
        Whether work is issued while the job runs, so that no message is known before: routes are proved for all pairs.
    sequential
        Whether events of one cycle are processed one by one, in the order of ASTRA-sim.
    dims
        Dimensions as the workload sees them; None where they are those of the network.
    training
        The training step of a model; None for other jobs.
    """

    collectives: list[IssuedCollective]
    traffic: list[str]
    planned: bool = True
    per_npu: bool = False
    issues_later: bool = False
    sequential: bool = False
    dims: LogicalDims | None = None
    training: TrainingStep | None = None

    def system_options(self, options: Options) -> Options:
        """Return the options of the system layer as this job needs them."""
        return options

    def system_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the system for a network of `shape`."""
        return shape if self.dims is None else self.dims.shape

    def begin(self, system: SystemLayer) -> None:
        """Issue what starts the job. Raises InputError for what the network or system layer cannot do."""
        ...

    @property
    def end(self) -> int:
        """Cycle in which everything has ended."""
        ...

    def stuck_report(self) -> list[str]:
        """Return a line per task that waits for another NPU; empty when all is done or only the system layer knows."""
        return []

    def tasks(self) -> TaskRun | None:
        """Return the tasks and their times; None for a job without tasks."""
        return None

    @property
    def task_count(self) -> int:
        """Number of the tasks; 0 for a job without tasks."""
        return 0

    def task_graph(self) -> TaskGraph | None:
        """Return the tasks, by NPU; None where they are not known before the run."""
        return None

    def jobs(self) -> list[dict[str, Any]]:
        """Return a row of the dataset `jobs` for each of several jobs; empty for others."""
        return []

    def restarts(self) -> list[dict[str, Any]]:
        """Return a row of the dataset `job_restarts` for each job that may start again; empty for others."""
        return []

    def failures(self) -> list[dict[str, Any]]:
        """Return a row of the dataset `job_failures` for each failure that ended a job; empty for others."""
        return []

    def memory_warnings(self) -> list[str]:
        """Return a line for each model that needs more memory than its NPUs have."""
        return [] if self.training is None else self.training.check_memory(allowed=True)

    def layers(self) -> dict[str, Any]:
        """Return the columns of the layers of a complete run; empty where the tasks tell them, or there are none."""
        return {}

    def layer_collectives(self) -> LayerCollectives | None:
        """Return the collectives of NPU 0 by layer; None for a job without a workload."""
        return None

    def pass_ends(self) -> list[int]:
        """Return the cycles in which NPU 0 finished each pass; empty where passes have no end of their own."""
        return []

    def serving_record(self) -> ServingRecord | None:
        """Return what was measured of requests; None for a job without any."""
        return None

    def footprint_text(self) -> str:
        """Return what the memory of the NPUs is used for, where a job without a training step knows it; else ""."""
        return ""

    def remote_memory(self) -> MemoryTotals | None:
        """Return what was done with remote memory; None without any."""
        return None
