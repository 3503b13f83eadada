"""Prepare a run: build its network, system layer and job, and prove that it can end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pyxsim import library
from pyxsim.analysis.packet_spacing import starved
from pyxsim.arrays import IntArray, unique_rows
from pyxsim.errors import LockstepLost
from pyxsim.garbage import without_collection
from pyxsim.network.backends import (
    backend_class,
    check_background,
    check_open_traffic,
    check_transactions,
    make_backend,
    make_open_backend,
)
from pyxsim.network.clock import with_clock
from pyxsim.network.protocol import Backend
from pyxsim.runner.fault_checks import check_faults, compute_faults
from pyxsim.runner.hints import hints
from pyxsim.runner.memory_estimate import WorkCounts, refusing, with_workload
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.proofs import (
    check_boost,
    check_in_network_reduction,
    check_lengths,
    check_mpi,
    deadlock_warnings,
    open_traffic_pairs,
    prove_schedules,
)
from pyxsim.runner.resolved import resolved
from pyxsim.settings import Experiment
from pyxsim.system import SystemLayer, make_system, resolve
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.units import to_cycles
from pyxsim.workload import Job
from pyxsim.workload.make_job import make_job
from pyxsim.workload.readers import WorkloadContext

PathLike = str | Path

_TOGETHER = (
    "system.endpoint: without contention on links, the blocks of a chain (reduce, broadcast) arrive at the same time, "
    "share the memory bandwidth and are forwarded together, so the time is too long; analytical-congestion, flow and "
    "packet separate them"
)


@without_collection
def prepare(
    experiment: Experiment,
    *,
    folder: PathLike = ".",
    libraries: Iterable[PathLike] = (),
    backend: str = "packet",
    allow_deadlock: bool = False,
    lockstep: bool = True,
) -> Prepared | PreparedTraffic:
    """Build and prove everything that a run needs.

    Parameters
    ----------
    folder
        Where relative paths of the experiment start.
    libraries
        Folders with topologies, collectives and systems.
    allow_deadlock
        Only warn of routes that are not proved free of deadlock.
    lockstep
        Simulate the groups of NPU 0 only where they stand for all others (pyxsim/system/lockstep.py).

    Raises
    ------
    InputError
        With all faults of the experiment that were found together.
    DeadlockError, UnreachableError
        When the routes are not proved.
    """
    libraries = tuple(libraries)
    library.load_all(libraries)
    every_npu = partial(
        prepare,
        experiment,
        folder=folder,
        libraries=libraries,
        backend=backend,
        allow_deadlock=allow_deadlock,
        lockstep=False,
    )
    capabilities = backend_class(backend).capabilities
    check_mpi(experiment, backend)
    check_transactions(backend, experiment)
    check_faults(experiment, backend)
    if experiment.background is not None:
        check_background(backend)
    elif experiment.traffic is not None:
        check_open_traffic(backend)
    folder = Path(folder)
    experiment, notes = resolved(experiment, folder)
    with refusing(experiment, backend, folded=lockstep) as watch:
        topology = network_of(experiment.network, folder)
    check_lengths(experiment, topology)
    settings, clock_notes = with_clock(experiment.network, topology)
    experiment = experiment.model_copy(update={"network": settings})
    notes += clock_notes
    if experiment.cost is not None:
        from pyxsim.costs.design import check_powers  # most runs have no [cost]

        check_powers(experiment, topology)
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0])
    if experiment.traffic is not None and experiment.background is None:
        prepared = _prepare_traffic(experiment, topology, window, folder, allow_deadlock, backend, notes)
        prepared.memory = watch.largest
        return prepared
    check_boost(experiment)
    context = WorkloadContext(experiment, topology, folder, packets=capabilities.packets)
    make_job(context)  # its faults come before those of the network
    network = make_backend(backend, experiment, topology, window)
    lockstep, why = lockstep and not allow_deadlock and may_keep_step(experiment, network), ""
    alike = experiment.workload is None and not experiment.message
    if experiment.faults and alike and network.capabilities.fast_forward:
        lockstep, why = False, "[[faults]] may make NPUs and links differ"
    elif settings.credits is not None and alike and network.capabilities.fast_forward:
        lockstep, why = False, "credits as messages need all NPUs and links simulated"
    try:
        job, system = _begun(context, network, lockstep=lockstep)
    except LockstepLost as error:
        lockstep, why = False, str(error)
        job, system = _begun(context, network, lockstep=False)
    output, of_system = experiment.output, experiment.system
    check_in_network_reduction(job, topology, network)
    warnings = [*notes, *prove_schedules(system, job)]
    advice: list[str] = []
    background = None
    warnings += job.memory_warnings()
    if network.capabilities.packets:
        longest = network.cut(settings.packet)[1]
        warnings += [*experiment.warnings(), *network.warnings, *starved(network, longest)]
        if len(settings.router.networks()) > 1:
            warnings.append("network.router.virtual_networks: collectives use only the first one")
        traffic = system.traffic()
        advice += hints(experiment, network, job, traffic)
        pairs: IntArray | None = unique_rows(traffic[:, :3])[0]
        if job.issues_later:
            pairs = open_traffic_pairs(topology)
        if experiment.background is not None:
            from pyxsim.runner.traffic.background import Background  # most runs have no [traffic]
            from pyxsim.runner.traffic.open_loop import largest_packet

            longest = max(longest, largest_packet(experiment))
            background = Background(experiment, topology, folder, network.config)
            network.carry_background(background, len(job.traffic))
            warnings += background.warnings
            of_background = open_traffic_pairs(topology)
            pairs = None if pairs is None or of_background is None else np.concatenate([pairs, of_background])
        warnings += deadlock_warnings(topology, settings, pairs, longest, allow_deadlock)
    else:
        warnings += network.warnings
        if network.capabilities.pauses:
            ends = np.unique(system.traffic()[:, :2], axis=0)
            if job.issues_later:
                ends = np.argwhere(~np.eye(topology.npus, dtype=bool)).astype(np.int64)
            text, cycle = network.prove_pauses(ends)
            warnings += [f"{text}; the run ends with an error if a deadlock occurs"] if cycle else []
        if not network.capabilities.congestion and of_system.endpoint is not None:
            warnings.append(_TOGETHER)
    memory = watch.largest
    if (experiment.workload is not None or experiment.job) and memory is not None:
        work = WorkCounts(job.task_count, int(system.traffic()[:, 4].sum()))
        memory = with_workload(memory, experiment, backend, work)
    carrier = system.carrier(output.seed) if output.carry else None
    planned = not allow_deadlock and not job.issues_later
    return Prepared(
        experiment,
        topology,
        network,
        system,
        job,
        warnings,
        carrier,
        planned,
        hints=advice,
        background=background,
        every_npu=every_npu if lockstep else None,
        why_every_npu=why,
        memory=memory,
    )


def may_keep_step(experiment: Experiment, network: Backend) -> bool:
    """Whether all NPUs may do the same in all cycles, and the run is long enough for this to be of use."""
    if experiment.workload is not None or experiment.job or experiment.background is not None or experiment.message:
        return False
    sizes = [collective.bytes for _, collective in experiment.collectives]
    return network.wants_lines(sum(sizes) * network.npus)


def _begun(context: WorkloadContext, network: Backend, *, lockstep: bool) -> tuple[Job, SystemLayer]:
    """Make the job and its system layer, with everything issued. Raises LockstepLost if NPUs differ."""
    job = make_job(context)
    network.traffic_names = job.traffic
    experiment, topology = context.experiment, context.topology
    output, settings = experiment.output, experiment.network
    bandwidths = network.injection_bandwidths()
    options = resolve(experiment.system, topology, settings.clock, bandwidths, seed=output.seed, carry=output.carry)
    options = replace(
        job.system_options(options), lockstep=lockstep, compute_faults=compute_faults(experiment, topology)
    )
    system = make_system(network, job.system_shape(topology.shape), options)
    job.begin(system)
    if lockstep and not network.expect_lines(system.lines()):
        raise LockstepLost("the run is short, a pair has several routes, or groups of a phase share links or differ")
    return job, system


def _prepare_traffic(
    experiment: Experiment,
    topology: Topology,
    window: int,
    folder: Path,
    allow_deadlock: bool,
    backend: str,
    notes: Iterable[str],
) -> PreparedTraffic:
    from pyxsim.runner.traffic import open_loop  # most runs have no [traffic]

    longest = open_loop.largest_packet(experiment)
    classes = open_loop.message_classes(experiment)
    network = make_open_backend(backend, experiment, topology, window, classes, longest)
    warnings = [*notes, *experiment.warnings(), *network.warnings, *starved(network, longest)]
    warnings += deadlock_warnings(topology, experiment.network, open_traffic_pairs(topology), longest, allow_deadlock)
    prepared = PreparedTraffic(experiment, topology, network, folder, warnings)
    open_loop.check_traffic(prepared)
    return prepared
