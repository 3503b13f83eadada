"""Workload readers: what turns `[workload]` into a job. A reader is one file of the shelf `readers/`.

A reader is a function of a name and a `WorkloadContext` that returns a `TaskGraph` or a `Job`, registered with the
files that it reads and the settings that it uses:

    @readers.register("csv", endings=(".csv",), uses=("workload.compute_scale",))
    def read(name: str, context: WorkloadContext) -> TaskGraph: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from pyxsim import plugins
from pyxsim.errors import InputError, raise_all
from pyxsim.library import file_of
from pyxsim.registry import OWN, Entry, readers
from pyxsim.settings import Experiment, Workload
from pyxsim.topology import Topology
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import Job
from pyxsim.workload.passes import repeated

J = TypeVar("J", bound=GraphJob)

OPTIONAL = {
    "workload.groups": None,
    "workload.algorithms": None,
    "workload.replay": False,
    "workload.comm_scale": Fraction(1),
    "workload.compute_scale": Fraction(1),
    "system.npu": None,
    "system.remote_memory": None,
}
"""Settings that a reader uses only if it says so, with their defaults. Any other value is refused."""


@dataclass(frozen=True)
class WorkloadContext:
    """What a reader knows of the experiment.

    Attributes
    ----------
    experiment
        All settings.
    topology
        The network.
    folder
        Where relative paths of the experiment start.
    packets
        Whether the backend simulates packets.
    shape
        The NPUs per dimension: those of the network, or for the workload of a job those of the job.
    """

    experiment: Experiment
    topology: Topology
    folder: Path
    packets: bool = True
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.shape:
            object.__setattr__(self, "shape", tuple(self.topology.shape))

    @property
    def npus(self) -> int:
        """The number of NPUs of the workload."""
        return prod(self.shape)

    @property
    def workload(self) -> Workload:
        """The table `[workload]`."""
        assert self.experiment.workload is not None
        return self.experiment.workload

    @property
    def clock(self) -> Fraction:
        """Cycles per second."""
        return self.experiment.network.clock

    def graph_job(self, graph: TaskGraph, key: str = "workload.file") -> GraphJob:
        """Return a job that carries out `graph` in the order of events of `system.compat`; errors cite `key`."""
        return self.job_class(GraphJob)(graph, key=key)

    def job_class(self, base: type[J]) -> type[J]:
        """Return the class that carries out what `base` does in the order of events of `system.compat`."""
        system = self.experiment.system
        return base if system.compat is None else plugins.job_classes.get(system.compat)(base, system)


def read_workload(context: WorkloadContext) -> Job:
    """Return the job that the reader of `[workload]` makes of it.

    Raises
    ------
    InputError
        If the workload cannot be read, or a setting is given that its reader does not use.
    """
    workload = context.workload
    key = "file" if workload.file is not None else "model"
    name = str(getattr(workload, key))
    if key == "file":
        name = str(context.folder / name)
    entry = readers.entry(reader_of(name, key).name)
    try:
        raise_all(_unused(entry, name, context.experiment))
        job: Job | TaskGraph = entry.value(name, context)
        if isinstance(job, TaskGraph):
            return context.graph_job(repeated(job, workload.passes))
        if not hasattr(job, "system_shape"):
            problem = f"the reader '{entry.name}' returned {type(job).__name__}"
            raise InputError(problem, file=file_of(entry.value), allowed="a TaskGraph or a Job")
        return job
    except InputError as error:
        if key == "file" and _unclaimed(entry, name):
            problem = f"no reader claims '{Path(name).suffix}', and as '{entry.name}': {error.named_by('file').problem}"
            error = InputError(problem, allowed=[*_endings(), ".txt", OWN])
        raise error.named_by(f"workload.{key}") from None


def reader_of(name: str, key: str = "file") -> Entry[Any]:
    """Return the reader of a file, by its ending, else by its content, else the one that reads the rest.

    `key`: the setting of `[workload]` that names it. The shelves must have been loaded (`library.load_all`).
    """
    entries = [entry for entry in readers.entries if entry.info.get("key", "file") == key]
    ends = {end: entry for entry in entries for end in entry.info.get("endings", ()) if name.endswith(end)}
    if ends:
        return ends[max(ends, key=len)]
    recognized = (entry for entry in entries if "recognizes" in entry.info)
    others = (entry for entry in entries if "recognizes" not in entry.info and "endings" not in entry.info)
    chosen = next((entry for entry in recognized if entry.info["recognizes"](name)), None) or next(others, None)
    if chosen is None:
        raise InputError(f"no workload reader for '{name}'", key=f"workload.{key}", allowed=_endings())
    return chosen


def _unclaimed(entry: Entry[Any], name: str) -> bool:
    """Whether a reader reads a file only because none claims its ending."""
    claims = "endings" in entry.info or "recognizes" in entry.info
    return not claims and Path(name).suffix not in ("", ".txt") and Path(name).is_file()


def _endings() -> list[str]:
    return sorted({end for entry in readers.entries for end in entry.info.get("endings", ())})


def _unused(entry: Entry[Any], name: str, experiment: Experiment) -> list[InputError]:
    """Settings that are given and that the reader does not use."""
    faults = []
    for key, default in OPTIONAL.items():
        table, _, field = key.partition(".")
        if getattr(getattr(experiment, table), field) == default or key in entry.info.get("uses", ()):
            continue
        users = [reader.name for reader in readers.entries if key in reader.info.get("uses", ())]
        problem = f"the reader '{entry.name}' of {name} does not use this setting"
        faults.append(
            InputError(problem, key=key, allowed=f"with a workload of the reader {' or '.join(map(repr, users))}")
        )
    return faults
