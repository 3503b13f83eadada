"""From an experiment to what is needed to run it: network, system, work to do, and the proof that it can end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np

from pyxsim import library
from pyxsim.collective.checker import prove as prove_schedule
from pyxsim.errors import DeadlockError, InputError
from pyxsim.network.open import OpenNetwork
from pyxsim.network.packet import PacketNetwork
from pyxsim.routing import Relation, prove
from pyxsim.routing.relation import Longs, vc_ranges
from pyxsim.settings import Experiment, Network
from pyxsim.system import System, resolve
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from pyxsim.units import to_cycles
from pyxsim.workload import Micro, read_text_workload

PathLike = str | Path
BACKENDS = ("packet",)


class Job(Protocol):
    """What the network has to do: it issues collectives, and knows when all is done."""

    def begin(self, system: System) -> None:
        """Issue what there is to do at the beginning."""

    @property
    def end(self) -> int:
        """The cycle in which everything is done."""


class Communication:
    """[collective]: collectives, each from its cycle on."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.end = 0

    def begin(self, system: System) -> None:
        clock = self.experiment.network.clock
        for _, each in self.experiment.collectives:
            at = to_cycles(each.at, clock)[0]
            system.issue(each.kind, each.bytes, at, lambda collective: self._done(collective.end))

    def _done(self, cycle: int) -> None:
        self.end = max(self.end, cycle)


@dataclass
class Prepared:
    """An experiment that is ready to run. `warnings`: lines for the user."""

    experiment: Experiment
    topology: Topology
    network: PacketNetwork
    system: System
    job: Job
    warnings: list[str] = field(default_factory=list)

    @property
    def bytes_planned(self) -> int:
        """What will be delivered in all."""
        return self.system.bytes_planned

    @property
    def router_visits(self) -> int:
        """What the run will cost: flits times routers passed, over all messages. About that, where packets choose."""
        cut, topology = self.network.cut, self.topology
        flits_of: dict[int, int] = {}
        hops_of: dict[tuple[int, int, int], int] = {}
        total = 0
        for stage in self.system.stages():
            plane = stage.queue.plane
            for task in stage.tasks:
                program, members = task.program, task.members
                for src, dst, size in zip(program.src, program.dst, program.size, strict=True):
                    if size not in flits_of:
                        packets, flits, last = cut(size)
                        flits_of[size] = (packets - 1) * flits + last
                    pair = (members[src], members[dst], plane)
                    if pair not in hops_of:
                        hops_of[pair] = len(topology.relation.route(*pair))
                    total += flits_of[size] * (hops_of[pair] + 1)
        return total


@dataclass
class PreparedTraffic:
    """Open traffic that is ready to run: a network into which study/open_loop.py injects.

    `folder`: where relative paths count from. How long the run will be is not known: 0 stands for its cost.
    """

    experiment: Experiment
    topology: Topology
    network: OpenNetwork
    folder: Path
    warnings: list[str] = field(default_factory=list)
    bytes_planned: int = 0
    router_visits: int = 0


def prepare(
    experiment: Experiment,
    *,
    folder: PathLike = ".",
    libraries: Iterable[PathLike] = (),
    backend: str = "packet",
    allow_deadlock: bool = False,
    tick: Callable[[], None] | None = None,
) -> Prepared | PreparedTraffic:
    """Build everything. Raises InputError; DeadlockError or UnreachableError when the routes are not proven safe.

    `folder`: where relative paths of the experiment count from. `allow_deadlock`: only warn of unproven routes.
    """
    if backend not in BACKENDS:
        raise InputError(f"unknown backend '{backend}'", key="--backend", allowed=BACKENDS, given=backend)
    if experiment.sweep:
        raise InputError("a sweep is no single run, and is not in this version", key="sweep", allowed="one experiment")
    library.load_all(libraries)
    settings = experiment.network
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in settings.dims or ()]
    topology = build(settings.topology, settings.shape, dims or None, settings.options, folder)
    topology = topology.routed(settings.router.routing, settings.router.routing_options)
    _check_lengths(experiment, topology)
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0])
    if experiment.traffic is not None:
        return _prepare_traffic(experiment, topology, window, Path(folder), allow_deadlock, tick)
    network = PacketNetwork(topology, settings, window=window, tick=tick, seed=experiment.output.seed)
    options = resolve(experiment.system, topology, settings.clock, _widths(topology, network))
    system = System(network, topology.shape, options)
    job = _job(experiment, Path(folder))
    job.begin(system)
    _prove_schedules(system)
    warnings = [*experiment.warnings(), *network.machine.warnings, *_starved(experiment, network)]
    if len(settings.router.networks()) > 1:
        warnings.append("network.router.virtual_networks: collectives use the first one only")
    longest = network.cut(settings.packet)[1]
    warnings += _prove_routes(topology, settings, system.pairs(), longest, allow_deadlock)
    return Prepared(experiment, topology, network, system, job, warnings)


def _prepare_traffic(
    experiment: Experiment,
    topology: Topology,
    window: int,
    folder: Path,
    allow_deadlock: bool,
    tick: Callable[[], None] | None,
) -> PreparedTraffic:
    from pyxsim.study import open_loop  # which wants what is prepared here

    longest = open_loop.largest_packet(experiment)
    network = OpenNetwork(
        topology,
        experiment.network,
        window=window,
        tick=tick,
        seed=experiment.output.seed,
        classes=open_loop.message_classes(experiment),
        packet=longest,
    )
    warnings = [*experiment.warnings(), *network.machine.warnings, *_starved(experiment, network)]
    warnings += _prove_routes(topology, experiment.network, _open_pairs(topology), longest, allow_deadlock)
    prepared = PreparedTraffic(experiment, topology, network, folder, warnings)
    open_loop.check_traffic(prepared)
    return prepared


