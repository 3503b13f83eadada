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
from pyxsim.network.packet import PacketNetwork
from pyxsim.routing import Relation, prove
from pyxsim.settings import Collective, Experiment, Network
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


class OneCollective:
    """[collective]: one collective, from cycle 0."""

    def __init__(self, settings: Collective) -> None:
        self.settings = settings
        self.end = 0

    def begin(self, system: System) -> None:
        system.issue(self.settings.kind, self.settings.size, done=lambda collective: self._done(collective.end))

    def _done(self, cycle: int) -> None:
        self.end = cycle


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
    def router_visits(self) -> int:
        """What the run will cost: flits times routers passed, over all messages of all collectives."""
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


def prepare(
    experiment: Experiment,
    *,
    folder: PathLike = ".",
    libraries: Iterable[PathLike] = (),
    backend: str = "packet",
    allow_deadlock: bool = False,
    tick: Callable[[], None] | None = None,
) -> Prepared:
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
    topology = build(settings.topology, settings.shape, dims or None, settings.options)
    _check_lengths(experiment, topology)
    _check_routing(settings.router.routing, topology)
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0])
    network = PacketNetwork(topology, settings, window=window, tick=tick)
    options = resolve(experiment.system, topology, settings.clock, _widths(topology, network))
    system = System(network, topology.shape, options)
    job = _job(experiment, Path(folder))
    job.begin(system)
    _prove_schedules(system)
    warnings = [*experiment.warnings(), *network.machine.warnings, *_starved(experiment, network)]
    try:
        prove(_proved_relation(topology, settings), system.pairs())
    except DeadlockError as error:
        if not allow_deadlock:
            hint = "; --allow-deadlock runs it all the same, up to the deadlock if it comes"
            raise DeadlockError(f"{error}{hint}", error.cycle) from None
        warnings.append(f"{error}; it runs all the same: a deadlock is found and named when it happens")
    return Prepared(experiment, topology, network, system, job, warnings)


def _job(experiment: Experiment, folder: Path) -> Job:
    if experiment.workload is not None:
        text = read_text_workload(folder / experiment.workload.file)
        return Micro(text, experiment.workload, experiment.network.clock / 10**9)
    if experiment.collective is None:
        raise InputError("the table [collective] is missing", key="collective")
    return OneCollective(experiment.collective)


def _proved_relation(topology: Topology, settings: Network) -> Relation:
    """The routes as the deadlock proof must see them.

    Where packets may not overtake each other (`ordered`) one in any VC of a link holds up those in all the others, so
    VC classes separate nothing: the links must be free of circles as if they had one VC.
    """
    relation = topology.relation
    if not settings.router.ordered:
        return relation
    return replace(
        relation,
        vc_class=np.zeros_like(relation.vc_class),
        link_classes=np.ones_like(relation.link_classes),
        link_group=np.full_like(relation.link_group, -1),
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
    """Lists with one entry per dimension, where only the topology knows how many there are."""
    dims = len(topology.dims)
    network, system = experiment.network, experiment.system
    for key, value in (
        ("network.bandwidth", network.bandwidth),
        ("network.latency", network.latency),
        ("network.router.serdes_credit", network.router.serdes_credit),
        ("system.queues", system.queues),
        ("system.all_reduce", system.all_reduce),
        ("system.reduce_scatter", system.reduce_scatter),
        ("system.all_gather", system.all_gather),
        ("system.all_to_all", system.all_to_all),
    ):
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) != dims:
            raise InputError(
                f"the list has {len(value)} entries, the network {dims} dimensions",
                key=key,
                allowed=f"one value for all, or a list of {dims}",
            )


def _check_routing(name: str | None, topology: Topology) -> None:
    """A product of blocks is routed in dimension order, Garnet's rings round each ring; there is no other yet."""
    own = "ring" if topology.confined else "dimension-order"
    if name is not None and name != own:
        raise InputError(
            f"unknown routing '{name}' for {topology.name}", key="network.router.routing", allowed=[own], given=name
        )


def _widths(topology: Topology, network: PacketNetwork) -> list[Fraction]:
    """What an NPU can send into each dimension, in flits per cycle."""
    mine = topology.link_dim[topology.link_src == 0].tolist()
    return [max(mine.count(dim), 1) / wire.s for dim, wire in enumerate(network.machine.wires)]


def _starved(experiment: Experiment, network: PacketNetwork) -> list[str]:
    """Dimensions whose buffers cannot keep a link busy: fewer slots than flits that fit into a credit loop."""
    router = experiment.network.router
    lines = []
    classes = network.topology.relation.link_classes
    for dim, wire in enumerate(network.machine.wires):
        mine = classes[network.topology.link_dim == dim]
        if router.buffer == "auto" or not len(mine):
            continue
        # Of one class: what one packet stream may use. Where packets keep their order, one that does not fit into a
        # buffer holds up those behind it.
        alone = router.ordered and router.buffer < network.cut(experiment.network.packet)[1]
        vcs = 1 if alone else router.vcs // int(mine.max())
        slots = router.buffer * vcs
        share = float(slots * wire.s / wire.loop)
        if share < 0.995:
            needed = int(np.ceil(float(wire.loop / wire.s / vcs)))
            lines.append(
                f"network.router.buffer: {router.buffer} flits x {vcs} VCs (of a class) cover {share:.0%} of the "
                f"credit loop of dimension {dim} ({wire.loop} cycles): its links can be busy {share:.0%} of the time; "
                f"{needed} flits cover it"
            )
    return lines
