"""Paths of an all-to-all: as schedules, as text, in files, and against closed forms and the maximum concurrent flow."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.collective.checker import prove
from pyxsim.collective.custom.export import to_msccl
from pyxsim.collective.custom.paths import Paths, paths_of
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from pyxsim.synthesis.balanced import UnreachedError
from pyxsim.synthesis.balanced_paths import balanced_paths, fewest_messages
from pyxsim.synthesis.estimate import link_units, paths_time
from pyxsim.synthesis.link_graph import LinkGraph, graph_of_links
from pyxsim.synthesis.symmetric import symmetry_of
from pyxsim.synthesis.timing import timed_paths
from pyxsim.topology.capacity_graph import CapacityGraph
from pyxsim.topology.concurrent_flow import concurrent_flow
from tests.examples import part_of
from tests.synthesis.networks import both_ways, box_of_two, graph, ring

pytest.importorskip("scipy")


def bound(network: LinkGraph) -> Fraction:
    """The least time of an all-to-all of 1 at every NPU."""
    rates = [int(rate) for rate in network.rate]
    capacity = CapacityGraph.of(network.nodes, network.src.tolist(), network.dst.tolist(), rates)
    found = concurrent_flow(capacity, np.arange(network.npus))
    return found.time / network.npus / capacity.unit


def chosen(network: LinkGraph, units: int = 4) -> Paths:
    paths = balanced_paths(network, units, bound(network))
    assert paths is not None
    return paths


@pytest.mark.parametrize(
    ("network", "units", "time"),
    [
        # A byte for each of N: the sum of all distances, over all links.
        (ring(8), 16, Fraction(8 * (1 + 1 + 2 + 2 + 3 + 3 + 4), 16 * 8)),
        ({"topology": "torus", "shape": [4, 4]}, 4, Fraction(16 * (4 * 1 + 6 * 2 + 4 * 3 + 1 * 4), 64 * 16)),
        ({"topology": "torus", "shape": [3, 4, 5]}, 1, Fraction(12 * (1 + 1 + 2 + 2), 2 * 60)),  # around rings of 5
        # From one half to the other one, over the links in the middle: 8 to 8 over 4.
        ({"topology": "mesh", "shape": [4, 4]}, 4, Fraction(8 * 8, 4 * 16)),
        ({"topology": "fully-connected", "shape": [8]}, 1, Fraction(1, 8)),
        ({"topology": "switch", "shape": [8]}, 1, Fraction(7, 8)),
        # 4 to 4 over links of 1, whose bytes the other links carry easily.
        (box_of_two(), 1, Fraction(4, 8)),
    ],
)
def test_paths_reach_closed_forms(network: LinkGraph | dict[str, object], units: int, time: Fraction) -> None:
    network = graph(**network) if isinstance(network, dict) else network
    paths = chosen(network, units)
    paths.check()
    assert bound(network) == pytest.approx(time, rel=1e-4)
    assert bound(network) <= paths_time(network, paths) <= time * Fraction(1025, 1000)
    in_turn, ends = timed_paths(network, paths)
    in_turn.check()
    assert paths_time(network, in_turn) == paths_time(network, paths) <= ends
    prove(in_turn.schedule("all-to-all"))


@st.composite
def graphs(draw: st.DrawFn) -> LinkGraph:
    """Connected graphs of 3 to 7 NPUs with links of rates 1 to 3."""
    n = draw(st.integers(3, 7))
    edges = {(draw(st.integers(0, b - 1)), b) for b in range(1, n)}
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
    edges |= draw(st.sets(pairs, max_size=8))
    return graph_of_links(both_ways((a, b, draw(st.integers(1, 3))) for a, b in sorted(edges)), range(n))


@settings(max_examples=part_of(20), deadline=None)
@given(graphs())
def test_no_paths_beat_the_concurrent_flow_and_many_parts_come_close(network: LinkGraph) -> None:
    least = bound(network)
    paths = chosen(network, 24)
    paths.check()
    assert least * Fraction(9999, 10000) <= paths_time(network, paths) <= least * Fraction(105, 100)
    in_turn, ends = timed_paths(network, paths)
    in_turn.check()
    assert ends >= paths_time(network, paths)
    prove(in_turn.schedule("all-to-all"))


def test_a_network_without_symmetry_and_with_a_dead_link() -> None:
    links = nx.random_regular_graph(4, 12, seed=3)
    links.remove_edge(*min(links.edges))
    network = graph_of_links(both_ways((a, b, 5) for a, b in links.edges), range(12))
    assert symmetry_of(network) is None
    paths, least = chosen(network, 8), bound(network)
    in_turn, ends = timed_paths(network, paths)
    assert paths_time(network, paths) <= ends <= least * Fraction(103, 100)
    prove(in_turn.schedule("all-to-all"))


def test_moves_of_a_symmetric_network_load_all_links_equally() -> None:
    network = graph(topology="torus", shape=[4, 4])
    assert symmetry_of(network) is not None
    # 15 others at a distance of 32 hops in all, over 4 links of each NPU.
    assert set(link_units(network, chosen(network, 4), "all-to-all").tolist()) == {4 * 8}


def test_without_a_way_nothing_is_chosen() -> None:
    network = graph_of_links([(0, 1, 1), (1, 0, 1), (2, 0, 1)], range(3))
    with pytest.raises(UnreachedError, match="NPU 2 is not connected"):
        balanced_paths(network, 1, Fraction(1))


def test_without_time_nothing_is_chosen() -> None:
    assert balanced_paths(ring(5), 1, Fraction(3, 5), seconds=0.0) is None


def test_the_fewest_messages_are_the_distances() -> None:
    assert fewest_messages(ring(5)) == 5 * (1 + 1 + 2 + 2)
    assert fewest_messages(graph(topology="mesh", shape=[3])) == 2 * (1 + 1 + 2)


def test_rails_join_the_same_places_of_boxes() -> None:
    rails = box_of_two().with_rails()
    src, dst, _ = rails.pairs
    between = {(a, b) for a, b in zip(src.tolist(), dst.tolist(), strict=True) if a // 4 != b // 4}
    assert between == {(a, (a + 4) % 8) for a in range(8)}
    assert len(src) == 8 + 2 * 4 * 3
    alone = ring(5)
    assert alone.with_rails() is alone


def test_the_text_and_msccl_read_back_equal(tmp_path: Path) -> None:
    paths, _ = timed_paths(ring(5), chosen(ring(5), 2))
    again = Paths.of_text(5, 2, paths.text())
    assert all(np.array_equal(getattr(paths, name), getattr(again, name)) for name in ("first", "ranks", "step"))
    for slices in (1, 3):
        schedule = paths.schedule("all-to-all", slices)
        assert int((~schedule.local).sum()) == paths.messages("all-to-all", slices)
        file = tmp_path / f"{slices}.xml"
        file.write_text(to_msccl(schedule))
        prove(get_schedule("all-to-all", str(file), 5))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((0, 1, [0, 2], [0]), "once"),  # nobody carries from 0 to 1
        ((1, 1, [0, 1], [0]), "do not exist"),
        ((0, 1, [0, 1], [-1]), "steps"),
        ((0, 1, [0, 2, 1], [1, 1]), "steps"),
        ((0, 1, [0, 3], [0]), "does not exist"),
        ((0, 1, [0, 2, 0, 1], [0, 1, 2]), "twice"),
        ((0, 1, [0], []), "no hops"),
    ],
)
def test_damaged_paths_are_refused(row: tuple[int, int, list[int], list[int]], problem: str) -> None:
    good = [(0, 1, [a, b], [0]) for a in range(3) for b in range(3) if a != b]
    paths_of(3, 1, good).check()
    with pytest.raises(InputError, match=problem):
        paths_of(3, 1, [row, *good[1:]]).check()


def test_wrong_text_and_wrong_groups_are_refused() -> None:
    for line in ("0 1 0 1", "0 1 0 x 0", "0 1 0", "0 1 0 -1 0"):
        with pytest.raises(InputError, match="path 1"):
            Paths.of_text(2, 1, line)
    paths = chosen(ring(5), 1)
    with pytest.raises(InputError, match="for 5 NPUs, but the group has 4"):
        paths.schedule("all-to-all", 1, "x", 4)
    with pytest.raises(InputError, match="does not support all-gather"):
        paths.schedule("all-gather")
    with pytest.raises(InputError, match="at most 4096 slices"):
        paths.schedule("all-to-all", 5000)
    with pytest.raises(InputError, match="once"):
        replace(paths, units=2).check()


@pytest.mark.parametrize(("network", "shape"), [("mesh", [3, 3]), ("torus", [4, 4]), ("dgx-1", None)])
def test_simulated_all_to_alls_come_close_to_the_optimum_and_beat_the_shelf(
    network: str, shape: list[int] | None, tmp_path: Path
) -> None:
    file = tmp_path / "exchange.xml"
    found = pyxsim.synthesize(network, shape=shape, kind="all-to-all", size="64 MiB", rank="flow", file=file)
    best = found["ranked"][found["best"]]
    shelf = [each["simulated_s"] for each in found["ranked"] if each["source"] == "shelf"]
    assert best["name"] == "balanced paths"
    assert 1 <= best["of_bound"] <= 1.03
    assert best["simulated_s"] < min(shelf)
    assert found["proof"] == "correct for every order of arrival, as read back from the file"


def test_only_an_all_to_all_has_paths() -> None:
    with pytest.raises(InputError, match="balanced paths: all-gather"):
        pyxsim.synthesize("ring", shape=[4], kind="all-gather", method="paths", rank="none")
