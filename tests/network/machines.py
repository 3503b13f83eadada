"""Small packet networks in one line, with one byte per flit so that bytes, flits and cycles are easy to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim import library
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.build import build

library.load_all()

CLOCK = 10**9


def rate(s: Fraction | int) -> str:
    """The bandwidth of a link on which a flit of one byte takes `s` cycles of 1 GHz."""
    return f"{Fraction(CLOCK) / s} B/s"


def cycles(count: int) -> str:
    return f"{count} cycles"


def machine_of(
    topology: str = "mesh",
    shape: Sequence[int] | None = (2,),
    *,
    s: Fraction | int | Sequence[Fraction | int] = 1,
    latency: int | Sequence[int] = 1,
    dims: Sequence[dict[str, Any]] | None = None,
    options: dict[str, Any] | None = None,
    **network: Any,
) -> tuple[Topology, Network]:
    """Topology and settings; `s` and `latency` (cycles) for all dimensions or one each; `network` as in [network]."""
    table: dict[str, Any] = {"flit": "1 B", "packet": "1 PB", **network}
    table["bandwidth"] = [rate(each) for each in s] if isinstance(s, Sequence) else rate(s)
    table["latency"] = [cycles(each) for each in latency] if isinstance(latency, Sequence) else cycles(latency)
    if dims is not None:
        return build(None, None, dims), Network.model_validate(table | {"dims": list(dims)})
    size = None if shape is None else list(shape)
    words = Network.model_validate(table | {"topology": topology, "shape": size, "options": options or {}})
    built = build(topology, size, None, options)
    return built.routed(words.router.routing, words.router.routing_options), words


def packet_network(
    topology: str = "mesh",
    shape: Sequence[int] | None = (2,),
    *,
    trace: bool = False,
    window: int = 1000,
    tick: Callable[[], None] | None = None,
    skip: bool = True,
    **network: Any,
) -> PacketNetwork:
    """A network that is ready to run; see `machine_of`."""
    return PacketNetwork(*machine_of(topology, shape, **network), window=window, tick=tick, trace=trace, skip=skip)


def drain(network: PacketNetwork) -> list[tuple[int, int]]:
    """Everything that arrives until nothing is left to do: (message, cycle)."""
    arrived = []
    while batch := pairs(network.advance(None)):
        arrived += batch
    return arrived


def pairs(arrivals: tuple[NDArray[np.int64], NDArray[np.int64]]) -> list[tuple[int, int]]:
    """Arrivals as [(message, cycle)]."""
    messages, cycles = arrivals
    return list(zip(messages.tolist(), cycles.tolist(), strict=True))
