"""Networks of delays for tests: by backend, from the settings of a network."""

from __future__ import annotations

from typing import Any

from pyxsim import library
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.delay.congestion import CongestionNetwork
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.build import build

library.load_all()

Backend = type[AnalyticalNetwork | CongestionNetwork]

# Networks that are no products of blocks.
OTHERS: list[dict[str, Any]] = [
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "concentrated-mesh", "options": {"routers": [2, 2], "concentration": 2}},
    {"topology": "garnet-torus", "shape": [2, 2, 2]},
    {"topology": "torus", "shape": [4, 3]},
]


def topology_of(table: dict[str, Any]) -> Topology:
    """The topology that settings name."""
    told = Network.model_validate(table)
    dims = [dim.model_dump(exclude={"bandwidth", "latency"}) for dim in told.dims or ()]
    made = build(told.topology, told.shape, dims or None, told.options)
    return made.routed(told.router.routing, told.router.routing_options)


def network(compat: str | None = None, *, backend: Backend = AnalyticalNetwork, **table: Any) -> DelayedNetwork:
    """A network of the table [network]."""
    return backend(topology_of(table), Network.model_validate(table), compat=compat)


def dims(*blocks: tuple[str, int, str, str]) -> list[dict[str, Any]]:
    """Rows block, NPUs, bandwidth, latency as the list network.dims."""
    return [dict(zip(("block", "npus", "bandwidth", "latency"), block, strict=True)) for block in blocks]


def delay(net: DelayedNetwork, src: int, dst: int, nbytes: int, plane: int = 0) -> int:
    """Cycles that one message takes."""
    start = net.now
    number = net.send(src, dst, nbytes, plane=plane, at=start)
    messages, cycles = net.advance(None)
    assert messages.tolist() == [number]
    return int(cycles[0]) - start


def drain(net: DelayedNetwork) -> list[tuple[int, int]]:
    """(message, cycle) of all that arrives, in order."""
    found: list[tuple[int, int]] = []
    while len((arrived := net.advance(None))[0]):
        found += zip(*(part.tolist() for part in arrived), strict=True)
    return found
