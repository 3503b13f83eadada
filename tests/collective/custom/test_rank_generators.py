"""Programs for one rank in Python: what they may yield, that they mean what they say, and how they are refused."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom import Blocks, Copy, Receive, Reduce, Send
from pyxsim.collective.custom import rank_generators as ranks
from pyxsim.collective.custom.rank_generators import is_rank_generator, schedule_builder
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import ScheduleError

Step = Send | Receive | Copy | Reduce | Blocks
Program = Callable[[str, int, int], Iterator[Step]]


def schedule(program: Callable[[str, int, int], Any], kind: str, n: int) -> CompiledSchedule:
    return schedule_builder(program, "mine")(kind, n)


def ring(kind: str, n: int, rank: int) -> Iterator[Step]:
    after, before = (rank + 1) % n, (rank - 1) % n
    for step in range(n - 1):
        yield Send(after, (rank - 1 - step) % n)
        yield Receive(before, (rank - 2 - step) % n, reduce=True)
    for step in range(n - 1):
        yield Send(after, (rank - step) % n)
        yield Receive(before, (rank - 1 - step) % n)


def exchange(kind: str, n: int, rank: int) -> Iterator[Step]:
    """Recursive doubling: both send what they both are about to change."""
    bit = 1
    while bit < n:
        yield Send(rank ^ bit, range(n))
        yield Receive(rank ^ bit, range(n), reduce=True)
        bit *= 2


def gather(kind: str, n: int, rank: int) -> Iterator[Step]:
    for distance in range(1, n):
        yield Send((rank + distance) % n, rank)
    for distance in range(1, n):
        yield Receive((rank - distance) % n, (rank - distance) % n)


def star(kind: str, n: int, rank: int) -> Iterator[Step]:
    """Scratch places, blocks of one's own, local steps."""
    yield Blocks(2)
    if rank:
        yield Send(0, (0, 1))
        yield Receive(0, (0, 1))
        return
    for peer in range(1, n):
        yield Receive(peer, (2, 3))
        yield Reduce((2, 3), (0, 1))
    yield Copy((0, 1), (8, 9))
    for peer in range(1, n):
        yield Send(peer, (8, 9))


