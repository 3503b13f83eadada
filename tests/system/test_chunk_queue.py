"""The rule of pyxsim/system/chunk_queue.py: early tasks take slots of early ones only, live ones wait for live ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.system.chunk_queue import ChunkQueue

NUMBERS = itertools.count()


class Task:
    """A task that notes when it is admitted."""

    def __init__(
        self, name: str, log: list[str], *, live: bool, priority: int = 0, kind: str = "", size: int = 0, left: int = 1
    ) -> None:
        self.name = name
        self.number = next(NUMBERS)
        self.kind = kind
        self.size = size
        self.phases_left = left
        self.log = log
        self.live = live
        self.priority = priority
        self.admitted = False

    def admit(self) -> None:
        self.log.append(self.name)

    def turn_live(self, chunk_queue: ChunkQueue) -> None:
        self.live = True
        if self.admitted:
            chunk_queue.became_live()
        chunk_queue.admit_waiting()


@pytest.fixture
def log() -> list[str]:
    return []


def test_as_many_live_tasks_as_there_is_room_for(log: list[str]) -> None:
    chunk_queue = ChunkQueue(2)
    for name in "abc":
        chunk_queue.enqueue(Task(name, log, live=True), 0)
    chunk_queue.admit_waiting()
    assert log == ["a", "b"]
    chunk_queue.admit_waiting()
    assert log == ["a", "b"]
    chunk_queue.finished()
    chunk_queue.admit_waiting()
    assert log == ["a", "b", "c"]
    assert chunk_queue.running == 2


def test_by_priority_then_in_order_of_arrival(log: list[str]) -> None:
    chunk_queue = ChunkQueue(1)
    for name, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5)):
        chunk_queue.enqueue(Task(name, log, live=True, priority=priority), 0)
    for _ in range(4):
        chunk_queue.admit_waiting()
        chunk_queue.finished()
    assert log == ["b", "d", "a", "c"]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("FIFO", "abcdef"),
        ("smallest-first", "fbdaec"),
        ("fewest-phases-first", "cfbead"),
        # Scatter first as it came first, then a gather, a scatter ...; then what is left.
        ("RG", "acbfde"),
    ],
)
def test_among_equal_priorities_the_policy_decides(policy: str, order: str, log: list[str]) -> None:
    chunk_queue = ChunkQueue(1, policy)
    scatter, gather = "reduce-scatter", "all-gather"
    rows = [("a", scatter, 5, 3), ("b", scatter, 2, 2), ("c", gather, 9, 1), ("d", scatter, 3, 3), ("e", scatter, 7, 2)]
    for name, kind, size, left in [*rows, ("f", gather, 1, 1)]:
        chunk_queue.enqueue(Task(name, log, live=True, kind=kind, size=size, left=left), 0)
    for _ in range(6):
        chunk_queue.admit_waiting()
        chunk_queue.finished()
    assert "".join(log) == order


def test_a_task_that_waits_for_somebody_holds_no_room_against_a_live_one(log: list[str]) -> None:
    """The heart of it: the slot of a chunk whose other members are not there yet is free for one that can go on."""
    chunk_queue = ChunkQueue(1)
    early, live = Task("early", log, live=False), Task("live", log, live=True)
    chunk_queue.enqueue(early, 0)
    chunk_queue.admit_waiting()
    assert log == ["early"]
    chunk_queue.enqueue(live, 0)
    chunk_queue.admit_waiting()
    assert log == ["early", "live"]
    assert (chunk_queue.running, chunk_queue.early) == (1, 1)
    # The early one turns live: from now on it takes room, for a while there are more than the room is for.
    early.turn_live(chunk_queue)
    assert (chunk_queue.running, chunk_queue.early) == (2, 0)
    chunk_queue.enqueue(Task("next", log, live=True), 0)
    chunk_queue.finished()
    chunk_queue.admit_waiting()
    assert log == ["early", "live"]
    chunk_queue.finished()
    chunk_queue.admit_waiting()
    assert log == ["early", "live", "next"]


def test_early_tasks_take_room_from_early_ones(log: list[str]) -> None:
    chunk_queue = ChunkQueue(2)
    tasks = [Task(name, log, live=False) for name in "abc"]
    for task in tasks:
        chunk_queue.enqueue(task, 0)
    chunk_queue.admit_waiting()
    assert log == ["a", "b"]
    # One that turns live while it waits overtakes the early ones.
    tasks[2].turn_live(chunk_queue)
    assert log == ["a", "b", "c"]


def test_nobody_begins_early_where_live_tasks_take_all_room(log: list[str]) -> None:
    chunk_queue = ChunkQueue(1)
    chunk_queue.enqueue(Task("live", log, live=True), 0)
    chunk_queue.enqueue(Task("early", log, live=False), 0)
    chunk_queue.admit_waiting()
    assert log == ["live"]
    chunk_queue.finished()
    chunk_queue.admit_waiting()
    assert log == ["live", "early"]


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["join", "live", "leave"]), st.integers(0, 30), st.booleans()), max_size=80),
)
def test_a_line_never_stands_still_with_room(room: int, steps: list[tuple[str, int, bool]]) -> None:
    """After any history: who is live waits only if `room` live ones run, and every task is admitted once."""
    chunk_queue, log = ChunkQueue(room), []
    tasks: list[Task] = []
    gone: set[str] = set()
    for what, pick, live in steps:
        if what == "join":
            tasks.append(Task(str(len(tasks)), log, live=live, priority=pick % 3))
            chunk_queue.enqueue(tasks[-1], 0)
            chunk_queue.admit_waiting()
        elif what == "live" and (waiting := [t for t in tasks if not t.live]):
            waiting[pick % len(waiting)].turn_live(chunk_queue)
        elif what == "leave" and (able := [t for t in tasks if t.admitted and t.live and t.name not in gone]):
            gone.add(able[pick % len(able)].name)
            chunk_queue.finished()
            chunk_queue.admit_waiting()
        running = [t for t in tasks if t.admitted and t.live and t.name not in gone]
        early = [t for t in tasks if t.admitted and not t.live]
        assert (chunk_queue.running, chunk_queue.early) == (len(running), len(early))
        assert len(early) <= room
        waiting = [t for t in tasks if not t.admitted]
        if len(running) < room:
            assert not any(t.live for t in waiting)
            assert not waiting or len(running) + len(early) >= room
    assert len(log) == len(set(log)) == sum(t.admitted for t in tasks)
