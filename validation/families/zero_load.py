"""A single packet in the network: its latency equals the formula of docs/router.md, to the cycle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from validation.case import Case, Found, exact, must

LANE = 6  # cycles
LENGTHS = (1, 2, 7, 33)  # flits
PAIRS = 40  # of each network, routing and router
VCS = 16  # enough for the VC classes of every routing


class Net(NamedTuple):
    """A network of the shelf, with a latency in cycles for each kind of its links."""

    topology: str
    shape: list[int] | None
    options: dict[str, Any]
    latency: list[int]


NETS: dict[str, Net] = {
    "ring": Net("ring", [6], {}, [7]),
    "ring-one-way": Net("ring", [4], {"bidirectional": False}, [3]),
    "mesh": Net("mesh", [3, 2, 2], {}, [1, 20, 3]),
    "torus": Net("torus", [4, 3], {}, [5, 8]),
    "torus-3d": Net("torus", [4, 2, 3], {}, [1, 2, 3]),
    "switch": Net("switch", [5], {}, [9]),
    "fully-connected": Net("fully-connected", [5], {}, [11]),
    "concentrated-mesh": Net("concentrated-mesh", None, {"routers": [4, 3], "concentration": [2, 2]}, [2, 5]),
    "concentrated-mesh-express": Net(
        "concentrated-mesh", None, {"routers": [4, 4], "express": True, "floor_plan": True}, [1, 1]
    ),
    "hyperx": Net("hyperx", None, {"routers": [3, 4], "concentration": 2}, [2, 7]),
    "k-ary-n-tree": Net("k-ary-n-tree", None, {"k": 2, "n": 4}, [1, 6, 2]),
    "folded-clos-tapered": Net("folded-clos", None, {"children": [3, 2, 2], "parents": [2, 1]}, [3, 8]),
    "leaf-spine": Net("leaf-spine", None, {"npus": 3, "leaves": 4, "spines": 2}, [9]),
    "dragonfly": Net("dragonfly", None, {"p": 2, "a": 4, "h": 2}, [2, 10]),
    "slim-fly": Net("slim-fly", None, {"q": 5, "p": 1}, [2, 5]),
    "random-regular": Net("random-regular", None, {"routers": 14, "degree": 3, "p": 2}, [4]),
}
Formula = Callable[[int, int], int]


def routers_of(cycles: int) -> Formula:
    """Cycles of `n` flits in `routers` routers with these cycles each, without links and lanes."""
    return lambda routers, n: routers * cycles + 1 + n - 1


def stored(routers: int, n: int) -> int:
    """Store-and-forward: every link and both lanes serialize all flits again."""
    return routers * 4 + 1 + (n - 1) * (routers + 1)


ODD = {"bw": 2, "rc": 3, "va": 2, "sa": 2, "st": 0}
ROUTERS: dict[str, tuple[dict[str, Any], Formula]] = {
    "booksim": ({"pipeline": "booksim"}, routers_of(4)),
    **{f"garnet-{r}": ({"pipeline": "garnet", "latency": r}, routers_of(r)) for r in (1, 2, 3, 4)},
    "unequal stages": ({"pipeline": ODD}, routers_of(9)),
    "lookahead": ({"lookahead": True}, routers_of(3)),
    "speculation": ({"speculation": True}, routers_of(3)),
    "lookahead and speculation": ({"lookahead": True, "speculation": True}, routers_of(2)),
    "matrix allocators": ({"va_allocator": "islip:2", "sa_allocator": "wavefront"}, routers_of(4)),
    "twice a cycle": ({"internal_speedup": 2}, routers_of(1 + 3 // 2)),
    "cut-through": ({"flow_control": "virtual-cut-through", "buffer": 34}, routers_of(4)),
    "store-and-forward": ({"flow_control": "store-and-forward", "buffer": 34}, stored),
    "late credits": ({"credit_delay": 9, "buffer": 34}, routers_of(4)),
    "shared buffer": ({"buffer": 3, "shared_buffer": 30}, routers_of(4)),
    "drained": ({"vc_reuse": "drained"}, routers_of(4)),
}


def network_of(net: Net, router: dict[str, Any]) -> PacketNetwork:
    """A prepared run with flits of a byte and links of a flit per cycle."""
    settings = Network.model_validate(
        {
            "topology": net.topology,
            **({"shape": net.shape} if net.shape else {}),
            "options": net.options,
            "flit": "1 B",
            "packet": f"{max(LENGTHS)} B",
            "bandwidth": "1 GB/s",
            "latency": [f"{cycles} cycles" for cycles in net.latency],
            "lane_latency": f"{LANE} cycles",
            "lanes": 1,
            "router": {"vcs": VCS, **router},
        }
    )
    topology = build(net.topology, net.shape, None, net.options)
    topology = topology.routed(router.get("routing"), None)
    return PacketNetwork(topology, settings, trace=True)


def alone(
    network: PacketNetwork, net: Net, src: int, dst: int, flits: int, formula: Formula
) -> tuple[float, float] | None:
    """(cycles by the formula, cycles simulated) of one packet, along the way that it took.

    None where it took a link twice, as Valiant's way round a ring may: a long packet meets itself there.
    """
    topology: Topology = network.topology
    message = network.send(src, dst, flits, plane=-1, at=network.now)
    arrived: list[int] = []
    while len((batch := network.advance(None))[0]):
        arrived += batch[1].tolist()
    must(len(arrived) == 1, "the packet did not arrive alone")
    trace = network.engine.trace()
    way = trace[(trace[:, 3] == message) & (trace[:, 5] == 0) & (trace[:, 1] < topology.links), 1].tolist()
    routers = [int(topology.home[src]), *(int(topology.link_dst[link]) for link in way)]
    must([int(topology.link_src[link]) for link in way] == routers[:-1], "the way has a gap")
    must(routers[-1] == topology.home[dst], "the way ends elsewhere")
    if len(set(way)) < len(way):
        return None
    wires = sum(net.latency[topology.link_dim[link]] * int(topology.link_length[link]) for link in way)
    _, first, last = network.engine.message_times(message)
    return formula(len(way) + 1, flits) + wires + 2 * LANE, last - first


def every_routing(name: str) -> Found:
    """All routings of a network, with all routers."""
    net = NETS[name]
    pairs: list[tuple[float, float]] = []
    routings = list(build(net.topology, net.shape, None, net.options).routings)
    refused = 0
    rng = random.Random(name)
    for routing in routings:
        for router, formula in ROUTERS.values():
            try:
                network = network_of(net, {**router, "routing": routing})
            except InputError as error:
                # Incompatible: adaptive candidates and heads that skip VA; bubbles and buffers of whole packets.
                known = "adaptive routing" in str(error) or "cannot be combined with routing bubble" in str(error)
                must(known, f"{routing}: {error}")
                refused += 1
                continue
            for number in range(PAIRS):
                src, dst = rng.randrange(network.npus), rng.randrange(network.npus)
                pair = alone(network, net, src, dst, LENGTHS[number % len(LENGTHS)], formula)
                pairs += [] if pair is None else [pair]
    cells = {"routings": ", ".join(routings), "packets": str(len(pairs))}
    pairs_refused = "an adaptive routing and a router without VA, or of `bubble` and buffers of whole packets"
    note = f"{refused} pairs of {pairs_refused} are refused" if refused else ""
    return Found(*exact(pairs, "cycles"), cells, note)


def cases() -> Iterator[Case]:
    claim = (
        "A single packet of n flits takes H*R + links + D_in + D_out + 1 + (n-1) cycles through H routers, for "
        f"every routing algorithm and {len(ROUTERS)} kinds of routers"
    )
    for name in NETS:
        yield Case(f"zero-load/{name}", claim, "docs/router.md", 0, "cycles", partial(every_routing, name), 6)


FAMILY = ("zero-load", "One packet alone", ("routings", "packets"), cases)