def through_one(kind: str, n: int, rank: int) -> Iterator[Step]:
    """All-to-all by way of rank 0, with tags in no order."""
    mine = [rank * n + peer for peer in range(n) if peer not in (0, rank)]
    if rank:
        for block in (rank * n, *mine):
            yield Send(0, block, tag=block)
        for peer in range(n):
            if peer != rank:
                yield Receive(0, peer * n + rank, tag=peer)
        return
    for block in reversed([one * n + other for one in range(1, n) for other in range(n) if one != other]):
        yield Receive(block // n, block, tag=block)
    for peer in range(1, n):
        for source in reversed([other for other in range(n) if other != peer]):
            yield Send(peer, source * n + peer, tag=source)


def everybody(kind: str, n: int, rank: int) -> Iterator[Step]:
    """A barrier: dissemination."""
    distance = 1
    while distance < n:
        yield Send((rank + distance) % n, 0)
        yield Receive((rank - distance) % n, 0, reduce=True)
        distance *= 2


PROGRAMS = [(ring, "all-reduce"), (gather, "all-gather"), (star, "all-reduce"), (through_one, "all-to-all")]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize(("program", "kind"), PROGRAMS)
def test_programs_are_proved(program: Program, kind: str, n: int) -> None:
    prove(schedule(program, kind, n))


def test_a_ring_sends_what_the_ring_of_the_shelf_sends() -> None:
    mine, shelf = schedule(ring, "all-reduce", 5), get_schedule("all-reduce", "ring", 5)

    def sent(s: CompiledSchedule) -> list[list[tuple[int, list[int]]]]:
        ptr, ids = s.sends
        return [
            [(int(s.dst[m]), s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist()) for m in part if not s.local[m]]
            for part in (ids[ptr[rank] : ptr[rank + 1]] for rank in range(s.n))
        ]

    assert sent(mine) == sent(shelf)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_what_is_sent_may_change_at_once(n: int) -> None:
    prove(schedule(exchange, "all-reduce", n))


def test_nothing_is_copied_where_nothing_was() -> None:
    s = schedule(gather, "all-gather", 6)
    assert not s.local.any()
    assert s.cells > s.blocks  # places of messages that arrive where they stay are renamed, not given back
    assert len(s.gate_ids) == 0


def test_messages_go_the_shorter_way_round() -> None:
    s = schedule(gather, "all-gather", 5)
    assert [int(s.way[m]) for m in np.flatnonzero(s.src == 3)] == [1, 1, -1, -1]
    s = schedule(gather, "all-gather", 4)
    assert s.way[s.src == 0].tolist() == [1, 1, -1]


def test_gates_stay_small() -> None:
    def then_round(kind: str, n: int, rank: int) -> Iterator[Step]:
        yield from gather(kind, n, rank)
        yield Send((rank + 1) % n, rank, 1)
        yield Receive((rank - 1) % n, n, tag=1)

    s = schedule(then_round, "all-gather", 40)
    assert np.diff(s.gate_ptr).max() <= 9
    prove(schedule(then_round, "all-gather", 12))


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_barrier(n: int) -> None:
    prove(schedule(everybody, "barrier", n))


def test_a_program_is_told_from_an_algorithm_by_its_third_parameter() -> None:
    assert is_rank_generator(ring)
    assert not is_rank_generator(lambda kind, n: None)
    assert not is_rank_generator(lambda kind, n, window: None)


# What happens when the steps are executed as they are written: the meaning, independent of cells and waits.
State = list[defaultdict[int, Counter[tuple[int, int]]]]


def executed(programs: list[list[Step]], kind: str, blocks: int, seed: int) -> State | None:
    """Contributions in every place of every rank at the end; None when the ranks cannot go on."""
    n, draw = len(programs), random.Random(seed)
    unit = blocks // KINDS[kind].units(n)
    state: State = [defaultdict(Counter) for _ in range(n)]
    for block in range(blocks):
        for rank in KINDS[kind].start(n, block // unit):
            state[rank][block][rank, block] = 1
    links: defaultdict[tuple[int, int], deque[list[Counter[tuple[int, int]]]]] = defaultdict(deque)
    at = [0] * n
    while True:
        able = [
            rank
            for rank in range(n)
            if at[rank] < len(programs[rank])
            and (not isinstance(step := programs[rank][at[rank]], Receive) or links[step.peer, rank])
        ]
        if not able:
            break
        rank = draw.choice(able)
        step = programs[rank][at[rank]]
        at[rank] += 1
        match step:
            case Send(peer, block):
                links[rank, peer].append([state[rank][block].copy()])
            case Receive(peer, block, reduce):
                [value] = links[peer, rank].popleft()
                state[rank][block] = state[rank][block] + value if reduce else value
            case Copy(source, target):
                state[rank][target] = state[rank][source].copy()
            case Reduce(source, target):
                state[rank][target] = state[rank][target] + state[rank][source]
    return state if all(at[rank] == len(programs[rank]) for rank in range(n)) else None


@given(st.sampled_from([(ring, "all-reduce"), (gather, "all-gather")]), st.integers(2, 5), st.data())
def test_a_changed_program_passes_only_if_it_is_still_right(
    example: tuple[Program, str], n: int, data: st.DataObject
) -> None:
    """Two steps of a rank change places, or one is put in or left out: it is refused, or the result is right."""
    program, kind = example
    programs = [list(program(kind, n, rank)) for rank in range(n)]
    for _ in range(data.draw(st.integers(0, 2))):
        steps = data.draw(st.sampled_from(programs))
        one, other = (data.draw(st.integers(0, len(steps) - 1)) for _ in range(2))
        if data.draw(st.booleans()):
            steps[one], steps[other] = steps[other], steps[one]
        else:
            places = st.integers(0, n)
            steps.insert(one, data.draw(st.builds(Copy, places, places) | st.builds(Reduce, places, places)))
    state = executed(programs, kind, n, data.draw(st.integers(0, 9)))
    right = state is not None and all(
        state[rank][block] == {(source, block): 1 for source in KINDS[kind].start(n, block)}
        for block in range(n)
        for rank in KINDS[kind].goal(n, block)
    )
    try:
        prove(schedule(lambda kind, n, rank: programs[rank], kind, n))
    except ScheduleError:
        # Local steps that were put in may use what is not there, or mix blocks: refused, even if nothing comes of it.
        assert not right or any(isinstance(step, Copy | Reduce) for steps in programs for step in steps)
    else:
        assert right


def steps_of(*steps: Any) -> Callable[[str, int, int], Any]:
    return lambda kind, n, rank: steps if rank == 0 else ()


def endless(kind: str, n: int, rank: int) -> Iterator[Step]:
    while True:
        yield Copy(0, 7)


def late(kind: str, n: int, rank: int) -> Iterator[Step]:
    yield Copy(0, 7)
    yield Blocks(3)


def uneven(kind: str, n: int, rank: int) -> Iterator[Step]:
    yield Blocks(rank + 1)


def circle(kind: str, n: int, rank: int) -> Iterator[Step]:
    yield Receive((rank + 1) % n, 0)
    yield Send((rank - 1) % n, 0)


def greedy(kind: str, n: int, rank: int) -> Iterator[Step]:
    yield Send((rank - 1) % n, 0)
    yield Receive((rank + 1) % n, 0)
    yield Receive((rank + 1) % n, 0)


def too_short(kind: str, n: int, rank: int) -> Iterator[Step]:
    yield Send((rank - 1) % n, (0, 1))
    yield Receive((rank + 1) % n, 0)


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (steps_of(7), r"mine all-reduce on 9 ranks: step 0 of rank 0 is 7; allowed: Send, Receive, Copy, Reduce"),
        (steps_of(Send(9, 0)), r"step 0 of rank 0 names rank 9, which does not exist; allowed: another rank of"),
        (steps_of(Send(0, 0)), r"step 0 of rank 0 names itself"),
        (steps_of(Send("b", 0)), r"step 0 of rank 0 has 'b' for a rank"),
        (steps_of(Send(1, 0.5)), r"step 0 of rank 0 has 0.5 for a block"),
        (steps_of(Send(1, -1)), r"step 0 of rank 0 has -1 for a block; allowed: a whole number from 0"),
        (steps_of(Send(1, ())), r"step 0 of rank 0 names no block"),
        (steps_of(Send(1, (2, 2))), r"step 0 of rank 0 names a block twice: \(2, 2\)"),
        (steps_of(Send(1, 0, tag=-1)), r"step 0 of rank 0 has -1 for a tag"),
        (steps_of(Copy((0, 1), 2)), r"step 0 of rank 0 puts 2 blocks into 1 places"),
        (steps_of(Copy(0, 9), Copy(12, 9)), r"step 1 of rank 0 reads block 12, which is empty"),
        (steps_of(Reduce(0, 1)), r"step 0 of rank 0 adds block 0 to block 1"),
        (steps_of(Copy(0, 1)), r"rank 0 ends with block 0 in place of block 1"),
        (steps_of(Send(1, 0)), r"step 0 of rank 0 sends a message that rank 1 never receives"),
        (steps_of(Receive(1, 0)), r"step 0 of rank 0 waits for message 0 from .*: rank 1 sends 0 to rank 0 in total"),
        (
            lambda kind, n, rank: 5,
            r"rank_generators.py:\d+: .*does not exist, because the program returned int; allowed: a ",
        ),
        (late, r"rank_generators.py:\d+: .*step 1 of rank 0 cuts the data into blocks, but is not the first"),
        (uneven, r"rank 1 cuts the data into 2 blocks, but rank 0 into 1"),
        (
            circle,
            r"rank_generators.py:\d+: .*: step 0 of rank 0 waits for message 0 from rank 1, which waits in step 0 for ",
        ),
        (circle, r"message 0 from rank 4, and so on: 9 wait for each other in a cycle"),
        (greedy, r"step 2 of rank 0 waits for message 1 from rank 1: rank 1 sends 1 to rank 0 in total"),
        (too_short, r"step 1 of rank \d receives 1 blocks of rank \d, but 2 arrive, from step 0 of rank \d"),
    ],
)
def test_wrong_programs(program: Program, problem: str) -> None:
    with pytest.raises(ScheduleError, match=problem):
        schedule(program, "all-reduce", 9)


