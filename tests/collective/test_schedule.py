"""The language and its arrays: what is written is there, and what a message waits for follows from the order."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import Kind
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule, ScheduleError
from pyxsim.errors import InputError
from tests.examples import part_of

FLOAT: Any = 2.5
Written = list[list[tuple[int, int, tuple[int, ...], bool]]]  # steps of (src, dst, blocks, reduce)


def csr(pair: tuple[Any, Any]) -> list[list[int]]:
    ptr, ids = pair
    return [ids[a:b].tolist() for a, b in pairwise(ptr)]


def test_a_chain_and_a_fan() -> None:
    # Ranks 1, 2 give block 0 to rank 0, which sends the sum on; rank 2 also sends block 1, which nothing precedes.
    s = Schedule("all-reduce", 3, blocks=2)
    s.send(1, 0, 0, reduce=True)
    s.send(2, 0, [0], reduce=True)
    s.send(0, 1, range(2))
    s.send(2, 1, 1)
    s.send(1, 2, (0, 1))
    c = compiled(s)
    assert c.src.tolist() == [1, 2, 0, 2, 1]
    assert c.dst.tolist() == [0, 0, 1, 1, 2]
    assert c.reduce.tolist() == [True, True, False, False, False]
    assert [c.blocks_of(m).tolist() for m in range(5)] == [[0], [0], [0, 1], [1], [0, 1]]
    # Message 4 sends blocks 0 (stored by message 2) and 1 (stored by 2, then by 3: only the last store counts).
    assert [c.waits_for(m).tolist() for m in range(5)] == [[], [], [0, 1], [], [2, 3]]
    assert csr(c.deps) == [[], [], [0, 1], [], [2, 3]]
    assert csr(c.sends) == [[2], [0, 4], [1, 3]]
    assert csr(c.receives) == [[0, 1], [2, 3], [4]]
    assert c.order.tolist() == [0, 0, 0, 1, 1]
    assert c.need.tolist() == [0] * 5


def test_gates_are_the_same_told_the_other_way_round() -> None:
    c = get_schedule("all-reduce", "direct", 5)
    opens, behind = csr(c.opens), csr(c.behind)
    told = {(dep, m) for m in range(len(c)) for dep in c.waits_for(m).tolist()}
    assert {(dep, m) for dep in range(len(c)) for gate in opens[dep] for m in behind[gate]} == told
    # The four sends of a rank's summed block share one gate of four arrivals: 5 gates, not 20.
    assert len(c.gate_ptr) - 1 == 5
    assert len(told) == 5 * 4 * 4


def test_messages_of_a_step_do_not_wait_for_each_other() -> None:
    def exchange(side_by_side: bool) -> CompiledSchedule:
        s = Schedule("all-reduce", 2, blocks=1)
        if side_by_side:
            s.step([0, 1], [1, 0], 0, reduce=True)
        else:
            s.send(0, 1, 0, reduce=True)
            s.send(1, 0, 0, reduce=True)
        return compiled(s)

    assert exchange(side_by_side=False).waits_for(1).tolist() == [0]
    assert exchange(side_by_side=True).waits_for(1).tolist() == []


def test_step_takes_numbers_vectors_and_tables() -> None:
    s = Schedule("all-gather", 4)
    s.step(0, [1, 2], 0)
    s.step([1, 3], 2, [1, 3])
    s.step([0, 1], [2, 3], [[0, 1], [2, 3]])
    s.step(np.array([3]), np.array([0]), np.array([[0, 1, 2]]), reduce=True)
    c = compiled(s)
    assert c.src.tolist() == [0, 0, 1, 3, 0, 1, 3]
    assert c.dst.tolist() == [1, 2, 2, 2, 2, 3, 0]
    assert [c.blocks_of(m).tolist() for m in range(7)] == [[0], [0], [1], [3], [0, 1], [2, 3], [0, 1, 2]]
    assert c.step.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert c.reduce.tolist() == [False] * 6 + [True]


def waits_by_hand(steps: Written) -> list[set[int]]:
    """What each message waits for, by walking back through the schedule, cell by cell."""
    flat = [(number, *message) for number, step in enumerate(steps) for message in step]
    waits = []
    for m, (step, src, _, blocks, _) in enumerate(flat):
        found = set()
        for block in blocks:
            for e in reversed(range(m)):
                earlier, _, dst, carried, reduce = flat[e]
                if earlier < step and dst == src and block in carried:
                    found.add(e)
                    if not reduce:
                        break
        waits.append(found)
    return waits


@st.composite
def any_steps(draw: st.DrawFn) -> tuple[int, int, Written]:
    n, blocks = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    message = st.tuples(
        st.integers(0, n - 1),
        st.integers(1, n - 1),
        st.lists(st.integers(0, blocks - 1), min_size=1, max_size=blocks, unique=True),
    )

    def step(size: int, reduce: bool) -> st.SearchStrategy[list[tuple[int, int, tuple[int, ...], bool]]]:
        return st.lists(
            message.map(lambda m: (m[0], (m[0] + m[1]) % n, tuple((m[2] * size)[:size]), reduce)).filter(
                lambda m: len(set(m[2])) == size
            ),
            min_size=1,
            max_size=4,
        )

    shapes = draw(st.lists(st.tuples(st.integers(1, blocks), st.booleans()), max_size=8))
    return n, blocks, [draw(step(size, reduce)) for size, reduce in shapes]


def write(n: int, blocks: int, steps: Written, window: int | None = None) -> CompiledSchedule:
    s = Schedule("all-reduce", n, blocks=blocks, window=window)
    for step in steps:
        s.step([m[0] for m in step], [m[1] for m in step], [m[2] for m in step], step[0][3])
    return compiled(s)


@settings(max_examples=part_of(100))
@given(any_steps())
def test_waits_are_those_found_by_hand(written: tuple[int, int, Written]) -> None:
    c = write(*written)
    assert [set(c.waits_for(m).tolist()) for m in range(len(c))] == waits_by_hand(written[2])


@settings(max_examples=part_of(100))
@given(any_steps(), st.integers(1, 4), st.data())
def test_windows_are_those_counted_by_hand(written: tuple[int, int, Written], window: int, data: st.DataObject) -> None:
    _, blocks, steps = written
    c = write(*written, window=window)
    empty = np.array(data.draw(st.lists(st.booleans(), min_size=blocks, max_size=blocks)))
    sizes = np.where(empty, 0, 7)
    flat = [(number, *message) for number, step in enumerate(steps) for message in step]
    full, left = [], []
    for m, (step, src, *_) in enumerate(flat):
        sent_before = sum(1 for e in range(m) if flat[e][1] == src)
        came_before = [e for e in range(m) if flat[e][0] < step and flat[e][2] == src]
        awaited = came_before[: max(sent_before - window + 1, 0)]
        full.append(len(awaited))
        if not all(empty[list(flat[m][3])]):
            left.append(sum(1 for e in awaited if not all(empty[list(flat[e][3])])))
    assert c.need.tolist() == full
    assert c.without_empty(sizes).need.tolist() == left


@settings(max_examples=part_of(100))
@given(any_steps(), st.data())
def test_blocks_without_bytes_are_as_if_never_written(written: tuple[int, int, Written], data: st.DataObject) -> None:
    _, blocks, steps = written
    c = write(*written)
    sizes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=blocks, max_size=blocks)))
    without: Written = []
    for step in steps:
        rest = [(src, dst, tuple(b for b in ids if sizes[b]), reduce) for src, dst, ids, reduce in step]
        without.append([m for m in rest if m[2]])
    real = c.without_empty(sizes)
    flat = [m for step in without for m in step]
    assert [
        (int(real.src[m]), int(real.dst[m]), tuple(real.blocks_of(m).tolist()), bool(real.reduce[m]))
        for m in range(len(real))
    ] == flat
    assert [set(real.waits_for(m).tolist()) for m in range(len(real))] == waits_by_hand(without)
    assert real.message_bytes(sizes).tolist() == [sum(sizes[list(m[2])]) for m in flat]
    assert c.message_bytes(sizes).sum() == real.message_bytes(sizes).sum()
    assert c.without_empty(sizes * 3) is real  # the same blocks are empty


def test_numbers_of_very_many_messages_do_not_overflow() -> None:
    s = Schedule("all-reduce", 2, blocks=2)
    for m in range(50_000):  # 50,000 squared is more than 31 bits
        s.send(m % 2, 1 - m % 2, [0, 1])
    c = compiled(s)
    assert [c.waits_for(m).tolist() for m in (0, 1, 49_999)] == [[], [0], [49_998]]


def test_no_block_is_empty_no_new_schedule() -> None:
    c = get_schedule("all-reduce", "ring", 4)
    assert c.without_empty(np.array([1, 1, 2, 1])) is c


def test_bytes_of_messages() -> None:
    c = get_schedule("reduce-scatter", "halving-doubling", 4)
    # First step: half of the blocks, those that agree with the partner in bit 0; second step: the partner's own.
    sizes = np.array([1, 10, 100, 1000])
    assert c.message_bytes(sizes).tolist() == [1010, 101, 1010, 101, 100, 1000, 1, 10]
    with pytest.raises(ValueError, match="3 block sizes are given for 4 blocks"):
        c.message_bytes(sizes[:3])


@pytest.mark.parametrize(
    ("src", "dst", "blocks", "problem"),
    [
        (0, 3, 0, "no such rank; allowed: ranks 0 to 2"),
        (-1, 0, 0, "no such rank"),
        (1, 1, 0, "a rank sends a message to itself"),
        (0, 1, [], "the message carries no block"),
        (0, 1, [0, 3], "no such block; allowed: blocks 0 to 2"),
        (0, 1, -1, "no such block"),
        (0, 1, [2, 1, 2], "the message carries a block twice"),
    ],
)
def test_impossible_messages_are_refused(src: int, dst: int, blocks: Any, problem: str) -> None:
    s = Schedule("all-reduce", 3)
    s.send(0, 1, [0, 1])
    s.send(src, dst, blocks)
    with pytest.raises(ScheduleError, match=problem) as caught:
        compiled(s, "mine")
    assert f"mine all-reduce on 3 ranks: message 1, {src} -> {dst} with blocks" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Schedule("all-reduce", 0), "0 is not the number of ranks"),
        (lambda: Schedule("all-reduce", True), "True is not the number of ranks"),
        (lambda: Schedule("all-reduce", 2, window=0), "0 is not a window"),
        (lambda: Schedule("all-reduce", 2, blocks=FLOAT), "2.5 is not the number of blocks"),
        (lambda: Schedule("all-gather", 4, blocks=6), "allowed: a multiple of 4"),
        (lambda: Schedule("all-to-all", 4, blocks=4), "allowed: a multiple of 16"),
        (lambda: Schedule("all-redcue", 4), "did you mean 'all-reduce'"),
        (lambda: Schedule("all-reduce", 2).send(0, 1, [FLOAT]), "allowed: whole numbers"),
        (lambda: Schedule("all-reduce", 2).step([0.5], [1], [0]), "allowed: whole numbers"),
    ],
)
def test_impossible_schedules_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make()


def test_nothing_to_do_on_one_rank() -> None:
    c = compiled(Schedule("all-to-all", 1, window=2))
    assert len(c) == 0
    assert csr(c.sends) == [[]]
    assert csr(c.deps) == csr(c.opens) == csr(c.behind) == []
    assert c.message_bytes(np.array([5])).tolist() == []
    assert len(c.without_empty(np.array([0]))) == 0


def test_arrays_cannot_be_changed() -> None:
    c = get_schedule("all-reduce", "ring", 3)
    with pytest.raises(ValueError, match="read-only"):
        c.src[0] = 1


def test_a_kind_of_ones_own() -> None:
    kind = Kind("broadcast", 0, lambda n, unit, root=0: (0,), lambda n, unit, root=0: range(n))
    s = Schedule(kind, 4, blocks=1)
    assert s.blocks == 1
    assert str(compiled(s, "tree")) == "tree broadcast on 4 ranks"


def test_errors_travel_between_processes() -> None:
    error = ScheduleError("wrong", rank=3, step=2, block=1, missing=[4, 5], duplicate=[6])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ScheduleError
    assert str(copy) == "wrong"
    assert (copy.rank, copy.step, copy.block) == (3, 2, 1)
    assert (copy.missing, copy.duplicate) == ((4, 5), (6,))
    assert vars(copy) == vars(error)


def test_a_schedule_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyxsim.collective.schedule.MOST_CARRIED", 100)
    s = Schedule("all-gather", 5)
    for _ in range(20):
        s.step(range(5), [1, 2, 3, 4, 0], range(5))
    with pytest.raises(ScheduleError, match="all-gather on 5 ranks carry more than 100 blocks; allowed: fewer ranks"):
        s.send(0, 1, 0)
