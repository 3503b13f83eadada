"""The methods against closed forms, brute force and each other."""

from __future__ import annotations

import itertools
from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.synthesis.bounds import gather_bandwidth, least_seconds
from pyxsim.synthesis.estimate import forest_time, link_units
from pyxsim.synthesis.exact import exact_forest
from pyxsim.synthesis.link_graph import LinkGraph, graph_of_links
from pyxsim.synthesis.matching import matched_forest
from pyxsim.synthesis.symmetric import symmetric_forest
from pyxsim.synthesis.timing import timed
from pyxsim.synthesis.trees import packed_forest
from tests.synthesis.networks import both_ways, box_of_two, graph, ring

pytest.importorskip("scipy")


def bound(network: LinkGraph) -> Fraction:
    """The least time of an all-gather of 1 at every NPU."""
    return Fraction(network.npus) / gather_bandwidth(network)


@pytest.mark.parametrize(
    ("network", "time"),
    [
        # N-1 shards enter each NPU over its links: 2 in a ring, 4 in a torus, N-1 fully connected, 1 at a switch.
        ({"topology": "ring", "shape": [8]}, Fraction(7, 2)),
        ({"topology": "torus", "shape": [4, 4]}, Fraction(15, 4)),
        ({"topology": "torus", "shape": [3, 4, 5]}, Fraction(59, 6)),
        ({"topology": "fully-connected", "shape": [8]}, Fraction(1)),
        ({"topology": "switch", "shape": [8]}, Fraction(7)),
        ({"topology": "hyperx", "options": {"routers": [2, 2, 2, 2]}}, Fraction(15, 4)),
    ],
)
def test_symmetric_trees_reach_closed_forms(network: dict[str, object], time: Fraction) -> None:
    links = graph(**network)
    forest = symmetric_forest(links, time)
    assert forest is not None
    forest.check()
    assert bound(links) == time
    assert forest_time(links, forest, "all-gather") <= time * Fraction(101, 100)


def test_a_thousand_npus_take_one_tree_each_within_a_percent() -> None:
    links = graph(topology="torus", shape=[32, 32])
    forest = symmetric_forest(links, Fraction(1023, 4))
    assert forest is not None
    # 1023 shards over 4 links: 255.75, or 256 whole ones.
    assert link_units(links, forest).max() == 256


def test_meshes_do_not_look_the_same_from_every_npu() -> None:
    assert symmetric_forest(graph(topology="mesh", shape=[3, 3]), Fraction(4)) is None


@pytest.mark.parametrize("network", [ring(5), box_of_two()])
def test_packed_trees_reach_the_bottleneck_cut(network: LinkGraph) -> None:
    forest = packed_forest(network, gather_bandwidth(network))
    assert forest is not None
    forest.check()
    timed(network, forest).check()
    assert forest_time(network, forest, "all-gather") == bound(network)


@st.composite
def graphs(draw: st.DrawFn) -> LinkGraph:
    """Connected graphs of 3 to 7 NPUs with links of rates 1 to 3."""
    n = draw(st.integers(3, 7))
    tree = [(draw(st.integers(0, b - 1)), b) for b in range(1, n)]
    more = draw(st.lists(st.sampled_from(list(itertools.combinations(range(n), 2))), max_size=8))
    edges = [(a, b, draw(st.integers(1, 3))) for a, b in {*tree, *more}]
    return graph_of_links(both_ways(edges), range(n))


@settings(max_examples=15, deadline=None)
@given(graphs())
def test_no_method_beats_the_bound_and_packings_come_within_a_tenth(network: LinkGraph) -> None:
    least = bound(network)
    packed = packed_forest(network, gather_bandwidth(network))
    matched = matched_forest(network)
    assert matched is not None
    matched.check()
    assert forest_time(network, matched, "all-gather") >= least
    assert packed is not None
    packed.check()
    assert least <= forest_time(network, packed, "all-gather") <= least * Fraction(11, 10)


def brute_force_steps(network: LinkGraph) -> int:
    """The fewest steps of an all-gather on links of one rate: breadth first over who has what."""
    n = network.npus
    links = list(zip(network.src.tolist(), network.dst.tolist(), strict=True))
    states = {tuple(1 << npu for npu in range(n))}
    full = (1 << n) - 1
    steps = 0
    while not any(all(has == full for has in state) for state in states):
        following = set()
        for state in states:
            choices = [[c for c in range(n) if state[a] >> c & 1 and not state[b] >> c & 1] or [-1] for a, b in links]
            for chosen in itertools.product(*choices):
                new = list(state)
                for (_, b), c in zip(links, chosen, strict=True):
                    if c >= 0:
                        new[b] |= 1 << c
                following.add(tuple(new))
        states = following
        steps += 1
    return steps


@pytest.mark.parametrize(
    "edges", [[(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]]
)
def test_integer_programming_finds_what_brute_force_finds(edges: list[tuple[int, int]]) -> None:
    network = graph_of_links(both_ways((a, b, 1) for a, b in edges), range(1 + max(map(max, edges))))
    least = -(-bound(network).numerator // bound(network).denominator)
    result = exact_forest(network, least)
    assert result.optimal
    assert result.forest is not None
    result.forest.check()
    assert result.steps == brute_force_steps(network)


def test_matching_reaches_nearly_the_bound_on_a_mesh_of_a_thousand_npus() -> None:
    network = graph(topology="mesh", shape=[16, 16])
    forest = matched_forest(network)
    assert forest is not None
    forest.check()
    # A corner has two links for 255 shards.
    assert forest_time(network, forest, "all-gather") <= Fraction(255, 2) * Fraction(102, 100)


def test_matching_says_which_npu_is_out_of_reach() -> None:
    network = graph_of_links(both_ways([(0, 1, 1), (2, 3, 1)]), range(4))
    with pytest.raises(InputError, match="not reached"):
        matched_forest(network)


def test_a_dead_link_costs_what_its_npus_lose() -> None:
    # Degree 4 less a link: 15 shards enter an NPU over 3 links.
    edges = list(nx.random_regular_graph(4, 16, seed=1).edges)[1:]
    network = graph_of_links(both_ways((a, b, 50) for a, b in edges), range(16))
    forest = packed_forest(network, gather_bandwidth(network))
    assert forest is not None
    assert forest_time(network, forest, "all-gather") * network.unit == bound(network) * network.unit
    assert least_seconds(network, "all-gather", 3 * 50) == pytest.approx(15)
