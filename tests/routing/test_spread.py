"""The share of each pair that links carry: against mean loads, which are computed another way, and by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing import (
    RANDOM,
    Relation,
    balanced,
    expected_loads,
    minimal_adaptive,
    romm,
    tie_random,
    valiant,
    xy_yx,
)
from pyxsim.routing.spread import Spread, fixed, spread
from tests.examples import part_of
from tests.routing.nets import grid, grids
from tests.routing.test_slow import graphs

MADE: list[Any] = [tie_random, valiant, romm, xy_yx, balanced]


def pairs(relation: Relation) -> Any:
    """Source and destination of all pairs."""
    return np.indices((relation.npus, relation.npus)).reshape(2, -1)


def loads(relation: Relation, found: Spread, matrix: Any) -> Any:
    return np.bincount(found.link, found.share * np.repeat(matrix.ravel(), found.count), relation.links)


def agree(relation: Relation, plane: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).random((relation.npus, relation.npus))
    src, dst = pairs(relation)
    found = spread(relation, src, dst, plane, np.ones(relation.links, np.int64))
    wanted, hops = expected_loads(relation, matrix, plane)
    assert wanted is not None
    np.testing.assert_allclose(loads(relation, found, matrix), wanted, atol=1e-9)
    mean = np.bincount(np.repeat(np.arange(len(found.count)), found.count), found.share, len(found.count))
    assert (found.longest >= mean - 1e-9).all()
    assert float((mean * matrix.ravel()).sum() / matrix.sum()) == pytest.approx(hops)


@settings(max_examples=part_of(40), deadline=None)
@given(grids(most=9), st.sampled_from(MADE), st.integers(0, 999), st.data())
def test_as_mean_loads_of_grids(base: Relation, made: Any, seed: int, data: st.DataObject) -> None:
    try:
        relation = made(base)
    except InputError:
        relation = tie_random(base)
    agree(relation, data.draw(st.integers(-1, relation.planes - 1)), seed)


@settings(max_examples=part_of(40), deadline=None)
@given(graphs(), st.integers(0, 999), st.data())
def test_as_mean_loads_of_random_tables(relation: Relation, seed: int, data: st.DataObject) -> None:
    none = np.full(relation.planes, -1, np.int32)
    relation = dataclasses.replace(
        relation, plane_select=np.full_like(none, RANDOM), plane_escape=none, choose="random", plane_any=none + 1
    )
    plane = data.draw(st.integers(-1, relation.planes - 1))
    try:
        expected_loads(relation, np.ones((relation.npus, relation.npus)), plane)
    except UnreachableError:
        assume(False)
    agree(relation, plane, seed)


def test_many_pairs_and_vias_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRIPS", "BATCH"):
        monkeypatch.setattr(f"pyxsim.routing.spread.{name}", 20)
    agree(valiant(tie_random(grid("ring", [3, 3]))), -1, 1)


def test_a_fixed_route_has_all_of_each_link() -> None:
    relation = grid("mesh", [3, 3])
    assert fixed(relation, 0)
    assert fixed(relation, -1)
    found = spread(relation, np.array([0]), np.array([8]), 0, np.arange(relation.links))
    route = [link for link, _ in relation.route(0, 8)]
    assert sorted(found.link.tolist()) == sorted(route)
    assert found.share.tolist() == [1.0] * 4
    assert found.longest.tolist() == [sum(route)]


def test_two_ways_round_a_ring() -> None:
    """To the opposite NPU half goes each way; that takes the longer of both."""
    relation = tie_random(grid("ring", [4]))
    assert not fixed(relation, -1)
    lengths = np.ones(relation.links, np.int64)
    lengths[relation.link_src == 3] = 10
    found = spread(relation, np.array([0, 0]), np.array([2, 1]), -1, lengths)
    assert found.count.tolist() == [4, 1]
    assert found.share.tolist() == [0.5] * 4 + [1.0]
    assert found.longest.tolist() == [11, 1]


def test_packets_that_adapt_use_their_candidates_alike() -> None:
    relation = minimal_adaptive(tie_random(grid("mesh", [2, 2])))
    found = spread(relation, np.array([0]), np.array([3]), -1, np.ones(relation.links, np.int64))
    assert found.share.tolist() == [0.5] * 4


def test_up_any_way_in_a_fat_tree() -> None:
    """k = 3, n = 2: a third over each of the roots, and all of it at neither end, where lanes are."""
    from pyxsim.topology.build import build

    relation = build("k-ary-n-tree", None, None, {"k": 3, "n": 2}).relation
    found = spread(relation, np.array([0]), np.array([8]), -1, np.ones(relation.links, np.int64))
    assert found.share.tolist() == pytest.approx([1 / 3] * 6)
    assert found.longest.tolist() == [2]


def test_to_the_own_router_there_is_no_link() -> None:
    relation = valiant(tie_random(grid("ring", [3])))
    found = spread(relation, np.array([1]), np.array([1]), 0, np.ones(relation.links, np.int64))
    assert (found.count.tolist(), found.link.tolist(), found.longest.tolist()) == ([0], [], [0])
