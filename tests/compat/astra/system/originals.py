"""What ASTRA-sim was given, as a network and a system layer of ours."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pyxsim import library
from pyxsim.compat.astra.system import AstraSystem
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.delay.congestion import CongestionNetwork
from pyxsim.network.delay.delay_network import DelayedNetwork
from pyxsim.settings import Network
from pyxsim.system.options import Options
from pyxsim.topology.build import build

library.load_all()

BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def network(
    compat: str,
    blocks: Sequence[str],
    npus: Sequence[int],
    bandwidth: Sequence[float],
    latency: Sequence[float],
    *,
    congestion: bool = False,
    **more: Any,
) -> DelayedNetwork:
    """An analytical network, perhaps with congestion; bandwidths in GB/s of 2^30 bytes, latencies in ns."""
    dims = [
        {"block": BLOCKS[block], "npus": n, "bandwidth": f"{rate} GiB/s", "latency": f"{late} ns"}
        for block, n, rate, late in zip(blocks, npus, bandwidth, latency, strict=True)
    ]
    settings = Network.model_validate({"dims": dims, "clock": "1 GHz", "analytical": more})
    plain = [{"block": dim["block"], "npus": dim["npus"]} for dim in dims]
    made = CongestionNetwork if congestion else AnalyticalNetwork
    return made(build(None, None, plain, {}), settings, compat=compat)


def system(
    net: DelayedNetwork, compat: str, algorithms: Sequence[str], *, queues: int = 1, active: int = 1, **options: Any
) -> AstraSystem:
    """The system layer of a compat, with the same algorithms for every kind of collective."""
    own = [[natural[number * len(natural) // queues] for number in range(queues)] for natural in net.topology.queues]
    shape = net.topology.shape
    defaults: dict[str, Any] = {"bandwidths": [Fraction(1)] * len(shape), "endpoint_delay": 10}
    return AstraSystem(
        net,
        shape,
        Options(
            algorithms=lambda kind: algorithms,
            queues=own,
            slots=[1] * len(shape),
            compat=compat,
            active_chunks=active,
            **(defaults | options),
        ),
    )
