"""The fast proof by dimension: what it proves has no cycle, and it proves all tori, meshes and their like."""

from __future__ import annotations

import dataclasses
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.routing import ALWAYS, Relation, by_dimension, dependencies, prove, tie_random
from pyxsim.routing.product_table import NONE
from tests.examples import part_of
from tests.routing.nets import grid, grids
from tests.topology.nets import dependency_graph


@pytest.mark.parametrize(
    ("kind", "options"),
    [("ring", {}), ("ring", {"bidirectional": False}), ("mesh", {}), ("fully-connected", {}), ("switch", {})],
)
@pytest.mark.parametrize("shape", [[6], [4, 5], [3, 2, 4], [7, 1, 8]])
def test_grids_are_proved_fast(kind: str, options: dict[str, Any], shape: list[int]) -> None:
    relation = grid(kind, shape, **options)
    assert by_dimension.proves(relation)
    assert by_dimension.proves(tie_random(relation))


@settings(max_examples=part_of(150))
@given(grids(most=24), st.booleans(), st.data())
def test_what_is_proved_has_no_cycle(base: Relation, ties: bool, data: st.DataObject) -> None:
    relation = tie_random(base) if ties else base
    kind = data.draw(st.sampled_from(["same", "one class", "random classes", "no groups", "kept"]))
    seed = data.draw(st.integers(0, 99))
    if kind == "one class":
        relation = dataclasses.replace(
            relation,
            vc_class=np.zeros_like(relation.vc_class),
            set_class=np.zeros_like(relation.set_class),
            link_classes=np.ones_like(relation.link_classes),
        )
    if kind == "random classes":
        drawn = np.random.default_rng(seed).integers(0, 2, len(relation.link)).astype(np.int32)
        relation = dataclasses.replace(relation, vc_class=drawn, link_classes=np.full_like(relation.link_classes, 2))
    if kind == "no groups":
        relation = dataclasses.replace(relation, link_group=np.full_like(relation.link_group, -1))
    if kind == "kept":
        own = relation.own[: relation.routers]
        dims = (own[relation.link_src] != own[relation.link_dst]).argmax(axis=1)
        at_switch = own == ALWAYS
        for end in (relation.link_src, relation.link_dst):
            dims = np.where(at_switch[end].any(axis=1), at_switch[end].argmax(axis=1), dims)
        relation = dataclasses.replace(relation, link_group=dims.astype(np.int32))
    if by_dimension.proves(relation):
        if not relation.sets:
            assert nx.is_directed_acyclic_graph(dependency_graph(relation))
        assert not dependencies(dataclasses.replace(relation, separable=False)).behind_cycles().any()
        prove(relation, [(0, relation.npus - 1)])
    elif kind == "same":
        pytest.fail("a plain grid is not proved fast")


def test_missing_routes_are_not_proved() -> None:
    ring = grid("ring", [5])
    link = ring.link.copy()
    link[int(ring.offset[2, 0]) + 4] = NONE
    assert by_dimension.proves(ring)
    assert not by_dimension.proves(dataclasses.replace(ring, link=link))
    # No packet uses the entry of its own router.
    link = ring.link.copy()
    link[int(ring.offset[2, 0]) + 2] = NONE
    assert by_dimension.proves(dataclasses.replace(ring, link=link))


def test_routes_that_do_not_end_are_not_proved() -> None:
    line = grid("mesh", [4])
    link = line.link.copy()
    link[int(line.offset[2, 0]) + 3] = link[int(line.offset[2, 0])]  # back, from where packets return
    assert not by_dimension.proves(dataclasses.replace(line, link=link))


def test_mixed_groups_are_left_to_the_full_proof() -> None:
    ring = grid("ring", [6])
    group = ring.link_group.copy()
    group[0] = -1
    assert not by_dimension.proves(dataclasses.replace(ring, link_group=group))


def test_very_wide_dimensions_are_left_to_the_full_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = grid("ring", [6, 6])
    monkeypatch.setattr(by_dimension, "MOST_CASES_PER_NPU", 3)
    monkeypatch.setattr(by_dimension, "MOST_CASES", 2 * 72)
    assert by_dimension.proves(ring)
    monkeypatch.setattr(by_dimension, "MOST_CASES", 2 * 72 - 1)
    assert not by_dimension.proves(ring)
