"""PFC deadlock: the proof from the routes before a run, and the search for ports that can never resume during it.

A switch that pauses a link resumes it when packets that came by it have left. These packets wait for links out of the
switch, which may be paused, too: links that wait for each other in a cycle stay paused forever. As each packet of a
class may wait for each of its candidates, routes without a cycle of such dependencies exclude a deadlock (Dally and
Seitz, 1987; for PFC: Hu et al., HotNets 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.errors import DeadlockError
from pyxsim.network.ethernet.config import DATA_CLASS, EthernetConfig
from pyxsim.network.ethernet.engine import Engine
from pyxsim.routing.journeys import behind_cycles, one_cycle

_SHOWN = 12
LEAST_INTERVAL = 10**8  # ps between searches


# -- before a run --


def pause_cycle(config: EthernetConfig, pairs: IntArray | None = None) -> list[int]:
    """Return the ports of a cycle of links that can wait for each other under PFC; empty if there is none.

    Parameters
    ----------
    pairs
        int64[n, 2]: source and destination of the messages; their acknowledgments go the other way. None: all pairs.
    """
    if not config.rules["pfc"]:
        return []
    replies = config.rules["ack_class"]
    starts = [_starts(config, pairs)]
    if replies and pairs is not None:
        back = _starts(config, pairs[:, ::-1])
        # Classes are paused separately.
        starts = [starts[0] | back] if replies == DATA_CLASS else [starts[0], back]
    for reached in starts:
        held, wanted = dependencies(config, reached)
        behind = behind_cycles(held, wanted, len(config.ports))
        inside = behind[held] & behind[wanted]
        if inside.any():
            return one_cycle(held[inside], wanted[inside])
    return []


def _starts(config: EthernetConfig, pairs: IntArray | None) -> BoolArray:
    """bool[routers, groups]: whether packets for a group enter the network at a router."""
    starts = np.zeros(config.route.shape, np.bool_)
    uplink = config.nodes[config.home, 1]
    entry = np.where(uplink >= 0, config.ports[uplink, 1], config.home)
    if pairs is None:
        starts[entry] = True
    else:
        starts[entry[pairs[:, 0]], config.group[pairs[:, 1]]] = True
    return starts


def dependencies(config: EthernetConfig, starts: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the pairs (held, wanted) of ports: a packet that came by `held` may wait for `wanted`.

    Links that no packet passes on its way from switch to switch are left out, as they cannot be in a cycle.

    Parameters
    ----------
    starts
        bool[routers, groups]: whether packets for a group enter the network at a router.
    """
    routers = len(config.route)
    links = np.flatnonzero((config.ports[:, 0] < routers) & (config.ports[:, 1] < routers))
    links = links[np.lexsort((config.ports[links, 1], config.ports[links, 0]))]
    tail, head = config.ports[links, 0], config.ports[links, 1]
    begin = np.searchsorted(tail, np.arange(routers + 1))
    carried = _carried(config, starts, links, head, begin)
    onward = np.zeros((routers, carried.shape[1]), np.uint8)  # groups for which packets leave a router
    sources = np.flatnonzero(np.diff(begin))
    if len(sources):
        onward[sources] = np.bitwise_or.reduceat(carried, begin[sources], axis=0)
    passes = (carried & onward[head]).any(axis=1)
    entered = np.zeros(routers, np.bool_)
    entered[head[passes]] = True
    inner = passes & entered[tail]
    held, wanted = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for link in np.flatnonzero(inner):
        out = begin[head[link]] + np.flatnonzero(inner[begin[head[link]] : begin[head[link] + 1]])
        out = out[(carried[out] & carried[link]).any(axis=1)]
        held.append(np.full(len(out), links[link]))
        wanted.append(links[out])
    return np.concatenate(held), np.concatenate(wanted)


