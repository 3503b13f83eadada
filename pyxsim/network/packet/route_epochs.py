"""Routing tables that follow the links that are up: an epoch for each change (docs/faults.md)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, Int32Array, IntArray
from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Links, Routes
from pyxsim.errors import InputError
from pyxsim.network.engine_config import EngineConfig, routes_of
from pyxsim.network.fault_times import NEVER, FaultClock
from pyxsim.network.packet.link_faults import LinkFaults
from pyxsim.network.protocol import BackendTable
from pyxsim.routing.degraded import Degraded, allowed_by, degraded, discarding, mixed_cycle, prove_degraded, without
from pyxsim.routing.graph import FAR, Select
from pyxsim.routing.weights import ByCapacity, ByFlow, Weights, weights_of
from pyxsim.settings import Experiment
from pyxsim.topology.topology import Topology
from pyxsim.units import to_cycles

KEPT = 16  # sets of links whose tables are kept
KEPT_MEMBERS = 1 << 24  # and the candidates in all of them, from which on fewer are
LISTED = 16  # epochs that `planned` lists
LOOKS = 8  # how often to look whether the network is empty, in the time since which no flit has left it
MOST_DIMENSIONS = 8  # of the routes without faults
MOST_NAMES = 8  # NPUs and routers in a line
MOST_WEIGHTS = 1 << 20  # rows of `route_weights`

START, AT_ONCE, EMPTY, DRAINED, DRAINING = "start", "at once", "empty network", "after draining", "draining"
OVERTAKEN = "overtaken"
UNCHANGED = "as without faults"


@dataclass(frozen=True, eq=False)
class Tables:
    """The routes for one set of links that are down.

    Attributes
    ----------
    routes
        As the engine reads them.
    around
        How they were made; None: the routes without faults.
    allowed
        bool[links, homes]: all that they depend on, or None.
    silent, deaf
        NPUs whose host link from them, or to them, is down.
    unreachable
        Pairs of NPUs without a route.
    avoided
        The links that the routes do not use, host links included.
    """

    routes: Routes
    around: Degraded | None
    allowed: BoolArray | None
    silent: IntArray
    deaf: IntArray
    unreachable: int
    avoided: frozenset[int]

    @property
    def routing(self) -> str:
        """What the routes are, in words."""
        return UNCHANGED if self.around is None else self.around.routing

    @property
    def cut_off(self) -> list[int]:
        """NPUs without a route to, or from, the largest connected component."""
        apart = [] if self.around is None else self.around.cut_off.tolist()
        return sorted({*apart, *self.silent.tolist(), *self.deaf.tolist()})


@dataclass(eq=False)
class Epoch:
    """The period in which one set of tables is used.

    `changed`: cycle in which links changed; `used`: first cycle in which all routers use the tables, -1 if the run
    ended before. `lost_before`: total of packets lost before the epoch.
    """

    changed: int
    used: int
    down: int
    routing: str
    transition: str
    unreachable: int
    rerouted: int = 0
    lost_before: int = 0


class RouteEpochs:
    """The routing tables of a run with faults.

    Parameters
    ----------
    experiment, topology, config
        The experiment, its network, and the configuration of the engine with its faults.
    faults
        The link faults.
    npus
        Number of NPUs, if the other nodes of the topology are ports of its switch.

    Attributes
    ----------
    links
        Links of the engine; where packets may lack a route, with a sink per router that drops them.
    routes
        The routes at the start of the run, which account for faults at time 0.
    due
        The next cycle in which `apply` has something to do.
    """

    def __init__(
        self,
        experiment: Experiment,
        topology: Topology,
        config: EngineConfig,
        faults: LinkFaults,
        npus: int | None = None,
    ) -> None:
        settings = experiment.network.reroute
        assert settings is not None
        self._npus = topology.npus if npus is None else npus
        if topology.relation.digits.shape[1] > MOST_DIMENSIONS:
            problem = f"routes over {topology.relation.digits.shape[1]} dimensions cannot be replaced"
            raise InputError(problem, key="network.reroute", allowed=f"up to {MOST_DIMENSIONS} dimensions")
        self._relation, self._topology, self._faults = topology.relation, topology, faults
        self._reaction = to_cycles(settings.reaction, experiment.network.clock)[0]
        self._select, self._weights = _selection(experiment, topology, config.links)
        self._clock = FaultClock(faults.times_down)
        self._class = _widest_class(config.links)
        self._kept: OrderedDict[tuple[Any, ...], Tables] = OrderedDict()
        self._plain, self._unchanged = allowed_by(topology.relation), routes_of(topology.relation)
        self.links, self._discard = self._with_sinks(config.links)
        self._sinks = config.links.ejection
        self._polled = NEVER  # while draining: the cycle of the next check
        self._inside = -1, 0  # flits in flight at the last check, and the cycle since which their number is the same
        self.epochs: list[Epoch] = []
        self._weighed: list[tuple[NDArray[Any], ...]] = []  # columns of `route_weights`, by epoch
        self._current = self._tables(0)
        self.routes = self._current.routes
        self._target = self._current
        # Links that packets in the network may take, by the tables used since it was last empty; None: unknown.
        self._followed = self._current.allowed
        self._begins = self._clock.due == 0  # whether links are down from the start
        if self._begins:
            self._clock.take()
        down = len(faults.down(0))
        self.epochs.append(Epoch(0, 0, down, self._current.routing, START, self._current.unreachable))
        self._note_weights(self._current)

    @classmethod
    def of(
        cls,
        experiment: Experiment | None,
        topology: Topology,
        config: EngineConfig,
        faults: LinkFaults | None,
        npus: int | None = None,
    ) -> Self | None:
        """Return the epochs of an experiment; None if no link goes down, or without rerouting."""
        if experiment is None or faults is None or experiment.network.reroute is None or not faults.times_down:
            return None
        return cls(experiment, topology, config, faults, npus)

    # -- tables --

    @cached_property
    def _npus_at(self) -> IntArray:
        """int64[npus]: index of the home of each NPU."""
        return np.searchsorted(np.unique(self._relation.home), self._relation.home)

    def _with_sinks(self, links: Links) -> tuple[Links, Int32Array]:
        """The links with sinks for packets without a route, and the sink of each router (-1: none)."""
        routers = self._topology.routers
        ever, loses = self._faults.ever_down()
        hosts = any(link >= self._topology.links for link in ever)
        between = np.array([link for link in ever if link < self._topology.links], np.int64)
        apart = degraded(self._relation, between, "first").hops[np.unique(self._relation.home)] >= FAR
        if not (loses or hosts or apart.any()):
            return links, np.full(routers, -1, np.int32)
        count = len(links.src)
        changes: dict[str, Any] = {
            name: np.append(values, np.repeat(values[-1:], routers)) for name, values in _columns(links).items()
        }
        new = slice(count, count + routers)
        changes["src"][new] = np.arange(routers)
        for name in ("s_num", "s_den", "delay", "credit_delay"):
            changes[name][new] = 1
        for name in {"replay", "ack", "timeout"} & set(changes):
            changes[name][new] = 0
        if links.credits is not None:
            changes["credits"] = links.credits.with_ideal_links(routers)
        sinks = np.arange(count, count + routers, dtype=np.int32)
        return replace(links, ejection=links.ejection + routers, **changes), sinks

    def _tables(self, cycle: int) -> Tables:
        """The tables for the links that are down in a cycle."""
        down, broken = self._faults.down(cycle), self._faults.broken(cycle)
        key = tuple(sorted(down)), tuple(sorted(broken))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        while len(self._kept) >= KEPT or sum(len(kept.routes.set_link) for kept in self._kept.values()) > KEPT_MEMBERS:
            self._kept.popitem(last=False)
        made = self._kept[key] = self._made(np.array(sorted(down), np.int64), np.array(sorted(broken), np.int64))
        return made

    def _made(self, down: IntArray, broken: IntArray) -> Tables:
        links, npus = self._topology.links, self._topology.npus
        between = down[down < links]
        silent = down[(down >= links) & (down < links + npus)] - links
        deaf = down[down >= links + npus] - links - npus
        around, relation, allowed = None, self._relation, self._plain
        avoided = {*(silent + links).tolist(), *(deaf + links + npus).tolist()}
        if len(between):
            intact = np.ones(links, np.bool_)
            intact[broken[broken < links]] = False
            before = self._class, self._plain, intact
            around = degraded(self._relation, between, self._select, *before, self._weights)
            prove_degraded(around)
            relation, allowed = around.relation, around.allowed
            avoided |= set(between.tolist())
        routes = self._unchanged
        if around is not None:
            routes = replace(routes_of(relation), link=discarding(relation, self._discard))
        apart = self._unreachable(around, silent, deaf)
        return Tables(routes, around, allowed, silent, deaf, apart, frozenset(avoided))

    def _unreachable(self, around: Degraded | None, silent: IntArray, deaf: IntArray) -> int:
        """The number of ordered pairs of NPUs without a route."""
        homes, npus = np.unique(self._relation.home), self._npus
        sends = (np.arange(self._topology.npus) < npus).astype(np.int64)
        receives = sends.copy()
        sends[silent], receives[deaf] = 0, 0
        from_home = np.bincount(self._npus_at, sends, len(homes))
        to_home = np.bincount(self._npus_at, receives, len(homes))
        reached = np.ones((len(homes), len(homes))) if around is None else around.hops[homes] < FAR
        pairs = int(from_home @ reached @ to_home) - int((sends * receives).sum())
        return npus * (npus - 1) - pairs

    def _note_weights(self, tables: Tables) -> None:
        """Add the weights of tables that are used from now on to `route_weights`."""
        room = MOST_WEIGHTS - sum(len(columns[0]) for columns in self._weighed)
        if tables.around is not None and self._weights is not None and room > 0:
            found = [column[:room] for column in weights_of(tables.around.relation)]
            self._weighed.append((np.full(len(found[0]), len(self.epochs) - 1), *found))

    # -- during a run --

    @property
    def due(self) -> int:
        if self._begins:
            return 0
        change = self._clock.due
        return min(self._polled, change + self._reaction if change < NEVER else NEVER)

    @property
    def draining(self) -> bool:
        """Whether the network drains before it uses the new tables."""
        return self._polled < NEVER

    def avoided(self, engine: Engine, cycle: int) -> frozenset[int]:
        """Return the links that the routes of a cycle avoid; an idle engine may be in an earlier one."""
        behind = engine.now < cycle and not self.draining
        return (self._tables(max(0, cycle - self._reaction)) if behind else self._current).avoided

    def next_use(self, cycle: int) -> int:
        """Return the first cycle after `cycle` in which other tables may be used, or NEVER."""
        change = min((t.following(cycle - self._reaction) for t in self._faults.times_down), default=NEVER)
        coming = change + self._reaction if change < NEVER else NEVER
        return min(coming, max(cycle + 1, self._polled)) if self.draining else coming

    def patient(self, cycle: int) -> bool:
        """Return whether flits that cannot move in a cycle may move with later tables."""
        return self._clock.may_help(self._faults.still_since, cycle - self._reaction)

    @property
    def patient_until(self) -> int:
        """The cycle from which on `patient` says no, if nothing moves and no link changes until then."""
        return self._clock.helps_until(self._faults.still_since) + self._reaction

    def goes_on(self, engine: Engine) -> bool:
        """Return whether an idle network only waits for new tables, which it then uses."""
        if not (self.draining and engine.empty):
            return False
        self._polled = engine.now
        return True

    def apply(self, engine: Engine) -> None:
        """Apply what is due in the current cycle, whose arrivals have been processed."""
        changed = self._clock.due
        if self._begins:
            self._begins = False
            self._faults.let_pass(engine, self._current.avoided)
            self._replace(engine, self.routes, _NONE, anew=False, paused=False)
        elif changed < NEVER and changed + self._reaction <= engine.now:
            self._clock.take()
            self._change(engine, changed)
        elif engine.empty:
            self._finish(engine, DRAINED)
        if self.draining:
            self._poll_again(engine)

    def _poll_again(self, engine: Engine) -> None:
        """Set when to check next whether the network is empty: less and less often while no flit leaves it."""
        inside = engine.flits_in_flight
        if self._inside[0] != inside:
            self._inside = inside, engine.now
        self._polled = engine.now + max(1, inside // self._sinks, (engine.now - self._inside[1]) // LOOKS)

    def _change(self, engine: Engine, changed: int) -> None:
        """Start the transition to the tables for the links that were down in cycle `changed`."""
        target, drained = self._tables(changed), self.draining
        if target is self._target:
            return
        if drained:
            self.epochs[-1].transition = OVERTAKEN
        self._target = target
        lost, down = engine.totals()["packets_lost"], len(self._faults.down(changed))
        self.epochs.append(Epoch(changed, -1, down, target.routing, DRAINING, target.unreachable, lost_before=lost))
        if engine.empty:
            self._finish(engine, EMPTY)
        elif target is self._current or (target.around is None and self._current.around is None):
            self._finish(engine, AT_ONCE, anew=False)  # the routes are those that packets follow
        elif not drained and self._may_follow(target):
            self._finish(engine, AT_ONCE)
        else:
            self._drain(engine)

    def _may_follow(self, target: Tables) -> bool:
        """Whether packets in the network may switch to the new tables from where they are."""
        if self._followed is None or target.allowed is None:
            return False
        return not mixed_cycle(self._relation, [self._followed, target.allowed])

    def _newly_broken(self, engine: Engine) -> IntArray:
        """The links that have failed with a loss of flits and are avoided from now on."""
        target, current = self._target, self._current
        broken = set(self._faults.broken(engine.now)) & (target.avoided - current.avoided)
        return np.array(sorted(broken), np.int64)

    def _drain(self, engine: Engine) -> None:
        """Inject no packets until the network is empty; drop packets that would wait for a failed link."""
        self._polled, self._inside = engine.now, (-1, engine.now)
        self._faults.let_pass(engine, self._target.avoided | self._current.avoided)
        broken = self._newly_broken(engine)
        routes = without(self._relation.routers, self._current.routes, broken, self._discard)
        self._replace(engine, routes, broken, anew=False, paused=True)

    def _finish(self, engine: Engine, transition: str, *, anew: bool = True) -> None:
        """Use the new tables. `anew`: packets in the network are rerouted."""
        self._polled = NEVER
        broken, target, epoch = self._newly_broken(engine), self._target, self.epochs[-1]
        self._faults.let_pass(engine, target.avoided)
        followed = [target.allowed] if transition != AT_ONCE else [self._followed, target.allowed]
        self._followed = _any_of(followed)
        epoch.used, epoch.transition = engine.now, transition
        self._note_weights(target)
        epoch.rerouted = self._replace(engine, target.routes, broken, anew=anew, paused=False)
        self._current = target

    def _replace(self, engine: Engine, routes: Routes, broken: IntArray, *, anew: bool, paused: bool) -> int:
        """Give the engine new routes. Return the number of head flits that then wait for another link."""
        drops = np.zeros(len(self.links.src), np.uint8)
        drops[self._discard[self._discard >= 0]] = 1
        drops[self._target.silent + self._topology.links] = 1
        drops[self._target.deaf + self._topology.links + self._topology.npus] = 1
        how: dict[str, Any] = {"broken": broken, "abandoned": _NONE if anew else broken}
        moved, _ = engine.change_routes(routes, drops=drops, discard=self._discard, anew=anew, paused=paused, **how)
        return int(moved)

    # -- results --

    def planned(self) -> list[tuple[int, int, str, str, int]]:
        """Return the first epochs, as `Backend.planned_routes`; where the network happens to be empty, none drains."""
        clock, before = FaultClock(self._faults.times_down), self._tables(0)
        followed = before.allowed
        rows = [(0, len(self._faults.down(0)), before.routing, START, before.unreachable)]
        while clock.due < NEVER and len(rows) < LISTED:
            cycle = clock.due
            clock.take()
            target = self._tables(cycle)
            if target is before:
                continue
            both = _any_of([followed, target.allowed])
            if target.around is None and before.around is None:
                how = AT_ONCE
            elif both is None or mixed_cycle(self._relation, [both]):
                how, followed = DRAINED, target.allowed
            else:
                how, followed = AT_ONCE, both
            down = len(self._faults.down(cycle))
            rows.append((cycle + self._reaction, down, target.routing, how, target.unreachable))
            before = target
        return rows

    def tables(self, engine: Engine) -> dict[str, BackendTable]:
        """Return the tables `route_epochs` and, with weights, `route_weights`."""
        tables = {"route_epochs": self.table(engine)}
        if self._weights is not None:
            names = ("epoch", "link", "destination", "weight")
            columns = zip(*self._weighed, strict=True)
            found = [np.concatenate(column) for column in columns] or [_NONE, _NONE, _NONE, np.zeros(0)]
            tables["route_weights"] = BackendTable(dict(zip(names, found, strict=True)))
        return tables

    def table(self, engine: Engine) -> BackendTable:
        """Return the table `route_epochs`."""
        lost = [*(epoch.lost_before for epoch in self.epochs), engine.totals()["packets_lost"]]
        columns: dict[str, Any] = {
            "changed": [epoch.changed for epoch in self.epochs],
            "used": [epoch.used for epoch in self.epochs],
            "links_down": [epoch.down for epoch in self.epochs],
            "routing": np.array([epoch.routing for epoch in self.epochs], object),
            "transition": np.array([epoch.transition for epoch in self.epochs], object),
            "packets_rerouted": [epoch.rerouted for epoch in self.epochs],
            "packets_lost": np.diff(lost),
            "unreachable_pairs": [epoch.unreachable for epoch in self.epochs],
        }
        return BackendTable({name: np.asarray(values) for name, values in columns.items()})

    def report(self) -> list[str]:
        """Return lines about NPUs without a route to others, and routers all of whose links are down."""
        target, topology = self._target, self._topology
        if not target.unreachable:
            return []
        down = np.zeros(topology.links, np.bool_)
        down[[link for link in target.avoided if link < topology.links]] = True
        ends = np.bincount(topology.link_src, minlength=topology.routers)
        ends += np.bincount(topology.link_dst, minlength=topology.routers)
        gone = np.bincount(topology.link_src[down], minlength=topology.routers)
        gone += np.bincount(topology.link_dst[down], minlength=topology.routers)
        routers = [topology.router_name[router] for router in np.flatnonzero((gone == ends) & (ends > 0)).tolist()]
        apart = [npu for npu in target.cut_off if npu < self._npus]
        are = "is" if len(apart) == 1 else "are"
        pairs = f"{target.unreachable} pair{'s' if target.unreachable > 1 else ''} of NPUs"
        lines = [f"no route for {pairs}: {_names('NPU', apart)} {are} cut off from the others"]
        if routers:
            lines.append(f"all links of {_names('router', routers)} are down")
        return lines


_NONE = np.zeros(0, np.int64)


def _any_of(tables: Sequence[BoolArray | None]) -> BoolArray | None:
    """The links that packets with any of the tables may take; None if one is unknown."""
    known = [table for table in tables if table is not None]
    return np.logical_or.reduce(known) if len(known) == len(tables) else None


def _columns(links: Links) -> dict[str, Any]:
    """The arrays of links with an entry for each."""
    count = len(links.src)
    values = {field.name: getattr(links, field.name) for field in fields(links) if field.name not in ("low", "high")}
    return {name: np.asarray(value) for name, value in values.items() if np.ndim(value) == 1 and len(value) == count}


def _selection(experiment: Experiment, topology: Topology, links: Links) -> tuple[Select, Weights | None]:
    """How a router chooses one of several links, and with which weights."""
    settings = experiment.network.reroute
    assert settings is not None
    if experiment.network.router.ordered:
        return "first", None
    if settings.select != "weighted":
        return settings.select, None
    bandwidth = (np.asarray(links.s_den) / np.asarray(links.s_num))[: topology.links]
    if settings.weights != "messages":
        return "least", ByCapacity(bandwidth)
    homes = np.unique(topology.relation.home)
    at = np.searchsorted(homes, topology.relation.home)
    demand = np.zeros((len(homes), len(homes)))
    for message in experiment.message:
        demand[at[message.src], at[message.dst]] += message.size
    return "least", ByFlow(bandwidth, demand)


def _widest_class(links: Links) -> int:
    """The VC class with the most VCs of those that all links between routers have."""
    rows, classes = (
        np.asarray(links.ranges)[: links.network],
        int(np.min(links.classes[: links.network], initial=1 << 15)),
    )
    if not links.network:
        return 0
    widths = [(np.asarray(links.high)[rows + k] - np.asarray(links.low)[rows + k]).min() for k in range(classes)]
    return int(np.argmax(widths))


def _names(what: str, names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:MOST_NAMES]))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"
