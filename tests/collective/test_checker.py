"""The checker refuses every kind of fault and names its place; what it accepts is right in every order of arrival."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import Kind
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule, ScheduleError
from tests.collective.samples import arrive_in_any_order


def ring(kind: str = "all-reduce", n: int = 4) -> CompiledSchedule:
    return get_schedule(kind, "ring", n)


def without(c: CompiledSchedule, message: int, **changes: Any) -> CompiledSchedule:
    """The schedule as if this message had never been written, or with other properties; waits derived anew."""
    s = Schedule(c.kind, c.n, blocks=c.blocks, window=c.window)
    for m in range(len(c)):
        if m != message:
            s.send(int(c.src[m]), int(c.dst[m]), c.blocks_of(m), bool(c.reduce[m]))
        elif changes:
            old = {"src": int(c.src[m]), "dst": int(c.dst[m]), "blocks": c.blocks_of(m), "reduce": bool(c.reduce[m])}
            s.send(**{**old, **changes})
    return compiled(s, c.algorithm)


def refused(c: CompiledSchedule | Schedule, text: str, **attributes: Any) -> None:
    with pytest.raises(ScheduleError) as caught:
        prove(c)
    assert re.search(text, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value, name


# All ranks contribute to every block, nobody needs to have it: only the order of accesses can be wrong.
NOTHING = Kind("nothing", 0, lambda n, unit, root=0: range(n), lambda n, unit, root=0: ())

# In the ring all-reduce on 4 ranks message 4*k + r is the k-th send of rank r; it carries block (r-1-k) % 4 for k < 3.


def test_a_missing_message() -> None:
    # Message 11 is the last one of the reduce-scatter that ends at rank 0: block 0 with the contributions of 1, 2, 3.
    refused(
        without(ring("reduce-scatter"), 11),
        r"^ring reduce-scatter on 4 ranks: rank 0 ends without the contributions of ranks 1, 2, 3 in block 0; "
        r"that of rank 1 gets no further than step 1 of rank 2 \(-> 3\)$",
        rank=0,
        block=0,
        step=1,
        missing=(1, 2, 3),
    )
    # The last message of the all-gather on 4 ranks brings block 1 to rank 0.
    refused(
        without(ring("all-gather"), 11),
        r"rank 0 ends without anything in block 1; it gets no further than step 1 of rank 2 \(-> 3\)$",
        rank=0,
        block=1,
        step=1,
        missing=(1,),
    )
    # On two ranks it never moves at all.
    refused(
        without(ring("all-gather", 2), 0),
        r"rank 1 ends without anything in block 0; it never leaves rank 0$",
        step=None,
    )


def test_contributions_are_added_twice() -> None:
    s = Schedule("all-reduce", 3, blocks=1)
    s.send(1, 0, 0, reduce=True)
    s.send(2, 1, 0, reduce=True)  # rank 1 has sent its own already ...
    s.send(1, 0, 0, reduce=True)  # ... and now sends it again, with that of rank 2
    refused(
        compiled(s, "mine"),
        r"^mine all-reduce on 3 ranks: step 1 of rank 1 \(-> 0\) adds the contributions of rank 1 to block 0 of rank 0",
        rank=0,
        step=1,
        block=0,
        duplicate=(1,),
    )


def test_the_same_message_twice() -> None:
    c = ring("reduce-scatter")
    s = Schedule("reduce-scatter", 4)
    for m in [*range(len(c)), 0]:
        s.send(int(c.src[m]), int(c.dst[m]), c.blocks_of(m), bool(c.reduce[m]))
    refused(s, r"step 3 of rank 0 \(-> 1\) adds the contributions of rank 0 to block 3 of rank 1 again", rank=1)


def test_store_instead_of_add() -> None:
    # Rank 1 stores block 3 from rank 0, and so loses its own contribution to it.
    refused(
        without(ring("reduce-scatter"), 0, reduce=False),
        r"rank 3 ends without the contributions of rank 1 in block 3",
        missing=(1,),
        block=3,
    )


def test_add_instead_of_store() -> None:
    refused(without(ring("all-gather"), 0, reduce=True), r"adds to block 0, which rank 1 does not have", rank=1, step=0)


def test_a_block_that_is_not_there_yet() -> None:
    s = Schedule("all-gather", 3)
    s.send(1, 2, 0)
    refused(s, r"step 0 of rank 1 \(-> 2\) sends block 0, which rank 1 does not have", rank=1, step=0, block=0)


def test_a_block_at_the_wrong_place() -> None:
    # All-to-all on 3 ranks, direct: message 0 carries block 0*3+1 from 0 to 1; it goes to 2 instead.
    wrong = without(get_schedule("all-to-all", "direct", 3), 0, dst=2)
    refused(wrong, r"rank 1 ends without anything in block 1", rank=1, block=1, missing=(0,))


def test_a_wait_that_is_lost() -> None:
    c = ring("all-gather", 3)
    gate = c.gate.copy()
    gate[3] = -1  # rank 0 passes on block 2, which has just come with message 2
    refused(
        replace(c, gate=gate),
        r"step 1 of rank 0 \(-> 1\) and step 0 of rank 2 \(-> 0\) both access block 2 of rank 0, and nothing orders",
        rank=0,
        step=1,
        block=2,
    )


def test_a_read_beside_an_addition() -> None:
    s = Schedule("all-reduce", 2, blocks=1)
    s.step([0, 1], [1, 0], 0, reduce=True)  # each sends its block while the other's contribution may be coming in
    refused(s, r"both access block 0 of rank 1, and nothing orders them", block=0)


def test_a_store_that_may_come_before_the_old_value_is_read() -> None:
    # Rank 0 sends its contribution to 1 and to 2. Rank 1 answers with the sum of 0 and 1 at once: it may come before
    # rank 0 has sent to rank 2, which then gets another value.
    s = Schedule(NOTHING, 3, blocks=1)
    s.send(0, 2, 0, reduce=True)
    s.send(0, 1, 0, reduce=True)
    s.send(1, 0, 0)
    refused(s, r"step 0 of rank 1 \(-> 0\) and step 0 of rank 0 \(-> 2\) both access block 0 of rank 0", rank=0)


def test_two_stores_in_no_order() -> None:
    s = Schedule("all-gather", 3)
    s.send(0, 1, 0)
    s.send(0, 2, 0)
    s.send(1, 2, 0)  # it has it already
    refused(s, r"step 0 of rank 1 \(-> 2\) and step 1 of rank 0 \(-> 2\) both access block 0 of rank 2")


def test_a_store_and_an_addition_in_no_order() -> None:
    s = Schedule(NOTHING, 3, blocks=1)
    s.send(1, 0, 0)
    s.send(2, 0, 0, reduce=True)
    refused(s, r"step 0 of rank 2 \(-> 0\) and step 0 of rank 1 \(-> 0\) both access block 0 of rank 0")


def test_waits_for_the_wrong_message() -> None:
    c = ring("all-gather", 4)
    ids = c.gate_ids.copy()
    ids[0] = c.waits_for(4)[0] + 8
    refused(replace(c, gate_ids=ids), r"waits for message \d+, \d -> \d, which does not precede it$")
    ids = c.gate_ids.copy()
    ids[0] = (ids[0] + 1) % 4
    refused(replace(c, gate_ids=ids), r"waits for message \d+, \d -> \d, which does not arrive at the sender$")


def test_order_through_other_blocks_does_not_count() -> None:
    # Rank 0 sends blocks 0 and 1 to rank 1, which passes block 1 on to rank 2, which then overwrites block 0 of rank 0.
    # Should block 1 have no bytes, nothing would hold that back until rank 0 has sent its block 0.
    s = Schedule(NOTHING, 3, blocks=2)
    s.send(0, 1, [0, 1])
    s.send(1, 2, 1)
    s.send(2, 0, [0, 1])
    refused(s, r"step 0 of rank 2 \(-> 0\) and step 0 of rank 0 \(-> 1\) both access block 0 of rank 0", block=0)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct:3", "halving-doubling"])
@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
def test_the_shelf_is_right(kind: str, algorithm: str, mirror: bool) -> None:
    if (kind, algorithm) == ("all-to-all", "halving-doubling"):
        pytest.skip("refused by name")
    for n in (1, 2, 3, 4, 6, 7, 8, 12, 16, 31, 33):
        prove(get_schedule(kind, algorithm, n, mirror=mirror))


CASES = st.tuples(
    st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]),
    st.sampled_from(["ring", "direct", "direct:1", "direct:2", "halving-doubling"]),
    st.integers(2, 7),
).filter(lambda case: case[:2] != ("all-to-all", "halving-doubling"))


@given(CASES, st.integers(0, 2**32 - 1), st.data())
def test_what_is_accepted_is_right_in_any_order(case: tuple[str, str, int], seed: int, data: st.DataObject) -> None:
    """Also with blocks of no bytes, whichever they are; no window and no missing block locks it up."""
    c = get_schedule(*case)
    sizes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=c.blocks, max_size=c.blocks)))
    for schedule in (c, c.without_empty(sizes)):
        prove(schedule)
        assert arrive_in_any_order(schedule, np.random.default_rng(seed))


@given(CASES, st.integers(0, 2**32 - 1), st.data())
def test_a_broken_schedule_is_refused_or_harmless(case: tuple[str, str, int], seed: int, data: st.DataObject) -> None:
    """One message is left out, changed, or does not wait: if the checker accepts that, every order gives the result."""
    c = get_schedule(*case)
    m = data.draw(st.integers(0, len(c) - 1))
    fault = data.draw(st.sampled_from(["gone", "reduce", "dst", "block", "gate"]))
    if fault == "gate":
        broken = replace(c, gate=np.where(np.arange(len(c)) == m, -1, c.gate).astype(np.int32))
    elif fault == "gone":
        broken = without(c, m)
    else:
        other = data.draw(st.integers(1, c.n - 1))
        faults: dict[str, dict[str, Any]] = {
            "reduce": {"reduce": not c.reduce[m]},
            "dst": {"dst": int(c.src[m] + other) % c.n},
            "block": {"blocks": [data.draw(st.integers(0, c.blocks - 1))]},
        }
        broken = without(c, m, **faults[fault])
    try:
        prove(broken)
    except ScheduleError:
        return
    random = np.random.default_rng(seed)
    assert all(arrive_in_any_order(broken, random) for _ in range(5))


def test_every_message_of_the_shelf_is_needed() -> None:
    """No algorithm sends more than it must: leave out any message, and the checker finds out."""
    for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all"):
        for algorithm in ("ring", "direct", "halving-doubling"):
            if (kind, algorithm) == ("all-to-all", "halving-doubling"):
                continue
            for n in (2, 4, 6):
                c = get_schedule(kind, algorithm, n)
                for m in range(len(c)):
                    with pytest.raises(ScheduleError):
                        prove(without(c, m))


# A kind that is not built in: the language and the checker need nothing new for it.
SECOND = Kind("second", 0, lambda n, unit, root=0: (1 % n,), lambda n, unit, root=0: range(n))


def tree(n: int) -> Schedule:
    """Binomial tree from rank 1: in every step all that have the data send them to a rank that has not."""
    s = Schedule(SECOND, n, blocks=1)
    reach = 1
    while reach < n:
        for rank in range(min(reach, n - reach)):
            s.send((rank + 1) % n, (rank + reach + 1) % n, 0)
        reach *= 2
    return s


@pytest.mark.parametrize("n", range(1, 18))
def test_another_kind_another_algorithm(n: int) -> None:
    c = compiled(tree(n), "tree")
    prove(c)
    assert len(c) == n - 1
    if n > 1:
        refused(without(c, len(c) - 1), f"tree second on {n} ranks: rank 0 ends without anything in block 0")


def test_what_overwrites_a_contribution_is_named() -> None:
    """A ring in which one message is stored instead of added: what its receiver had put in is gone."""
    s = Schedule("reduce-scatter", 6)
    for step in range(5):
        for rank in range(6):
            s.send(rank, (rank + 1) % 6, (rank - 1 - step) % 6, reduce=(rank, step) != (3, 2))
    with pytest.raises(ScheduleError, match=r"that of rank 4 is overwritten by step 2 of rank 3 \(-> 4\)$") as refused:
        prove(s)
    assert (refused.value.rank, refused.value.step, refused.value.missing) == (0, 2, (4,))
