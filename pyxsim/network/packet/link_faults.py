"""Link faults in the packet backend: which links of the engine change, when and how (docs/faults.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from math import ceil, exp, expm1, lcm, log, log1p
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import LONGEST_DELAY, Engine
from pyxsim.core.engine_options import Links, Routes
from pyxsim.errors import InputError
from pyxsim.network.engine_config import EngineConfig
from pyxsim.network.fault_targets import timed_links
from pyxsim.network.fault_times import NEVER, FaultClock, FaultTimes
from pyxsim.network.link_params import MAX_DENOMINATOR, Keys, LinkParams, LinkParamsFactory
from pyxsim.network.packet.slowed_time import SlowedTime
from pyxsim.network.protocol import BackendTable
from pyxsim.network.retry import bits_on_the_wire, share_of_bandwidth
from pyxsim.routing.degraded import connected_parts
from pyxsim.settings import Experiment, per_dimension
from pyxsim.settings.failure import Fault
from pyxsim.topology.topology import Topology
from pyxsim.units import to_cycles

_AGAIN = 100  # longest delays after which a link that only retransmits is given up
_CHANGES_KEPT = 256
_LEAST_SHARE = 1e-3  # of the flits of a link with retry that must arrive intact


@dataclass(frozen=True, eq=False)
class _Entry:
    """A fault, or a part of it: its links and times, and what it does to the links.

    `s`: minimum cycles per flit; `latency`: minimum cycles; 0: unchanged. `error`: bit error rate.
    """

    fault: Fault
    key: str
    links: IntArray
    s: Fraction
    latency: int
    error: float
    times: FaultTimes


class Epochs(Protocol):
    """Routes that follow the links that are up."""

    @property
    def links(self) -> Links: ...
    @property
    def routes(self) -> Routes: ...
    @property
    def due(self) -> int: ...
    def avoided(self, engine: Engine, cycle: int) -> frozenset[int]: ...
    def next_use(self, cycle: int) -> int: ...
    def patient(self, cycle: int) -> bool: ...
    @property
    def patient_until(self) -> int: ...
    def goes_on(self, engine: Engine) -> bool: ...
    def apply(self, engine: Engine) -> None: ...
    def report(self) -> list[str]: ...
    def planned(self) -> list[tuple[int, int, str, str, int]]: ...
    def table(self, engine: Engine) -> BackendTable: ...
    def tables(self, engine: Engine) -> dict[str, BackendTable]: ...


class LinkFaults:
    """The link faults of an experiment, which change an engine over time.

    Parameters
    ----------
    experiment, topology
        The experiment, and its network.
    config
        The configuration of the engine without faults.

    Attributes
    ----------
    links
        Links of the engine, with the settings that all changes need.
    due
        The cycle in which links change next; NEVER of fault_times.py if they do not.
    epochs
        Routes that follow the links that are up; None without rerouting.
    still_since
        The cycle since which nothing has moved, as of the last call of `patient`.
    slowed
        The time that flits take in addition because of limited bandwidths; None without any.
    passable
        Links that are down and that routes avoid, but that packets of earlier routes may cross.

    Raises
    ------
    InputError
        If a fault does not fit the network.
    """

    def __init__(self, experiment: Experiment, topology: Topology, config: EngineConfig) -> None:
        self._network, self._topology = experiment.network, topology
        self._entries = [
            entry
            for number, fault in enumerate(experiment.faults)
            if fault.affects_links
            for entry in _entries(experiment, topology, fault, f"faults[{number}]")
        ]
        self._clock = FaultClock(entry.times for entry in self._entries)
        self._factory = LinkParamsFactory(self._network)
        wires = config.params_of_counted(topology)
        serdes = per_dimension(self._network.router.serdes_credit, len(topology.link_kinds))
        dims, hosts, npus = topology.link_dim.tolist(), topology.links, topology.npus
        self._of_link: dict[int, list[int]] = {}
        for number, entry in enumerate(self._entries):
            for link in entry.links.tolist():
                self._of_link.setdefault(link, []).append(number)
        self._plain = {link: wires[link] for link in self._of_link}
        # Whether the link leaves a router, enters one, and its own credit delay of a serializer.
        self._place: dict[int, tuple[bool, bool, int | None]] = {
            link: (not hosts <= link < hosts + npus, link < hosts + npus, serdes[dims[link]] if link < hosts else None)
            for link in self._of_link
        }
        self._memo: dict[Any, LinkParams] = {}
        self._active = [False] * len(self._entries)  # whether each fault is there
        # Changes of links by the faults that are there, and those that begin or end: links that flap repeat them.
        self._changes: dict[Any, tuple[frozenset[int], IntArray, dict[str, NDArray[np.generic]]]] = {}
        self._still: tuple[tuple[int, ...], int] = (), 0  # what has moved, and since when it is the same
        self.passable: frozenset[int] = frozenset()
        self.epochs: Epochs | None = None
        self._reroutes = self._network.reroute is not None and any(entry.fault.down for entry in self._entries)
        for _, parts in groupby(self._entries, lambda entry: entry.key):
            self._check_effect(list(parts))
        self.links = self._varying(config.links)
        self._den = np.asarray(self.links.s_den, np.int64)
        slows = any(self._entries[n].s > self._plain[link].s for link, of in self._of_link.items() for n in of)
        self.slowed = SlowedTime(self.links) if slows else None

    @classmethod
    def of(cls, experiment: Experiment | None, topology: Topology, config: EngineConfig) -> Self | None:
        """Return the link faults of an experiment; None if it has none. Raises InputError."""
        if experiment is None or not any(fault.affects_links for fault in experiment.faults):
            return None
        return cls(experiment, topology, config)

    def _check_effect(self, entries: Sequence[_Entry]) -> None:
        """Raise InputError if the fault that has these parts degrades no link."""
        entry = entries[0]
        if entry.fault.down or entry.error:
            return
        wires = [self._plain[link] for part in entries for link in part.links.tolist()]
        if all(entry.s <= wire.s and entry.latency <= wire.latency for wire in wires):
            key = "bandwidth" if entry.fault.bandwidth is not None else "latency"
            allowed = "a lower bandwidth, or a longer latency, than that of a link"
            raise InputError("the fault degrades no link", key=f"{entry.key}.{key}", allowed=allowed)

    def _varying(self, links: Links) -> Links:
        """Flit times with a common denominator, and the longest delay. Raises InputError."""
        num, den = (np.array(values, np.int64) for values in (links.s_num, links.s_den))
        parts = 1 if links.credits is None else links.credits.share.denominator  # of the time of a flit
        longest = 0
        for link, numbers in self._of_link.items():
            entries = [self._entries[number] for number in numbers]
            speeds = [entry.s for entry in entries if entry.s > self._plain[link].s]
            common = lcm(int(den[link]), *(s.denominator * parts for s in speeds))
            if common > MAX_DENOMINATOR:
                key = next(entry.key for entry in entries if entry.s)
                problem = f"the flit times of the link have the common denominator {common}"
                allowed = f"a bandwidth for which it is at most {MAX_DENOMINATOR}"
                raise InputError(problem, key=f"{key}.bandwidth", allowed=allowed)
            num[link] *= common // den[link]
            den[link] = common
            worst = self._wire(link, max(entry.s for entry in entries), max(entry.latency for entry in entries))
            rounds = 0 if links.replay is None else int(links.ack[link]) + int(links.timeout[link])
            needed = 2 * ceil(worst.s) + worst.delay + worst.credit_delay + rounds + 4
            self._check_calendar(needed, rounds, entries, worst)
            longest = max(longest, needed)
        loses = self._reroutes or any(entry.fault.loses for entry in self._entries)
        return replace(links, s_num=num, s_den=den, varies=True, longest=longest, lossy=links.lossy or loses)

    def _check_calendar(self, needed: int, rounds: int, entries: Sequence[_Entry], worst: LinkParams) -> None:
        """Raise InputError if events of a changed link lie further ahead than the calendar of the engine reaches."""
        stages = self._factory.stages
        most = LONGEST_DELAY - stages.rc - stages.va - 4
        if needed <= most:
            return
        if 2 * rounds > needed:
            key, problem = "network.retry.timeout", f"answers and timeouts of a link take {rounds} cycles"
            raise InputError(problem, key=key, allowed=f"at most {most - needed + rounds} cycles of the clock")
        field = "latency" if worst.latency > worst.s else "bandwidth"
        key = next((entry.key for entry in entries if getattr(entry.fault, field) is not None), entries[0].key)
        problem = f"a flit and its credit would take {needed} cycles on a link"
        raise InputError(problem, key=f"{key}.{field}", allowed=f"at most {most} cycles of the clock")

    def _wire(self, link: int, s: Fraction, latency: int) -> LinkParams:
        """The parameters of a link with at least this many cycles per flit and of latency. Raises InputError."""
        plain = self._plain[link]
        s, latency = max(s, plain.s), max(latency, plain.latency)
        key = (plain, *self._place[link], s, latency)
        if key not in self._memo:
            out, into, serdes = self._place[link]
            bandwidth = self._network.flit * self._network.clock / s
            entries = [self._entries[number] for number in self._of_link[link]]
            keys = Keys(
                f"{next((entry.key for entry in entries if entry.s == s), entries[0].key)}.bandwidth",
                f"{next((entry.key for entry in entries if entry.latency == latency), entries[0].key)}.latency",
            )
            self._memo[key] = self._factory.wire(
                bandwidth, latency, from_router=out, into_router=into, serdes_credit=serdes, keys=keys
            )
        return self._memo[key]

    def reroute(self, epochs: Epochs | None, config: EngineConfig) -> EngineConfig:
        """Let routes follow the links that are up. Return the configuration of the engine with them."""
        self.epochs = epochs
        return config if epochs is None else replace(config, links=epochs.links, routes=epochs.routes)

    @property
    def due(self) -> int:
        return self._clock.due if self.epochs is None else min(self._clock.due, self.epochs.due)

    @property
    def loses(self) -> bool:
        """Whether flits may be lost."""
        return bool(self.links.lossy)

    @property
    def drops(self) -> bool:
        """Whether packets may be lost permanently."""
        return self.loses and (self._network.retry is None or self._reroutes)

    @property
    def still_since(self) -> int:
        return self._still[1]

    @property
    def times_down(self) -> list[FaultTimes]:
        """The times at which links go down."""
        return [t for t, entry in zip(self._clock.times, self._entries, strict=True) if entry.fault.down]

    def patient(self, moved: tuple[int, ...], cycle: int) -> bool:
        """Return whether blocked flits may move later. `moved`: counters of all movement up to the current cycle."""
        if moved != self._still[0]:
            self._still = moved, cycle
        later = self.epochs is not None and self.epochs.patient(cycle)
        return later or self._clock.may_help(self._still[1], cycle)

    def may_help(self, since: int, cycle: int) -> bool:
        """Return whether changes of links after `cycle` may help messages of which none has arrived since `since`."""
        return self._clock.may_help(since, cycle)

    @property
    def patient_until(self) -> int:
        """The cycle from which on `patient` says no, if nothing moves and no link changes until then."""
        last = self._clock.helps_until(self._still[1])
        return last if self.epochs is None else max(last, self.epochs.patient_until)

    def goes_on(self, engine: Engine) -> bool:
        """Return whether an idle network only waits for new tables, which it then uses."""
        return self.epochs is not None and self.epochs.goes_on(engine)

    def hopeless(self, moved: tuple[int, ...], cycle: int) -> bool:
        """Return whether flapping links lose the same flits repeatedly, so that nothing has moved for very long."""
        if moved != self._still[0] or self._clock.due >= NEVER:
            return False
        if self.epochs is not None and self.epochs.patient(cycle):
            return False
        return not self._clock.may_help(self._still[1] + _AGAIN * self.links.longest, cycle)

    def apply(self, engine: Engine) -> None:
        """Apply what is due in the current cycle, whose arrivals have been processed: changes of links, then routes."""
        if self._clock.due <= engine.now:
            self._apply(engine)
        if self.epochs is not None and self.epochs.due <= engine.now:
            self.epochs.apply(engine)

    def _apply(self, engine: Engine) -> None:
        """Change the links whose faults start or end now."""
        cycle = self._clock.due
        changing, before = self._clock.take(), bytes(self._active)
        for number in changing:
            self._active[number] = self._clock.times[number].active(cycle)
        key = before, bytes(self._active), tuple(changing), self.passable
        if key not in self._changes:
            if len(self._changes) >= _CHANGES_KEPT:
                self._changes.clear()
            links = np.unique(np.concatenate([self._entries[number].links for number in changing]))
            passable = self.passable - {link for link in links.tolist() if not self._state(link, cycle)[1]}
            losing: set[int] = set()
            for number in changing:
                if self._entries[number].fault.in_flight == "lose" and not before[number]:
                    losing.update(self._entries[number].links.tolist())
            self._changes[key] = passable, links, self._change_of(links, passable, cycle, losing)
        self.passable, links, change = self._changes[key]
        if self.slowed is not None:
            self.slowed.change(engine.counters()["flits"], links, change["num"])
        engine.change_links(links, **change)

    def let_pass(self, engine: Engine, links: frozenset[int]) -> None:
        """Let packets cross these of the links that are down, and none of the others."""
        cycle = engine.now
        links &= frozenset(self.down(cycle))
        changed = np.array(sorted(links ^ self.passable), np.int64)
        self.passable = links
        if len(changed):
            engine.change_links(changed, **self._change_of(changed, links, cycle, frozenset()))

    def _change_of(
        self, links: IntArray, passable: Set[int], cycle: int, losing: Set[int]
    ) -> dict[str, NDArray[np.generic]]:
        """What `Engine.change_links` needs to give links the state that they have in a cycle.

        `passable`: as the attribute, then. `losing`: those that lose what is on the wire.
        """
        wires, down, errors = zip(*(self._state(link, cycle) for link in links.tolist()), strict=True)
        down = tuple(is_down and link not in passable for is_down, link in zip(down, links.tolist(), strict=True))
        bounds = bits_on_the_wire(self._network), self._network.retry.nack_bits if self._network.retry else 0
        dens: list[int] = self._den[links].tolist()
        return {
            "num": np.array([int(wire.s * den) for wire, den in zip(wires, dens, strict=True)], np.int64),
            "delay": np.array([wire.delay for wire in wires], np.int64),
            "credit_delay": np.array([wire.credit_delay for wire in wires], np.int64),
            "down": np.array(down, np.int64),
            "lose": np.array([link in losing for link in links.tolist()], np.int64),
            "error_bound": error_bounds(errors, bounds[0]),
            "nack_bound": error_bounds(errors, bounds[1]),
            "credit_bound": error_bounds(errors, self._message_bits),
        }

    @property
    def _message_bits(self) -> int:
        """Bits of a message that carries credits."""
        credits = self._network.credits
        return 0 if credits is None else 8 * credits.bytes_of_message(self._network.flit)

    def down(self, cycle: int) -> list[int]:
        """Return the links that are down in a cycle."""
        return [link for link in self._of_link if self._state(link, cycle)[1]]

    def broken(self, cycle: int) -> list[int]:
        """Return the links that are down in a cycle by a fault that loses flits."""
        losing = {number for number, entry in enumerate(self._entries) if entry.fault.in_flight == "lose"}
        times = self._clock.times
        return [
            link
            for link, numbers in self._of_link.items()
            if any(number in losing and times[number].active(cycle) for number in numbers)
        ]

    def parts_of(self, npus: Sequence[int], engine: Engine, cycle: int) -> list[int]:
        """Return the connected part of the network of each NPU in a cycle: as of `Backend.parts_of`."""
        down = self.down(cycle) if self.epochs is None else self.epochs.avoided(engine, cycle)
        links, count = self._topology.links, self._topology.npus
        apart = {(link - links) % count for link in down if link >= links}
        between = np.array(sorted(link for link in down if link < links), np.int64)
        part = connected_parts(self._topology.relation, between)[self._topology.home]
        return [-1 - npu if npu in apart else int(part[npu]) for npu in npus]

    def next_change(self, cycle: int) -> int:
        """Return the first cycle after `cycle` in which parts may change: as of `Backend.next_change`."""
        if self.epochs is not None:
            return self.epochs.next_use(cycle)
        return min((times.following(cycle) for times in self.times_down), default=NEVER)

    def ever_down(self) -> tuple[list[int], bool]:
        """Return all links that ever go down, and whether any of them loses flits then."""
        entries = [entry for entry in self._entries if entry.fault.down]
        return sorted({link for entry in entries for link in entry.links.tolist()}), any(
            entry.fault.in_flight == "lose" for entry in entries
        )

    def _state(self, link: int, cycle: int) -> tuple[LinkParams, bool, float]:
        """The parameters of a link in a cycle, whether it is down, and its bit error rate."""
        active = [self._entries[number] for number in self._of_link[link] if self._clock.times[number].active(cycle)]
        s = max((entry.s for entry in active), default=Fraction(0))
        latency = max((entry.latency for entry in active), default=0)
        log_intact = 0.0  # of the probability that a bit is intact
        for entry in active:
            log_intact += log1p(-entry.error)
        return self._wire(link, s, latency), any(entry.fault.down for entry in active), -expm1(log_intact)


def _entries(experiment: Experiment, topology: Topology, fault: Fault, key: str) -> Iterator[_Entry]:
    """Yield a fault, or its parts. Raises InputError."""
    network = experiment.network
    s, latency = Fraction(0), 0
    if fault.bandwidth is not None:
        s = network.cycles_per_flit(fault.bandwidth * share_of_bandwidth(network))
    if fault.latency is not None:
        latency = to_cycles(fault.latency, network.clock)[0]
    bits = bits_on_the_wire(network)
    error = fault.error_of_bit(bits)
    intact = exp(bits * log1p(-error))
    if network.retry is not None and intact < _LEAST_SHARE:
        problem = f"fewer than 1 in 1000 flits of {bits} bits would arrive intact"
        if fault.flit_error_rate:
            raise InputError(problem, key=f"{key}.flit_error_rate", allowed=f"at most {1 - _LEAST_SHARE}")
        allowed = f"at most {-log(_LEAST_SHARE) / bits / float(fault.lanes):.1e}"
        raise InputError(problem, key=f"{key}.bit_error_rate", allowed=allowed)
    for times, links in timed_links(experiment, topology, fault, key):
        yield _Entry(fault, key, links, s, latency, error, times)


def error_bounds(rates: Sequence[float], bits: int) -> NDArray[np.uint64]:
    """Return uint64[K]: a draw of 64 bits below it is an error in one of `bits` bits with these bit error rates."""
    shares = [-expm1(bits * log1p(-rate)) for rate in rates]
    return np.array([min(int(share * 2.0**64), 2**64 - 1) for share in shares], np.uint64)
