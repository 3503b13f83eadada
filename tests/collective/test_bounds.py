"""Bounds against what the shelf really sends, and against brute force where that is small enough."""

from __future__ import annotations

from fractions import Fraction
from math import log2, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.bounds import lower_bound_bytes, phase_bytes, rounds, sent_bytes
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.plan import make_plan
from pyxsim.collective.schedule import Schedule
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from tests.collective.samples import ROOTED, chain, dim_bytes, dissemination, exchange, in_network, name, star


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("all-reduce", Fraction(2 * 3 * 1000, 4)),
        ("reduce-scatter", Fraction(3 * 1000, 4)),
        ("all-gather", Fraction(3 * 1000)),
        ("all-to-all", Fraction(3 * 1000, 4)),
    ],
)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving-doubling"])
def test_the_shelf_reaches_the_bound(kind: str, wanted: Fraction, algorithm: str) -> None:
    assert lower_bound_bytes(kind, 4, 1000) == wanted
    if kind == "all-to-all" and algorithm != "direct":
        return  # a ring forwards, halving-doubling cannot
    schedule = get_schedule(kind, algorithm, 4)
    whole = 4000 if kind == "all-gather" else 1000
    sent = schedule.message_bytes(block_sizes(schedule.kind, 4, schedule.blocks, whole))
    assert [sum(sent[schedule.src == rank]) for rank in range(4)] == [wanted] * 4
    assert [sum(sent[schedule.dst == rank]) for rank in range(4)] == [wanted] * 4


def test_bounds_of_one_npu_and_of_no_kind() -> None:
    assert lower_bound_bytes("all-reduce", 1, 10) == 0
    assert lower_bound_bytes("all-reduce", 3, 10) == Fraction(40, 3)
    with pytest.raises(InputError, match="unknown collective"):
        lower_bound_bytes("all", 4, 1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16])
def test_rounds(n: int) -> None:
    assert rounds(get_schedule("all-reduce", "ring", n)) == 2 * (n - 1)
    assert rounds(get_schedule("reduce-scatter", "ring", n)) == n - 1
    assert rounds(get_schedule("all-gather", "ring", n)) == n - 1
    assert rounds(get_schedule("all-to-all", "ring", n)) == n * (n - 1) // 2
    assert rounds(get_schedule("all-reduce", "direct", n)) == 2
    assert rounds(get_schedule("all-to-all", "direct", n)) == 1
    # A window of w: w messages per round.
    assert rounds(get_schedule("all-to-all", "direct:2", n)) == -(-(n - 1) // 2)
    assert rounds(get_schedule("all-gather", "direct:1", n)) == n - 1
    extra = int(log2(n) != int(log2(n)))
    assert rounds(get_schedule("all-reduce", "halving-doubling", n)) == 2 * int(log2(n)) + 2 * extra
    # Where only some ranks stand for two, folding and halving overlap.
    assert int(log2(n)) <= rounds(get_schedule("reduce-scatter", "halving-doubling", n)) <= int(log2(n)) + 2 * extra


def test_no_rounds_for_nothing() -> None:
    assert rounds(compiled(Schedule("all-reduce", 3))) == 0
    s = get_schedule("all-reduce", "ring", 5)
    assert rounds(s.without_empty(np.array([0, 0, 1, 0, 0]))) == 8  # one block still goes twice round


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("broadcast", 1000), ("reduce", 1000), ("gather", 3000), ("scatter", 750), ("barrier", 1)],
)
def test_bounds_of_kinds_with_a_root(kind: str, wanted: int) -> None:
    assert lower_bound_bytes(kind, 4, 1 if kind == "barrier" else 1000) == wanted
    assert lower_bound_bytes(kind, 1, 1000) == 0
    if kind == "barrier":
        return
    schedule = compiled(star(kind, 4))
    sent = schedule.message_bytes(block_sizes(schedule.kind, 4, schedule.blocks, 4000 if kind == "gather" else 1000))
    at_root = sent[(schedule.src == 0) | (schedule.dst == 0)].sum()
    assert at_root == wanted * (3 if kind in ("broadcast", "reduce") else 1)


def test_bounds_where_the_network_adds_up() -> None:
    assert lower_bound_bytes("all-reduce", 4, 1000, in_network=True) == 1000
    assert lower_bound_bytes("all-reduce", 1, 1000, in_network=True) == 0
    assert lower_bound_bytes("reduce-scatter", 4, 1000, in_network=True) == 750
    plan = make_plan("all-reduce", 1000, (4,), name("in_network"))
    assert phase_bytes(plan.phases[0]) == 1000
    assert sent_bytes(plan).ravel().tolist() == [1000] * 4


@given(
    st.sampled_from([*ROOTED, "barrier"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: prod(shape) <= 18),
    st.integers(0, 10**9),
    st.data(),
)
def test_no_plan_from_a_root_beats_the_bound(kind: str, shape: list[int], size: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, prod(shape) - 1))
    algorithms = ["dissemination"] if kind == "barrier" else ["star", "chain"]
    plan = make_plan(kind, size, shape, [name(data.draw(st.sampled_from(algorithms))) for _ in shape], root=root)
    received = np.zeros_like(sent_bytes(plan))
    for number, phase in enumerate(plan.phases):
        for group in phase.groups:
            schedule, carried = phase.messages(int(phase.pieces[group[0]]))
            np.add.at(received[:, number], group[schedule.dst], carried)
    through = np.maximum(sent_bytes(plan), received)
    for number, phase in enumerate(plan.phases):
        assert through[root, number] >= phase_bytes(phase)
    if plan.phases:
        assert sum(phase_bytes(phase) for phase in plan.phases) >= lower_bound_bytes(kind, plan.npus, plan.size)
        assert sum(dim_bytes(plan)) == sum(phase_bytes(phase) for phase in plan.phases)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_rounds_with_joins_local_steps_and_barriers(n: int) -> None:
    log = n.bit_length() - 1
    assert rounds(compiled(dissemination("barrier", n))) == log
    assert rounds(compiled(in_network("all-reduce", n))) == (n > 1)
    assert rounds(compiled(exchange("all-reduce", n))) == log
    assert rounds(compiled(star("broadcast", n))) == (n > 1)
    assert rounds(compiled(chain("reduce", n))) == n - 1
    if n > 1:  # the join is complete when the last of its ranks could send
        joined = Schedule("reduce", n + 1, blocks=1)
        joined.send(n, 1, 0, reduce=True)
        joined.reduce_in_network(range(n), 0)
        assert rounds(compiled(joined)) == 2
