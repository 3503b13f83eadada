"""The methods against closed forms, brute force and each other."""

from __future__ import annotations

import itertools
from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.synthesis.balanced import CENTRAL, SLACK, UnreachedError, gather_trees, reduce_trees
from pyxsim.synthesis.estimate import forest_time, link_units
from pyxsim.synthesis.exact import exact_forest
from pyxsim.synthesis.link_graph import LinkGraph, graph_of_links
from pyxsim.synthesis.matching import matched_forest
from pyxsim.synthesis.symmetric import symmetric_forest
from pyxsim.synthesis.timing import timed
from pyxsim.synthesis.trees import packed_forest
from pyxsim.topology.cut_bound import bottleneck_bandwidth
from tests.examples import part_of
from tests.synthesis.networks import both_ways, box_of_two, graph, ring

pytest.importorskip("scipy")


def gather_bandwidth(network: LinkGraph) -> Fraction:
    return bottleneck_bandwidth(network.links, list(range(network.npus)))


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
    in_turn, ends = timed(network, forest)
    in_turn.check()
    assert ends >= forest_time(network, forest, "all-gather")
    assert forest_time(network, forest, "all-gather") == bound(network)


@st.composite
def graphs(draw: st.DrawFn) -> LinkGraph:
    """Connected graphs of 3 to 7 NPUs with links of rates 1 to 3."""
    n = draw(st.integers(3, 7))
    tree = [(draw(st.integers(0, b - 1)), b) for b in range(1, n)]
    more = draw(st.lists(st.sampled_from(list(itertools.combinations(range(n), 2))), max_size=8))
    edges = [(a, b, draw(st.integers(1, 3))) for a, b in {*tree, *more}]
    return graph_of_links(both_ways(edges), range(n))


@settings(max_examples=part_of(15), deadline=None)
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
    balanced = gather_trees(network, 12, least)
    assert balanced is not None
    balanced.check()
    assert least <= forest_time(network, balanced, "all-gather") <= least * Fraction(11, 10)


def spanning_tree_packing(network: LinkGraph) -> Fraction:
    """The largest fractional packing of spanning trees: the least width over groups less one of all partitions
    (Tutte and Nash-Williams, 1961)."""
    edges = {(a, b): int(rate) for a, b, rate in network.links if a < b}  # type: ignore[operator]
    best = []
    for groups in itertools.product(range(network.npus), repeat=network.npus):
        count = len(set(groups))
        if count > 1 and all(label <= max(groups[:at], default=-1) + 1 for at, label in enumerate(groups)):
            width = sum(rate for (a, b), rate in edges.items() if groups[a] != groups[b])
            best.append(Fraction(width, count - 1))
    return min(best)


@settings(max_examples=part_of(15), deadline=None)
@given(graphs().filter(lambda network: network.npus <= 5))
def test_trees_of_an_all_reduce_come_close_to_the_largest_packing_of_spanning_trees(network: LinkGraph) -> None:
    # Each tree sends its part once in each direction over each of its edges.
    least = network.npus / spanning_tree_packing(network)
    forest = reduce_trees(network, 128, least)
    assert forest is not None
    forest.check()
    in_turn, ends = timed(network, forest)
    in_turn.check()
    assert least <= forest_time(network, forest, "all-reduce") <= ends
    assert forest_time(network, forest, "all-reduce") <= least * Fraction(104, 100)


def test_trees_of_an_all_reduce_stay_near_shortest_paths_and_end_with_the_busiest_link() -> None:
    network = graph(topology="mesh", shape=[4, 4])
    least = Fraction(16 * 15, 24)  # 24 links in both directions for 15 edges of each tree
    forest = reduce_trees(network, 512, least)
    assert forest is not None
    # From the middle of the mesh, the farthest NPU is 4 hops away.
    assert int(forest.depth.max()) <= int(4 * CENTRAL) + SLACK
    assert timed(network, forest)[1] <= least * Fraction(1015, 1000)


