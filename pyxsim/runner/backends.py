"""The models of a network that an experiment can be run on, and what is asked of any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from pyxsim.errors import InputError
from pyxsim.network.analytical import AnalyticalNetwork
from pyxsim.network.congestion import CongestionNetwork
from pyxsim.network.delayed import DelayedNetwork
from pyxsim.network.flow import FlowNetwork
from pyxsim.network.packet import PacketNetwork
from pyxsim.network.wires import Wire
from pyxsim.settings import Experiment
from pyxsim.topology import Topology

Backend = PacketNetwork | DelayedNetwork
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


def link_wires(network: Backend) -> Sequence[Wire]:
    """Flit time and latency of each network link."""
    return network.machine.link_wires if isinstance(network, PacketNetwork) else network.link_wires


def router_visits(network: Backend) -> int:
    """Flits times routers passed so far; delays have no routers."""
    return network.engine.router_visits if isinstance(network, PacketNetwork) else 0


def simulated_visits(network: Backend) -> int:
    """Those of them that were simulated, not skipped."""
    return router_visits(network) - network.skipped_visits if isinstance(network, PacketNetwork) else 0


def widths(topology: Topology, network: Backend) -> list[Fraction]:
    """What an NPU can send into each dimension; only ratios count."""
    if isinstance(network, DelayedNetwork):
        return network.npu_bandwidths()
    wires = link_wires(network)
    found = [Fraction(0)] * len(topology.dims)
    for link in np.flatnonzero(topology.link_src == topology.home[0]).tolist():
        found[topology.kind_dims[topology.link_dim[link]]] += 1 / wires[link].s
    for link in np.unique(topology.link_dim, return_index=True)[1].tolist():  # where NPU 0 has no link of its own
        dim = topology.kind_dims[topology.link_dim[link]]
        found[dim] = found[dim] or 1 / wires[link].s
    return [width or Fraction(1) for width in found]
