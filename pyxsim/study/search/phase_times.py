"""Times of the communication of a training step, each kind simulated by itself on the whole network.

All groups of all stages begin a collective together, as in a step whose NPUs keep in step. Its time is affine in its
size beyond the smallest sizes, so two sizes suffice: `FITTED` for a screening, whose points share them, or the smallest
and largest of the step itself (`SimulatedTimes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.errors import LockstepLost
from pyxsim.network.backends import make_backend
from pyxsim.runner.closed_run import ClosedRun, announce_traffic, run_out
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import Experiment
from pyxsim.settings.collective import Collective
from pyxsim.system import make_system, resolve
from pyxsim.topology import Topology
from pyxsim.units import to_cycles
from pyxsim.workload.graph import Call, GraphBuilder, Kind
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.parallel.grid import dims_of
from pyxsim.workload.parallel.plan import Plan

FITTED = (2**20, 2**25)  # bytes of the two simulated sizes of a screening
MESSAGE = "message"


def simulated_cycles(experiment: Experiment, topology: Topology, backend: str, graph: Any) -> int:
    """Return the cycles of a graph of tasks on the network and system of an experiment."""
    settings, output = experiment.network, experiment.output
    window = max(1, to_cycles(output.window, settings.clock)[0])
    network = make_backend(backend, experiment, topology, window)
    job = GraphJob(graph)
    network.traffic_names = job.traffic
    options = resolve(
        experiment.system, topology, settings.clock, network.injection_bandwidths(), seed=output.seed, carry=False
    )
    system = make_system(network, job.system_shape(topology.shape), job.system_options(options))
    job.begin(system)
    prepared = Prepared(experiment, topology, network, system, job, planned=True)
    announce_traffic(prepared)
    run_out(prepared)
    return job.end


def collective_cycles(
    experiment: Experiment, folder: Path, backend: str, kind: str, size: int, dims: tuple[int, ...]
) -> int:
    """Return the cycles of one collective of all groups along some dimensions, on an experiment's network and system.

    The run is that of an experiment with this collective, so that one NPU may stand for all.
    """
    collective = Collective.model_validate({"kind": kind, "size": f"{size} B", "dims": list(dims)})
    alone = experiment.model_copy(update={"workload": None, "collective": collective})
    prepared: Any = prepare(alone, folder=folder, backend=backend)
    try:
        ClosedRun(prepared).run()
    except LockstepLost:
        prepared = prepared.every_npu()
        ClosedRun(prepared).run()
    return int(prepared.job.end)


def groups_graph(npus: int, kind: str, groups: Any, size: int) -> Any:
    """Return the graph of one collective of some groups."""
    builder = GraphBuilder(npus)
    call = builder.call(Call(kind, size, groups=groups, name=kind))
    builder.tasks(np.arange(npus), Kind.COLLECTIVE, kind, call=call)
    return builder.graph()


def message_graph(plan: Plan, size: int) -> Any:
    """Return the graph of a message from each NPU to that at its place in the next stage."""
    builder = GraphBuilder(len(plan.grid))
    for stage in range(plan.parallelism.pipeline - 1):
        here, there = plan.grid.stage(stage), plan.grid.stage(stage + 1)
        builder.tasks(here, Kind.SEND, MESSAGE, size=size, peer=there, match=stage)
        builder.tasks(there, Kind.RECEIVE, MESSAGE, size=size, peer=here, match=stage)
    return builder.graph()


@dataclass
class FittedTimes:
    """Times by a line through two simulated sizes, for any number of plans on one network.

    `experiment`: its network, system and outputs count. `folder`: start of its relative paths. `known`: results of
    simulations by kind and groups, which several objects may share.
    """

    experiment: Experiment
    topology: Topology
    folder: Path
    backend: str
    known: dict[Any, tuple[float, float]] = field(default_factory=dict)
    simulations: int = 0

    def collective(self, plan: Plan, kind: str, axis: str, size: int) -> float:
        """Return the cycles of a collective; `PhaseTimes`."""
        key = (kind, axis, *_groups_of(plan, axis))

        def cycles(nbytes: int) -> int:
            groups = plan.grid.groups(axis, range(plan.parallelism.pipeline))
            if dims := dims_of(groups, plan.shape):
                return collective_cycles(self.experiment, self.folder, self.backend, kind, nbytes, dims)
            return self._of(groups_graph(len(plan.grid), kind, groups, nbytes))

        return self._at(key, size, cycles)

    def message(self, plan: Plan, size: int) -> float:
        """Return the cycles of a message between stages; `PhaseTimes`."""
        return self._at((MESSAGE, *_shape(plan)), size, lambda nbytes: self._of(message_graph(plan, nbytes)))

    def _at(self, key: Any, size: int, cycles: Callable[[int], int]) -> float:
        if key not in self.known:
            low, high = (self._simulated(cycles, nbytes) for nbytes in FITTED)
            slope = (high - low) / (FITTED[1] - FITTED[0])
            self.known[key] = (max(low - slope * FITTED[0], 0.0), slope)
        constant, slope = self.known[key]
        return constant + slope * size

    def _simulated(self, cycles: Callable[[int], int], size: int) -> int:
        self.simulations += 1
        return cycles(size)

    def _of(self, graph: Any) -> int:
        return simulated_cycles(self.experiment, self.topology, self.backend, graph)


@dataclass
class SimulatedTimes(FittedTimes):
    """Times of exactly the sizes of a plan: each is simulated, except that a kind with more than two sizes on the same
    groups has the smallest and the largest simulated, and a line between."""

    sizes: dict[Any, set[int]] = field(default_factory=dict)
    exact: dict[tuple[Any, int], int] = field(default_factory=dict)
    counting: bool = True

    def _at(self, key: Any, size: int, cycles: Callable[[int], int]) -> float:
        if self.counting:
            self.sizes.setdefault(key, set()).add(size)
            return 0.0
        ends = min(self.sizes[key]), max(self.sizes[key])
        for nbytes in ends:
            if (key, nbytes) not in self.exact:
                self.exact[key, nbytes] = self._simulated(cycles, nbytes)
        low, high = (self.exact[key, nbytes] for nbytes in ends)
        if ends[0] == ends[1]:
            return float(low)
        return low + (high - low) * (size - ends[0]) / (ends[1] - ends[0])

    def of_plan(self, plan: Plan, follow: Callable[[Plan, SimulatedTimes], float]) -> float:
        """Return the cycles of a step: `follow` is called to collect the sizes, then to use their times."""
        self.sizes, self.counting = {}, True
        follow(plan, self)
        self.counting = False
        return follow(plan, self)


def _groups_of(plan: Plan, axis: str) -> tuple[Any, ...]:
    """What the groups along an axis depend on: the strides and extents of the axes up to it."""
    grid = plan.grid
    if axis == "tensor" and grid.order[0] == "tensor":
        return (grid.tensor,)
    if axis in ("data", "replica", "expert") and grid.order[:2] == ("tensor", "data"):
        return (grid.tensor, grid.data, grid.expert if axis != "data" else 0)
    return _shape(plan)


def _shape(plan: Plan) -> tuple[Any, ...]:
    grid = plan.grid
    return grid.tensor, grid.data, grid.pipeline, grid.expert, grid.order
