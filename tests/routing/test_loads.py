"""Mean loads and hops against every path written out, and against closed forms.

Closed forms: Dally and Towles, Principles and Practices of Interconnection Networks (2004), chapter 3 and 9. Uniform
traffic includes the node itself.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing import (
    EACH,
    RANDOM,
    Graph,
    Relation,
    adaptive_xy_yx,
    balanced,
    expected_hops,
    expected_loads,
    minimal_adaptive,
    nca,
    romm,
    tie_random,
    ugal,
    up_down,
    valiant,
    xy_yx,
)
from pyxsim.routing.graph import shortest
from tests.examples import part_of
from tests.routing.nets import grid, grids
from tests.routing.slow import NoRoute, Slow, State
from tests.routing.test_slow import graphs

MADE: list[Any] = [tie_random, valiant, romm, xy_yx, balanced]


def uniform(relation: Relation) -> np.ndarray[Any, Any]:
    return np.full((relation.npus, relation.npus), 1 / relation.npus)


def by_hand(relation: Relation, src: int, dst: int, plane: int) -> dict[int, Fraction]:
    """Of one packet, the mean number of times that it crosses each link: every path followed."""
    slow = Slow(relation, [], whole=False)
    found: dict[int, Fraction] = {}

    def follow(state: State, share: Fraction) -> None:
        packet = slow.step(state)
        for channel, after in packet:
            found[channel[0]] = found.get(channel[0], Fraction(0)) + share / len(packet)
            follow(after, share / len(packet))

    begins = [(begin, Fraction(1)) for begin in slow.begins(src, dst, plane)]
    if plane < 0:
        begins = []
        for way in relation.ways:
            mine = list(slow.begins(src, dst, plane, ways=(way,)))
            begins += [(begin, Fraction(1, len(mine) * len(relation.ways))) for begin in mine]
    for begin, share in begins:
        follow(begin, share)
    return found


def check(relation: Relation, plane: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).random((relation.npus, relation.npus))
    matrix[matrix < 0.3] = 0
    hand = np.zeros(relation.links)
    hops = np.zeros((relation.npus, relation.npus))
    for src, dst in np.ndindex(*matrix.shape):
        for link, times in by_hand(relation, src, dst, plane).items():
            hand[link] += float(times) * matrix[src, dst]
            hops[src, dst] += float(times)
    load, mean = expected_loads(relation, matrix, plane)
    assert load is not None
    np.testing.assert_allclose(load, hand, atol=1e-9)
    np.testing.assert_allclose(expected_hops(relation, plane), hops, atol=1e-9)
    assert mean == pytest.approx(float((hops * matrix).sum() / matrix.sum()) if matrix.any() else 0)


@settings(max_examples=part_of(40))
@given(grids(most=9), st.sampled_from(MADE), st.booleans(), st.integers(0, 999), st.data())
def test_grids(base: Relation, made: Any, separable: bool, seed: int, data: st.DataObject) -> None:
    try:
        relation = made(base)
    except InputError:
        relation = tie_random(base)
    if not separable:
        relation = dataclasses.replace(relation, separable=False)
    check(relation, data.draw(st.integers(-1, relation.planes - 1)), seed)


@settings(max_examples=part_of(40))
@given(graphs(), st.integers(0, 999), st.data())
def test_random_tables(relation: Relation, seed: int, data: st.DataObject) -> None:
    none = np.full(relation.planes, -1, np.int32)
    relation = dataclasses.replace(
        relation, plane_select=np.full_like(none, RANDOM), plane_escape=none, choose="random", plane_any=none + 1
    )
    plane = data.draw(st.integers(-1, relation.planes - 1))
    rows = [(s, d, plane) for s in range(relation.npus) for d in range(relation.npus)]
    try:
        Slow(relation, rows, whole=False)
    except NoRoute:
        assume(False)
    check(relation, plane, seed)


@pytest.mark.parametrize("shape", [[8], [5], [8, 8], [4, 6], [3, 4, 5], [2, 2, 2]])
def test_hops_of_tori_and_meshes(shape: list[int]) -> None:
    torus, mesh = tie_random(grid("ring", shape)), grid("mesh", shape)
    # Table 3.1 ff.: k/4 per dimension of a torus, k/4 - 1/(4k) if k is odd; (k - 1/k) / 3 of a mesh.
    around = sum(k / 4 if k % 2 == 0 else k / 4 - 1 / (4 * k) for k in shape)
    along = sum((k - 1 / k) / 3 for k in shape)
    for relation, hops in ((torus, around), (mesh, along)):
        assert expected_loads(relation, uniform(relation))[1] == pytest.approx(hops)
        assert expected_hops(relation).mean() == pytest.approx(hops)
        for made, times in ((valiant, 2), (romm, 1), (balanced, 1), (minimal_adaptive, 1), (ugal, 1)):
            if made is balanced and relation is mesh:
                continue
            assert expected_hops(made(relation)).mean() == pytest.approx(times * hops)
        if len(shape) > 1:
            assert expected_hops(xy_yx(relation)).mean() == pytest.approx(hops)


@pytest.mark.parametrize("k", [4, 8])
def test_loads_of_uniform_traffic(k: int) -> None:
    torus, mesh = tie_random(grid("ring", [k, k])), grid("mesh", [k, k])
    load, _ = expected_loads(torus, uniform(torus))
    # All channels alike: k/8. In a mesh the busiest ones, in the middle, carry k/4.
    assert load is not None
    np.testing.assert_allclose(load, k / 8)
    load, _ = expected_loads(mesh, uniform(mesh))
    assert load is not None
    assert load.max() == pytest.approx(k / 4)
    load, _ = expected_loads(valiant(torus), uniform(torus))
    assert load is not None
    np.testing.assert_allclose(load, k / 4)


def test_valiant_makes_any_permutation_uniform() -> None:
    torus = grid("ring", [4, 4])
    around = valiant(torus)
    everywhere, hops = expected_loads(around, uniform(torus))
    assert everywhere is not None
    for seed in range(5):
        permutation = np.eye(16)[np.random.default_rng(seed).permutation(16)]
        load, mean = expected_loads(around, permutation)
        assert load is not None
        np.testing.assert_allclose(load, everywhere)
        assert mean == pytest.approx(hops) == pytest.approx(4)


def test_tornado() -> None:
    # Every packet goes k/2 - 1 links by +: the load of those links is just that, of those by - nothing (9.2).
    ring = grid("ring", [8])
    matrix = np.roll(np.eye(8), 3, axis=1)
    load, hops = expected_loads(tie_random(ring), matrix)
    assert load is not None
    assert load.tolist() == [3] * 8 + [0] * 8
    assert hops == 3
    load, hops = expected_loads(valiant(ring), matrix)
    assert load is not None
    np.testing.assert_allclose(load, 2)
    assert hops == pytest.approx(4)


def test_transpose_on_a_mesh_in_two_orders() -> None:
    k = 8
    matrix = np.zeros((k * k, k * k))
    x, y = np.indices((k, k)).reshape(2, -1)
    matrix[x + k * y, y + k * x] = 1
    mesh = grid("mesh", [k, k])
    # In one order all packets of row 0 turn at its end: k - 1. In two orders they share two corners.
    load, _ = expected_loads(mesh, matrix)
    assert load is not None
    assert load.max() == k - 1
    load, _ = expected_loads(xy_yx(mesh), matrix)
    assert load is not None
    assert load.max() == (k - 1) / 2


def tree(k: int, n: int) -> tuple[Graph, list[int]]:
    """A k-ary n-tree: switch (level, number), above the NPUs k at each of the lowest; level n - 1 on top."""
    per_level = k ** (n - 1)
    links = []
    for level in range(n - 1):
        for low in range(per_level):
            for digit in range(k):
                scale = k**level
                high = low - low // scale % k * scale + digit * scale
                links += [(level * per_level + low, (level + 1) * per_level + high)]
    links += [(b, a) for a, b in links]
    home = np.repeat(np.arange(per_level), k)
    return Graph.of(links, home), [i // per_level for i in range(n * per_level)]


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 3), (4, 3), (3, 3)])
def test_nearest_common_ancestors(k: int, n: int) -> None:
    graph, level = tree(k, n)
    relation = nca(graph, level)
    # Of k^n NPUs, (k - 1) k^i are reached over i levels up and as many down.
    hops = sum(2 * i * (k - 1) * k**i for i in range(1, n)) / k**n
    assert expected_hops(relation).mean() == pytest.approx(hops)
    load, _ = expected_loads(relation, uniform(relation))
    assert load is not None
    # Random up: all links of a level and direction alike. A switch sends up what k NPUs send out of its subtree.
    for i in range(n - 1):
        for up in (True, False):
            mine = [
                float(load[e])
                for e, (a, b) in enumerate(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
                if (level[a], level[b]) == ((i, i + 1) if up else (i + 1, i))
            ]
            np.testing.assert_allclose(mine, 1 - k ** (i + 1 - n))
    # The less used of two links up: loads depend on the traffic, hops do not.
    adaptive = nca(graph, level, "two")
    assert expected_loads(adaptive, uniform(adaptive)) == (None, pytest.approx(hops))


def test_adaptive_loads_are_not_told() -> None:
    torus = grid("ring", [4, 4])
    for made, hops in ((minimal_adaptive, 2), (ugal, 2), (adaptive_xy_yx, 2)):
        relation = made(torus)
        assert expected_loads(relation, uniform(relation)) == (None, pytest.approx(hops))
    # A relation without any choice is oblivious, whatever it is called.
    only = dataclasses.replace(torus, plane_select=np.full(2, EACH, np.int32))
    load, _ = expected_loads(only, uniform(only))
    assert load is not None


def test_uneven_matrices() -> None:
    ring = grid("ring", [4])
    with pytest.raises(InputError, match="shape"):
        expected_loads(ring, np.ones((3, 4)))
    load, hops = expected_loads(ring, np.zeros((4, 4)))
    assert load is not None
    assert (load == 0).all()
    assert hops == 0


def test_no_route_is_told() -> None:
    one_way = Graph.of([(0, 1), (1, 2), (2, 0)])
    relation = shortest(one_way)
    assert expected_hops(relation).tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    lost = dataclasses.replace(relation, link=np.where(relation.link == 1, -1, relation.link).astype(np.int32))
    for told in (lambda: expected_hops(lost), lambda: expected_loads(lost, np.ones((3, 3)))):
        with pytest.raises(UnreachableError, match=r"NPU \d cannot reach NPU \d"):
            told()
    line = up_down(Graph.of([(0, 1), (1, 0), (1, 2), (2, 1)]))
    assert expected_hops(line)[0].tolist() == [0, 1, 2]
