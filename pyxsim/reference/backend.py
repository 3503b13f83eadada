"""The backend `reference`: the packet backend with the reference engine, for small networks."""

from __future__ import annotations

from typing import Any, Self, cast

from pyxsim.core.engine import Engine
from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.protocol import Capabilities
from pyxsim.reference.engine import ReferenceEngine
from pyxsim.settings import Experiment
from pyxsim.topology.topology import Topology


class ReferenceNetwork(PacketNetwork):
    """The packet backend in plain Python, to read and to check the engine (docs/reference.md)."""

    capabilities = Capabilities(packets=True)

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        if experiment.output.level:
            raise InputError("the reference does not record it", key="output.attribution", allowed="off")
        seed = experiment.output.seed
        return cls(topology, experiment.network, window=window, seed=seed, skip=False, threads=1)

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        return cast(Engine, ReferenceEngine(self.topology.routers, config.links, config.routes, config.options))

    def watch_packet(self, message: int, packet: int) -> None:
        raise InputError("the reference does not log packets", key="--watch", allowed="with --backend packet")
