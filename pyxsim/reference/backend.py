"""The backend `reference`: the packet backend with the reference engine, for small networks."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.errors import InputError
from pyxsim.network.packet.packet_classes import background_classes, longest_packet
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.protocol import Capabilities
from pyxsim.reference.engine import ReferenceEngine
from pyxsim.settings import Experiment
from pyxsim.topology.topology import Topology

BACKGROUND = ("klass", "at", "first", "last", "hops", "packets", "flits", "dst")


class ReferenceNetwork(PacketNetwork):
    """The packet backend in plain Python, to read and to check the engine (docs/reference.md)."""

    capabilities = Capabilities(packets=True, background=True, link_faults=True)
    _taken = 0  # deliveries of the background that were returned

    @classmethod
    def for_experiment(cls, experiment: Experiment, topology: Topology, *, window: int) -> Self:
        if experiment.output.level:
            raise InputError("the reference router does not record this", key="output.attribution", allowed="off")
        seed = experiment.output.seed
        options: Any = {"background": background_classes(experiment), "packet": longest_packet(experiment)}
        options |= {"skip": False, "threads": 1, "faulty": experiment}
        return cls(topology, experiment.network, window=window, seed=seed, **options)

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        engine = ReferenceEngine(self.topology.routers, config.links, config.routes, config.options)
        engine.silent_class = options.get("silent_class", engine.silent_class)
        return cast(Engine, engine)

    def background_deliveries(self) -> dict[str, IntArray]:
        engine = cast(ReferenceEngine, self.engine)
        messages = [m for m in engine.messages if m.kind.number >= engine.silent_class and m.last_arrival >= 0]
        messages = sorted(messages, key=lambda m: (m.last_arrival, m.number))[self._taken :]
        self._taken += len(messages)
        rows = [
            (m.kind.number - engine.silent_class, m.at, m.first_launch, m.last_arrival, m.hops, 1, m.total, m.dst)
            for m in messages
        ]
        return dict(zip(BACKGROUND, np.array(rows, np.int64).reshape(-1, len(BACKGROUND)).T, strict=True))

    def watch_packet(self, message: int, packet: int) -> None:
        raise InputError("the reference router does not log packets", key="--watch", allowed="with --backend packet")