def _carried(
    config: EthernetConfig, starts: BoolArray, links: IntArray, head: IntArray, begin: IntArray
) -> NDArray[np.uint8]:
    """Bits [links, groups]: the groups for which packets take each link, on any of the candidates of their routes.

    `links` are sorted by the router from which they lead, at `begin`, and then by `head`.
    """
    reached = starts.copy()
    carried = np.zeros((len(links), -(-starts.shape[1] // 8)), np.uint8)
    place = np.zeros(len(config.ports), np.int64)
    place[links] = np.arange(len(links))
    changed = np.flatnonzero(reached.any(axis=1))
    while len(changed):
        again = np.zeros(len(reached), np.bool_)
        for router in changed:
            first, last = begin[router], begin[router + 1]
            if first == last:
                continue
            takes = _takes(config, int(router), place - first, int(last - first)) & reached[router]
            carried[first:last] = np.packbits(takes, axis=1)
            lanes = np.flatnonzero(np.diff(head[first:last], prepend=-1))  # parallel links reach one router
            arrives, peers = np.logical_or.reduceat(takes, lanes, axis=0), head[first:last][lanes]
            again[peers] |= (arrives & ~reached[peers]).any(axis=1)
            reached[peers] |= arrives
        changed = np.flatnonzero(again)
    return carried


def _takes(config: EthernetConfig, router: int, place: IntArray, count: int) -> BoolArray:
    """bool[count, groups]: whether a link of a router, at `place`, is a candidate for each group."""
    route = config.route[router]
    last = int(route.max())
    first = int(route.min(initial=last, where=route > 0))
    at = config.set_start[first : last + 2].astype(np.int64)
    ports = config.set_port[at[0] : at[-1]]
    number = np.repeat(np.arange(len(at) - 1), np.diff(at))
    own = config.ports[ports, 0] == router
    member = np.zeros((len(at), count), np.bool_)  # the last row: no route
    member[number[own], place[ports[own]]] = True
    takes: BoolArray = member.T[:, np.where(route > 0, route - first, len(at) - 1)]
    return takes


def cycle_warning(names: Sequence[str]) -> str:
    """Return the line that names a cycle of `pause_cycle`."""
    return f"PFC can deadlock on these routes: {len(names)} links can wait for each other: {_chain(names)}"


def _chain(names: Sequence[str]) -> str:
    more = f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return " -> ".join(names[:_SHOWN]) + f"{more} -> {names[0]}"


# -- during a run --


class PauseWatch:
    """Searches for paused ports that can never resume.

    A port that is asked to pause resumes only when a packet that came by it leaves the switch behind it. It never does
    if all of these packets wait for ports that never resume.

    Parameters
    ----------
    link_name, node_name
        Names for the error.
    interval
        Picoseconds between searches; longer than a pause frame takes to arrive.
    """

    def __init__(
        self,
        engine: Engine,
        config: EthernetConfig,
        link_name: Callable[[int], str],
        node_name: Callable[[int], str],
        interval: int,
    ) -> None:
        self.engine, self.config = engine, config
        self.link_name, self.node_name = link_name, node_name
        self.interval = self.due = interval
        self._before: list[tuple[int, int, int]] = []

    def search(self, cycle: int, *, idle: bool = False) -> None:
        """Raise DeadlockError if ports never resume, and none of them has sent a packet since the last search.

        `idle`: no event is left, so nothing can be on the way.
        """
        self.due = self.engine.now + self.interval
        waits = self._never_resume()
        sent = self.engine.port_counters()["sent_packets"]
        state = [(port, cls, int(sent[port])) for port, cls in sorted(waits)]
        same = [place for place in state if place in self._before]
        self._before = state
        if not state or not (idle or len(same) == len(state)):
            return
        number = {place: i for i, place in enumerate(waits)}
        edges = [(number[place], number[blocker]) for place, blockers in waits.items() for blocker in blockers]
        held, wanted = np.array(edges, np.int64).T
        behind = behind_cycles(held, wanted, len(number))
        inside = behind[held] & behind[wanted]
        order = list(waits)
        cycle_of_ports = [order[i] for i in one_cycle(held[inside], wanted[inside])]
        names = [f"{self.link_name(port)} class {cls}" for port, cls in cycle_of_ports]
        parts = [
            f"{name} paused by {self.node_name(int(self.config.ports[port, 1]))}, where packets wait for {following}"
            for name, (port, _), following in zip(names, cycle_of_ports, [*names[1:], names[0]], strict=True)
        ]
        more = f"; {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
        raise DeadlockError(
            f"PFC deadlock in cycle {cycle}: {len(state)} paused ports can never resume; waiting for each other: "
            f"{'; '.join(parts[:_SHOWN])}{more}",
            names,
        )

    def _never_resume(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """The ports and classes that never resume, each with those that its packets wait for."""
        paused, held = self.engine.pauses()
        waits: dict[tuple[int, int], list[tuple[int, int]]] = {place: [] for place in paused}
        for port, cls, wanted in dict.fromkeys(held):
            waits[port, cls].append((wanted, cls))
        while True:
            free = [place for place, blockers in waits.items() if not blockers or any(b not in waits for b in blockers)]
            if not free:
                return waits
            for place in free:
                del waits[place]