def _job(experiment: Experiment, folder: Path) -> Job:
    if experiment.workload is not None:
        text = read_text_workload(folder / experiment.workload.file)
        return Micro(text, experiment.workload, experiment.network.clock / 10**9)
    return Communication(experiment)


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
    # Whether a VC holds flits of one packet at a time, or of whole packets only.
    whole = router.vc_reuse == "drained" or router.flow_control != "wormhole" or longest == 1
    prove(_proved_relation(relation, router.ordered), pairs, whole=whole)


def _proved_relation(relation: Relation, ordered: bool) -> Relation:
    """The routes as the deadlock proof must see them.

    Where packets may not overtake each other (`ordered`) one in any VC of a link holds up those in all the others, so
    VC classes separate nothing: the links must be free of circles as if they had one VC.
    """
    if not ordered:
        return relation
    return replace(
        relation,
        vc_class=np.zeros_like(relation.vc_class),
        set_class=np.zeros_like(relation.set_class),
        link_classes=np.ones_like(relation.link_classes),
        link_group=np.full_like(relation.link_group, -1),
        fixed_vcs=(),
    )


def _prove_schedules(system: System) -> None:
    """Every schedule that will be used computes its collective; a user's may not. Raises ScheduleError."""
    proved: set[tuple[str, str, int]] = set()
    for stage in system.stages():
        phase = stage.phase
        key = (phase.kind, phase.algorithm, phase.npus)
        if key not in proved:
            proved.add(key)
            prove_schedule(phase.schedule())


def _check_lengths(experiment: Experiment, topology: Topology) -> None:
    """Lists with one entry per dimension, or kind of links, where only the topology knows how many there are."""
    dims, kinds = len(topology.dims), len(topology.link_kinds)
    network, system = experiment.network, experiment.system
    of_links = f"{kinds} dimensions"
    if topology.link_kinds != tuple(f"d{dim}" for dim in range(dims)):
        of_links = f"{kinds} kinds of links ({', '.join(topology.link_kinds)})"
    for key, value, wanted, what in (
        ("network.bandwidth", network.bandwidth, kinds, of_links),
        ("network.latency", network.latency, kinds, of_links),
        ("network.router.serdes_credit", network.router.serdes_credit, kinds, of_links),
        ("system.queues", system.queues, dims, f"{dims} dimensions"),
        ("system.all_reduce", system.all_reduce, dims, f"{dims} dimensions"),
        ("system.reduce_scatter", system.reduce_scatter, dims, f"{dims} dimensions"),
        ("system.all_gather", system.all_gather, dims, f"{dims} dimensions"),
        ("system.all_to_all", system.all_to_all, dims, f"{dims} dimensions"),
    ):
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) != wanted:
            raise InputError(
                f"the list has {len(value)} entries, the network {what}",
                key=key,
                allowed=f"one value for all, or a list of {wanted}",
            )


def _widths(topology: Topology, network: PacketNetwork) -> list[Fraction]:
    """What an NPU can send into each dimension, in flits per cycle."""
    machine = network.machine
    widths = [Fraction(0)] * len(topology.dims)
    for link in np.flatnonzero(topology.link_src == topology.home[0]).tolist():
        widths[topology.kind_dims[topology.link_dim[link]]] += 1 / machine.link_wires[link].s
    for kind, wire in enumerate(machine.wires):
        dim = topology.kind_dims[kind]
        widths[dim] = widths[dim] or 1 / wire.s
    return [width or Fraction(1) for width in widths]


def _starved(experiment: Experiment, network: PacketNetwork) -> list[str]:
    """Kinds of links whose buffers cannot keep them busy: fewer slots than flits that fit into a credit loop."""
    router, topology = experiment.network.router, network.topology
    lines = []
    for kind, wire in enumerate(network.machine.wires):
        vcs = class_vcs(topology, router.networks(), kind)
        if router.buffer == "auto" or not vcs:
            continue
        # Where packets keep their order, one that does not fit into a buffer holds up those behind it.
        if router.ordered and router.buffer < network.cut(experiment.network.packet)[1]:
            vcs = 1
        slots = router.buffer * vcs + router.shared_buffer
        share = float(slots * wire.s / wire.loop)
        if share < 0.995:
            needed = int(np.ceil(float((wire.loop / wire.s - router.shared_buffer) / vcs)))
            what = "dimension" if topology.link_kinds[kind] == f"d{kind}" else "kind"
            lines.append(
                f"network.router.buffer: {router.buffer} flits x {vcs} VCs (of a class) cover {share:.0%} of the "
                f"credit loop of {what} {kind} ({wire.loop} cycles): its links can be busy {share:.0%} of the time; "
                f"{needed} flits cover it"
            )
    return lines


def class_vcs(topology: Topology, networks: Sequence[int], kind: int) -> int:
    """The VCs that a packet stream may use on the links of a kind: those of its class; 0 without such a link."""
    relation = topology.relation
    classes = set(relation.link_classes[topology.link_dim == kind].tolist())
    least = 0
    for count in classes:
        for vcs in networks:
            low, high = vc_ranges(vcs, count, relation.fixed_vcs)
            most = int((high - low).max()) if any(relation.fixed_vcs) else int((high - low).min())
            least = min(least or most, most)
    return least
