"""From an experiment to what is needed to run it: network, system, work to do, and the proof that it can end."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.analysis.bound import Times, bound_cycles, physical_cycles, times_of
from pyxsim.analysis.packet_spacing import starved
from pyxsim.collective.checker import prove as prove_schedule
from pyxsim.collective.plan import Phase
from pyxsim.errors import DeadlockError, InputError, raise_all
from pyxsim.network.link_paths import hops_of_routes
from pyxsim.network.packet.open_network import OpenNetwork
from pyxsim.network.protocol import Backend, OpenBackend
from pyxsim.routing import Relation, prove
from pyxsim.routing.relation import Longs
from pyxsim.runner.backends import check_backend, make_network
from pyxsim.runner.checkpoint.resume_info import ResumeInfo
from pyxsim.runner.resolved import resolved
from pyxsim.settings import Experiment, Network
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ROOTED
from pyxsim.settings.experiment import list_faults
from pyxsim.system import SystemLayer, make_system, resolve
from pyxsim.system.carry import Carrier
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.units import to_cycles
from pyxsim.workload import Job
from pyxsim.workload.readers import WorkloadContext, make_job

PathLike = str | Path

_TOGETHER = (
    "system.endpoint: without contention on links the blocks of a chain (reduce, broadcast) come all at once, share "
    "the memory, and are handed on together: too slow; analytical-congestion, flow and packet have one after the other"
)


@dataclass
class Prepared:
    """An experiment that is ready to run. `warnings`: lines for the user. `carrier`: moves real data, if wanted.

    `past`: of a run that was taken up again. `planned`: all messages are known before it begins, and that their routes
    cannot deadlock.
    """

    experiment: Experiment
    topology: Topology
    network: Backend
    system: SystemLayer
    job: Job
    warnings: list[str] = field(default_factory=list)
    carrier: Carrier | None = None
    planned: bool = False
    resume_info: ResumeInfo = field(default_factory=ResumeInfo)

    @property
    def bytes_planned(self) -> int:
        """What will be delivered in all."""
        return self.system.bytes_planned

    @cached_property
    def bound(self) -> Fraction:
        """The least that everything together can take, in cycles from its first start on (see bound.py)."""
        return self.bound_of(self._issued)

    def bound_of(self, collectives: Iterable[Any]) -> Fraction:
        """The same for some of it."""
        return bound_cycles(collectives, self.system, self.network, self._times)

    @cached_property
    def _times(self) -> Times:
        return times_of(self.system, self.network)

    @cached_property
    def physical(self) -> Fraction:
        """The same for links alone, whatever the backend: no machine that has these is faster."""
        return physical_cycles(self._issued, self.system, self.network)

    @property
    def first(self) -> int:
        """The cycle in which the first of everything is issued."""
        return min((each.start for each in self._issued), default=0)

    @property
    def _issued(self) -> list[Any]:
        return [*(each for collective in self.job.collectives for each in collective.per_group), *self.system.messages]

    @property
    def router_visits(self) -> int:
        """What the run will cost: flits times routers passed, over all messages. About that, where packets choose.

        0 where there are no packets.
        """
        if not self.network.capabilities.packets:
            return 0
        src, dst, plane, size, count = self.system.traffic().T
        sizes, which = np.unique(size, return_inverse=True)
        cuts = [self.network.cut(each) for each in sizes.tolist()]
        flits = np.array([(packets - 1) * full + last for packets, full, last in cuts], np.int64)[which]
        hops = hops_of_routes(self.topology.relation, src, dst, plane)
        return int((count * flits * (hops + 1)).sum())


@dataclass
class PreparedTraffic:
    """Open traffic that is ready to run: a network into which study/open_loop.py injects.

    `folder`: where relative paths count from. How long the run will be is not known: 0 stands for its cost. `study`:
    the measurement, as soon as it has begun. `past`: as of Prepared.
    """

    experiment: Experiment
    topology: Topology
    network: OpenBackend
    folder: Path
    warnings: list[str] = field(default_factory=list)
    bytes_planned: int = 0
    router_visits: int = 0
    study: Any = None
    resume_info: ResumeInfo = field(default_factory=ResumeInfo)


def prepare(
    experiment: Experiment,
    *,
    folder: PathLike = ".",
    libraries: Iterable[PathLike] = (),
    backend: str = "packet",
    allow_deadlock: bool = False,
) -> Prepared | PreparedTraffic:
    """Build everything. Raises InputError; DeadlockError or UnreachableError when the routes are not proven safe.

    `folder`: where relative paths of the experiment count from. `allow_deadlock`: only warn of unproven routes.
    """
    check_backend(backend, experiment)
    library.load_all(libraries)
    folder = Path(folder)
    experiment, notes = resolved(experiment, folder)
    settings = experiment.network
    topology = network_of(settings, folder)
    _check_lengths(experiment, topology)
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0])
    if experiment.traffic is not None:
        return _prepare_traffic(experiment, topology, window, folder, allow_deadlock)
    raise_all(list(_boost_faults(experiment)))
    with nothing_to_collect():
        job = make_job(WorkloadContext(experiment, topology, folder, packets=backend == "packet"))
    network = make_network(backend, experiment, topology, window, None)
    output, of_system = experiment.output, experiment.system
    options = resolve(
        of_system, topology, settings.clock, network.injection_bandwidths(), seed=output.seed, carry=output.carry
    )
    system = make_system(network, job.system_shape(topology.shape), job.system_options(options))
    with nothing_to_collect():
        job.begin(system)
    _check_joins(job, topology)
    warnings = [*notes, *_prove_schedules(system, job)]
    if network.capabilities.packets:
        longest = network.cut(settings.packet)[1]
        warnings += [*experiment.warnings(), *network.warnings, *starved(network, longest)]
        if len(settings.router.networks()) > 1:
            warnings.append("network.router.virtual_networks: collectives use the first one only")
        pairs = np.unique(system.traffic()[:, :3], axis=0)
        warnings += _prove_routes(topology, settings, pairs, longest, allow_deadlock)
    else:
        warnings += network.warnings
        if not network.capabilities.congestion and of_system.endpoint is not None:
            warnings.append(_TOGETHER)
    carrier = system.carrier(output.seed) if output.carry else None
    planned = job.planned and not allow_deadlock
    return Prepared(experiment, topology, network, system, job, warnings, carrier, planned)


@contextmanager
def nothing_to_collect() -> Iterator[None]:
    """All that is made meanwhile stays: to look for garbage among it would take as long as making it."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _prepare_traffic(
    experiment: Experiment,
    topology: Topology,
    window: int,
    folder: Path,
    allow_deadlock: bool,
) -> PreparedTraffic:
    from pyxsim.runner.traffic import open_loop  # which wants what is prepared here

    longest = open_loop.largest_packet(experiment)
    network = OpenNetwork(
        topology,
        experiment.network,
        window=window,
        seed=experiment.output.seed,
        classes=open_loop.message_classes(experiment),
        packet=longest,
        attribution=experiment.output.level,
        threads=experiment.run.most_threads,
    )
    warnings = [*experiment.warnings(), *network.warnings, *starved(network, longest)]
    warnings += _prove_routes(topology, experiment.network, _open_pairs(topology), longest, allow_deadlock)
    prepared = PreparedTraffic(experiment, topology, network, folder, warnings)
    open_loop.check_traffic(prepared)
    return prepared