def test_a_program_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MAX_STEPS", 1000)
    with pytest.raises(ScheduleError, match=r"rank_generators.py:\d+: .*step 1000 of rank 0 exceeds the limit of 1000"):
        schedule(endless, "all-reduce", 9)


def test_a_wrong_cut() -> None:
    with pytest.raises(ScheduleError, match="cuts all-gather into 3 blocks; allowed: a multiple of 2"):
        schedule(lambda kind, n, rank: [Blocks(3)], "all-gather", 2)


def test_a_broken_program_is_refused_by_the_proof() -> None:
    def forgets(kind: str, n: int, rank: int) -> Iterator[Step]:
        yield from list(ring(kind, n, rank))[: -2 if rank < 2 else None]

    def forgets_one(kind: str, n: int, rank: int) -> Iterator[Step]:
        for step in ring(kind, n, rank):
            yield Receive(step.peer, step.blocks) if step == Receive(1, 0, reduce=True) else step

    with pytest.raises(ScheduleError, match=r"never receives|waits for"):
        schedule(forgets, "all-reduce", 4)
    with pytest.raises(ScheduleError, match="ends without the contribution") as caught:
        prove(schedule(forgets_one, "all-reduce", 4))
    assert caught.value.missing


def collected(kind: str, n: int, rank: int) -> Iterator[Step]:
    """All-reduce through rank 0, which adds as the data come."""
    if rank:
        yield Send(0, range(n))
        yield Receive(0, range(n))
        return
    for peer in range(1, n):
        yield Receive(peer, range(n), reduce=True)
    for peer in range(1, n):
        yield Send(peer, range(n))


