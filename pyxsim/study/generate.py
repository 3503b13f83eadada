"""The training of a model as a graph of tasks, and as files: Chakra traces or a text of ASTRA-sim 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.paths import need_folder
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.table import Facts
from pyxsim.runner.prepare import PathLike
from pyxsim.settings import Experiment, folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.types import listed
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import restored
from pyxsim.workload.export import export, star
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.parallel import Plan, program, training_plan
from pyxsim.workload.parallel.statistics import Stage, Traffic, accesses, stages, traffic
from pyxsim.workload.parallel.text import astra_text
from pyxsim.workload.passes import repeated

TEXT = ".txt"


@dataclass(frozen=True, repr=False)
class GeneratedWorkload(Facts):
    """The training of a model.

    Parameters
    ----------
    plan
        Model, parallelism, grid of NPUs and schedule.
    graph
        The tasks of all NPUs.
    stages
        What each pipeline stage holds and computes.
    communication, remote_memory
        Tasks and bytes of each kind.
    file, groups
        The files that were written.
    traces, nodes
        Their number, and that of their nodes; 0 for a text.
    """

    plan: Plan
    graph: TaskGraph
    stages: list[Stage]
    communication: list[Traffic]
    remote_memory: list[Traffic]
    file: str | None = None
    groups: str | None = None
    traces: int = 0
    nodes: int = 0

    def json(self) -> dict[str, Any]:
        """Return everything but the tasks as one JSON object."""
        files = {"file": self.file, **({"groups": self.groups} if self.traces else {})}
        plan, graph, rows, kinds, remote = self.plan, self.graph, self.stages, self.communication, self.remote_memory
        parallelism, grid = plan.parallelism, plan.grid
        return {
            **files,
            "model": plan.model.name,
            "parameters": plan.model.parameters,
            "npus": len(grid),
            "tensor": parallelism.tensor,
            "data": grid.data,
            "pipeline": parallelism.pipeline,
            "expert": parallelism.expert,
            "micro_batches": plan.micro_batches,
            "samples": plan.samples,
            "tasks": {kind.name.lower(): len(graph.of_kind(kind)) for kind in Kind},
            "communication": {one.kind: {"tasks": one.tasks, "bytes": one.bytes} for one in kinds},
            "remote_memory": {task.kind: {"tasks": task.tasks, "bytes": task.bytes} for task in remote},
            "stages": [{**asdict(row), "memory": row.memory} for row in rows],
        }


def generate(
    source: Source, target: PathLike | None = None, *, overrides: Iterable[str] = (), libraries: Iterable[PathLike] = ()
) -> GeneratedWorkload:
    """Generate the training of a model, as `pyxsim workload generate` does.

    Parameters
    ----------
    source
        A TOML file, a dict or an Experiment with [workload] model.
    target
        What to write: a file ".txt" for ASTRA-sim 1, else the common name of Chakra traces.

    Raises
    ------
    InputError
        For an experiment without a model, or a file that cannot be written; none is left half written.
    """
    libraries = listed(libraries)
    library.load_all(libraries)
    settings = load_experiment(source, overrides, libraries)
    file = str(source) if isinstance(source, str | Path) else None
    if settings.workload is None or settings.workload.model is None:
        problem = "has no [workload] model"
        raise InputError(problem, file=file, key="workload.model", allowed="a model, such as gpt3-175b")
    plan = _plan(settings, folder_of(source))
    name = None if target is None else str(target)
    if name is not None:
        need_folder(name)
    is_text = name is not None and name.endswith(TEXT)
    text = astra_text(plan) if is_text else ""
    if name is not None and not is_text:
        star(name)  # refuses a bad name before anything is made
    graph = repeated(program(plan), settings.workload.passes)
    workload = GeneratedWorkload(plan, graph, stages(plan), traffic(graph), accesses(graph), name)
    if name is not None and is_text:
        check_writable(name).write_text(text, encoding="ascii")
    elif name is not None:
        written = export(graph, name, plan.shape, settings.network.clock)
        groups = None if written.groups is None else str(written.groups)
        workload = replace(workload, file=written.files, groups=groups, traces=written.traces, nodes=written.nodes)
    return workload


def _plan(settings: Experiment, folder: Path) -> Plan:
    network, workload = settings.network, settings.workload
    assert workload is not None
    network, _ = restored(network, folder)
    topology = network_of(network, folder)
    system = settings.system
    return training_plan(workload, system.npu, topology.shape, network.clock, folder, system.remote_memory)