def _boost_faults(experiment: Experiment) -> Iterator[InputError]:
    """What cannot be boosted: everything in which NPUs are not all like NPU 0."""
    if not experiment.system.boost:
        return
    faults = [(f"{key}.kind", "has a root") for key, each in experiment.collectives if each.kind in ROOTED]
    for key, each in experiment.collectives:
        concerned = ("group", "npus", "dims")
        faults += [(f"{key}.{name}", "concerns some NPUs") for name in concerned if getattr(each, name) is not None]
    faults += [("message", "concerns two NPUs")] if experiment.message else []
    faults += [("system.stragglers", "concerns some NPUs")] if experiment.system.stragglers else []
    if to_cycles(experiment.system.start_skew, experiment.network.clock)[0]:
        faults.append(("system.start_skew", "makes NPUs different"))
    faults += [("output.carry", "wants the data of all NPUs")] if experiment.output.carry else []
    for key, why in faults:
        problem = f"it {why}, and system.boost takes all NPUs for alike"
        yield InputError(problem, key=key, allowed="to leave it out, or system.boost = false")


def _open_pairs(topology: Topology) -> Longs | None:
    """What open traffic may send, for the proof: None for all pairs, in whatever way."""
    if not topology.confined:
        return None
    # The planes of confined networks do not serve all pairs; open traffic takes the ways.
    src, dst = np.divmod(np.arange(topology.npus**2, dtype=np.int64), topology.npus)
    return np.stack([src, dst, np.full_like(src, -1)], axis=1)


