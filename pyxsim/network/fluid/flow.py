"""The flow backend: messages are fluids that share links fairly; no packets, buffers or queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.delay.arithmetic import Arithmetic
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.network.fluid.fluid import Fluid
from pyxsim.network.link_paths import link_rates_of, routes, widest
from pyxsim.routing.spread import fixed, spread
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology


class FlowNetwork(DelayedNetwork):
    """Fluids that share the links of their routes, max-min fair at every moment (docs/flow.md).

    Those that leave an NPU by the same lane start in their order, when there is room, unless
    `[network.analytical] sending` says otherwise.
    """

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

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        if summands := experiment.network.analytical.summands:
            raise InputError(
                "belongs to the delays of ASTRA-sim 1",
                key=f"network.analytical.{summands[0]}",
                allowed="nothing here, or --backend analytical",
            )
        return cls(topology, experiment.network, window=window)

    def _book(self, at: int) -> None:
        """What is sent is booked while links carry it."""

    def _advance(self, limit: int, slack: int) -> tuple[IntArray, IntArray]:
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
    """The ways of messages as fluids: the links of a route, or of all routes that a message may take, with shares.

    Where NPUs share a router each has a lane out and a lane in, as wide as the widest link of the router; the engine
    counts them behind the links. Elsewhere the links of its router are an NPU's own, with a lane each: then it is only
    what spreads over several of them that is held back, as one message has one lane.
    """

    links_work = True

    def __init__(self, topology: Topology, network: Network) -> None:
        self.rates, self.latencies = link_rates_of(topology, network)
        self.widest = widest(topology, network, self.rates)
        self._relation, self._links, self._npus = topology.relation, topology.links, topology.npus
        self._fixed: dict[int, bool] = {}  # the planes that keep to one route
        self._from = topology.link_src
        self._shares_router = np.bincount(topology.home)[topology.home] > 1
        rates = sorted({*self.rates, self.widest})
        arithmetic = Arithmetic(network, None, rates, self.latencies)
        self._late: IntArray = arithmetic.latency(self.latencies).astype(np.int64)
        self._per_cycle = arithmetic.unit
        # Kinds are numbers of bandwidths, in their order.
        kind = {rate: number for number, rate in enumerate(rates)}
        links = np.array([kind[rate] for rate in self.rates], np.int64)
        self._out, self._into = (self._lanes(links, ends) for ends in (topology.link_src, topology.link_dst))
        self._kind = np.concatenate([links, self._out, self._into])
        self._of_kind = np.array([float(rate) for rate in rates])
        # Lanes by which messages leave in their order: of links, and of NPUs that share a router.
        self._in_order = network.analytical.sending == "in-order"
        rule = arithmetic.rule([False] * len(rates))
        self.engine = Fluid(rule, self._of_kind[self._kind], network.flit, topology.links + topology.npus)
        # Of all routes: links, and the share of the route on each.
        self._added: list[tuple[IntArray, IntArray, FloatArray]] = []

    def _lanes(self, kinds: IntArray, ends: NDArray[np.int32]) -> IntArray:
        """The kinds of the lanes of all NPUs, by the links that have these ends."""
        found = np.full(self._relation.routers, -1)
        np.maximum.at(found, ends, kinds)
        found[found < 0] = kinds.max(initial=0)  # where no link ends, the widest of all
        lanes: IntArray = found[self._relation.home]
        return lanes

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        way, link, share, latency = self._over_links(src, dst, plane)
        lane = self._lane_of(src, dst, way, link)
        out, into = np.flatnonzero(self._shares_router[src]), np.flatnonzero(self._shares_router[dst])
        own = np.flatnonzero(self._spreads(plane) & ~(self._shares_router[src] & self._shares_router[dst]))
        way = np.concatenate([way, out, into, own])
        lanes = self._links + src[out], self._links + self._npus + dst[into], len(self._kind) + np.arange(len(own))
        link = np.concatenate([link, *lanes])
        share = np.concatenate([share, np.ones(len(out) + len(into) + len(own))])
        kinds = np.minimum(self._out[src[own]], self._into[dst[own]])
        self._kind = np.concatenate([self._kind, kinds])
        self.engine.filling.add_links(self._of_kind[kinds])
        # The first of each way is its narrowest link, in proportion; of equals one that carries all of the way, whose
        # bandwidth is in the rule.
        order = np.lexsort((-share, self._of_kind[self._kind[link]] / share, way))
        link, share, count = link[order], share[order], np.bincount(way)
        narrowest = np.cumsum(count) - count
        self.engine.rule.extend(latency, self._kind[link[narrowest]])
        try:
            self.engine.extend(count, link, share, latency / self._per_cycle, share[narrowest] == 1, lane)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        self._added.append((count, link, share))

    def _lane_of(self, src: IntArray, dst: IntArray, way: IntArray, link: IntArray) -> IntArray | None:
        """The lane by which each pair's messages leave: that of the link by which they leave the router, or the one
        that the NPU has. What may leave by several takes them by turns."""
        if not self._in_order:
            return None
        leaves = np.flatnonzero(self._from[link] == self._relation.home[src[way]])
        leaves = leaves[np.argsort(way[leaves], kind="stable")]
        count = np.bincount(way[leaves], minlength=len(src))
        own = self._shares_router[src]
        place = np.where(own, 0, np.cumsum(count) - count + dst % np.maximum(count, 1))
        return np.where(own, self._links + src, np.append(link[leaves], 0)[place])

    def _over_links(
        self, src: IntArray, dst: IntArray, plane: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """(pair, link, share) of all links of all pairs, and the latency of each pair on its longest path."""
        steps = routes(self._relation, src, dst, plane)
        way, place = np.nonzero(steps >= 0)
        link, share = steps[way, place], np.ones(len(way))
        latency: IntArray = np.append(self._late, 0)[steps].sum(axis=1, dtype=np.int64)
        for number in np.unique(plane).tolist():
            which = np.flatnonzero((plane == number) & self._spreads(plane))
            if len(which):
                found = spread(self._relation, src[which], dst[which], number, self._late)
                latency[which] = found.longest
                others = ~np.isin(way, which)
                way = np.concatenate([way[others], np.repeat(which, found.count)])
                link = np.concatenate([link[others], found.link])
                share = np.concatenate([share[others], found.share])
        return way, link, share, latency

    def _spreads(self, plane: IntArray) -> NDArray[np.bool_]:
        """Which of the pairs have several routes, by their planes."""
        planes = np.unique(plane).tolist()
        for number in planes:
            if number not in self._fixed:
                self._fixed[number] = fixed(self._relation, number)
        return np.isin(plane, [number for number in planes if not self._fixed[number]])

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        """Rounded where a link has a share of what its ways carried."""
        total = np.zeros(len(self._kind))
        begin = 0
        for count, link, share in self._added:
            carried = flits[begin : begin + len(count)]
            total += np.bincount(link, np.repeat(carried, count) * share, len(total))
            begin += len(count)
        found: IntArray = np.rint(total[: self._links]).astype(np.int64)
        return found

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())
