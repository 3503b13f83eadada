"""An experiment that is ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pyxsim.analysis.bound import LinkBound, lower_bound_cycles
from pyxsim.analysis.optimum import NetworkOptimum, Optimum
from pyxsim.analysis.transaction_counts import expected_visits
from pyxsim.network.link_paths import hops_of_routes
from pyxsim.network.protocol import Backend, OpenBackend
from pyxsim.runner.checkpoint.resume_info import ResumeInfo
from pyxsim.runner.memory_estimate import MemoryEstimate
from pyxsim.settings import Experiment
from pyxsim.system import SystemLayer
from pyxsim.system.data_carrier import DataCarrier
from pyxsim.topology import Topology
from pyxsim.workload import Job

if TYPE_CHECKING:
    from pyxsim.runner.traffic.background import Background


@dataclass
class Prepared:
    """Collectives, messages or a workload, ready to run.

    Parameters
    ----------
    mode
        "closed": the work ends; "open": packets arrive whatever the network does (`PreparedTraffic`).
    warnings
        Lines for the user.
    hints
        Lines that say what the experiment wastes, and which setting to change.
    carrier
        Transfers real data with the messages; None without `output.carry`.
    planned
        Whether all messages are known before the run and proved free of deadlock.
    resume_info
        CPU time and number of resumptions of the run so far.
    prepare_s
        CPU seconds of the preparation, if it was measured.
    ready_s
        CPU seconds of the process when the preparation ended, if they were measured.
    background
        The background traffic; None without any.
    every_npu
        Prepares the run again with all NPUs; None if all are simulated.
    why_every_npu
        Why all are simulated, where one was expected to stand for all; otherwise "".
    memory
        The memory that the run will need, estimated before the network was built.
    """

    mode: ClassVar[Literal["closed"]] = "closed"
    experiment: Experiment
    topology: Topology
    network: Backend
    system: SystemLayer
    job: Job
    warnings: list[str] = field(default_factory=list)
    carrier: DataCarrier | None = None
    planned: bool = False
    resume_info: ResumeInfo = field(default_factory=ResumeInfo)
    prepare_s: float = 0.0
    ready_s: float | None = None
    hints: list[str] = field(default_factory=list)
    background: Background | None = None
    every_npu: Callable[[], Any] | None = None
    why_every_npu: str = ""
    memory: MemoryEstimate | None = None

    def start_over(self, why: str) -> None:
        """Begin again with all NPUs; `why`: the reason."""
        self.why_every_npu = why
        assert self.every_npu is not None
        new = self.every_npu()
        self.network, self.system, self.job, self.every_npu = new.network, new.system, new.job, None
        for name in ("lower_bound", "_links", "_network_optimum"):
            vars(self).pop(name, None)

    @property
    def bytes_planned(self) -> int:
        """Bytes that the run will deliver; 0 if they are not known before."""
        return 0 if self.job.issues_later else self.system.bytes_planned

    @cached_property
    def lower_bound(self) -> Fraction:
        """The least time of the run, in cycles from cycle 0, the same for every backend (analysis/bound.py)."""
        return max(self.first, 0) + self.lower_bound_of(self._issued)

    def lower_bound_of(self, collectives: Iterable[Any]) -> Fraction:
        """Return the least time of some collectives and messages, in cycles from the first issue."""
        return lower_bound_cycles(collectives, self.system, self.network, self._links)

    def optimum(self, *, thorough: bool = False) -> Optimum | None:
        """Return the least time for any algorithm, from cycle 0; None if computation takes part, or as `optimum_of`.

        `thorough`: search until the bound is exact, up to a minute.
        """
        if not (self.job.planned and self.system.sends_planned_bytes):
            return None
        collectives = [group_work for collective in self.job.collectives for group_work in collective.per_group]
        network = self._bounds(thorough=True) if thorough else self._network_optimum
        found = network.of_run(collectives, self.system.messages)
        return found and Optimum(max(self.first, 0) + found.cycles, found.limit)

    def optimum_of(self, collectives: Sequence[Any]) -> Optimum | None:
        """Return the least time of a collective for any algorithm, in cycles from its issue (analysis/optimum.py).

        None if what it computes is unknown, and for ASTRA-sim's system layers, which round sizes.
        """
        return self._network_optimum.of_collective(collectives) if self.system.sends_planned_bytes else None

    @cached_property
    def _network_optimum(self) -> NetworkOptimum:
        return self._bounds()

    def _bounds(self, *, thorough: bool = False) -> NetworkOptimum:
        endpoint = self.system.options.endpoint_delay if self.system.pays_endpoint_delays else 0
        return NetworkOptimum(self.topology, *self.network.link_rates, endpoint, thorough=thorough)

    @cached_property
    def _links(self) -> LinkBound:
        return LinkBound(self.network, self.system)

    @property
    def first(self) -> int:
        """The cycle in which the first collective or message is issued."""
        return min((collective.start for collective in self._issued), default=0)

    @property
    def _issued(self) -> list[Any]:
        return [
            *(group_work for collective in self.job.collectives for group_work in collective.per_group),
            *self.system.messages,
        ]

    @property
    def router_visits(self) -> int:
        """Router visits of the whole run, its cost; an estimate for adaptive routes, 0 without packets."""
        if not self.network.capabilities.packets:
            return 0
        if (rules := self.experiment.network.transactions) is not None:
            flit = self.experiment.network.flit
            return expected_visits(self.system.accesses(), rules, flit, self.topology.relation)
        src, dst, plane, size, count = self.system.traffic().T
        sizes, which = np.unique(size, return_inverse=True)
        cuts = [self.network.cut(nbytes) for nbytes in sizes.tolist()]
        flits = np.array([(packets - 1) * full + last for packets, full, last in cuts], np.int64)[which]
        hops = hops_of_routes(self.topology.relation, src, dst, plane)
        return int((count * flits * (hops + 1)).sum())


@dataclass
class PreparedTraffic:
    """Open traffic, ready to run.

    Parameters
    ----------
    folder
        Where relative paths of the experiment start.
    bytes_planned, router_visits
        0: the length of the run is not known.
    study
        The measurement, once it has begun.
    memory
        As of `Prepared`.
    """

    mode: ClassVar[Literal["open"]] = "open"
    experiment: Experiment
    topology: Topology
    network: OpenBackend
    folder: Path
    warnings: list[str] = field(default_factory=list)
    bytes_planned: int = 0
    router_visits: int = 0
    study: Any = None
    resume_info: ResumeInfo = field(default_factory=ResumeInfo)
    hints: list[str] = field(default_factory=list)
    memory: MemoryEstimate | None = None
