"""The flow backend: messages are fluids with max-min fair rates; no packets, buffers or queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.delay.arithmetic import Arithmetic
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.network.delay.line_copies import LineCopies, same_links
from pyxsim.network.fluid.fluid import Fluid
from pyxsim.network.link_paths import link_rates_of, routes, widest
from pyxsim.routing.spread import fixed, spread
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology


class FlowNetwork(DelayedNetwork):
    """Messages as fluids with max-min fair rates at every moment (docs/flow.md).

    Messages of one injection lane start in order, as bandwidth becomes free, unless `[network.analytical] sending`
    selects otherwise.
    """

    model: Flows

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        skip: bool = True,
    ) -> None:
        super().__init__(topology, network, Flows(topology, network), window=window, tick=tick, skip=skip)

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        if summands := experiment.network.analytical.summands:
            raise InputError(
                "applies only to the delays of ASTRA-sim 1",
                key=f"network.analytical.{summands[0]}",
                allowed="no value, or --backend analytical",
            )
        return cls(topology, experiment.network, window=window, skip=experiment.run.skip)

    def _book(self, at: int) -> None:
        """Do nothing: flits are counted as links carry them."""

    def _advance(self, limit: int, slack: int) -> tuple[IntArray, IntArray]:
        """The next arrivals. As links carry bytes between events, windows are closed at their very ends."""
        engine, windows = self.model.engine, self.windows
        while True:
            then = min(engine.next_cycle, limit)
            while windows.due <= then:
                until = windows.due if engine.busy else then
                windows.close(until, engine.flits_at(until))
            messages, cycles = engine.advance(min(limit, windows.due - 1), slack)
            if len(messages) or engine.next_cycle > limit:
                return messages, cycles
            self.tick()


class Flows:
    """The paths of messages as fluids: the links of a route, or of all routes that a message may take, with shares.

    NPUs with host links, and NPUs that share a router, have an injection and an ejection lane each: the host links, or
    lanes as wide as the widest link of the router. In the engine they follow the links. Elsewhere an NPU has a lane for
    each link of its router, so lanes limit only a message that uses several of these links, as it has one lane.
    """

    links_work = True

    def __init__(self, topology: Topology, network: Network) -> None:
        self.rates, self.latencies = link_rates_of(topology, network)
        self.widest = widest(topology, network, self.rates)
        self._relation, self._links, self._npus = topology.relation, topology.links, topology.npus
        self._fixed: dict[int, bool] = {}  # plane -> whether each pair has a single route on it
        self._from = topology.link_src
        self._hosts, self._counted = topology.hosts, topology.counted_links
        self._shares_router = (np.bincount(topology.home)[topology.home] > 1) | topology.hosts
        rates = sorted({*self.rates, self.widest})
        arithmetic = Arithmetic(network, None, rates, self.latencies)
        self._late: IntArray = arithmetic.latency(self.latencies).astype(np.int64)
        self._per_cycle = arithmetic.unit
        # A kind is the rank of a bandwidth.
        kind = {rate: number for number, rate in enumerate(rates)}
        counted = np.array([kind[rate] for rate in self.rates], np.int64)
        links = counted[: topology.links]
        if topology.hosts:
            self._out, self._into = counted[topology.links :].reshape(2, -1)
        else:
            self._out, self._into = (self._lanes(links, ends) for ends in (topology.link_src, topology.link_dst))
        self._kind = np.concatenate([links, self._out, self._into])
        self._of_kind = np.array([float(rate) for rate in rates])
        # Whether messages of a lane start in order.
        self._in_order = network.analytical.sending == "in-order"
        rule = arithmetic.rule([False] * len(rates))
        self.engine = Fluid(rule, self._of_kind[self._kind], network.flit, topology.links + topology.npus)
        self._stands_for: IntArray = np.arange(topology.counted_links)
        # Of all paths: number of links, links, and the share on each.
        self._added: list[tuple[IntArray, IntArray, FloatArray]] = []

    def _lanes(self, kinds: IntArray, ends: NDArray[np.int32]) -> IntArray:
        """The kinds of the lanes of all NPUs: the widest link with this end at their router."""
        widest_of = np.full(self._relation.routers, -1)
        np.maximum.at(widest_of, ends, kinds)
        widest_of[widest_of < 0] = kinds.max(initial=0)  # without such a link, the widest of all
        lanes: IntArray = widest_of[self._relation.home]
        return lanes

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        """Add the paths of pairs of NPUs."""
        path, link, share, latency = self._over_links(src, dst, plane)
        lane = self._lane_of(src, dst, path, link)
        out, into = np.flatnonzero(self._shares_router[src]), np.flatnonzero(self._shares_router[dst])
        spread_pairs = np.flatnonzero(self._spreads(plane) & ~(self._shares_router[src] & self._shares_router[dst]))
        path = np.concatenate([path, out, into, spread_pairs])
        new = len(self._kind) + np.arange(len(spread_pairs))
        lanes = self._links + src[out], self._links + self._npus + dst[into], new
        link = np.concatenate([link, *lanes])
        share = np.concatenate([share, np.ones(len(out) + len(into) + len(spread_pairs))])
        kinds = np.minimum(self._out[src[spread_pairs]], self._into[dst[spread_pairs]])
        self._kind = np.concatenate([self._kind, kinds])
        self.engine.filling.add_links(self._of_kind[kinds])
        # The first link of each path is its narrowest in proportion to its share; of several, one that carries the
        # whole path, as its bandwidth is in the rule.
        order = np.lexsort((-share, self._of_kind[self._kind[link]] / share, path))
        link, share, count = link[order], share[order], np.bincount(path)
        narrowest = np.cumsum(count) - count
        self.engine.rule.extend(latency, self._kind[link[narrowest]])
        try:
            self.engine.extend(count, link, share, latency / self._per_cycle, share[narrowest] == 1, lane)
        except OverflowError as error:
            raise SimulationError(str(error)) from None
        self._added.append((count, link, share))

    def copy_lines(self, copies: LineCopies) -> bool:
        """Count what the first lines carry for all lines from now on; return False if the lines differ."""
        if any(self._spreads(plane.ravel()).any() for parts in copies.ends() for _, _, plane in parts):
            return False  # a path has several routes
        latencies = np.append(self._late, np.zeros(len(self._kind) - len(self._late), np.int64))
        stands_for = same_links(copies, self._steps, latencies * (self._kind.max() + 1) + self._kind)
        if stands_for is None:
            return False
        self._stands_for = stands_for[: self._counted]
        return True

    def _steps(self, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
        """int64[K, hops + 2]: the lanes and links of each pair's route, -1 for none."""
        out = np.where(self._shares_router[src], self._links + src, -1)
        into = np.where(self._shares_router[dst], self._links + self._npus + dst, -1)
        return np.column_stack([out, routes(self._relation, src, dst, plane), into])

    def _lane_of(self, src: IntArray, dst: IntArray, path: IntArray, link: IntArray) -> IntArray | None:
        """The injection lane of each pair: that of the first link, or the NPU's only one; None without order.

        Of several first links the destination selects one.
        """
        if not self._in_order:
            return None
        leaves = np.flatnonzero(self._from[link] == self._relation.home[src[path]])
        leaves = leaves[np.argsort(path[leaves], kind="stable")]
        count = np.bincount(path[leaves], minlength=len(src))
        has_lane = self._shares_router[src]
        position = np.where(has_lane, 0, np.cumsum(count) - count + dst % np.maximum(count, 1))
        return np.where(has_lane, self._links + src, np.append(link[leaves], 0)[position])

    def _over_links(
        self, src: IntArray, dst: IntArray, plane: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """(pair, link, share) of all links of all pairs, and the latency of each pair on its longest path."""
        steps = routes(self._relation, src, dst, plane)
        path, step = np.nonzero(steps >= 0)
        link, share = steps[path, step], np.ones(len(path))
        link_latency = self._late[: self._links]
        latency: IntArray = np.append(link_latency, 0)[steps].sum(axis=1, dtype=np.int64)
        for number in np.unique(plane).tolist():
            which = np.flatnonzero((plane == number) & self._spreads(plane))
            if len(which):
                shares = spread(self._relation, src[which], dst[which], number, link_latency)
                latency[which] = shares.longest
                single = ~np.isin(path, which)
                path = np.concatenate([path[single], np.repeat(which, shares.count)])
                link = np.concatenate([link[single], shares.link])
                share = np.concatenate([share[single], shares.share])
        if self._hosts:
            latency += self._late[self._links + src] + self._late[self._links + self._npus + dst]
        return path, link, share, latency

    def _spreads(self, plane: IntArray) -> NDArray[np.bool_]:
        """bool[pairs]: whether the plane of each pair has several routes."""
        planes = np.unique(plane).tolist()
        for number in planes:
            if number not in self._fixed:
                self._fixed[number] = fixed(self._relation, number)
        return np.isin(plane, [number for number in planes if not self._fixed[number]])

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        """Return the flits of each link, rounded where a link carries a share of its paths."""
        total = np.zeros(len(self._kind))
        begin = 0
        for count, link, share in self._added:
            carried = flits[begin : begin + len(count)]
            total += np.bincount(link, np.repeat(carried, count) * share, len(total))
            begin += len(count)
        rounded: IntArray = np.rint(total[self._stands_for]).astype(np.int64)
        return rounded

    @property
    def flits(self) -> int:
        """Flits that all links have carried."""
        return int(self.engine.flits.sum())