def test_what_is_added_on_arrival_is_told_so() -> None:
    s = schedule(collected, "all-reduce", 4)
    assert s.adds[~s.local].tolist() == (s.dst == 0)[~s.local].tolist()
    stored = schedule(star, "all-reduce", 4)  # into scratch places, and added by steps of the program
    assert not stored.adds[~stored.local].any()


def test_the_proof_names_the_steps_of_the_program() -> None:
    def again(kind: str, n: int, rank: int) -> Iterator[Step]:
        if rank == 1:
            yield Send(0, range(n))
        if not rank:
            yield Receive(1, range(n), reduce=True)
        yield from collected(kind, n, rank)

    with pytest.raises(ScheduleError) as caught:
        prove(schedule(again, "all-reduce", 3))
    line = r"rank_generators.py:\d+: mine all-reduce on 3 ranks: step 1 of rank 0 adds the contributions of rank 1 to "
    assert re.search(line + "block 0 of rank 0 again$", str(caught.value))
    assert (caught.value.rank, caught.value.step) == (0, 1)

    def late(kind: str, n: int, rank: int) -> Iterator[Step]:
        steps = list(collected(kind, n, rank))
        yield from steps if rank else [*steps[:-3], steps[-2], steps[-1], steps[-3]]

    with pytest.raises(ScheduleError, match="the contributions of rank 2 in block 0") as caught:
        prove(schedule(late, "all-reduce", 3))
    assert "that of rank 2 gets no further than step 0 of rank 2 (-> 0)" in str(caught.value)
