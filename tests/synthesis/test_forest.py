"""Forests as schedules, as text, and in the files of other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.custom.export import to_msccl
from pyxsim.collective.custom.export_plan import to_forestcoll, to_mscclpp, to_tacos
from pyxsim.collective.custom.forest import FOREST_KINDS, Forest, forest_of
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from pyxsim.synthesis.matching import matched_forest
from tests.synthesis.networks import ring

KINDS = FOREST_KINDS[:3]


def chains(n: int) -> Forest:
    """One tree of each rank: the way around a ring."""
    rows = []
    for root in range(n):
        parent, step = [(rank - 1) % n for rank in range(n)], [(rank - root) % n - 1 for rank in range(n)]
        parent[root] = -1
        rows.append((root, 0, 1, parent, step))
    return forest_of(n, 1, rows)


def forest() -> Forest:
    found = matched_forest(ring(5), 2)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", FOREST_KINDS)
def test_trees_compute_every_kind(kind: str) -> None:
    for slices in (1, 3):
        prove(forest().schedule(kind, slices))


def test_an_all_reduce_sends_each_unit_twice_over_each_edge_of_its_tree() -> None:
    # 5 ranks, 2 units each, trees of 4 edges: 40 messages in each phase; 3 slices of each.
    schedule = forest().schedule("all-reduce", 3)
    assert int((~schedule.local).sum()) == 2 * 40 * 3  # local steps only collect waits


def test_the_text_reads_back_equal() -> None:
    first = forest()
    again = Forest.of_text(5, 2, first.text())
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("root", "parent", "step"))


def test_damaged_forests_are_refused() -> None:
    good = chains(4)
    for name, at, value in (("parent", (0, 2), -1), ("step", (0, 2), 0), ("root", 1, 0), ("first", 0, 1)):
        rows = getattr(good, name).copy()
        rows[at] = value
        damaged = replace(good, **{name: rows})
        with pytest.raises(InputError):
            damaged.check()
    with pytest.raises(InputError, match="whole numbers"):
        Forest.of_text(4, 1, "0 0 1 x")


def test_depth_and_ranks_below() -> None:
    # A chain from rank 0 over 1 and 2 to 3.
    assert chains(4).depth[0].tolist() == [0, 1, 2, 3]
    assert chains(4).below()[0].tolist() == [4, 3, 2, 1]


def test_other_sizes_of_groups_are_refused() -> None:
    with pytest.raises(InputError, match="for 5 NPUs, but the group has 4"):
        forest().schedule("all-gather", 1, "x", 4)


def sent(schedule: object) -> list[tuple[int, int]]:
    """Sender and receiver of every message."""
    s = schedule
    there = ~s.local  # type: ignore[attr-defined]
    return sorted(zip(s.src[there].tolist(), s.dst[there].tolist(), strict=True))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_other_programs_read_back_and_send_the_same(kind: str, tmp_path: Path) -> None:
    trees = forest()
    original = trees.schedule(kind)
    files = {"plan.json": to_mscclpp(trees, kind), "trees.xml": to_forestcoll(trees), "msccl.xml": to_msccl(original)}
    if kind == "all-gather":
        pairs = {(a, b): 1.0 for a in range(5) for b in ((a + 1) % 5, (a - 1) % 5)}
        files["tacos.csv"] = to_tacos(trees, 1024, pairs, pairs)
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        again = get_schedule(kind, str(path), 5)
        prove(again)
        assert sent(again) == sent(original), name


def reducing() -> Forest:
    """Two trees of an all-reduce of 4 ranks in a ring, each a chain, with different roots in the middle."""
    parent = [[1, 2, -1, 2], [3, 0, 3, -1]]
    up = [[0, 1, -1, 0], [1, 0, 0, -1]]
    down = [[3, 2, -1, 2], [2, 3, 2, -1]]
    rows = [np.array(values, np.int32) for values in ([2, 3], [0, 1], [1, 1], parent, down, up)]
    return Forest(4, 2, rows[0], rows[1], rows[2], rows[3], rows[4], rows[5])


def test_all_reduce_trees_may_begin_anywhere_and_add_up_and_return_at_once() -> None:
    trees = reducing()
    trees.check()
    for slices in (1, 3):
        schedule = trees.schedule("all-reduce", slices)
        prove(schedule)
        # The buffer is 2 units, not 2 of every rank.
        assert schedule.blocks == 2 * slices
        assert int((~schedule.local).sum()) == 2 * 2 * 3 * slices
    for kind in ("all-gather", "reduce-scatter", "all-to-all"):
        with pytest.raises(InputError, match="all-reduce"):
            trees.schedule(kind)


def test_files_of_all_reduce_trees_read_back_and_send_the_same(tmp_path: Path) -> None:
    trees = reducing()
    again = Forest.of_text(4, 2, trees.text())
    assert again.up is not None
    assert np.array_equal(again.up, trees.up)
    original = trees.schedule("all-reduce")
    for name, text in {"plan.json": to_mscclpp(trees, "all-reduce"), "msccl.xml": to_msccl(original)}.items():
        path = tmp_path / name
        path.write_text(text)
        read = get_schedule("all-reduce", str(path), 4)
        prove(read)
        assert sent(read) == sent(original), name
    with pytest.raises(InputError, match="ForestColl"):
        to_forestcoll(trees)


@pytest.mark.parametrize(("name", "at", "value"), [("up", (0, 0), 1), ("up", (0, 2), 0), ("step", (0, 1), 1)])
def test_damaged_all_reduce_trees_are_refused(name: str, at: tuple[int, int], value: int) -> None:
    good = reducing()
    rows = getattr(good, name).copy()
    rows[at] = value
    with pytest.raises(InputError, match="do not increase"):
        replace(good, **{name: rows}).check()
