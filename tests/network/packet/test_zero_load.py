"""One packet alone: its latency is the formula of docs/router.md, exactly, whatever network, routing and router."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.registry import topologies
from pyxsim.routing.relation import EACH
from tests.examples import part_of
from tests.in_turn import in_turn
from tests.network.machines import cycles, drain, machine_of, packet_network

LANE = 6  # cycles
ALL = 250  # so many pairs are tried, all of most networks; a tenth of them in `make test`
SOME = max(12, part_of(30))  # where each takes its time


class Case(NamedTuple):
    """A network: shape, options, and latencies in cycles, one per kind of links."""

    shape: list[int] | None
    options: dict[str, Any]
    latency: list[int]


SHELF: dict[str, list[Case]] = {
    "ring": [Case([5], {}, [7]), Case([4], {"bidirectional": False}, [3]), Case([2], {}, [1])],
    "mesh": [Case([4], {}, [2]), Case([3, 2, 2], {}, [1, 20, 3])],
    "switch": [Case([5], {}, [9])],
    "fully-connected": [Case([5], {}, [11])],
    "torus": [Case([4, 3], {}, [5, 8]), Case([3, 2, 2], {"bidirectional": False}, [1, 2, 3])],
    "twisted-torus": [Case([2, 4], {}, [3, 6]), Case([4, 2, 2], {}, [1, 5, 2])],
    "garnet-torus": [Case([3, 2, 2], {"local_rings": 2}, [4, 6, 9])],
    "garnet-switch": [Case([2, 3], {"links_per_tile": 2}, [3, 8])],
    "concentrated-mesh": [
        Case(None, {"routers": [3, 2], "concentration": 2}, [2, 5]),
        Case(None, {"routers": [4, 3], "concentration": 4, "floor_plan": True}, [1, 1]),
        Case(None, {"routers": [3, 4], "concentration": 1, "express": True, "floor_plan": True}, [3, 2]),
    ],
    "hyperx": [
        Case(None, {"routers": [3, 4]}, [2, 7]),
        Case(None, {"routers": [4, 2], "concentration": 3, "floor_plan": True}, [2, 1]),
    ],
    "folded-clos": [
        Case(None, {"children": [3, 2, 2], "parents": [2, 1]}, [3, 8]),
        Case(None, {"children": [4, 2], "parents": [1], "parallel": [2]}, [5]),
    ],
    "k-ary-n-tree": [Case(None, {"k": 2, "n": 3}, [1, 6])],
    "leaf-spine": [Case(None, {"npus": 3, "leaves": 4, "spines": 2}, [9])],
    "dragonfly": [
        Case(None, {"p": 2, "a": 3, "h": 1}, [2, 10]),
        Case(None, {"p": 1, "a": 4, "h": 2, "g": 5, "arrangement": "palm-tree"}, [1, 3]),
    ],
    "rail-optimized": [
        Case(None, {"servers": 3, "npus": 2}, [2, 5]),
        Case(None, {"servers": 4, "npus": 2, "pod": 2, "spines": 2, "planes": 2}, [2, 5, 9]),
    ],
    "slim-fly": [Case(None, {"q": 5, "p": 1}, [2, 5])],
    "random-regular": [Case(None, {"routers": 14, "degree": 3, "p": 2}, [4])],
    "graph": [Case(None, {"npus": 2}, [3])],
    "butterfly": [Case(None, {"k": 2, "n": 3}, [3])],
    "tree4": [Case(None, {}, [3, 2])],
}
# Settings of the router, and cycles of a packet of `n` flits through `routers`, without what links and lanes take.
Formula = Callable[[int, int], int]


def router_cycles(r: int) -> Formula:
    return lambda routers, n: routers * r + 1 + n - 1


def stored(routers: int, n: int) -> int:
    """The flits follow each other on every link and both lanes anew."""
    return routers * 4 + 1 + (n - 1) * (routers + 1)


ODD = {"bw": 2, "rc": 3, "va": 2, "sa": 2, "st": 0}
GARNETS = {
    "pipeline": "garnet",
    "latency": 2,
    "vc_reuse": "drained",
    "arbiter": "step",
    "injection": "interleaved",
    "output_queue": True,
    "serdes": 4,
}
PRESETS: dict[str, tuple[dict[str, Any], Formula]] = {
    "booksim": ({"pipeline": "booksim"}, router_cycles(4)),
    **{f"garnet-{r}": ({"pipeline": "garnet", "latency": r}, router_cycles(r)) for r in range(1, 5)},
    "odd": ({"pipeline": ODD}, router_cycles(9)),
    # None of these may cost a lone packet anything; serdes only where a flit takes longer than a cycle.
    "all of Garnet": (GARNETS, router_cycles(2)),
}
OTHERS: dict[str, tuple[dict[str, Any], Formula]] = {
    "lookahead": ({"lookahead": True}, router_cycles(3)),
    "speculation": ({"speculation": True}, router_cycles(3)),
    "both": ({"lookahead": True, "speculation": True}, router_cycles(2)),
    "speculation in a long pipeline": ({"speculation": True, "pipeline": ODD}, router_cycles(8)),
    "allocators": ({"va_allocator": "islip:2", "sa_allocator": "wavefront"}, router_cycles(4)),
    "age": ({"va_allocator": "age", "sa_allocator": "age"}, router_cycles(4)),
    "output first": (
        {"va_allocator": "separable-output-first", "sa_allocator": "separable-output-first", "speculation": True},
        router_cycles(3),
    ),
    "input first": ({"va_allocator": "separable-input-first", "input_speedup": 2}, router_cycles(4)),
    # bw + sa + (rc + va + st) // m, one tick less with speculation.
    "twice a cycle": ({"internal_speedup": 2}, router_cycles(1 + 3 // 2)),
    "three times a cycle": ({"internal_speedup": 3, "pipeline": ODD}, router_cycles(4 + 5 // 3)),
    "twice, and speculation": ({"internal_speedup": 2, "speculation": True}, router_cycles(1 + 2 // 2)),
    "twice, no rc, no st": ({"internal_speedup": 2, "pipeline": {"rc": 0, "st": 0}}, router_cycles(1 + 1 // 2)),
    "cut-through": ({"flow_control": "virtual-cut-through", "buffer": 33}, router_cycles(4)),
    "store and forward": ({"flow_control": "store-and-forward", "buffer": 33}, stored),
    "credits late": ({"credit_delay": 9, "buffer": 33}, router_cycles(4)),
    "a pool": ({"buffer": 3, "shared_buffer": 30}, router_cycles(4)),
    "drained": ({"vc_reuse": "drained"}, router_cycles(4)),
}


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str, Case], dict[str, Any]]:
    """The settings of a case, with the file of a graph where one is wanted."""

    def made(name: str, case: Case) -> dict[str, Any]:
        options = dict(case.options)
        if name == "graph":
            options["file"] = str(tmp_path / "graph.edgelist")
            Path(options["file"]).write_text("0 1\n1 2\n2 3\n3 0\n1 3\n3 4\n", encoding="utf-8")
        return {"options": options, "latency": case.latency, "lane_latency": cycles(LANE)}

    return made


def test_every_topology_of_the_shelf_is_here() -> None:
    assert set(topologies.names()) == set(SHELF)


CASES = [(name, case) for name, cases in SHELF.items() for case in cases]
of_the_shelf = pytest.mark.parametrize(
    ("name", "case"), CASES, ids=[f"{name} {case.shape or case.options}" for name, case in CASES]
)


def alone(network: PacketNetwork, latency: list[int], src: int, dst: int, plane: int, n: int, formula: Formula) -> None:
    """Send one packet: the way that it takes is one, and its latency that of this way."""
    topology = network.topology
    message = network.send(src, dst, n, plane=plane, at=network.now)
    ((arrived, at),) = drain(network)
    if topology.relation.deterministic:
        way = [link for link, _ in topology.relation.route(src, dst, plane)]
    else:
        trace = network.engine.trace()
        way = trace[(trace[:, 3] == message) & (trace[:, 5] == 0) & (trace[:, 1] < topology.links), 1].tolist()
        at_routers = [int(topology.home[src]), *(int(topology.link_dst[link]) for link in way)]
        assert [int(topology.link_src[link]) for link in way] == at_routers[:-1]
        assert at_routers[-1] == topology.home[dst]
    wires = sum(latency[topology.link_dim[link]] * int(topology.link_length[link]) for link in way)
    _, first, last = network.engine.message_times(message)
    assert (arrived, at) == (message, last)
    assert last - first == formula(len(way) + 1, n) + wires + 2 * LANE


def pairs_of(network: PacketNetwork, most: int) -> list[list[int]]:
    """Rows (source, destination, plane); of many some by chance. Plane -1 where packets choose, and those of queues."""
    topology = network.topology
    rng = np.random.default_rng(zlib.crc32(topology.name.encode()))
    if topology.relation.deterministic or topology.confined:
        rows = topology.pairs()
        chosen: list[list[int]] = rows[rng.permutation(len(rows))[:most]].tolist()
        return chosen
    planes = sorted({-1, *(queue.plane for queues in topology.queues for queue in queues)})
    return [[int(a), int(b), plane] for plane in planes for a, b in rng.integers(0, topology.npus, (SOME, 2))]


@of_the_shelf
@in_turn("preset", PRESETS)
def test_zero_load_latency(name: str, case: Case, preset: str, words: Callable[[str, Case], dict[str, Any]]) -> None:
    """H*R + (links) + D_in + D_out + 1 + (n-1), whatever pair and plane; the links of a way may differ in latency."""
    router, formula = PRESETS[preset]
    network = packet_network(name, case.shape, trace=True, router=router, **words(name, case))
    for number, (src, dst, plane) in enumerate(pairs_of(network, max(30, part_of(ALL)))):
        alone(network, case.latency, src, dst, plane, (1, 2, 7, 33)[number % 4], formula)


@pytest.mark.parametrize(
    ("name", "case"), [(name, SHELF[name][0]) for name in ("torus", "dragonfly", "folded-clos")], ids=str
)
@in_turn("other", OTHERS)
def test_zero_load_latency_of_other_routers(
    name: str, case: Case, other: str, words: Callable[[str, Case], dict[str, Any]]
) -> None:
    router, formula = OTHERS[other]
    network = packet_network(name, case.shape, trace=True, packet="33 B", router=router, **words(name, case))
    for number, (src, dst, plane) in enumerate(pairs_of(network, SOME)):
        alone(network, case.latency, src, dst, plane, (1, 2, 7, 33)[number % 4], formula)


@of_the_shelf
def test_zero_load_latency_of_every_routing(
    name: str, case: Case, words: Callable[[str, Case], dict[str, Any]]
) -> None:
    """Also over vias and by candidates: the way is not known before, but what it takes is."""
    settings = words(name, case)
    for routing in packet_network(name, case.shape, **settings).topology.routings:
        for preset in ("booksim", "garnet-2"):
            router, formula = PRESETS[preset]
            router = {**router, "vcs": 16, "routing": routing}
            topology = machine_of(name, case.shape, router=router, **settings)[0]
            if preset == "garnet-2" and EACH in topology.relation.plane_select:
                with pytest.raises(InputError, match="adaptive routing requests VCs of several links"):
                    packet_network(name, case.shape, router=router, **settings)
                continue
            network = packet_network(name, case.shape, trace=True, packet="33 B", router=router, **settings)
            confined = topology.confined
            for number, (src, dst, plane) in enumerate(pairs_of(network, SOME)):
                alone(network, case.latency, src, dst, plane if confined else -1, 1 + number % 5, formula)