def _prove_routes(
    topology: Topology, settings: Network, pairs: Longs | None, longest: int, allow_deadlock: bool
) -> list[str]:
    """Warnings of routes that may deadlock, if these are allowed, else DeadlockError. `pairs`: None for all.

    `longest`: flits of the longest packet.
    """
    try:
        prove_routes(topology.relation, settings, pairs, longest)
    except DeadlockError as error:
        if not allow_deadlock:
            hint = "; --allow-deadlock runs it all the same, up to the deadlock if it comes"
            raise DeadlockError(f"{error}{hint}", error.cycle) from None
        return [f"{error}; it runs all the same: a deadlock is found and named when it happens"]
    return []


def prove_routes(relation: Relation, settings: Network, pairs: Longs | None, longest: int) -> None:
    """Raise DeadlockError or UnreachableError unless packets of up to `longest` flits can never wait in a circle."""
    router = settings.router
    wormhole = router.flow_control == "wormhole"
    # Where packets are buffered whole: without the slots that all VCs of a link share?
    fits = wormhole or router.buffer == "auto" or router.buffer >= longest
    # Then heads that may choose are granted only VCs with room for the packet.
    whole = fits and (not wormhole or router.vc_reuse == "drained")
    seen = relation if fits and not router.ordered else _without_classes(relation)
    try:
        prove(seen, pairs, whole=whole)
    except DeadlockError as error:
        if fits:
            raise
        hint = f"; VCs of {router.buffer} flits need slots of the pool for {longest}, and so wait for each other"
        raise DeadlockError(f"{error}{hint}: network.router.buffer = {longest} keeps them apart", error.cycle) from None


def _without_classes(relation: Relation) -> Relation:
    """The routes as the deadlock proof must see them where a packet in any VC of a link holds up those in all others.

    That is where they may not overtake each other (`ordered`), and where they need slots that the VCs share. VC classes
    separate nothing then: the links must be free of circles as if they had one VC.
    """
    return replace(
        relation,
        vc_class=np.zeros_like(relation.vc_class),
        set_class=np.zeros_like(relation.set_class),
        link_classes=np.ones_like(relation.link_classes),
        link_group=np.full_like(relation.link_group, -1),
        fixed_vcs=(),
    )


def _check_joins(job: Job, topology: Topology) -> None:
    """Messages are added up on their way by a switch, and by nothing else. Raises InputError."""
    seen: set[tuple[Phase, tuple[int, ...]]] = set()
    plans: set[tuple[int, tuple[int, ...]]] = set()  # most have the same few
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


def _prove_schedules(system: SystemLayer, job: Job) -> list[str]:
    """Every schedule that will be used computes its collective; a user's may not. Raises ScheduleError.

    Returns a line for each of which that cannot be said, because it tells sizes and no data.
    """
    lines = []
    for phase in system.schedules():
        schedule = phase.schedule()
        try:
            prove_schedule(schedule)
        except InputError as error:
            raise error.named_by(_place_of(phase, job)) from None
        if schedule.unproved:
            lines.append(f"{schedule}: it is proved to end, not to compute the collective: {schedule.unproved}")
    return lines


def _place_of(phase: Phase, job: Job) -> str:
    """The key that names the algorithm of a phase."""
    for collective in job.collectives:
        for issued in collective.per_group:
            for each in (each for chunk in issued.chunks for each in chunk.plan.phases):
                if (each.kind, each.algorithm, each.npus) == (phase.kind, phase.algorithm, phase.npus):
                    return collective.key
    return "system"


def _check_lengths(experiment: Experiment, topology: Topology) -> None:
    """Lists with one entry per dimension, or kind of links, where only the topology knows how many there are."""
    dims, kinds = len(topology.dims), len(topology.link_kinds)
    network, system = experiment.network, experiment.system
    of_links = f"{kinds} dimensions"
    if topology.link_kinds != tuple(f"d{dim}" for dim in range(dims)):
        of_links = f"{kinds} kinds of links ({', '.join(topology.link_kinds)})"
    on_links = [(f"network.{key}", getattr(network, key)) for key in ("bandwidth", "latency")]
    on_links.append(("network.router.serdes_credit", network.router.serdes_credit))
    by_dimension: list[tuple[str, Any]] = [("system.queues", system.queues)]
    by_dimension += [(f"system.{key}", getattr(system, key)) for key in ALGORITHM_KEYS]
    for number, group in enumerate(system.groups):
        by_dimension += [(f"system.groups[{number}].{key}", getattr(group, key)) for key in ALGORITHM_KEYS]
    by_dimension += [(f"{key}.algorithm", each.algorithm) for key, each in experiment.collectives]
    raise_all([*list_faults(on_links, kinds, of_links), *list_faults(by_dimension, dims, f"{dims} dimensions")])
