"""The flow backend: messages are fluids that share links fairly; no packets, no buffers, nobody waits in a queue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyxsim.analytical.fluid import Fluid
from pyxsim.errors import SimulationError
from pyxsim.network.arithmetic import Arithmetic
from pyxsim.network.delayed import DelayedNetwork
from pyxsim.network.protocol import Longs
from pyxsim.network.ways import Ways
from pyxsim.routing.spread import fixed, spread
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology


class FlowNetwork(DelayedNetwork):
    """Messages that share the links of their routes, max-min fair at every moment (docs/flow.md)."""

    model: Flows

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(topology, network, Flows(topology, network), window=window, tick=tick)

    def _advance(self, limit: int, slack: int) -> tuple[Longs, Longs]:
        """The next arrivals. Links carry bytes between events, too: each window has what was carried in it."""
        engine, windows = self.model.engine, self.windows
        while True:
            then = min(engine.next_cycle, limit)
            while windows.due <= then:
                until = windows.due if engine.busy else then
                windows.close(until, engine.flits_at(until))
            messages, cycles = engine.advance(min(limit, windows.due - 1), slack)
            if len(messages) or engine.next_cycle > limit:
                return messages, cycles


class Flows:
    """The ways of messages as fluids: the links of a route, or of all routes that a message may take, with shares."""

    links_work = True

    def __init__(self, topology: Topology, network: Network) -> None:
        self.ways = Ways(topology, network)
        self.rates, self.latencies = self.ways.rates[: topology.links], self.ways.latencies[: topology.links]
        self.widest = self.ways.widest
        self._relation = topology.relation
        kinds = sorted(set(self.ways.rates))
        arithmetic = Arithmetic(network, None, kinds, self.ways.latencies)
        self._late: Longs = arithmetic.latency(self.ways.latencies)
        self._per_cycle = arithmetic.unit
        place = {rate: number for number, rate in enumerate(kinds)}
        self._kind = np.array([place[rate] for rate in self.ways.rates], np.int64)
        self._capacity = np.array([float(rate) for rate in self.ways.rates])
        self.engine = Fluid(arithmetic.rule([False] * len(kinds)), self._capacity, network.flit)
        # Of every way, one behind the other: links, and how much of the way goes over each.
        self._count: list[Longs] = []
        self._links: list[Longs] = []
        self._shares: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        count, link = self.ways.steps(src, dst, plane)
        way, share = np.repeat(np.arange(len(count)), count), np.ones(len(link))
        latency: Longs = np.add.reduceat(self._late[link], np.cumsum(count) - count)
        for number in np.unique(plane).tolist():
            if not fixed(self._relation, number):
                which = np.flatnonzero(plane == number)
                found = spread(self._relation, src[which], dst[which], number, self._late[: self.ways.links])
                moves = found.count > 0  # else it stays within a router
                latency[which[moves]] = found.longest[moves]
                others = ~np.isin(way, which[moves])
                way = np.concatenate([way[others], np.repeat(which, found.count)])
                link = np.concatenate([link[others], found.link])
                share = np.concatenate([share[others], found.share])
        # The first of each way is its narrowest link, in proportion; of equals one that carries all of the way, whose
        # bandwidth the rule knows.
        order = np.lexsort((-share, self._capacity[link] / share, way))
        link, share, count = link[order], share[order], np.bincount(way)
        narrowest = np.cumsum(count) - count
        self.engine.rule.extend(latency, self._kind[link[narrowest]])
        try:
            self.engine.extend(count, link, share, latency / self._per_cycle, share[narrowest] == 1)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        self._count.append(count)
        self._links.append(link)
        self._shares.append(share)

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        """Rounded where a link has a share of what its ways carried."""
        total = np.zeros(len(self._capacity))
        begin = 0
        for count, link, share in zip(self._count, self._links, self._shares, strict=True):
            carried = flits[begin : begin + len(count)]
            total += np.bincount(link, np.repeat(carried, count) * share, len(total))
            begin += len(count)
        found: Longs = np.rint(total[: self.ways.links]).astype(np.int64)
        return found

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())
