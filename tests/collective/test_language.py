"""What the language has besides plain messages: ways, joins, local steps, cells, roots, waits of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.kinds import Kind
from pyxsim.collective.schedule import Schedule, ScheduleError
from pyxsim.collective.transform import mirrored, renamed, rooted_at
from tests.collective.samples import (
    ROOTED,
    arrive_in_any_order,
    chain,
    dissemination,
    exchange,
    in_network,
    run_in_any_order,
    star,
)


def refused(c: CompiledSchedule | Schedule, text: str, **attributes: Any) -> None:
    with pytest.raises(ScheduleError, match=text) as caught:
        prove(c)
    assert "\n" not in str(caught.value)
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value, name


# -- kinds with a root, and the barrier --


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize("function", [star, chain])
def test_rooted_kinds(kind: str, function: Callable[[str, int], Schedule]) -> None:
    for n in (1, 2, 3, 5, 8):
        c = compiled(function(kind, n))
        prove(c)
        for root in range(n):
            other = rooted_at(c, root)
            prove(other)
            assert other.root == root
            assert arrive_in_any_order(other, np.random.default_rng(n))
            assert rooted_at(c, root) is other
        prove(mirrored(c))
        assert mirrored(c).root == 0


def test_a_root_elsewhere_is_the_same_ring_turned() -> None:
    c = rooted_at(compiled(chain("broadcast", 4)), 3)
    assert list(zip(c.src.tolist(), c.dst.tolist(), strict=True))[:3] == [(3, 0), (0, 1), (1, 2)]
    assert (c.starts(0), list(c.goals(0))) == ((3,), [0, 1, 2, 3])
    scattered = rooted_at(compiled(star("scatter", 4)), 1)
    assert (scattered.starts(2), scattered.goals(2)) == ((1,), (2,))
    assert scattered.block_ids.tolist() == scattered.dst.tolist()


def test_a_kind_without_root_stays_as_it_is() -> None:
    c = compiled(dissemination("barrier", 4))
    assert rooted_at(c, 2) is c


def test_what_a_root_lacks_is_named() -> None:
    s = Schedule("gather", 3)
    s.send(1, 0, 1)
    refused(s, "rank 0 ends without anything in block 2; it never leaves rank 2", rank=0, missing=(2,), step=None)
    s = Schedule("reduce", 3, blocks=1)
    s.send(2, 1, 0, reduce=True)
    refused(s, "without the contributions of ranks 1, 2 in block 0; that of rank 1 never leaves rank 1", missing=(1, 2))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 16, 33])
def test_a_barrier_may_hear_things_twice(n: int) -> None:
    c = compiled(dissemination("barrier", n))
    prove(c)
    prove(compiled(star("barrier", n)))
    if n <= 9:
        assert all(arrive_in_any_order(c, np.random.default_rng(seed)) for seed in range(5))
    if n & n - 1:
        # The same messages are no all-reduce: contributions would count twice.
        s = Schedule("all-reduce", n, blocks=1)
        s.steps = dissemination("barrier", n).steps
        refused(s, "adds the contributions of .* again")


def test_a_barrier_that_does_not_hear_of_everybody() -> None:
    s = dissemination("barrier", 8)
    s.steps.pop()
    refused(s, r"rank 0 ends without the contributions of ranks 1, 2, 3, 4 in block 0; .* step 1 of rank 2 \(-> 4\)")


# -- ways --


def test_ways_are_turned_by_the_mirror_only() -> None:
    s = Schedule("all-gather", 3)
    s.step([0, 1, 2], [1, 2, 0], [0, 1, 2])
    s.send(0, 2, 0, way=-1)
    s.step([1, 2], [0, 1], [1, 2], way=-1)
    c = compiled(s)
    prove(c)
    assert c.way.tolist() == [1, 1, 1, -1, -1, -1]
    assert mirrored(c).way.tolist() == [-1, -1, -1, 1, 1, 1]
    assert renamed(c, np.array([2, 0, 1])).way.tolist() == c.way.tolist()
    assert c.without_empty(np.array([0, 1, 1])).way.tolist() == [1, 1, -1, -1]


# -- joins --


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_network_adds_up(n: int) -> None:
    c = compiled(in_network("all-reduce", n))
    prove(c)
    assert len(c) == (2 * n if n > 1 else 0)
    assert c.join.tolist() == ([0] * n + [1] * n if n > 1 else [])
    assert all(arrive_in_any_order(c, np.random.default_rng(seed)) for seed in range(5))
    half = c.without_empty(np.array([0, 5]))
    assert half.join.tolist() == ([1] * n if n > 1 else [])
    prove(half)


def test_what_follows_a_join_waits_for_it() -> None:
    s = Schedule("all-reduce", 4, blocks=1)
    s.send(3, 0, 0, reduce=True)
    s.reduce_in_network([0, 1, 2], 0)
    s.send(2, 3, 0)
    c = compiled(s)
    prove(c)
    assert [c.waits_for(m).tolist() for m in range(5)] == [[], [0], [], [], [2]]
    assert all(arrive_in_any_order(c, np.random.default_rng(seed)) for seed in range(20))


def test_a_join_holds_back_all_that_it_brings() -> None:
    """Rank 1 overwrites what rank 0 has put into the join: rank 0 has sent it, as rank 1 has the sum of the join."""
    s = Schedule("all-reduce", 3, blocks=1)
    s.reduce_in_network([0, 1, 2], 0)
    s.send(2, 0, 0)
    refused(s, "both access block 0 of rank 0, and nothing orders them")  # the sum at rank 0 may come later
    alone = Schedule("all-reduce", 3, blocks=1, cells=2)
    for rank in range(3):
        alone.local(rank, 0, 1)
    alone.reduce_in_network([0, 1, 2], 1)
    for rank in range(3):
        alone.local(rank, 1, 0)
    prove(alone)


def test_a_contribution_twice_in_a_join() -> None:
    s = Schedule("all-reduce", 3, blocks=1)
    s.send(0, 1, 0, reduce=True)
    s.reduce_in_network(range(3), 0)
    refused(
        s,
        r"step 0 of rank 1 \(-> 2\) adds the contributions of rank 0 to block 0 to a join again",
        rank=1,
        duplicate=(0,),
    )


def test_a_join_without_everybody() -> None:
    s = Schedule("all-reduce", 4, blocks=1)
    s.reduce_in_network(range(3), 0)
    refused(s, "rank 0 ends without the contributions of rank 3 in block 0; that of rank 3 never leaves rank 3")


def test_a_join_of_different_blocks() -> None:
    messages = [Message(0, 1, [0], join=0), Message(1, 0, [1], join=0)]
    with pytest.raises(ScheduleError, match=r"step 0 of rank 1 \(-> 0\) joins blocks 1 with blocks 0 of rank 0"):
        compile_messages("all-reduce", 2, messages, algorithm="mine")


def test_a_join_in_pieces() -> None:
    messages = [Message(0, 1, [0], join=0), Message(1, 2, [1]), Message(1, 0, [0], join=0)]
    with pytest.raises(
        ScheduleError, match="message 2, 1 -> 0 with blocks 0: the join of the message is not contiguous"
    ):
        compile_messages("all-reduce", 3, messages, algorithm="mine")


def test_a_join_that_waits_for_itself() -> None:
    messages = [Message(0, 1, [0], join=0), Message(1, 0, [0], join=0, waits=[0])]
    refused(compile_messages("all-reduce", 2, messages, algorithm="mine"), "message 1, .* waits for message 0")


# -- cells and local steps --


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_sums_in_scratch_cells(n: int) -> None:
    c = compiled(exchange("all-reduce", n))
    prove(c)
    prove(mirrored(c))
    assert set(c.content.tolist()) <= {0}
    assert c.local.sum() == (len(c) - n * (n.bit_length() - 1))
    if n <= 8:
        assert all(arrive_in_any_order(c, np.random.default_rng(seed)) for seed in range(5))
    # Whatever has no bytes stays: the waits go through it.
    assert c.without_empty(np.array([0])) is c
    assert c.message_bytes(np.array([7])).tolist() == [7] * len(c)


def test_what_a_message_carries_has_the_size_of_its_block() -> None:
    s = Schedule("all-to-all", 2, cells=5)
    s.local(0, 1, 4)  # block 0 -> 1 by way of the scratch cell
    s.send(0, 1, 4, put=1)
    s.send(1, 0, 2)
    c = compiled(s)
    prove(c)
    assert c.content.tolist() == [1, 1, 2]
    assert c.message_bytes(np.array([1, 10, 100, 1000])).tolist() == [10, 10, 100]
    other = renamed(c, np.array([1, 0]))
    prove(other)
    assert other.content.tolist() == [2, 2, 1]
    assert other.block_ids.tolist() == [2, 4, 1]


def test_wrong_cells() -> None:
    def one(**changes: Any) -> Schedule:
        s = Schedule("all-gather", 2, cells=3)
        s.send(**{"src": 0, "dst": 1, "blocks": 0, **changes})
        s.send(1, 0, 1)
        return s

    prove(one())
    with pytest.raises(ScheduleError, match="no such block; allowed: cells 0 to 2"):
        compiled(one(put=3))
    with pytest.raises(ScheduleError, match="the message writes a cell twice"):
        compiled(one(blocks=[0, 1], put=[2, 2]))
    with pytest.raises(ScheduleError, match=r"step 0 of rank 0 \(-> 1\) sends cell 2, which is empty"):
        compiled(one(blocks=2, put=0))
    with pytest.raises(ScheduleError, match=r"adds block 0 to cell 2, which holds nothing"):
        compiled(one(put=2, reduce=True))
    with pytest.raises(ScheduleError, match="2 blocks cannot be put into 1 cells"):
        one(blocks=[0, 1], put=0)
    with pytest.raises(ScheduleError, match="1 cells are too few for 2 blocks"):
        Schedule("all-gather", 2, cells=1)
    with pytest.raises(ScheduleError, match="0 is not a direction"):
        one(way=0)
    nothing = Schedule("all-gather", 2)
    nothing.local(0, [], [])
    with pytest.raises(ScheduleError, match="the message carries no block"):
        compiled(nothing)
    overwritten = one()
    overwritten.send(0, 1, 0, put=1)
    refused(overwritten, "rank 1 ends with block 0 in place of block 1", rank=1, block=1)
    refused(one(put=2), "rank 1 ends without anything in block 0", rank=1, block=0)


def test_a_scratch_cell_is_used_again_too_early() -> None:
    s = Schedule("gather", 3, cells=4)
    s.send(1, 0, 1, put=3)
    s.local(0, 3, 1)
    s.send(2, 0, 2, put=3)  # it may come before the local step has read the cell
    s.local(0, 3, 2)
    refused(s, r"step 0 of rank 2 \(-> 0\) and step 0 of rank 1 \(-> 0\) both access cell 3 of rank 0")


def test_a_local_step_waits_for_what_it_reads_and_for_what_it_adds_to() -> None:
    s = Schedule("reduce", 3, blocks=1, cells=2)
    s.send(1, 0, 0, put=1)
    s.send(2, 0, 0, reduce=True)
    s.local(0, 1, 0, reduce=True)
    c = compiled(s)
    prove(c)
    assert [c.waits_for(m).tolist() for m in range(3)] == [[], [], [0, 1]]


def test_local_steps_do_not_count_for_windows() -> None:
    s = Schedule("all-gather", 3, cells=4, window=1)
    for distance in (1, 2):
        for rank in range(3):
            s.local(rank, rank, 3)
            s.send(rank, (rank + distance) % 3, rank)
    c = compiled(s)
    assert c.need[~c.local].tolist() == [0, 0, 0, 1, 1, 1]
    assert not c.need[c.local].any()


# -- waits of one's own --


def halves(lost: bool = False) -> CompiledSchedule:
    """All-reduce on two ranks, as a program in a file might say it: copy first, exchange, add, done."""
    messages = [
        Message(0, 0, [0], [1]),
        Message(1, 1, [0], [1]),
        Message(0, 1, [1], [2], waits=[0]),
        Message(1, 0, [1], [2], waits=[1]),
        Message(0, 0, [2], [0], reduce=True, waits=[0] if lost else [3, 0]),
        Message(1, 1, [2], [0], reduce=True, waits=[2, 1]),
        Message(0, 0, waits=[4, 0, 3]),
    ]
    return compile_messages("all-reduce", 2, messages, algorithm="mine", blocks=1, cells=3)


def test_own_waits() -> None:
    c = halves()
    prove(c)
    assert c.explicit_waits
    assert [c.waits_for(m).tolist() for m in range(7)] == [[], [], [0], [1], [0, 3], [1, 2], [0, 3, 4]]
    assert all(arrive_in_any_order(c, np.random.default_rng(seed)) for seed in range(10))
    assert c.message_bytes(np.array([9])).tolist() == [9] * 6 + [0]
    assert c.without_empty(np.array([0])) is c
    prove(mirrored(c))


def test_own_waits_that_do_not_suffice() -> None:
    refused(halves(lost=True), r"step 2 of rank 0 \(local\) and step 1 of rank 1 \(-> 0\) both access cell 2 of rank 0")


def test_own_waits_of_equal_sends_share_a_gate() -> None:
    messages = [Message(1, 0, [0], reduce=True), *(Message(0, rank, [0], waits=[0]) for rank in (1, 2, 3))]
    c = compile_messages("all-reduce", 4, messages, algorithm="mine", blocks=1)
    assert len(c.gate_ptr) == 2
    assert c.gate.tolist() == [-1, 0, 0, 0]


def test_given_bytes() -> None:
    messages = [
        Message(0, 1, nbytes=100),
        Message(1, 1, nbytes=0, extra_ns=30, waits=[0]),
        Message(1, 0, nbytes=7, waits=[1]),
    ]
    c = compile_messages("all-reduce", 2, messages, algorithm="trace", unproved="the file has no data")
    prove(c)
    assert c.message_bytes(np.array([5, 5])).tolist() == [100, 0, 7]
    assert c.without_empty(np.array([0, 5])) is c
    assert c.extra_ns is not None
    assert c.extra_ns.tolist() == [0, 30, 0]
    assert c.unproved
    wrong = replace(c, gate_ids=np.array([0, 2], dtype=np.int32))
    refused(wrong, "message 2, 1 -> 0, waits for message 2, 1 -> 0, which does not precede it", rank=1, step=1)
    refused(
        replace(c, gate_ids=np.array([0, 0], dtype=np.int32), src=c.dst, dst=c.src), "does not arrive at the sender"
    )
    with pytest.raises(ValueError, match="either all messages have a size or none has"):
        compile_messages("all-reduce", 2, [Message(0, 1, nbytes=1), Message(1, 0)], algorithm="trace")


# -- the proof against trying it out --


# All ranks contribute to every block, nobody needs to have it: only the order of accesses can be wrong.
NOTHING = Kind("nothing", 0, lambda n, unit, root=0: range(n), lambda n, unit, root=0: ())


@st.composite
def programs(draw: st.DrawFn) -> CompiledSchedule:
    """Any few messages, joins and local steps of three ranks on a few cells."""
    n = 3
    s = Schedule(NOTHING, n, blocks=2, cells=draw(st.integers(2, 6)))
    cell = st.integers(0, s.cells - 1)
    for _ in range(draw(st.integers(1, 7))):
        src, on, what = draw(st.integers(0, n - 1)), draw(st.integers(0, 2)), draw(st.integers(0, 4))
        put, reduce = draw(cell), draw(st.booleans())
        if what == 0:
            s.reduce_in_network(range(n) if on else [src, (src + 1) % n], draw(cell))
        elif on:
            s.send(src, (src + on) % n, draw(cell), reduce, put=put)
        else:
            s.local(src, draw(cell), put, reduce)
    return compiled(s)


@given(st.data(), st.integers(0, 2**32 - 1))
def test_what_is_accepted_gives_the_same_in_any_order(data: st.DataObject, seed: int) -> None:
    try:
        c = data.draw(programs())
        prove(c)
    except ScheduleError:
        return
    random = np.random.default_rng(seed)
    first, *others = (run_in_any_order(c, random) for _ in range(4))
    assert all(other == first for other in others)


@given(st.data(), st.integers(0, 2**32 - 1))
def test_own_waits_that_are_accepted_give_the_same_in_any_order(data: st.DataObject, seed: int) -> None:
    """The waits that the data demand, some of them left out, and others besides."""
    messages: list[Message] = []
    try:
        c = data.draw(programs())
        for m in range(len(c)):
            at_sender = [d for d in range(m) if c.dst[d] == c.src[m] and (c.join[d] < 0 or c.join[d] != c.join[m])]
            waits = {*c.waits_for(m).tolist(), *data.draw(st.sets(st.sampled_from([*at_sender, -1]), max_size=2))}
            waits -= {data.draw(st.sampled_from([-1, *sorted(waits)])), -1}
            places = slice(c.block_ptr[m], c.block_ptr[m + 1])
            cells, puts = c.block_ids[places].tolist(), c.put_ids[places].tolist()
            src, dst, join = int(c.src[m]), int(c.dst[m]), int(c.join[m])
            messages.append(Message(src, dst, cells, puts, bool(c.reduce[m]), sorted(waits), join=join))
        own = compile_messages(NOTHING, c.n, messages, algorithm="mine", blocks=c.blocks, cells=c.cells)
        prove(own)
    except ScheduleError:
        return
    random = np.random.default_rng(seed)
    first, *others = (run_in_any_order(own, random) for _ in range(4))
    assert all(other == first for other in others)


SAMPLES = st.sampled_from(
    [
        *((function, kind) for function in (star, chain) for kind in ROOTED),
        (dissemination, "barrier"),
        (in_network, "all-reduce"),
        (exchange, "all-reduce"),
    ]
)


@given(SAMPLES, st.integers(0, 3), st.integers(0, 2**32 - 1), st.data())
def test_a_sample_with_a_fault_is_refused_or_harmless(
    sample: tuple[Callable[[str, int], Schedule], str], power: int, seed: int, data: st.DataObject
) -> None:
    function, kind = sample
    n = 2**power if function is exchange else data.draw(st.integers(2, 5))
    s = function(kind, n)
    if not s.steps:
        return
    at = data.draw(st.integers(0, len(s.steps) - 1))
    step = s.steps[at]
    changes: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"reduce": not step.reduce}, {"dst": step.dst[::-1].copy()}, {"join": -1}])
    )
    s.steps[at : at + 1] = [step._replace(**changes)] if changes else []
    try:
        c = compiled(s)
        prove(c)
    except ScheduleError:
        return
    random = np.random.default_rng(seed)
    assert all(arrive_in_any_order(c, random) for _ in range(3))