def test_an_all_reduce_on_a_mesh_beats_reduce_scatter_plus_all_gather_by_its_links() -> None:
    # 5x5: two links of a corner for 24 shards of 25, twice; or 40 links, each both ways, for 24 edges of each tree.
    network = graph(topology="mesh", shape=[5, 5])
    least = Fraction(25 * 24, 40)
    forest = reduce_trees(network, 512, least)
    assert forest is not None
    in_turn, ends = timed(network, forest)
    assert forest_time(network, in_turn, "all-reduce") <= least * Fraction(101, 100)
    # Links are rarely idle: the last tree ends soon after the busiest link would, if it never waited.
    assert ends <= least * Fraction(106, 100)
    assert ends < 2 * bound(network)


def test_deeper_trees_are_taken_only_where_links_need_them() -> None:
    # Of an all-gather on 8 fully connected NPUs, one hop does: any other tree would load links twice.
    network = graph(topology="fully-connected", shape=[8])
    forest = gather_trees(network, 4, Fraction(1))
    assert forest is not None
    assert forest.depth.max() == 1


def test_trees_need_neighbors_in_both_directions() -> None:
    network = graph_of_links([(0, 1, 1), (1, 0, 1), (1, 2, 1), (2, 0, 1)], range(3))
    with pytest.raises(UnreachedError):
        reduce_trees(network, 4, Fraction(1))


def test_boxes_that_look_alike_take_trees_off_the_shortest_paths() -> None:
    # Two boxes of 8: 12 into an NPU from its switch and 1 from that of all, for 15 shards. Along shortest paths, 8 of
    # them would come over the slow link.
    links = [(npu, f"box {npu // 8}", 12) for npu in range(16)] + [(npu, "all", 1) for npu in range(16)]
    network = graph_of_links(both_ways(links), range(16))
    assert bound(network) == Fraction(15, 13)
    forest = symmetric_forest(network, Fraction(15, 13))
    assert forest is not None
    forest.check()
    assert forest_time(network, forest, "all-gather") <= Fraction(15, 13) * Fraction(102, 100)


def test_over_switches_npus_of_boxes_have_few_partners() -> None:
    # Two chains of 3 NPUs, and a switch for all: NPU i sends over it to i + 3 only.
    chains = [(0, 1, 4), (1, 2, 4), (3, 4, 4), (4, 5, 4)]
    network = graph_of_links(both_ways([*chains, *((npu, "switch", 1) for npu in range(6))]), range(6))
    src, dst, route = network.with_few_partners().pairs
    over = (route >= 0).sum(axis=1) == 2
    assert {(int(a), int(b)) for a, b in zip(src[over], dst[over], strict=True)} == {(i, (i + 3) % 6) for i in range(6)}
    assert int((~over).sum()) == 8


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


CUBE = [(0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7), (6, 7)]


@pytest.mark.parametrize(
    ("edges", "units", "steps"),
    [
        # A ring of n: the farthest NPU is n // 2 away, and two links bring n - 1 chunks.
        ([(a, (a + 1) % 4) for a in range(4)], 1, 2),
        ([(a, (a + 1) % 5) for a in range(5)], 1, 2),
        ([(a, (a + 1) % 6) for a in range(6)], 1, 3),
        ([(a, (a + 1) % 4) for a in range(4)], 2, 3),
        (list(itertools.combinations(range(4), 2)), 1, 1),  # fully connected
        (CUBE, 1, 3),  # its diagonal
        # A DGX-1 (a cube with the diagonals of two faces): SCCL (Z. Cai and others, "Synthesizing optimal collective
        # algorithms", PPoPP 2021) publishes an all-gather of one chunk in 2 steps, its diameter.
        ([*CUBE, (0, 3), (1, 2), (4, 7), (5, 6)], 1, 2),
    ],
)
def test_integer_programming_finds_the_fewest_steps(edges: list[tuple[int, int]], units: int, steps: int) -> None:
    network = graph_of_links(both_ways((a, b, 1) for a, b in edges), range(1 + max(map(max, edges))))
    result = exact_forest(network, 1, units=units)
    assert result.forest is not None
    result.forest.check()
    assert (result.steps, result.optimal) == (steps, True)


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
    assert forest_time(network, forest, "all-gather") == bound(network) == Fraction(15, 3)
