"""The analytical backend with congestion: whole messages queue for links, first come first served."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyxsim.analytical.store_and_forward import StoreAndForward
from pyxsim.errors import InputError
from pyxsim.network.arithmetic import Arithmetic, check_compat
from pyxsim.network.delayed import DelayedNetwork
from pyxsim.network.protocol import Longs
from pyxsim.network.ways import Ways
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology


class CongestionNetwork(DelayedNetwork):
    """Messages that queue for links. `compat`: whose arithmetic is used, see `arithmetic`."""

    def __init__(
        self,
        topology: Topology,
        network: Network,
        *,
        compat: str | None = None,
        window: int = 1000,
        tick: Callable[[], None] | None = None,
    ) -> None:
        check_compat(network, compat)
        if compat == "astra-sim-1":
            raise InputError("ASTRA-sim 1 knows no congestion here", key="--backend", allowed="analytical, or packet")
        super().__init__(topology, network, Stored(topology, network, compat), window=window, tick=tick)


class Stored:
    """ASTRA-sim 2's congestion-aware model: one dimension, whole messages, store and forward."""

    links_work = True

    def __init__(self, topology: Topology, network: Network, compat: str | None) -> None:
        if len(topology.shape) > 1:
            raise InputError(
                f"messages queue for links in networks of one dimension only; this one has {len(topology.shape)}",
                key="--backend",
                allowed="analytical for this network, or packet",
            )
        self.ways = Ways(topology, network)
        self.rates, self.latencies = self.ways.rates[: topology.links], self.ways.latencies[: topology.links]
        self.widest = self.ways.widest
        self._by_plane = compat is None
        arithmetic = Arithmetic(network, compat, self.ways.rates, self.ways.latencies)
        rule = arithmetic.rule([False] * len(self.ways.latencies))
        rule.extend(arithmetic.latency(self.ways.latencies), np.arange(len(self.ways.latencies)))
        self.engine = StoreAndForward(rule, network.flit)

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        # ASTRA-sim goes clockwise to the opposite NPU of a ring, whatever the queue.
        self.engine.extend(*self.ways.steps(src, dst, plane if self._by_plane else np.zeros_like(plane)))

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        return flits[: self.ways.links]

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())
