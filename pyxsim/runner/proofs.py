"""Proofs before a run: routes cannot deadlock, schedules compute their collective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.checker import prove as prove_schedule
from pyxsim.collective.plan import Phase
from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import Relation, prove
from pyxsim.settings import Network
from pyxsim.system import SystemLayer
from pyxsim.topology import Topology
from pyxsim.workload import Job


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
            hint = "; --allow-deadlock runs it all the same, up to the deadlock if it comes"
            raise DeadlockError(f"{error}{hint}", error.cycle) from None
        return [f"{error}; it runs all the same: a deadlock is found and named when it happens"]
    return []


def prove_routes(relation: Relation, settings: Network, pairs: IntArray | None, longest: int) -> None:
    """Raise DeadlockError or UnreachableError unless packets of up to `longest` flits can never wait in a cycle."""
    router = settings.router
    wormhole = router.flow_control == "wormhole"
    # Whether a VC buffers a whole packet without the slots that all VCs of a link share.
    fits = wormhole or router.buffer == "auto" or router.buffer >= longest
    # Then the VC allocator grants adaptive heads only VCs with room for the packet.
    whole = fits and (not wormhole or router.vc_reuse == "drained")
    seen = relation if fits and not router.ordered else _without_classes(relation)
    try:
        prove(seen, pairs, whole=whole)
    except DeadlockError as error:
        if fits:
            raise
        hint = f"; VCs of {router.buffer} flits, packets of {longest}: a shared pool lets VCs block each other"
        raise DeadlockError(f"{error}{hint}; network.router.buffer = {longest} prevents it", error.cycle) from None


def _without_classes(relation: Relation) -> Relation:
    """The routes for the proof where a packet in any VC of a link blocks the packets in all others.

    That holds where packets keep their order (`ordered`), and where VCs share slots that a packet needs. VC classes
    then separate nothing: the links must be free of cycles as if they had one VC.
    """
    return replace(
        relation,
        vc_class=np.zeros_like(relation.vc_class),
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
            lines.append(f"{schedule}: it is proved to end, not to compute the collective: {schedule.unproved}")
    return lines


def _key_of(phase: Phase, job: Job) -> str:
    """The setting that names the algorithm of a phase."""
    for collective in job.collectives:
        for issued in collective.per_group:
            for each in (each for chunk in issued.chunks for each in chunk.plan.phases):
                if (each.kind, each.algorithm, each.npus) == (phase.kind, phase.algorithm, phase.npus):
                    return collective.key
    return "system"


def check_in_network_reduction(job: Job, topology: Topology) -> None:
    """Raise InputError if an algorithm reduces inside the network, in a dimension that is not one switch."""
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
                if (phase.schedule().join < 0).all():
                    continue
                names = [f"{topology.dims[dim].name} {topology.dims[dim].npus}" for dim in dims]
                if len(dims) > 1 or "switch" not in names[0]:
                    problem = f"{phase.algorithm} wants one switch that adds up, and works on {' x '.join(names)}"
                    raise InputError(problem, key=collective.key, allowed="it in dimensions that are a switch")
