"""Checks and proofs before a run: lists fit the topology, routes cannot deadlock, schedules are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.checker import prove as prove_schedule
from pyxsim.collective.plan import Phase
from pyxsim.errors import DeadlockError, InputError, raise_all
from pyxsim.network.backends import backend_class
from pyxsim.network.protocol import Backend
from pyxsim.plugins import backends
from pyxsim.routing import Relation, prove
from pyxsim.settings import Experiment, Network
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ROOTED
from pyxsim.settings.experiment import list_faults
from pyxsim.system import SystemLayer
from pyxsim.topology import Topology
from pyxsim.units import to_cycles
from pyxsim.workload import Job


def check_lengths(experiment: Experiment, topology: Topology) -> None:
    """Raise InputError unless lists per dimension, or per kind of links, have as many entries as the topology has."""
    dims, system = len(topology.dims), experiment.system
    by_dimension: list[tuple[str, Any]] = [("system.queues", system.queues)]
    by_dimension += [(f"system.{key}", getattr(system, key)) for key in ALGORITHM_KEYS]
    for number, group in enumerate(system.groups):
        by_dimension += [(f"system.groups[{number}].{key}", getattr(group, key)) for key in ALGORITHM_KEYS]
    by_dimension += [(f"{key}.algorithm", settings.algorithm) for key, settings in experiment.collectives]
    for number, job in enumerate(experiment.job):
        by_dimension += [(f"job[{number}].{key}.algorithm", each.algorithm) for key, each in job.collectives]
    on_links = link_list_faults(experiment.network, topology)
    raise_all([*on_links, *list_faults(by_dimension, dims, f"{dims} dimensions")])


def link_list_faults(network: Network, topology: Topology) -> Iterator[InputError]:
    """Yield an error for each list of [network] without one entry per kind of links."""
    kinds = topology.link_kinds
    count = f"{len(kinds)} dimensions"
    if kinds != tuple(f"d{dim}" for dim in range(len(topology.dims))):
        count = f"{len(kinds)} kinds of links ({', '.join(kinds)})"
    if topology.hosts:
        count += "; host_links = false removes 'host'"
    lists = [(f"network.{key}", getattr(network, key)) for key in ("bandwidth", "latency")]
    lists.append(("network.router.serdes_credit", network.router.serdes_credit))
    return list_faults(lists, len(kinds), count)


def check_mpi(experiment: Experiment, backend: str) -> None:
    """Raise InputError for settings that exclude `run.mpi`, whatever the number of ranks."""
    run = experiment.run
    if not run.mpi:
        return
    faults = []
    if not backend_class(backend).capabilities.mpi:
        allowed = [entry.name for entry in backends.entries if entry.value.capabilities.mpi]
        faults.append(InputError(f"backend '{backend}' does not use MPI (--mpi)", key="--backend", allowed=allowed))
    if run.most_threads not in (None, 1):
        problem = f"{run.threads} threads exclude run.mpi (--mpi)"
        faults.append(InputError(problem, key="run.threads", allowed="auto or 1: each rank has one thread"))
    if run.checkpoint is not None:
        problem = "checkpoints exclude run.mpi (--mpi)"
        faults.append(InputError(problem, key="run.checkpoint", allowed="one process, or no checkpoints"))
    if experiment.output.level:
        problem = "attribution excludes run.mpi (--mpi)"
        faults.append(InputError(problem, key="output.attribution", allowed="one process, or 'off'"))
    raise_all(faults)


def check_boost(experiment: Experiment) -> None:
    """Raise InputError if `system.boost` is set although the NPUs differ: it simulates NPU 0 for all."""
    if not experiment.system.boost:
        return
    faults = [(f"{key}.kind", "has a root") for key, settings in experiment.collectives if settings.kind in ROOTED]
    for key, settings in experiment.collectives:
        concerned = ("group", "npus", "dims")
        faults += [
            (f"{key}.{name}", "applies to only some NPUs") for name in concerned if getattr(settings, name) is not None
        ]
    faults += [("message", "applies to only two NPUs")] if experiment.message else []
    faults += [("system.stragglers", "applies to only some NPUs")] if experiment.system.stragglers else []
    if to_cycles(experiment.system.start_skew, experiment.network.clock)[0]:
        faults.append(("system.start_skew", "makes NPUs differ"))
    faults += [("output.carry", "requires the data of all NPUs")] if experiment.output.carry else []
    allowed = "to omit it, or system.boost = false"
    problem = "this setting {}, but system.boost assumes identical NPUs"
    raise_all([InputError(problem.format(why), key=key, allowed=allowed) for key, why in faults])


def deadlock_warnings(
    topology: Topology, settings: Network, pairs: IntArray | None, longest: int, allow_deadlock: bool
) -> list[str]:
    """Prove that routes cannot deadlock.

    Parameters
    ----------
    pairs
        int64[n, 3]: source, destination and plane of the messages; None for all pairs.
    longest
        Flits of the longest packet.
    allow_deadlock
        Return a warning instead of raising DeadlockError.
    """
    try:
        prove_routes(topology.relation, settings, pairs, longest)
    except DeadlockError as error:
        if not allow_deadlock:
            hint = "; --allow-deadlock runs it until a deadlock occurs"
            raise DeadlockError(f"{error}{hint}", error.cycle) from None
        return [f"{error}; the run starts nevertheless, and ends with an error if a deadlock occurs"]
    return []


def prove_routes(relation: Relation, settings: Network, pairs: IntArray | None, longest: int) -> None:
    """Raise DeadlockError or UnreachableError unless packets of up to `longest` flits can never wait in a cycle."""
    router = settings.router
    wormhole = router.flow_control == "wormhole"
    # Whether a VC buffers a whole packet without the slots that all VCs of a link share.
    fits = wormhole or router.buffer == "auto" or router.buffer >= longest
    # Then the VC allocator grants adaptive heads only VCs with room for the packet.
    whole = fits and (not wormhole or router.vc_reuse == "drained")
    # In VCs that several classes share, packets of one wait behind those of others.
    shared = router.vc_classes == "shared" and router.vc_reuse == "tail" and _share_vcs(relation, settings)
    seen = relation if fits and not router.ordered and not shared else _without_classes(relation)
    try:
        prove(seen, pairs, whole=whole)
    except DeadlockError as error:
        if fits:
            raise
        hint = (
            f"; VCs with {router.buffer} flits that share a pool can block each other with packets of {longest} flits"
        )
        raise DeadlockError(f"{error}{hint}; network.router.buffer = {longest} prevents this", error.cycle) from None


def _share_vcs(relation: Relation, settings: Network) -> bool:
    """Return whether any virtual network has VCs that its VC classes cannot divide evenly."""
    divided = not any(relation.fixed_vcs) and relation.classes > 1
    return divided and any(vcs % relation.classes for vcs in settings.router.networks())


def _without_classes(relation: Relation) -> Relation:
    """The routes for the proof where a packet in any VC of a link blocks the packets in all others.

    That holds where packets keep their order (`ordered`), and where VCs share slots that a packet needs. VC classes
    then separate nothing: the links must be free of cycles as if they had one VC.
    """
    return replace(
        relation,
        vc_class=np.zeros(len(relation.vc_class), np.int32),
        set_class=np.zeros_like(relation.set_class),
        link_classes=np.ones_like(relation.link_classes),
        link_group=np.full_like(relation.link_group, -1),
        fixed_vcs=(),
    )


def open_traffic_pairs(topology: Topology) -> IntArray | None:
    """Return the pairs that open traffic may use, as int64[n, 3]; None for all pairs on any route."""
    if not topology.confined:
        return None
    # Planes of confined networks do not connect all pairs; plane -1 leaves the choice to the routes.
    src, dst = np.divmod(np.arange(topology.npus**2, dtype=np.int64), topology.npus)
    return np.stack([src, dst, np.full_like(src, -1)], axis=1)


def prove_schedules(system: SystemLayer, job: Job) -> list[str]:
    """Prove that every schedule of the run computes its collective. Raises ScheduleError.

    Returns
    -------
    list of str
        A warning for each schedule that has sizes and no data, so that only its end is proved.
    """
    lines = []
    for phase in system.schedules():
        schedule = phase.schedule()
        try:
            prove_schedule(schedule)
        except InputError as error:
            raise error.named_by(_key_of(phase, job)) from None
        if schedule.unproved:
            lines.append(f"{schedule}: proved to end, but not to compute the collective: {schedule.unproved}")
    return lines


def _key_of(phase: Phase, job: Job) -> str:
    """The setting that names the algorithm of a phase."""
    for collective in job.collectives:
        for issued in collective.per_group:
            for each in (phase for chunk in issued.chunks for phase in chunk.plan.phases):
                if (each.kind, each.algorithm, each.npus) == (phase.kind, phase.algorithm, phase.npus):
                    return collective.key
    return "system"


def check_in_network_reduction(job: Job, topology: Topology, network: Backend) -> None:
    """Raise InputError if an algorithm reduces inside the network, in a dimension that is not one switch.

    Loads of sums and stores to all also need a network that has transactions.
    """
    transactions = network.capabilities.transactions
    seen: set[tuple[Phase, tuple[int, ...]]] = set()
    plans: set[tuple[int, tuple[int, ...]]] = set()  # most chunks share a few
    for collective in job.collectives:
        for issued in collective.per_group:
            group = issued.communicator
            new = {id(c.plan): c.plan for c in issued.chunks if (id(c.plan), group.dims) not in plans}
            plans |= {(plan, group.dims) for plan in new}
            for phase in (phase for plan in new.values() for phase in plan.phases):
                dims = tuple(group.dims[d] for d in phase.dims) if group.is_grid else tuple(range(len(topology.dims)))
                if (phase, dims) in seen:
                    continue
                seen.add((phase, dims))
                if not phase.schedule().in_network:
                    continue
                if phase.schedule().fused is not None and not transactions:
                    problem = f"{phase.algorithm} loads sums from the switch and stores through it to all"
                    raise InputError(problem, key=collective.key, allowed="with [network.transactions]")
                if transactions and len(topology.dims) > 1:
                    problem = f"{phase.algorithm} with transactions requires a network that is one switch"
                    raise InputError(problem, key=collective.key, allowed="a network of one dimension, a switch")
                names = [f"{topology.dims[dim].name} {topology.dims[dim].npus}" for dim in dims]
                if len(dims) > 1 or "switch" not in names[0]:
                    problem = (
                        f"{phase.algorithm} requires a single switch that reduces, but runs on {' x '.join(names)}"
                    )
                    raise InputError(
                        problem, key=collective.key, allowed="this algorithm only in dimensions that are one switch"
                    )
