"""Parts of a network: even ones, with long links between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.network.packet.router_partition import UNEVEN, cut
from tests.network.machines import packet_network

FAR = 64


def wired(links: list[tuple[int, int, int]]) -> Any:
    """Links (src, dst, delay) of one cycle per flit, each with its credits after as long; -1: an interface."""
    src, dst, delay = np.array(links).T
    ones = np.ones(len(links), np.int64)
    return SimpleNamespace(src=src, dst=dst, s_num=ones, s_den=ones, delay=delay - 1, credit_delay=delay)


def both_ways(pairs: list[tuple[int, int]], delay: int) -> list[tuple[int, int, int]]:
    return [(a, b, delay) for a, b in pairs] + [(b, a, delay) for a, b in pairs]


def test_long_links_are_cut() -> None:
    """Three cliques of 4, joined by long links. Two parts of 6 routers would be even, but cut one of them."""
    cliques = [(4 * c + a, 4 * c + b) for c in range(3) for a in range(4) for b in range(a)]
    joined = wired(both_ways(cliques, 2) + both_ways([(0, 4), (4, 8), (8, 0)], 30))
    assert cut(12, joined, 3, FAR).part_of.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert cut(12, joined, 3, FAR).lookahead == 30
    halves = cut(12, joined, 2, FAR)
    assert (halves.count, halves.lookahead) == (2, 2)
    assert halves.uneven <= UNEVEN


@pytest.mark.parametrize("shape", [[8], [4, 4], [3, 5], [4, 2, 3]])
@pytest.mark.parametrize("count", [2, 3])
def test_products(shape: list[int], count: int) -> None:
    """Links of 2 cycles and `st = 1`: a flit is there after 4 cycles, its credit after 3."""
    config = packet_network("torus", shape, latency=2, router={"pipeline": "booksim"}).config
    routers = int(np.prod(shape))
    found = cut(routers, config.links, count, FAR)
    assert found.lookahead == 3
    assert set(found.part_of.tolist()) == set(range(count))
    # Their numbers are neighbours: no part goes round another.
    assert np.all(np.diff(found.part_of) >= 0)


wires = st.integers(2, 12).flatmap(
    lambda routers: st.tuples(
        st.just(routers),
        st.lists(
            st.tuples(st.integers(-1, routers - 1), st.integers(0, routers - 1), st.integers(2, 90)),
            min_size=1,
            max_size=30,
        ),
    )
)


@given(made=wires, count=st.integers(1, 5))
def test_any_network(made: tuple[int, list[tuple[int, int, int]]], count: int) -> None:
    routers, links = made
    found = cut(routers, wired(links), count, FAR)
    part_of = found.part_of.tolist()
    assert set(part_of) == set(range(found.count))
    assert found.count <= count
    across = [delay for src, dst, delay in links if src >= 0 and part_of[src] != part_of[dst]]
    assert found.lookahead == min([*across, FAR])
