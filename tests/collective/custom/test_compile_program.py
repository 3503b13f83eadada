"""Random programs with several threads per rank: a compiled schedule does the same as the program, in any order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque

from hypothesis import event, given, settings
from hypothesis import strategies as st

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.compile_program import compile_program
from pyxsim.collective.custom.program import Instruction, Layout, Program, Thread
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.schedule import ScheduleError
from tests.examples import part_of

Value = Counter[int]  # how often the contribution of each rank is in it
PLACES = 3  # of each rank: at the start, all of them are names of block 0; at the end, the first is
THREADS = 2


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """An all-reduce of one block, correct or not. All ranks take each step together, so waits form no cycle."""
    n = draw(st.integers(2, 3))
    steps: list[list[Instruction]] = [[] for _ in range(n * THREADS)]
    place = st.integers(0, PLACES - 1)
    for _ in range(draw(st.integers(1, 9))):
        rank, thread = draw(st.integers(0, n - 1)), draw(st.integers(0, THREADS - 1))
        mine = steps[rank * THREADS + thread]
        other = steps[rank * THREADS + 1 - thread]
        after = ((1 - thread, len(other) - 1),) if other and draw(st.integers(0, 3)) else ()
        what = draw(st.sampled_from(["send", "send", "send", "copy", "add"]))
        if what != "send":
            mine.append(
                Instruction(reads=(draw(place),), writes=(draw(place),), adds=what == "add", after=after, width=1)
            )
            continue
        peer, tag = draw(st.integers(0, n - 2)), thread
        peer += peer >= rank
        # A link has one thread at each end, as in MSCCL: the tag says which.
        mine.append(Instruction(send=(peer, tag), reads=(draw(place),), after=after, width=1))
        there, beside = (steps[peer * THREADS + each] for each in (tag, 1 - tag))
        after = ((1 - tag, len(beside) - 1),) if beside and draw(st.integers(0, 3)) else ()
        own, writes = draw(st.sampled_from([((), True), ((draw(place),), True), ((draw(place),), False)]))
        there.append(Instruction(receive=(rank, tag), reads=own, writes=(draw(place),) if writes else (), width=1))
    threads = [
        Thread(number // THREADS, f"thread {number} of rank {number // THREADS}", each)
        for number, each in enumerate(steps)
    ]
    return Program(KINDS["all-reduce"], n, 1, threads, [Layout(dict.fromkeys(range(PLACES), 0), {0: 0})] * n)


def executed(program: Program, draw: random.Random) -> list[Value]:
    """What the ranks have in block 0 at the end, the threads being executed in a random order."""
    state = [{key: Counter({rank: 1}) for key in range(PLACES)} for rank in range(program.n)]
    links: defaultdict[tuple[int, int, int], deque[Value]] = defaultdict(deque)
    at = [0] * len(program.threads)

    def able(number: int) -> bool:
        thread = program.threads[number]
        if at[number] == len(thread.steps):
            return False
        step = thread.steps[at[number]]
        if any(at[program.first[thread.rank] + other] <= needed for other, needed in step.after):
            return False
        return step.receive is None or bool(links[step.receive[0], thread.rank, step.receive[1]])

    while ready := [number for number in range(len(at)) if able(number)]:
        number = draw.choice(ready)
        rank, step = program.threads[number].rank, program.threads[number].steps[at[number]]
        at[number] += 1
        value = sum((state[rank][place] for place in step.reads), Counter())
        if step.receive is not None:
            value = value + links[step.receive[0], rank, step.receive[1]].popleft()
        if step.adds:
            value = value + state[rank][step.writes[0]]
        if step.send is not None:
            links[rank, *step.send].append(value)
        for place in step.writes:
            state[rank][place] = value
    assert all(at[number] == len(thread.steps) for number, thread in enumerate(program.threads))
    return [each[0] for each in state]


def run(s: CompiledSchedule, draw: random.Random) -> list[Value]:
    """The same of a schedule, whose messages leave when they may and arrive in a random order."""
    cells: list[dict[int, Value]] = [{0: Counter({rank: 1})} for rank in range(s.n)]
    left, flying, arrived = set(range(len(s))), dict[int, list[Value]](), set[int]()
    while left or flying:
        free = [m for m in left if arrived.issuperset(s.waits_for(m).tolist())]
        m = draw.choice(free + list(flying))
        own, puts = s.blocks_of(m).tolist(), s.put_ids[s.block_ptr[m] : s.block_ptr[m + 1]].tolist()
        if m in left:
            left.remove(m)
            flying[m] = [cells[s.src[m]][cell] for cell in own]
            if not s.local[m]:
                continue
        for cell, value in zip(puts, flying.pop(m), strict=True):
            there = cells[s.dst[m]]
            there[cell] = there[cell] + value if s.reduce[m] else value
        arrived.add(m)
    return [each[0] for each in cells]


@settings(max_examples=part_of(300))
@given(programs(), st.randoms(use_true_random=False))
def test_what_is_woven_does_what_the_program_does(program: Program, draw: random.Random) -> None:
    try:
        s = compile_program(program, "mine")
    except ScheduleError as error:
        if "nothing orders them" not in str(error):
            raise
        event("refused")
        return
    event("compiled")
    results = [executed(program, draw) for _ in range(4)]
    assert all(result == results[0] for result in results), "the program depends on luck"
    assert all(run(s, draw) == results[0] for _ in range(4))
