"""The backend `reference`: the packet backend with the reference engine, for small networks."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Stop
from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.protocol import Capabilities
from pyxsim.reference.engine import ReferenceEngine
from pyxsim.settings import Experiment
from pyxsim.topology.topology import Topology


class SteppedEngine(ReferenceEngine):
    """The reference engine with the part of the interface of `Engine` that `PacketNetwork` uses."""

    skipped = 0
    watching = False
    nbytes = 0
    plain = False

    @property
    def flits_in_flight(self) -> int:
        return self.in_network

    def send_many(self, *columns: ArrayLike) -> int:
        """Send arrays of messages (scalars are broadcast); return the number of the first."""
        first = len(self.messages)
        for row in np.stack(np.broadcast_arrays(*columns), axis=1).tolist():
            self.send(*row)
        return first

    def run(self, until: int, *, slack: int = 0, window: int = 0, repeats_until: int = 0, apart: bool = False) -> Stop:
        """Simulate; see `Engine.run`."""
        reason = self.advance(until, slack, window)
        rows = np.array(sorted(self.delivered), np.int64).reshape(-1, 2)
        self.delivered.clear()
        return Stop(reason, self.now, rows[:, 1], rows[:, 0])

    def counters(self) -> dict[str, IntArray]:
        return {name: np.array(values, np.int64) for name, values in super().counters().items()}

    def buffer_max(self) -> Int32Array:
        return np.array(super().buffer_max(), np.int32)

    def state(self, deciding: bool) -> dict[str, NDArray[Any]]:
        """Return the credits and slots of all VCs, as the watchdog reads them."""
        outputs = [out for link in self.links for out in link.outputs]
        return {
            "link.base": np.cumsum([0, *(len(link.outputs) for link in self.links)])[:-1],
            "link.pool_left": np.array([link.pool.left for link in self.links]),
            "out.credit": np.array([out.credits - out.borrowed for out in outputs]),
            "vc.occupancy": np.array([len(vc.fifo) for link in self.links for vc in link.inputs]),
        }


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
        engine = SteppedEngine(
            self.topology.routers, config.links, config.routes, config.options, every=0, record=False
        )
        return cast(Engine, engine)

    def watch_packet(self, message: int, packet: int) -> None:
        raise InputError("the reference does not log packets", key="--watch", allowed="with --backend packet")
