"""The executor alone: tiny programs, told step by step what arrives, and asked what leaves and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.arrays import I64
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.schedule import Schedule
from pyxsim.system.executor import Executor
from pyxsim.system.options import SharedBus
from pyxsim.system.program import Program, Programs

Sent = tuple[int, int, int, int]  # source, destination, bytes, plane


@dataclass
class OnePhase:
    """As much of a phase as a program is made of: one schedule, all of whose blocks have the same size."""

    plain: CompiledSchedule
    each: int
    copies: int = 1
    matrix: None = None

    def schedule(self, *, mirror: bool = False) -> CompiledSchedule:
        return self.plain

    def block_sizes(self, piece: int) -> I64:
        return np.full(self.plain.blocks, self.each)


def program(schedule: Schedule | CompiledSchedule, each: int = 100, *, reduction: int = 0) -> Program:
    phase: Any = OnePhase(compiled(schedule), each)
    return Programs(lambda size: reduction, lambda ns: ns).get(phase, each, mirror=False)


def executor(npus: int, endpoint: int = 0, slow: Fraction = Fraction(1), **others: Any) -> Executor:
    return Executor([endpoint] * npus, [slow.numerator] * npus, [slow.denominator] * npus, **others)


def task(machine: Executor, what: Program, members: Sequence[int] | None = None, plane: int = 0, back: int = 1) -> int:
    return machine.add_task(machine.add_program(what), range(what.n) if members is None else members, plane, back)


def leaves(machine: Executor, now: int, first: int = 0) -> list[Sent]:
    """What goes to the network in this cycle, where it gets the numbers from `first` on."""
    machine.run_events(now)
    rows = [(int(a), int(b), int(size), int(plane)) for a, b, size, plane, _ in zip(*machine.outbox(), strict=True)]
    machine.sent(first, now)
    return rows


def arrive(machine: Executor, *messages: int, at: int) -> None:
    machine.arrive(np.array(messages), np.full(len(messages), at))


def pair(*, reduce: bool = False) -> Schedule:
    """Rank 0 sends to rank 1, which sends it back."""
    s = Schedule("broadcast", 2, blocks=1)
    s.send(0, 1, 0, reduce=reduce)
    s.send(1, 0, 0)
    return s


def test_there_and_back() -> None:
    """The endpoint delay before the first message and after each arrival; who has done everything is told once."""
    machine = executor(8, 3)
    number = task(machine, program(pair()), [7, 5], plane=2)
    machine.start(number, 0, 10)
    machine.start(number, 1, 11)
    assert machine.next_event() == 13
    assert leaves(machine, 12) == []
    assert leaves(machine, 13) == [(7, 5, 100, 2)]
    assert machine.next_event() == -1
    assert machine.take_ended() == []
    arrive(machine, 0, at=20)
    assert machine.next_event() == 23
    assert leaves(machine, 23, 1) == [(5, 7, 100, 2)]
    assert machine.take_ended() == [(number, 1, 1, 7)]
    arrive(machine, 1, at=33)
    assert leaves(machine, 36) == []
    assert machine.take_ended() == [(number, 0, 1, 10)]
    assert machine.take_ended() == []


def test_what_comes_early_waits_for_the_start() -> None:
    """It came at 20 and is handed over at 50; in the network it was until 20."""
    machine = executor(2, 3)
    number = task(machine, program(pair()))
    machine.start(number, 0, 0)
    leaves(machine, 3)
    arrive(machine, 0, at=20)
    assert machine.next_event() == -1
    machine.start(number, 1, 50)
    assert machine.next_event() == 53
    assert leaves(machine, 53, 1) == [(1, 0, 100, 0)]
    assert machine.take_ended() == [(number, 1, 1, 17)]


def test_early_messages_are_handed_over_in_the_order_in_which_they_came() -> None:
    machine = executor(3)
    s = Schedule("gather", 3)
    s.send(1, 0, 1)
    s.send(2, 0, 2)
    s.send(0, 1, 1)
    s.send(0, 2, 2)
    number = task(machine, program(s))
    machine.start(number, 1, 0)
    machine.start(number, 2, 0)
    leaves(machine, 0)
    arrive(machine, 1, at=4)
    arrive(machine, 0, at=5)
    machine.start(number, 0, 6)
    assert leaves(machine, 6, 2) == [(0, 2, 100, 0), (0, 1, 100, 0)]


def test_a_reduction_on_a_slow_npu() -> None:
    """5 cycles, times 3/2, are 8 whole ones; what is only stored costs none."""
    machine = executor(2, slow=Fraction(3, 2))
    number = task(machine, program(pair(reduce=True), reduction=5))
    for rank in range(2):
        machine.start(number, rank, 0)
    leaves(machine, 0)
    arrive(machine, 0, at=10)
    assert machine.next_event() == 18
    leaves(machine, 18, 1)
    arrive(machine, 1, at=30)
    assert machine.next_event() == 30


def test_a_gate_opens_with_the_last_arrival_and_in_the_order_of_the_schedule() -> None:
    machine = executor(4)
    s = Schedule("all-reduce", 4, blocks=2)
    s.send(1, 0, 0, reduce=True)
    s.send(2, 0, 0, reduce=True)
    s.send(0, 3, 1)
    s.send(0, 2, [0, 1])
    s.send(0, 1, 0)
    number = task(machine, program(s))
    for rank in range(4):
        machine.start(number, rank, 0)
    assert leaves(machine, 0) == [(0, 3, 100, 0), (1, 0, 100, 0), (2, 0, 100, 0)]
    arrive(machine, 1, at=7)
    assert leaves(machine, 7, 3) == []
    arrive(machine, 2, at=9)
    assert leaves(machine, 9, 3) == [(0, 2, 200, 0), (0, 1, 100, 0)]


def test_a_window_counts_messages_whichever() -> None:
    """With a window of 1 the k-th message of a rank (from 0) waits for k others, though no data hold it back."""
    machine = executor(2)
    s = Schedule("all-to-all", 2, window=1)
    for block in range(3):
        s.send(0, 1, block)
        s.send(1, 0, 3)
    number = task(machine, program(s))
    machine.start(number, 0, 0)
    machine.start(number, 1, 0)
    assert leaves(machine, 0) == [(0, 1, 100, 0), (1, 0, 100, 0)]
    arrive(machine, 1, at=10)
    assert leaves(machine, 10, 2) == [(0, 1, 100, 0)]
    arrive(machine, 2, 0, at=20)
    assert leaves(machine, 20, 3) == [(1, 0, 100, 0), (1, 0, 100, 0)]


def test_a_gate_and_a_window_that_open_together_keep_the_order_of_the_schedule() -> None:
    """Rank 1 has three messages left: the first and the last wait for the data that come, the one between for the
    window only."""
    machine = executor(2, log=True)
    s = Schedule("all-reduce", 2, blocks=4, window=2)
    s.send(1, 0, 0)
    s.send(1, 0, 1)
    s.send(0, 1, 0)
    s.send(1, 0, 0, reduce=True)
    s.send(1, 0, 2)
    s.send(1, 0, [0, 3], reduce=True)
    number = task(machine, program(s))
    machine.start(number, 0, 0)
    machine.start(number, 1, 0)
    assert leaves(machine, 0) == [(1, 0, 100, 0), (1, 0, 100, 0)]
    arrive(machine, 0, at=5)
    assert leaves(machine, 5, 2) == [(0, 1, 100, 0)]
    arrive(machine, 2, at=9)
    machine.run_events(9)
    assert [message for what, _, message in machine.take_log().tolist() if what == 0][3:] == [3, 4, 5]


def test_steps_of_a_rank_for_itself_need_no_network() -> None:
    """A copy costs nothing, a sum its reduction, a computation its time; only then the result leaves."""
    machine = executor(2, 4)
    messages = [
        Message(0, 0, nbytes=8),
        Message(0, 0, nbytes=8, reduce=True, waits=[0]),
        Message(0, 0, nbytes=8, waits=[1], extra_ns=30),
        Message(0, 1, nbytes=8, waits=[2]),
    ]
    what = compile_messages("broadcast", 2, messages, algorithm="steps")
    number = task(machine, program(what, reduction=5))
    machine.start(number, 0, 0)
    machine.start(number, 1, 0)
    assert leaves(machine, 38) == []
    assert leaves(machine, 39) == [(0, 1, 8, 0)]
    assert machine.take_ended() == [(number, 0, 0, 0)]


def test_a_message_without_bytes_is_handed_over_at_once() -> None:
    machine = executor(2, 4)
    messages = [Message(0, 1, nbytes=0), Message(1, 0, nbytes=8, waits=[0])]
    number = task(machine, program(compile_messages("broadcast", 2, messages, algorithm="token")))
    machine.start(number, 1, 0)
    machine.start(number, 0, 10)
    assert leaves(machine, 13) == []
    assert leaves(machine, 14) == [(1, 0, 8, 0)]


def test_what_waits_for_an_early_message_without_bytes_leaves_at_the_start() -> None:
    """Rank 1 starts at 10, and what it waited for was done long ago; what waits for nothing leaves at 14."""
    machine = executor(2, 4)
    messages = [Message(0, 1, nbytes=0), Message(1, 0, nbytes=7), Message(1, 0, nbytes=8, waits=[0])]
    number = task(machine, program(compile_messages("broadcast", 2, messages, algorithm="token")))
    machine.start(number, 0, 0)
    leaves(machine, 4)
    machine.start(number, 1, 10)
    assert leaves(machine, 10) == [(1, 0, 8, 0)]
    assert leaves(machine, 14) == [(1, 0, 7, 0)]


def test_a_join_is_handed_over_when_the_last_has_come() -> None:
    machine = executor(3, 1)
    s = Schedule("all-reduce", 3, blocks=1)
    s.reduce_in_network(range(3), 0)
    number = task(machine, program(s))
    for rank in range(3):
        machine.start(number, rank, 0)
    assert len(leaves(machine, 1)) == 3
    arrive(machine, 0, 2, at=11)
    assert machine.next_event() == -1
    arrive(machine, 1, at=15)
    leaves(machine, 16, 3)
    # Message 0 goes to rank 1, message 2 to rank 0: each was in the network until it came.
    assert sorted(machine.take_ended()) == [(number, 0, 1, 10), (number, 1, 1, 10), (number, 2, 1, 14)]


def test_a_join_waits_for_messages_without_bytes_too() -> None:
    """Rank 1 has nothing to add, but is not there before 20: what rank 0 sent is handed over then."""
    machine = executor(2, 1)
    messages = [Message(0, 1, nbytes=8, join=0), Message(1, 0, nbytes=0, join=0)]
    number = task(machine, program(compile_messages("all-reduce", 2, messages, algorithm="switch")))
    machine.start(number, 0, 0)
    leaves(machine, 1)
    machine.start(number, 1, 19)
    arrive(machine, 0, at=11)
    assert machine.next_event() == 20
    leaves(machine, 20, 1)
    assert machine.take_ended() == [(number, 0, 1, 0)]
    leaves(machine, 21, 1)
    assert machine.take_ended() == [(number, 1, 1, 10)]


def test_the_other_way_round_is_another_plane() -> None:
    machine = executor(2)
    s = Schedule("all-gather", 2)
    s.send(0, 1, 0, way=+1)
    s.send(1, 0, 1, way=-1)
    number = task(machine, program(s), plane=3, back=5)
    machine.start(number, 1, 0)
    machine.start(number, 0, 0)
    assert leaves(machine, 0) == [(1, 0, 100, 5), (0, 1, 100, 3)]


def test_messages_queue_for_the_bus_of_their_npu() -> None:
    """11 bytes: o + ceil(10 G) = 2 + 4 keep the bus, as g = 1 is less; L + o = 7 later they are outside."""
    machine = executor(3, 9, bus=SharedBus(L=5, o=2, g=1, G=Fraction(2, 5)))
    s = Schedule("scatter", 3)
    s.send(0, 1, 1)
    s.send(0, 2, 2)
    number = task(machine, program(s, 11))
    for rank in range(3):
        machine.start(number, rank, 0)
    assert leaves(machine, 12) == []
    assert leaves(machine, 13) == [(0, 1, 11, 0)]
    assert machine.next_event() == 19
    assert leaves(machine, 19, 1) == [(0, 2, 11, 0)]
    arrive(machine, 0, at=30)
    assert machine.next_event() == 43


def test_a_slow_npu_is_slow_on_its_bus_and_the_gap_is_kept() -> None:
    """o + ceil(10 G) = 6, times 3/2, is 9; with g = 20 the next one begins 20 cycles after the first."""
    machine = executor(2, slow=Fraction(3, 2), bus=SharedBus(L=5, o=2, g=20, G=Fraction(2, 5)))
    what = machine.add_program(program(single(), 11))
    for _ in range(2):
        machine.start(machine.add_task(what, [0, 1], 0, 0), 0, 0)
    assert leaves(machine, 16) == [(0, 1, 11, 0)]
    assert machine.next_event() == 36


def single() -> Schedule:
    s = Schedule("broadcast", 2, blocks=1)
    s.send(0, 1, 0)
    return s


def test_a_rank_without_messages_has_ended_when_it_starts() -> None:
    machine = executor(3, 5)
    number = task(machine, program(single_of_three()))
    machine.start(number, 2, 7)
    assert machine.take_ended() == [(number, 2, 0, 0)]
    assert machine.next_event() == -1


def single_of_three() -> Schedule:
    s = Schedule("broadcast", 3, blocks=1)
    s.send(0, 1, 0)
    return s


def test_tasks_of_one_program_do_not_disturb_each_other() -> None:
    """The same program for two groups; the second goes on after the first was forgotten."""
    machine = executor(4)
    what = machine.add_program(program(pair()))
    first, second = (machine.add_task(what, members, 0, 1) for members in ([0, 1], [2, 3]))
    for number in (first, second):
        machine.start(number, 0, 0)
        machine.start(number, 1, 0)
    assert leaves(machine, 0) == [(0, 1, 100, 0), (2, 3, 100, 0)]
    arrive(machine, 0, at=5)
    assert leaves(machine, 5, 2) == [(1, 0, 100, 0)]
    arrive(machine, 2, at=9)
    leaves(machine, 9, 3)
    assert machine.take_ended() == [(first, 1, 1, 5), (first, 0, 1, 4)]
    assert machine.missing(first, 0) == []
    arrive(machine, 1, at=12)
    assert leaves(machine, 12, 3) == [(3, 2, 100, 0)]


def test_what_is_missing_is_told() -> None:
    """With its sender, and whether it has left: a message of the first is under way, the second waits for data."""
    machine = executor(3)
    s = Schedule("reduce", 3, blocks=1)
    s.send(2, 1, 0, reduce=True)
    s.send(1, 0, 0, reduce=True)
    number = task(machine, program(s))
    assert machine.missing(number, 0) == []  # before anybody has started
    for rank in range(3):
        machine.start(number, rank, 0)
    leaves(machine, 0)
    assert machine.missing(number, 1) == [(2, True)]
    assert machine.missing(number, 0) == [(1, False)]
    arrive(machine, 0, at=3)
    leaves(machine, 3, 1)
    assert machine.missing(number, 1) == []


def test_the_log_has_what_left_and_what_was_taken_in() -> None:
    machine = executor(2, log=True)
    number = task(machine, program(pair()))
    for rank in range(2):
        machine.start(number, rank, 0)
    leaves(machine, 0)
    assert machine.take_log().tolist() == [[0, number, 0]]
    arrive(machine, 0, at=4)
    leaves(machine, 4, 1)
    assert machine.take_log().tolist() == [[1, number, 0], [0, number, 1]]
    assert machine.take_log().shape == (0, 3)


def test_the_network_may_number_messages_of_others_in_between() -> None:
    machine = executor(2)
    number = task(machine, program(pair()))
    for rank in range(2):
        machine.start(number, rank, 0)
    leaves(machine, 0, 17)
    arrive(machine, 17, at=4)
    assert leaves(machine, 4, 500) == [(1, 0, 100, 0)]
    arrive(machine, 500, at=9)
    leaves(machine, 9, 501)
    assert machine.take_ended() == [(number, 1, 1, 4), (number, 0, 1, 5)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60))
def test_events_come_by_their_cycle_and_then_as_they_were_made(starts: list[tuple[int, int]]) -> None:
    """Messages of NPUs with different delays, started in some order: they leave in the order of a stable sort."""
    delays = [0, 1, 2, 3, 5, 8]
    machine = Executor([*delays, 0], [1] * 7, [1] * 7)
    what = machine.add_program(program(single()))
    expected: list[tuple[int, int, int]] = []
    for now, npu in sorted(starts, key=lambda start: start[0]):
        machine.start(machine.add_task(what, [npu, 6], len(expected), 0), 0, now)
        expected.append((now + delays[npu], npu, len(expected)))
    expected.sort(key=lambda row: row[0])
    came: list[tuple[int, int, int]] = []
    while (now := machine.next_event()) >= 0:
        came += [(now, src, plane) for src, _, _, plane in leaves(machine, now, len(came))]
    assert came == expected
