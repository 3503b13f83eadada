"""The analytical backend: the delay of each message is a formula, independent of other messages."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Self

from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.network.delay.unaware import unaware
from pyxsim.network.protocol import Capabilities
from pyxsim.settings import Experiment, Network
from pyxsim.topology.block import Block
from pyxsim.topology.topology import Topology


class AnalyticalNetwork(DelayedNetwork):
    """Delay of each message by a formula: latency plus bytes over bandwidth, without congestion.

    `compat` selects the arithmetic (pyxsim/network/delay/arithmetic.py).
    """

    capabilities = Capabilities(congestion=False)

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
        super().__init__(topology, network, unaware(topology, network, compat), window=window, tick=tick, skip=skip)
        self._compat = compat

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        compat, skip = experiment.system.compat, experiment.run.skip
        return cls(topology, experiment.network, compat=compat, window=window, skip=skip)

    def injection_bandwidths(self) -> list[Fraction]:
        """Return the bytes per cycle that an NPU can send into each dimension.

        With "astra-sim-1" the bandwidth of a ring is that of both directions together.
        """
        bandwidths = super().injection_bandwidths()
        if self._compat != "astra-sim-1":
            return bandwidths
        directions = [dim.directions if isinstance(dim, Block) else 1 for dim in self.topology.dims]
        return [bandwidth / count for bandwidth, count in zip(bandwidths, directions, strict=True)]
