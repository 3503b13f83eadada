"""[[faults]], [network.retry] and [network.credits]: conflicting settings, and NPUs that stop or slow down."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from pyxsim.errors import InputError, raise_all
from pyxsim.network.backends import backend_class
from pyxsim.network.fault_targets import npus_of
from pyxsim.network.fault_times import times_of
from pyxsim.plugins import backends
from pyxsim.settings import Experiment
from pyxsim.settings.failure import Fault
from pyxsim.system.options import ComputeFault
from pyxsim.topology import Topology


def check_faults(experiment: Experiment, backend: str) -> None:
    """Raise InputError for faults, retry and credits that the backend, or another setting, excludes."""
    flits = backend_class(backend).capabilities.packets
    of_flits = _of_flits(experiment) if flits else ()
    raise_all([*_of_backend(experiment, backend), *_of_routes(experiment, backend), *of_flits, *_of_npus(experiment)])


def _of_backend(experiment: Experiment, backend: str) -> Iterator[InputError]:
    capabilities = backend_class(backend).capabilities
    others = [(entry.name, entry.value.capabilities) for entry in backends.entries]
    for number, fault in enumerate(experiment.faults):
        if fault.affects_links and not capabilities.link_faults:
            problem = f"backend '{backend}' does not change links during a run"
            models = [name for name, can in others if can.link_faults]
            yield InputError(problem, key=f"faults[{number}].{_effect(fault)}", allowed=f"with {_either(models)}")
    flits = capabilities.packets and capabilities.link_faults
    models = [name for name, can in others if can.packets and can.link_faults]
    if experiment.network.retry is not None and not flits:
        problem = f"backend '{backend}' has no retry at the link"
        yield InputError(problem, key="network.retry", allowed=f"with {_either(models)}")
    if experiment.network.credits is not None and not flits:
        problem = f"backend '{backend}' has no credits as messages"
        yield InputError(problem, key="network.credits", allowed=f"with {_either(models)}")


def _of_routes(experiment: Experiment, backend: str) -> Iterator[InputError]:
    """Settings that [network.reroute] excludes, because packets may be lost."""
    if experiment.network.reroute is None:
        return
    key, capabilities = "network.reroute", backend_class(backend).capabilities
    if not (capabilities.packets and capabilities.link_faults):
        others = [(entry.name, entry.value.capabilities) for entry in backends.entries]
        models = [name for name, can in others if can.packets and can.link_faults]
        yield InputError(f"backend '{backend}' does not recompute routes", key=key, allowed=f"with {_either(models)}")
        return
    reroute = experiment.network.reroute
    if reroute.select == "weighted" and experiment.network.router.ordered:
        problem = "packets that stay in order all take the same link to a destination"
        yield InputError(problem, key=f"{key}.select", allowed="without router.ordered")
    if reroute.weights == "messages" and not experiment.message:
        problem = "there are no messages to derive weights from"
        yield InputError(problem, key=f"{key}.weights", allowed="'capacity', or with [[message]]")
    if not any(fault.down for fault in experiment.faults):
        return
    if experiment.traffic is not None:
        problem = "packets may be lost when routes change, but [traffic] waits for all of them"
        yield InputError(problem, key=key, allowed="without [traffic]")
    if experiment.network.transactions is not None and any(job.restart is not None for job in experiment.job):
        problem = "memory transactions that lose their routes do not end a job with [job.restart]"
        yield InputError(problem, key=key, allowed="without [network.transactions], or without [job.restart]")
    if experiment.run.mpi:
        yield InputError("cannot be combined with run.mpi (--mpi)", key=key, allowed="one process")
    for number, fault in enumerate(experiment.faults):
        if fault.down and fault.in_flight == "lose" and experiment.network.retry is not None:
            problem = "retry retransmits the flits of a link that routes avoid, and does not lose them"
            yield InputError(problem, key=f"faults[{number}].in_flight", allowed="drain, or without network.reroute")


def _either(names: list[str]) -> str:
    return " or ".join(f"--backend {name}" for name in names)


def _effect(fault: Fault) -> str:
    """The key by which a fault changes links."""
    keys = ("down", "bandwidth", "latency", "bit_error_rate")
    return next((key for key in keys if getattr(fault, key)), "flit_error_rate")


def _of_flits(experiment: Experiment) -> Iterator[InputError]:
    retry, faults = experiment.network.retry is not None, list(enumerate(experiment.faults))
    for number, fault in faults:
        key = f"faults[{number}]"
        if fault.loses and not retry:
            rate = "bit_error_rate" if fault.bit_error_rate else "flit_error_rate"
            what = f"{key}.{rate if fault.errs else 'in_flight'}"
            if experiment.traffic is not None:
                problem = "lost packets never arrive, but [traffic] waits for all of them"
                yield InputError(problem, key=what, allowed="with [network.retry]")
            elif experiment.run.mpi:
                problem = "a loss of flits without retry cannot be combined with run.mpi (--mpi)"
                yield InputError(problem, key=what, allowed="with [network.retry], or one process")


def _of_npus(experiment: Experiment) -> Iterator[InputError]:
    for number, fault in enumerate(experiment.faults):
        key = f"faults[{number}]"
        computes = experiment.workload is not None or any(job.workload is not None for job in experiment.job)
        computes = computes or (fault.stop and any(job.restart is not None for job in experiment.job))
        if fault.affects_npus and not computes:
            what = "stop" if fault.stop else "slow"
            allowed = "with [workload], [job.workload] or, with stop, [job.restart]"
            yield InputError("has no effect without computation", key=f"{key}.{what}", allowed=allowed)
        for name in ("endpoint", "compat") if fault.affects_npus else ():
            if getattr(experiment.system, name) is not None:
                problem = f"system.{name} does not support NPUs whose speed changes"
                yield InputError(problem, key=f"{key}.{'stop' if fault.stop else 'slow'}", allowed=f"no system.{name}")


def compute_faults(experiment: Experiment, topology: Topology) -> dict[int, list[ComputeFault]]:
    """Return when each NPU stops or slows down, without those that never do. Raises InputError."""
    by_npu: dict[int, list[ComputeFault]] = {}
    for number, fault in enumerate(experiment.faults):
        if fault.affects_npus:
            key = f"faults[{number}]"
            for npu in npus_of(experiment, topology, fault, key).tolist():
                times = times_of(experiment, fault, key, npu)
                by_npu.setdefault(npu, []).append(ComputeFault(times, Fraction(0) if fault.stop else fault.slow))
    return by_npu
