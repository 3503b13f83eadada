"""The analytical backend with congestion: whole messages queue for links, first come first served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.network.delay.arithmetic import Arithmetic, check_compat
from pyxsim.network.delay.cut_through import CutThrough
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.network.delay.line_copies import LineCopies, same_links
from pyxsim.network.delay.store_and_forward import StoreAndForward
from pyxsim.network.delay.ticks import Ticks
from pyxsim.network.delay.windowed_counts import COUNTED, EngineCounts
from pyxsim.network.link_paths import LinkPaths
from pyxsim.settings import Experiment, Network
from pyxsim.topology.topology import Topology

MOST_WINDOWS = 256
MOST_CELLS = 2**19  # windows x links


class CongestionNetwork(DelayedNetwork):
    """Whole messages that queue for links, first come first served.

    `compat` selects the arithmetic (pyxsim/network/delay/arithmetic.py).
    """

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        compat: str | None = None,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
        skip: bool = True,
    ) -> None:
        check_compat(network, compat)
        if compat == "astra-sim-1":
            raise InputError(
                "ASTRA-sim 1 does not model messages that queue for links",
                key="--backend",
                allowed="analytical or packet",
            )
        paths = LinkPaths(topology, network)
        if compat == "astra-sim-2":
            super().__init__(topology, network, Stored(topology, network, paths), window=window, tick=tick)
            return
        model = Queued(network, paths, window)
        windows = EngineCounts(model.engine, model.columns)
        super().__init__(topology, network, model, windows=windows, tick=tick, skip=skip)

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        compat, skip = experiment.system.compat, experiment.run.skip
        return cls(topology, experiment.network, compat=compat, window=window, skip=skip)

    def totals(self) -> dict[str, IntArray]:
        """Return the flits of each link and, if the engine counts them, the cycles in which a message waited for it."""
        engine = self.model.engine
        if not isinstance(engine, CutThrough):
            return super().totals()
        tables = (self._on_links(table.sum(axis=0)) for table in engine.windows)
        return dict(zip(COUNTED, tables, strict=True))


class _OnLinks:
    """Base of both models: an engine whose paths are the links, then the lanes."""

    engine: CutThrough | StoreAndForward

    def __init__(self, paths: LinkPaths) -> None:
        self.paths = paths
        self.rates, self.latencies = paths.rates[: paths.links], paths.latencies[: paths.links]
        self.widest = paths.widest
        self._stands_for: IntArray = np.arange(len(paths.rates))

    def copy_lines(self, copies: LineCopies) -> bool:
        stands_for = same_links(copies, self.paths.steps, self.paths.params)
        if stands_for is None:
            return False
        self._stands_for = stands_for
        return True

    def _extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        steps = self.paths.steps(src, dst, plane)
        self.engine.extend((steps >= 0).sum(axis=1), steps[steps >= 0])

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        return flits[self.columns()]

    def columns(self) -> IntArray:
        """Return int64[links]: the link of which each has the counts."""
        return self._stands_for[: self.paths.links]

    @property
    def flits(self) -> int:
        return self.engine.flits_sent


class Queued(_OnLinks):
    """Exact times, on any topology."""

    links_work = False  # the engine counts its windows itself

    def __init__(self, network: Network, paths: LinkPaths, window: int) -> None:
        super().__init__(paths)
        try:
            ticks = Ticks(paths.rates, paths.latencies)
        except InputError as error:
            raise error.at(key="network.bandwidth") from None
        whole = network.analytical.forwarding == "store-and-forward"
        rows = max(1, min(MOST_WINDOWS, MOST_CELLS // max(1, ticks.links)))
        self.engine: CutThrough = CutThrough(ticks, network.flit, whole=whole, window=window, rows=rows)

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        """Add the routes of pairs of NPUs."""
        self._extend(src, dst, plane)


class Stored(_OnLinks):
    """ASTRA-sim 2's congestion-aware model: one dimension, store and forward, times rounded down at each link."""

    links_work = True

    def __init__(self, topology: Topology, network: Network, paths: LinkPaths) -> None:
        if len(topology.shape) > 1:
            raise InputError(
                f"ASTRA-sim 2's congestion model has one dimension; this network has {len(topology.shape)}",
                key="--backend analytical-congestion",
                allowed="analytical, packet, or no system.compat",
            )
        if network.analytical.forwarding == "cut-through":
            raise InputError(
                "ASTRA-sim 2 forwards a message only when it has arrived completely",
                key="network.analytical.forwarding",
                allowed='"store-and-forward", or no system.compat',
            )
        super().__init__(paths)
        count = len(paths.rates)
        arithmetic = Arithmetic(network, "astra-sim-2", paths.rates, paths.latencies)
        rule = arithmetic.rule([False] * count)
        rule.extend(arithmetic.latency(paths.latencies), np.arange(count))
        self.engine: StoreAndForward = StoreAndForward(rule, network.flit)

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        # ASTRA-sim 2 sends clockwise to the opposite NPU of a ring, whatever the queue.
        """Add the routes of pairs of NPUs; they have one plane."""
        self._extend(src, dst, np.zeros_like(plane))
