"""Networks for the tests: random products of the blocks on the shelf, and slow second opinions about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import networkx as nx
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.registry import blocks
from pyxsim.routing import SKIP, Relation
from pyxsim.topology import Block, Topology, product

library.load_all()

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("ring", {}),
    ("ring", {"bidirectional": False}),
    ("mesh", {}),
    ("switch", {}),
    ("fully-connected", {}),
]


def block(name: str, npus: int, **options: Any) -> Block:
    made = blocks.get(name)(npus, **options)
    assert isinstance(made, Block)
    return made


@st.composite
def products(draw: st.DrawFn, most: int = 48, largest: int = 7) -> Topology:
    """A product of one to four random blocks with at most `most` NPUs."""
    made: list[Block] = []
    for _ in range(draw(st.integers(1, 4))):
        room = most // math.prod([b.npus for b in made])
        name, options = draw(st.sampled_from(KINDS))
        made.append(block(name, draw(st.integers(1, min(room, largest))), **options))
    return product("random", made)


def hops_in_block(part: Block, a: int, b: int) -> int:
    """Links between two NPUs of a block, from its name and size alone."""
    up, down = (b - a) % part.npus, (a - b) % part.npus
    if part.name == "ring":
        return min(up, down) if part.directions == 2 else up
    return {"mesh": abs(a - b), "switch": 2 * (a != b), "fully-connected": int(a != b)}[part.name]


def coords(npu: int, shape: Sequence[int]) -> list[int]:
    """ASTRA-sim's coordinates: dimension i has the stride of the product of the lower dimensions."""
    found = []
    for size in shape:
        found.append(npu % size)
        npu //= size
    return found


def slow_loads(relation: Relation, matrix: Sequence[Sequence[float]]) -> list[float]:
    """Flits over each link, one pair and one router after the other: draws are even, and no way has a via."""
    loads = [0.0] * relation.links

    def go(router: int, dst: int, plane: int, flits: float) -> None:
        if router == relation.home[dst]:
            return
        row = plane * relation.routers + router
        for dim, digit in enumerate(relation.digits[dst].tolist()):
            if relation.own[row, dim] in (SKIP, digit):
                continue
            found = relation.candidates(int(relation.offset[row, dim] + digit))
            for link, _ in found:
                loads[link] += flits / len(found)
                go(int(relation.link_dst[link]), dst, plane, flits / len(found))
            return

    for src, row in enumerate(matrix):
        for dst, flits in enumerate(row):
            for way in relation.ways:
                if flits:
                    go(int(relation.home[src]), dst, way.last, flits / len(relation.ways))
    return loads


def dependency_graph(relation: Relation) -> nx.DiGraph:
    """The channel dependency graph, one route after the other."""
    graph = nx.DiGraph()
    pairs = itertools.product(range(relation.npus), range(relation.npus), range(relation.planes))
    for src, dst, plane in pairs:
        graph.add_edges_from(itertools.pairwise(relation.route(src, dst, plane)))
    return graph
