"""The backends by name, and how each is made for an experiment."""

from __future__ import annotations

from collections.abc import Callable

from pyxsim.errors import InputError
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.delay.congestion import CongestionNetwork
from pyxsim.network.fluid.flow import FlowNetwork
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.protocol import Backend
from pyxsim.settings import Experiment
from pyxsim.topology import Topology

Tick = Callable[[], None] | None


def _packet(experiment: Experiment, topology: Topology, window: int, tick: Tick) -> PacketNetwork:
    output = experiment.output
    return PacketNetwork(
        topology,
        experiment.network,
        window=window,
        tick=tick,
        seed=output.seed,
        attribution=output.level,
        skip=experiment.run.skip,
        threads=experiment.run.most_threads,
    )


def _analytical(experiment: Experiment, topology: Topology, window: int, tick: Tick) -> AnalyticalNetwork:
    compat = experiment.system.compat
    return AnalyticalNetwork(topology, experiment.network, compat=compat, window=window, tick=tick)


def _congestion(experiment: Experiment, topology: Topology, window: int, tick: Tick) -> CongestionNetwork:
    compat = experiment.system.compat
    return CongestionNetwork(topology, experiment.network, compat=compat, window=window, tick=tick)


def _flow(experiment: Experiment, topology: Topology, window: int, tick: Tick) -> FlowNetwork:
    if summands := experiment.network.analytical.summands:
        raise InputError(
            "belongs to the delays of ASTRA-sim 1",
            key=f"network.analytical.{summands[0]}",
            allowed="nothing here, or --backend analytical",
        )
    return FlowNetwork(topology, experiment.network, window=window, tick=tick)


BACKENDS: dict[str, Callable[[Experiment, Topology, int, Tick], Backend]] = {
    "packet": _packet,
    "analytical": _analytical,
    "analytical-congestion": _congestion,
    "flow": _flow,
}


def check_backend(name: str, experiment: Experiment) -> None:
    """Raise InputError for a backend that is not there, or that the experiment is not for."""
    if name not in BACKENDS:
        raise InputError(f"unknown backend '{name}'", key="--backend", allowed=list(BACKENDS), given=name)
    if experiment.traffic is not None and name != "packet":
        raise InputError("open traffic is made of packets", key="--backend", allowed="packet")


def make_network(name: str, experiment: Experiment, topology: Topology, window: int, tick: Tick) -> Backend:
    """The network of an experiment. Raises InputError."""
    return BACKENDS[name](experiment, topology, window, tick)
