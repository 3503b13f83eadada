"""Plans: the phases ASTRA-sim would run, exact bytes for every size and shape, and the proof that the phases fit."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyxsim.collective.bounds import lower_bound_bytes, phase_bytes, sent_bytes
from pyxsim.collective.plan import Phase, Plan, cut, dimension_order, make_plan, positions
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.collective.schedule import ScheduleError
from pyxsim.collective.sizes import chunk_sizes, split
from pyxsim.errors import InputError
from tests.collective.samples import dim_bytes
from tests.examples import part_of

KINDS = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]


def told(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(phase.kind, phase.dims) for phase in plan.phases]


def test_local_first() -> None:
    plan = make_plan("all-reduce", 64, (4, 1, 2, 2), ["ring", "ring", "direct", "halving-doubling"])
    assert told(plan) == [
        ("reduce-scatter", (0,)),
        ("reduce-scatter", (2,)),
        ("all-reduce", (3,)),
        ("all-gather", (2,)),
        ("all-gather", (0,)),
    ]
    assert [phase.algorithm for phase in plan.phases] == ["ring", "direct", "halving-doubling", "direct", "ring"]
    # 64 bytes, a quarter after dimension 0, half of that after dimension 2, and back.
    assert [set(phase.bytes_in.tolist()) for phase in plan.phases] == [{64}, {16}, {8}, {8}, {16}]
    assert [set(phase.bytes_out.tolist()) for phase in plan.phases] == [{16}, {8}, {8}, {16}, {64}]


def test_baseline() -> None:
    plan = make_plan("all-reduce", 64, (4, 1, 2), "ring", optimization="baseline")
    assert told(plan) == [("all-reduce", (0,)), ("all-reduce", (2,))]
    assert [set(phase.bytes_in.tolist()) for phase in plan.phases] == [{64}, {64}]


@pytest.mark.parametrize("optimization", ["baseline", "localBWAware"])
def test_one_phase_per_dimension_for_the_others(optimization: str) -> None:
    def plan(kind: str) -> Plan:
        return make_plan(kind, 24, (2, 3, 4), "ring", optimization=optimization)

    assert told(plan("reduce-scatter")) == [("reduce-scatter", (d,)) for d in (0, 1, 2)]
    assert [phase.bytes_in[0] for phase in plan("reduce-scatter").phases] == [24, 12, 4]
    assert told(plan("all-gather")) == [("all-gather", (d,)) for d in (2, 1, 0)]
    assert [phase.bytes_in[0] for phase in plan("all-gather").phases] == [24, 96, 288]  # the size is one NPU's shard
    assert told(plan("all-to-all")) == [("all-to-all", (d,)) for d in (0, 1, 2)]
    assert [phase.bytes_in[0] for phase in plan("all-to-all").phases] == [24, 24, 24]


def test_round_robin_turns_the_order() -> None:
    assert [dimension_order("round-robin", "all-reduce", 3, turn) for turn in range(4)] == [
        (0, 1, 2),
        (1, 2, 0),
        (2, 0, 1),
        (0, 1, 2),
    ]
    assert [dimension_order("round-robin", "all-gather", 3, turn) for turn in (0, 1)] == [(2, 1, 0), (1, 0, 2)]
    assert [dimension_order("ascending", kind, 2, 7) for kind in KINDS] == [(0, 1), (0, 1), (1, 0), (0, 1)]
    plan = make_plan("all-reduce", 1, (2, 2, 2), "ring", order=(1, 2, 0))
    assert [dims for _, dims in told(plan)] == [(1,), (2,), (0,), (2,), (1,)]


def test_one_ring_over_all_dimensions() -> None:
    plan = make_plan("all-reduce", 24, (2, 1, 3), "oneRing")
    assert told(plan) == [("all-reduce", (0, 2))]
    (phase,) = plan.phases
    assert phase.npus == 6
    assert phase.groups.tolist() == [[0, 1, 2, 3, 4, 5]]
    assert phase.algorithm == "ring"
    assert make_plan("all-reduce", 24, (2, 1, 3), ["one-ring"]) == plan


def test_groups() -> None:
    # NPU = x + 2*y + 6*z on 2 x 3 x 2: NPUs of a group along y are 2 apart.
    phase = Phase("all-reduce", "ring", (1,), (2, 3, 2), 8, ())
    assert phase.groups.tolist() == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]
    assert phase.ranks.tolist() == [0, 0, 1, 1, 2, 2] * 2
    both = Phase("all-reduce", "ring", (2, 0), (2, 3, 2), 8, ())
    assert both.groups.tolist() == [[0, 6, 1, 7], [2, 8, 3, 9], [4, 10, 5, 11]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_groups_are_ordered_by_rank(shape: list[int], data: st.DataObject) -> None:
    dims = tuple(data.draw(st.permutations(range(len(shape)))))[: data.draw(st.integers(1, len(shape)))]
    phase = Phase("all-reduce", "ring", dims, tuple(shape), 8, ())
    assert sorted(phase.groups.ravel().tolist()) == list(range(math.prod(shape)))
    assert (phase.ranks[phase.groups] == np.arange(phase.npus)).all()
    others = tuple(d for d in range(len(shape)) if d not in dims)
    elsewhere = positions(tuple(shape), others)[phase.groups]
    assert (elsewhere == elsewhere[:, :1]).all()


def test_pieces_differ_by_a_byte() -> None:
    # 7 bytes on 2 x 2: 3 and 4 bytes along dimension 0; then 3 -> 1, 2 and 4 -> 2, 2 along dimension 1.
    plan = make_plan("reduce-scatter", 7, (2, 2), "ring")
    assert plan.phases[1].bytes_in.tolist() == [3, 4, 3, 4]
    assert plan.phases[1].bytes_out.tolist() == [1, 2, 2, 2]
    assert plan.phases[1].block_sizes(3).tolist() == [1, 2]


# Shapes of few NPUs, and sizes around the number of NPUs: smaller, equal, and not divisible.
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: math.prod(shape) <= 18)
NAMES = st.sampled_from(["ring", "direct", "direct:2", "halving-doubling"])


@st.composite
def plans(draw: st.DrawFn, largest: int = 40) -> Plan:
    shape, kind = draw(SHAPES), draw(st.sampled_from(KINDS))
    names = [draw(NAMES) for _ in shape]
    assume(kind != "all-to-all" or "halving-doubling" not in names)
    if draw(st.integers(0, 4)) == 0:
        names = [f"one-{names[0]}"]
    return make_plan(
        kind,
        draw(st.integers(0, largest)),
        shape,
        names,
        optimization=draw(st.sampled_from(["baseline", "localBWAware", "themis"])),
        order=draw(st.permutations(range(len(shape)))),
    )


@settings(max_examples=part_of(100))
@given(plans())
def test_phases_fit_together(plan: Plan) -> None:
    """Every byte of every contribution, on all NPUs, with mixed algorithms and any order of dimensions."""
    prove_plan(plan)


@given(plans(largest=10**12))
def test_what_goes_in_comes_out(plan: Plan) -> None:
    size, npus = plan.size, plan.npus
    total_in = {"all-gather": size * npus}.get(plan.kind, size * npus)
    total_out = {
        "all-reduce": size * npus,
        "reduce-scatter": size,
        "all-gather": size * npus * npus,
        "all-to-all": size * npus,
    }[plan.kind]
    if plan.phases:
        assert plan.phases[0].bytes_in.sum() == total_in
        assert plan.phases[-1].bytes_out.sum() == total_out
    for before, after in pairwise(plan.phases):
        assert before.bytes_out.tolist() == after.bytes_in.tolist()


def crossings(plan: Plan) -> int:
    """Bytes that cross from NPU to NPU in all, in closed form.

    All-reduce in one group of n: 2(n-1) crossings of every byte. Localised, the whole is reduced to one place and comes
    back: 2(N-1)*S; baseline: every dimension of n NPUs does it for N/n groups. All-to-all: a byte for an NPU that
    differs in k coordinates (of k groups of dimensions) moves k times, in a ring once for every rank it passes.
    """
    npus, size = plan.npus, plan.size
    if plan.kind == "reduce-scatter":
        return (npus - 1) * size
    if plan.kind == "all-gather":
        return (npus - 1) * npus * size
    if plan.kind == "all-reduce" and {phase.kind for phase in plan.phases} == {"all-reduce"}:
        return sum(2 * (phase.npus - 1) * (npus // phase.npus) * size for phase in plan.phases)
    if plan.kind == "all-reduce":
        return 2 * (npus - 1) * size
    owned = cut(plan.shape, [phase.dims for phase in plan.phases], size)[1]
    total = 0
    for phase in plan.phases:
        at, n = phase.ranks, phase.npus
        distance = (at[None, :] - at[:, None]) % n  # from source to destination
        hops = distance if phase.algorithm == "ring" else distance > 0
        total += int((hops * owned[None, :]).sum())
    return total


@given(plans(largest=10**9))
def test_bytes_on_their_way_are_the_closed_form(plan: Plan) -> None:
    # Beyond a power of two, halving-doubling delivers the blocks of a reduce-scatter by one more message.
    assume(not any(p.kind == "reduce-scatter" and p.algorithm == "halving-doubling" for p in plan.phases))
    assert sent_bytes(plan).sum() == crossings(plan)


@given(plans(largest=10**9))
def test_no_algorithm_beats_the_bound(plan: Plan) -> None:
    sent = sent_bytes(plan)
    for number, phase in enumerate(plan.phases):
        assert Fraction(int(sent[:, number].sum()), plan.npus) >= phase_bytes(phase)
    if plan.phases:
        bound = lower_bound_bytes(plan.kind, plan.npus, plan.size)
        assert sent.sum(axis=1).max() >= bound
        assert sum(phase_bytes(phase) for phase in plan.phases) >= bound


def test_bytes_per_dimension() -> None:
    # Dimension i carries 2(n_i - 1)/n_i * S / (product of the dimensions before).
    plan = make_plan("all-reduce", 2**20, (4, 2, 8), "ring")
    assert dim_bytes(plan) == (Fraction(2 * 3 * 2**20, 4), Fraction(2 * 2**18, 2), Fraction(2 * 7 * 2**17, 8))
    assert sum(dim_bytes(plan)) == lower_bound_bytes("all-reduce", 64, 2**20)
    baseline = make_plan("all-reduce", 2**20, (4, 2, 8), "ring", optimization="baseline")
    assert dim_bytes(baseline) == (Fraction(2 * 3 * 2**20, 4), Fraction(2**20), Fraction(2 * 7 * 2**20, 8))


def test_what_a_group_really_sends() -> None:
    (phase,) = make_plan("all-reduce", 3, (4,), "ring").phases
    schedule, carried = phase.messages(3)
    # Three blocks of one byte go round, the fourth does not exist: 3 of 4 messages in each of 6 steps.
    assert len(schedule) == 18
    assert carried.tolist() == [1] * 18
    assert phase.messages(3)[0] is schedule
    mirror, _ = phase.messages(3, mirror=True)
    assert ((mirror.src - mirror.dst) % 4 == 1).all()


@settings(max_examples=part_of(100))
@given(st.sampled_from(KINDS), st.integers(1, 60), st.integers(1, 5))
def test_chunks_make_up_the_collective(kind: str, size: int, chunks: int) -> None:
    whole = make_plan(kind, size, (2, 3), "ring")
    parts = [make_plan(kind, part, (2, 3), "ring") for part in chunk_sizes(size, chunks)]
    for plan in parts:
        prove_plan(plan)
    assert sum(int(sent_bytes(plan).sum()) for plan in parts) == sent_bytes(whole).sum()


def test_plans_that_do_not_fit_are_refused() -> None:
    plan = make_plan("all-reduce", 13, (2, 3, 2), "ring")
    rs0, rs1, turn, ag1, ag0 = plan.phases

    def refused(*phases: Phase, text: str) -> None:
        with pytest.raises(ScheduleError, match=text):
            prove_plan(replace(plan, phases=phases))

    refused(rs0, rs1, turn, ag1, text="ends with a wrong byte")
    refused(rs0, rs1, ag1, ag0, text="ends with a wrong byte")
    refused(rs0, turn, rs1, ag1, ag0, text="at its start: NPU 0 holds")
    refused(rs0, rs1, turn, ag0, ag1, text="at its start: NPU 0 holds")
    refused(rs0, rs1, replace(turn, cuts=turn.cuts[::-1]), ag1, ag0, text="at its start: NPU|bytes instead")
    refused(rs0, rs1, replace(turn, whole=14), ag1, ag0, text="at its start: NPU")
    refused(rs0, rs1, turn, turn, ag1, ag0, text="the same contributions twice")
    exchange = make_plan("all-to-all", 13, (2, 3), "ring")
    with pytest.raises(ScheduleError, match=r"at its end|bytes instead|at its start"):
        prove_plan(replace(exchange, phases=(exchange.phases[0], replace(exchange.phases[1], copies=1))))


@pytest.mark.parametrize(
    ("shape", "algorithms", "options", "problem"),
    [
        (
            (4, 2),
            ["ring"],
            {},
            "^system.all_reduce: 1 algorithms are given for 2 dimensions; allowed: one name, or a list of 2",
        ),
        ((4, 2), ["ring", "one-ring"], {}, "cannot be combined with others; allowed: 'one-ring' alone"),
        ((4, 2), ["rng", "ring"], {}, "^system.all_reduce: unknown collective algorithm 'rng'"),
        ((4, 2), "ring", {"optimization": "localBwAware"}, "^system.optimization: .*did you mean 'localBWAware'"),
    ],
)
def test_wrong_plans(
    shape: tuple[int, ...], algorithms: list[str] | str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        make_plan("all-reduce", 8, shape, algorithms, key="system.all_reduce", **options)  # type: ignore[arg-type]


def test_wrong_kinds_and_orders() -> None:
    with pytest.raises(InputError, match="unknown collective 'brodcast'"):
        make_plan("brodcast", 8, (2,), "ring")
    with pytest.raises(InputError, match="halving-doubling does not support all-to-all"):
        make_plan("all-to-all", 8, (2,), "halving-doubling")
    with pytest.raises(InputError, match="unknown order of dimensions 'themes'"):
        dimension_order("themes", "all-reduce", 2)
    with pytest.raises(ValueError, match="not an order of 2 dimensions"):
        make_plan("all-reduce", 8, (2, 2), "ring", order=(0, 0))


def test_an_algorithm_must_be_able_to_do_its_phase() -> None:
    """In the last dimension of a localised all-reduce there is an all-reduce, before it a reduce-scatter."""
    assert make_plan("all-reduce", 8, (2, 4), ["ring", "in-switch"]).phases[1].kind == "all-reduce"
    with pytest.raises(
        InputError, match=r"^system.all_reduce: in-switch does not support reduce-scatter; allowed: all-reduce"
    ):
        make_plan("all-reduce", 8, (2, 4), ["in-switch", "ring"], key="system.all_reduce")
    make_plan("all-reduce", 8, (2, 4), ["in-switch", "ring"], optimization="baseline")


def test_owned_pieces_are_nested_cuts() -> None:
    # Dimension 1 first: 10 bytes -> 3, 3, 4; then each in two along dimension 0.
    first, size = cut((2, 3), [(1,), (0,)], 10)
    wanted = [int(part) for piece in split(10, 3) for part in split(int(piece), 2)]
    assert size.tolist() == wanted
    assert first.tolist() == np.cumsum([0, *wanted[:-1]]).tolist()
