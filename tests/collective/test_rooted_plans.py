"""Plans of the kinds with a root, and of barriers: who takes part in which phase, exact bytes, and the proof."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.bounds import sent_bytes
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.plan import Phase, Plan, dimension_order, make_plan
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.collective.schedule import ScheduleError
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.errors import InputError
from pyxsim.registry import collectives
from tests.collective.samples import ROOTED, name
from tests.examples import part_of

STAR, CHAIN, DISSEMINATION = name("star"), name("chain"), name("dissemination")


def held(phase: Phase) -> tuple[dict[int, int], dict[int, int]]:
    """What NPUs bring in and take out, without those that have nothing."""
    return tuple({i: b for i, b in enumerate(array.tolist()) if b} for array in (phase.bytes_in, phase.bytes_out))  # type: ignore[return-value]


def test_broadcast_spreads() -> None:
    # NPU = x + 2y + 6z on 2 x 3 x 2; the root is NPU 3 = (1, 1, 0). The slowest dimension comes first.
    plan = make_plan("broadcast", 10, (2, 3, 2), STAR, root=3)
    assert [(phase.kind, phase.dims) for phase in plan.phases] == [("broadcast", (d,)) for d in (2, 1, 0)]
    assert [phase.groups.tolist() for phase in plan.phases] == [
        [[3, 9]],
        [[1, 3, 5], [7, 9, 11]],
        [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]],
    ]
    assert [phase.schedule().root for phase in plan.phases] == [0, 1, 1]
    assert [held(phase)[0] for phase in plan.phases][:2] == [{3: 10}, {3: 10, 9: 10}]
    assert held(plan.phases[2])[1] == dict.fromkeys(range(12), 10)
    prove_plan(plan)


def test_reduce_is_broadcast_backwards() -> None:
    plan = make_plan("reduce", 10, (2, 3, 2), STAR, root=3)
    there = make_plan("broadcast", 10, (2, 3, 2), STAR, root=3)
    for one, other in zip(plan.phases, reversed(there.phases), strict=True):
        assert one.groups.tolist() == other.groups.tolist()
        assert held(one) == held(other)[::-1]
    prove_plan(plan)


def test_scatter_cuts_as_a_reduce_scatter() -> None:
    # 7 bytes: 3 and 4 along dimension 0, then 1, 2 and 2, 2 along dimension 1.
    plan = make_plan("scatter", 7, (2, 2), STAR, root=2)
    assert [phase.groups.tolist() for phase in plan.phases] == [[[2, 3]], [[0, 2], [1, 3]]]
    assert [held(phase) for phase in plan.phases] == [
        ({2: 7}, {2: 3, 3: 4}),
        ({2: 3, 3: 4}, {0: 1, 1: 2, 2: 2, 3: 2}),
    ]
    same = make_plan("reduce-scatter", 7, (2, 2), "ring")
    assert plan.phases[1].bytes_out.tolist() == same.phases[1].bytes_out.tolist()
    prove_plan(plan)


def test_gather_is_scatter_backwards() -> None:
    # The size is what one NPU contributes.
    plan = make_plan("gather", 5, (2, 2), STAR, root=2)
    there = make_plan("scatter", 20, (2, 2), STAR, root=2)
    for one, other in zip(plan.phases, reversed(there.phases), strict=True):
        assert one.groups.tolist() == other.groups.tolist()
        assert held(one) == held(other)[::-1]
    prove_plan(plan)


def test_a_barrier_is_one_along_every_dimension() -> None:
    plan = make_plan("barrier", 0, (2, 1, 3), DISSEMINATION)
    assert [(phase.kind, phase.dims) for phase in plan.phases] == [("barrier", (0,)), ("barrier", (2,))]
    assert all(set(phase.bytes_in.tolist()) == {1} for phase in plan.phases)
    assert plan.size == 1
    assert plan.phases[1].messages(1)[1].tolist() == [1] * 6
    prove_plan(plan)
    with pytest.raises(ScheduleError, match="NPU 0 ends with a wrong byte 0"):
        prove_plan(replace(plan, phases=plan.phases[:1]))


def test_one_group_over_all_dimensions() -> None:
    plan = make_plan("broadcast", 9, (2, 1, 3), f"one-{CHAIN}", root=4)
    (phase,) = plan.phases
    assert phase.groups.tolist() == [[0, 1, 2, 3, 4, 5]]
    assert phase.root_rank == 4
    schedule, _ = phase.messages(9)
    assert list(zip(schedule.src.tolist(), schedule.dst.tolist(), strict=True))[:5] == [
        (4, 5),
        (5, 0),
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    mirror, _ = phase.messages(9, mirror=True)
    assert list(zip(mirror.src.tolist(), mirror.dst.tolist(), strict=True))[:2] == [(4, 3), (3, 2)]
    prove_plan(plan)


def test_orders_of_dimensions() -> None:
    assert {kind: dimension_order("ascending", kind, 3) for kind in (*ROOTED, "barrier")} == {
        "broadcast": (2, 1, 0),
        "reduce": (0, 1, 2),
        "gather": (2, 1, 0),
        "scatter": (0, 1, 2),
        "barrier": (0, 1, 2),
    }


@pytest.mark.parametrize("root", [-1, 6])
def test_a_root_that_is_nobody(root: int) -> None:
    with pytest.raises(InputError, match=f"the root, NPU {root}, does not exist; allowed: 0 to 5"):
        make_plan("gather", 9, (2, 3), STAR, root=root)
    assert make_plan("all-reduce", 9, (2, 3), "ring", root=root).root == 0


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: math.prod(shape) <= 18)


@st.composite
def plans(draw: st.DrawFn, largest: int = 40) -> Plan:
    shape, kind = draw(SHAPES), draw(st.sampled_from([*ROOTED, "barrier"]))
    algorithms = [STAR, DISSEMINATION] if kind == "barrier" else [STAR, CHAIN]
    names = [draw(st.sampled_from(algorithms)) for _ in shape]
    if draw(st.integers(0, 4)) == 0:
        names = [f"one-{names[0]}"]
    size, root = draw(st.integers(0, largest)), draw(st.integers(0, math.prod(shape) - 1))
    return make_plan(kind, size, shape, names, order=draw(st.permutations(range(len(shape)))), root=root)


@given(plans())
def test_phases_fit_together(plan: Plan) -> None:
    """Every byte of every contribution, for every root, with mixed algorithms and any order of dimensions."""
    prove_plan(plan)


@given(st.data(), SHAPES, st.sampled_from(sorted(KINDS)))
def test_phases_of_the_shelf_fit_together(data: st.DataObject, shape: list[int], kind: str) -> None:
    """The same for all kinds and all algorithms that there are."""
    able = [entry.name for entry in collectives.entries if kind in entry.info.get("kinds", KINDS)]
    names = [data.draw(st.sampled_from(able)) for _ in shape]
    size, root = data.draw(st.integers(0, 40)), data.draw(st.integers(0, math.prod(shape) - 1))
    prove_plan(make_plan(kind, size, shape, names, optimization="baseline", root=root))


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize("size", [1, 13])
def test_every_root(kind: str, size: int) -> None:
    for root in range(12):
        prove_plan(make_plan(kind, size, (2, 3, 2), [STAR, CHAIN, STAR], root=root))


@given(plans(largest=10**12))
def test_what_goes_in_comes_out(plan: Plan) -> None:
    size, npus = plan.size, plan.npus
    all_of_it = npus * size
    total_in = {"broadcast": size, "scatter": size}.get(plan.kind, all_of_it)
    total_out = {"reduce": size, "scatter": size}.get(plan.kind, all_of_it)
    if plan.phases:
        assert plan.phases[0].bytes_in.sum() == total_in
        assert plan.phases[-1].bytes_out.sum() == total_out
    for before, after in pairwise(plan.phases):
        assert before.bytes_out.tolist() == after.bytes_in.tolist()


@given(plans(largest=10**9))
def test_bytes_on_their_way(plan: Plan) -> None:
    """Every NPU but the root is reached once; what is scattered or gathered crosses once along every dimension."""
    sent, size, npus = sent_bytes(plan).sum(), plan.size, plan.npus
    if plan.kind in ("broadcast", "reduce"):
        assert sent == (npus - 1) * size
        return
    if plan.kind == "barrier":
        assert sent == sum(len(phase.messages(1)[0]) * len(phase.groups) for phase in plan.phases)
        return
    total = 0
    own = (plan.phases[-1].bytes_out if plan.kind == "scatter" else plan.phases[0].bytes_in) if plan.phases else 0
    for phase in plan.phases:
        distance = (phase.ranks - phase.root_rank) % phase.npus
        total += int(((distance if phase.algorithm == CHAIN else distance > 0) * own).sum())
    assert sent == total


@settings(max_examples=part_of(100))
@given(st.sampled_from(ROOTED), st.integers(1, 60), st.integers(1, 5), st.integers(0, 5))
def test_chunks_make_up_the_collective(kind: str, size: int, chunks: int, root: int) -> None:
    whole = make_plan(kind, size, (2, 3), STAR, root=root)
    parts = [make_plan(kind, part, (2, 3), STAR, root=root) for part in chunk_sizes(size, chunks)]
    for plan in parts:
        prove_plan(plan)
    sent = [sent_bytes(plan).sum() for plan in parts]
    if kind in ("broadcast", "reduce"):
        assert sum(sent) == sent_bytes(whole).sum()


def test_plans_that_do_not_fit_are_refused() -> None:
    plan = make_plan("broadcast", 5, (2, 3), STAR, root=4)
    with pytest.raises(ScheduleError, match="at its start: NPU"):
        prove_plan(replace(plan, phases=plan.phases[::-1]))
    with pytest.raises(ScheduleError, match="NPU 1 ends with a wrong byte"):
        prove_plan(replace(plan, phases=plan.phases[:1]))
    with pytest.raises(ScheduleError, match="at its start: NPU"):
        prove_plan(replace(plan, phases=(replace(plan.phases[0], root=1), plan.phases[1])))
    gather = make_plan("gather", 5, (2, 3), STAR, root=4)
    with pytest.raises(ScheduleError, match=r"at its end: NPU|at its start: NPU"):
        prove_plan(replace(gather, phases=(gather.phases[0], replace(gather.phases[1], at_root=()))))


def test_groups_out_of_the_game_keep_their_hands_off() -> None:
    plan = make_plan("reduce", 8, (4, 4), STAR, root=5)
    first, second = plan.phases
    assert second.groups.tolist() == [[1, 5, 9, 13]]
    assert np.flatnonzero(second.bytes_in).tolist() == [1, 5, 9, 13]
    assert np.flatnonzero(first.bytes_out).tolist() == [1, 5, 9, 13]
