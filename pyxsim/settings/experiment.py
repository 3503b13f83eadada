"""The experiment: all tables of a file, and the checks between tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import ALGORITHM_KEYS
from pyxsim.settings.collective import Collective, Message
from pyxsim.settings.cost import Cost
from pyxsim.settings.failure import Fault
from pyxsim.settings.faults import join
from pyxsim.settings.job import JobTable, name_faults
from pyxsim.settings.network import Network
from pyxsim.settings.output import Output
from pyxsim.settings.run import Run
from pyxsim.settings.semantics import refuse, refuse_files, refuse_messages
from pyxsim.settings.system import System, ineffective_stragglers
from pyxsim.settings.traffic import Traffic
from pyxsim.settings.types import OneOrMany, Table
from pyxsim.settings.workload import Workload
from pyxsim.units import rounding_warnings


class Experiment(Table):
    """An experiment: all settings of a run."""

    network: Network = Field(description="The network.")
    system: System = Field(default_factory=System, description="Chunks, queues, schedules, algorithms.")
    collective: OneOrMany[Collective] | None = Field(
        default=None, description="A collective, or several tables [[collective]]. Instead: a workload."
    )
    message: tuple[Message, ...] = Field(
        default=(),
        description="Messages between NPUs, one table [[message]] each; with collectives or alone.",
    )
    traffic: Traffic | None = Field(
        default=None,
        description="Open traffic. In combination with collectives, messages or a workload it is background traffic.",
    )
    workload: Workload | None = Field(default=None, description="A workload. Instead: collectives.")
    faults: tuple[Fault, ...] = Field(
        default=(), description="What fails during the run, one table [[faults]] each ([faults.md](faults.md))."
    )
    job: tuple[JobTable, ...] = Field(
        default=(),
        description="Several jobs, one table [[job]] each ([jobs.md](jobs.md)). Instead: collectives or a workload.",
    )
    output: Output = Field(default_factory=Output, description="What is recorded, and the seed.")
    run: Run = Field(default_factory=Run, description="How the result is computed.")
    cost: Cost | None = Field(
        default=None,
        description="Prices and powers of the parts ([cost.md](cost.md)); the result then has the energy of the run.",
    )
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("system")
    @classmethod
    def _one_per_dimension(cls, system: System, info: ValidationInfo) -> System:
        network = info.data.get("network")
        count = network.dimensions if network is not None else None
        raise_all([] if count is None else list(list_faults(_lists(system), count, f"{count} dimensions")))
        return system

    @field_validator("collective")
    @classmethod
    def _fits_the_system(cls, collective: Any, info: ValidationInfo) -> Any:
        system = info.data.get("system")
        faults: list[InputError] = []
        if system is not None:
            faults = [fault for key, one in _indexed_collectives(collective) for fault in _conflicts(one, system, key)]
        raise_all(faults)
        return collective

    @field_validator("job")
    @classmethod
    def _jobs_fit(cls, job: tuple[JobTable, ...], info: ValidationInfo) -> tuple[JobTable, ...]:
        system, faults = info.data.get("system"), list(name_faults(job))
        if job and system is not None:
            faults += _job_conflicts(job, system)
        raise_all(faults)
        return job

    @field_validator("traffic")
    @classmethod
    def _in_virtual_networks(cls, traffic: Traffic | None, info: ValidationInfo) -> Traffic | None:
        network = info.data.get("network")
        if traffic is None or network is None:
            return traffic
        count = len(getattr(network.router, "virtual_networks", None) or (0,))
        used = [(class_.virtual_network or 0, class_.key_of("virtual_network")) for class_ in traffic.resolved]
        used += [
            (class_.replies.virtual_network, class_.key_of("replies.virtual_network"))
            for class_ in traffic.resolved
            if class_.replies
        ]
        faults = [
            InputError(
                f"no virtual network {number}; the network has {count}, numbered from 0",
                key=key,
                allowed="an entry of network.router.virtual_networks, such as [2, 2]",
            )
            for number, key in dict.fromkeys(used)
            if number >= count
        ]
        raise_all(faults)
        return traffic

    @model_validator(mode="after")
    def _has_something_to_compute(self) -> Experiment:
        npu, workloads = self.system.npu, self.workloads
        if not workloads:
            raise_all(ineffective_stragglers(self.system))
        models = any(workload.model is not None for workload in workloads)
        traces = any(workload.file is not None for workload in workloads)
        if npu is not None and not (models or (traces and npu.roofline)):
            allowed = "with [workload] model" + (", or with system.npu.roofline = true and traces" if traces else "")
            raise InputError("has no effect", key="system.npu", allowed=allowed)
        if npu is not None and npu.roofline and models:
            problem = "has no effect on a model; `compute` selects how layer times are computed"
            raise InputError(problem, key="system.npu.roofline", allowed="true with traces")
        if self.background is not None:
            raise_all(list(self.background.background_faults(self.system.compat)))
        offloaded = any(workload.offloaded for workload in workloads)
        if self.system.remote_memory is None and offloaded:
            allowed = '"none", or with [system.remote_memory]'
            raise InputError("requires remote memory", key="workload.offload", allowed=allowed)
        if self.system.remote_memory is not None and not offloaded and not traces:
            allowed = 'with [workload] offload = "optimizer" or "parameters", or traces as [workload] file'
            raise InputError("has no effect", key="system.remote_memory", allowed=allowed)
        endpoint = self.system.endpoint
        if endpoint is not None and self.traffic is not None and self.background is None:
            allowed = "with collectives, messages or [workload]"
            raise InputError("has no effect on open traffic", key="system.endpoint", allowed=allowed)
        if endpoint is not None and endpoint.compute_share and not workloads:
            key = "system.endpoint.compute_share"
            raise InputError("has no effect without computation", key=key, allowed="0, or with [workload]")
        return self

    @field_validator("message")
    @classmethod
    def _may_be_sent(cls, message: tuple[Message, ...], info: ValidationInfo) -> tuple[Message, ...]:
        system = info.data.get("system")
        raise_all(list(refuse_messages(system.compat)) if message and system is not None else [])
        return message

    @field_validator("output")
    @classmethod
    def _can_be_carried(cls, output: Output, info: ValidationInfo) -> Output:
        system = info.data.get("system")
        if output.carry and system is not None and system.compat is not None:
            problem = f"{system.compat} does not carry real data"
            raise InputError(problem, key="carry", allowed="false, or no system.compat")
        if output.carry and not (info.data.get("collective") or info.data.get("workload") or info.data.get("job")):
            raise InputError("requires a collective", key="carry", allowed="false")
        if output.carry and any(job.restart is not None for job in info.data.get("job", ())):
            raise InputError("the data of jobs that may start again are not carried", key="carry", allowed="false")
        return output

    codec: ClassVar[tuple[Callable[..., str], Callable[[str], Experiment]]]  # of load.py: write, read

    @cached_property
    def folder(self) -> Path:
        """Where relative paths start: the folder of the file that the experiment is from, else the current folder."""
        return Path()

    def placed(self, folder: Path) -> Experiment:
        """Return the experiment with its `folder`; call it on a new experiment only."""
        self.__dict__["folder"] = folder.absolute()  # like a cached property: no setting, and equality ignores it
        return self

    def to_toml(self, path: str | PathLike[str] | None = None) -> str:
        """Return every setting with its value, defaults included, as the text of an experiment file.

        Parameters
        ----------
        path
            Also write the text to this file; relative paths in it then start at the folder of the file.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        return self.codec[0](self, path)

    @classmethod
    def from_toml(cls, text: str) -> Experiment:
        """Return the experiment of a text; `pyxsim.load_experiment` reads a file. Raises InputError."""
        return cls.codec[1](text)

    @property
    def collectives(self) -> tuple[tuple[str, Collective], ...]:
        """The collectives with their key paths: "collective", or "collective[0]", "collective[1]", ..."""
        return tuple((join("collective", key), one) for key, one in _indexed_collectives(self.collective))

    @property
    def workloads(self) -> list[Workload]:
        """The workload, or those of the jobs."""
        given = [self.workload, *(job.workload for job in self.job)]
        return [workload for workload in given if workload is not None]

    @property
    def background(self) -> Traffic | None:
        """The traffic beside collectives, messages, a workload or jobs; None for open traffic alone."""
        beside = self.collective is not None or self.workload is not None or self.message or self.job
        return self.traffic if beside else None

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each key that was read under a former name."""
        return self._notes

    def warnings(self) -> list[str]:
        """Return one line per time that rounding up to whole cycles increases by more than 1 %."""
        memory = self.system.remote_memory
        times = [
            ("system.endpoint_delay", self.system.endpoint_delay),
            ("system.reduction_delay", self.system.reduction_delay),
            ("system.start_skew", self.system.start_skew),
            *([("system.remote_memory.latency", memory.latency)] if memory is not None else []),
            *((f"system.stragglers[{i}].start", straggler.start) for i, straggler in enumerate(self.system.stragglers)),
            *((f"{key}.at", one.at) for key, one in self.collectives),
            *((f"job[{i}].at", each.at) for i, each in enumerate(self.job)),
            *((f"job[{i}].{key}.at", one.at) for i, each in enumerate(self.job) for key, one in each.collectives),
            *((f"message[{i}].at", each.at) for i, each in enumerate(self.message)),
            ("output.window", self.output.window),
            *((f"faults[{i}].{key}", time) for i, fault in enumerate(self.faults) for key, time in fault.times()),
        ]
        if self.network.reroute is not None:
            times.append(("network.reroute.reaction", self.network.reroute.reaction))
        return [*self.network.warnings(), *rounding_warnings(times, self.network.clock)]


def _indexed_collectives(collective: Collective | tuple[Collective, ...] | None) -> Iterator[tuple[str, Collective]]:
    """Yield the collectives with their index below the key: "" for a single one."""
    if isinstance(collective, tuple):
        yield from ((f"[{number}]", one) for number, one in enumerate(collective))
    elif collective is not None:
        yield "", collective


def _lists(system: System) -> Iterator[tuple[str, Any]]:
    """Yield the settings of [system] that have one value per dimension."""
    yield "queues", system.queues
    yield from ((key, getattr(system, key)) for key in ALGORITHM_KEYS)
    for number, group in enumerate(system.groups):
        yield from ((f"groups[{number}].{key}", getattr(group, key)) for key in ALGORITHM_KEYS)


def list_faults(values: Iterable[tuple[str, Any]], count: int, network_has: str) -> Iterator[InputError]:
    """Yield an error for each (key, value) that is a list without `count` entries; `network_has` says why."""
    for key, value in values:
        if isinstance(value, tuple) and len(value) != count:
            problem = f"the list has {len(value)} entries, but the network has {network_has}"
            yield InputError(problem, key=key, allowed=f"one value for all, or a list of {count}")


def _job_conflicts(jobs: tuple[JobTable, ...], system: System) -> Iterator[InputError]:
    """Yield what [system] has that jobs do not support, and the conflicts of their collectives with it."""
    for key, value, why in (
        ("compat", system.compat, "which replaces pyxsim's system layer by one for a single workload"),
        ("boost", system.boost, "which simulates the groups of NPU 0 only, and jobs differ"),
        ("remote_memory", system.remote_memory, "whose accesses of all NPUs wait for each other"),
    ):
        if value:
            yield InputError(f"cannot be combined with system.{key}, {why}", key="", allowed="without this setting")
    if system.inter_dimension == "round-robin":
        problem = "cannot be combined with system.inter_dimension = 'round-robin', which counts the chunks of all jobs"
        yield InputError(problem, key="", allowed="another order of dimensions")
    for number, job in enumerate(jobs):
        for key, one in job.collectives:
            yield from _conflicts(one, system, f"[{number}].{key}")


def _conflicts(collective: Collective, system: System, key: str) -> Iterator[InputError]:
    """Yield the conflicts of a collective with [system]. Keys of a system file are not known yet."""
    for fault in [
        *refuse(collective, system.compat),
        *refuse_files([("algorithm", collective.algorithm)], system.compat),
    ]:
        place = join(key, fault.key or "")
        yield InputError(fault.problem, key=place, allowed=fault.allowed)
    if collective.group is not None and system.group(collective.group) is None:
        names = [group.name for group in system.groups]
        problem = f"unknown group '{collective.group}'"
        allowed: Any = names or "a name of [[system.groups]]; none is defined"
        yield InputError(problem, key=join(key, "group"), allowed=allowed, given=collective.group)
    if collective.priority is not None and system.scheduling != "explicit" and system.file is None:
        problem = f"has no effect with system.scheduling = '{system.scheduling}'"
        yield InputError(problem, key=join(key, "priority"), allowed="no priority, or system.scheduling = 'explicit'")
