"""Data that are carried for real: in any order that is legal the result is numpy's; what is not right is noticed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective import communicator as grid
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.plan import Plan, make_plan
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.collective.schedule import ScheduleError
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.errors import InputError
from pyxsim.registry import collectives
from pyxsim.system import data_carrier as carry
from pyxsim.system.data_carrier import LEFT, TAKEN_IN, DataCarrier
from pyxsim.topology.topology import Queue
from tests.collective.samples import ROOTED, name
from tests.examples import part_of
from tests.system.ideal import system as ideal_system

# -- a system layer without time: everything that may happen happens in random order --


@dataclass(eq=False)
class Communicator:
    members: tuple[int, ...]


@dataclass(eq=False)
class Collective:
    name: str
    communicator: Communicator
    end: int = -1
    chunks: list[Chunk] = field(default_factory=list)


@dataclass(eq=False)
class Chunk:
    number: int
    plan: Plan
    collective: Collective


@dataclass(eq=False)
class ChunkPhase:
    number: int
    chunk: Chunk


@dataclass(eq=False)
class Task:
    """One group of a stage; what waits at which rank."""

    stage: ChunkPhase
    positions: list[int]
    schedule: CompiledSchedule

    def __post_init__(self) -> None:
        s = self.schedule
        self.waiting = list(range(len(s)))
        self.landed: list[int] = []  # those that may be taken in
        self.taken: set[int] = set()
        self.received = [0] * s.n
        self.join_left = Counter(s.join.tolist())
        self.joined: dict[int, list[int]] = {}
        self.to_do = (np.bincount(s.src, minlength=s.n) + np.bincount(s.dst, minlength=s.n)).tolist()
        self.waits = [s.waits_for(m).tolist() for m in range(len(s))]

    def left_for(self, position: int) -> int:
        return int(self.to_do[self.positions.index(position)])


class AnyOrder:
    """Runs collectives; `log` is everything that happens, in order."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.tasks: list[Any] = []
        self.collectives: list[Collective] = []
        self.to_do: dict[tuple[int, int], list[Task]] = {}  # (id of chunk, position) -> its tasks, the next one last

    def issue(self, plans: Sequence[Plan], members: Sequence[int] | None = None) -> Collective:
        npus = tuple(members or range(plans[0].npus))
        collective = Collective(plans[0].kind, Communicator(npus))
        self.collectives.append(collective)
        for number, plan in enumerate(plans):
            chunk = Chunk(number, plan, collective)
            collective.chunks.append(chunk)
            for index, phase in reversed(list(enumerate(plan.phases))):
                mirror = bool(self.random.integers(2))
                for positions in phase.groups.tolist():
                    schedule, _ = phase.messages(int(phase.pieces[positions[0]]), mirror=mirror)
                    task = Task(ChunkPhase(index, chunk), positions, schedule)
                    self.tasks.append(task)
                    for position in positions:
                        self.to_do.setdefault((id(chunk), position), []).append(task)
        return collective

    def is_at(self, task: Task, rank: int) -> bool:
        """Whether a rank has nothing left to do in the phases before."""
        to_do = self.to_do[id(task.stage.chunk), task.positions[rank]]
        while to_do and not to_do[-1].left_for(task.positions[rank]):
            to_do.pop()
        return bool(to_do) and to_do[-1] is task

    def run(self) -> Iterator[tuple[int, int, int]]:
        while True:
            left = [number for number, task in enumerate(self.tasks) if any(task.to_do)]
            if not left:
                return
            moves = []
            # Most often one group will do; when nothing can move there, look at all.
            for number in [int(self.random.choice(left)), *left]:
                moves = [(what, number, message) for what, message in self.moves(self.tasks[number])]
                if moves:
                    break
            assert moves, "locked up"
            what, number, message = moves[int(self.random.integers(len(moves)))]
            self.do(what, self.tasks[number], message)
            yield what, number, message

    def moves(self, task: Task) -> Iterator[tuple[int, int]]:
        s = task.schedule
        here = [self.is_at(task, rank) for rank in range(s.n)]
        for m in task.waiting:
            if here[s.src[m]] and task.received[s.src[m]] >= s.need[m] and task.taken.issuperset(task.waits[m]):
                yield LEFT, m
        yield from ((TAKEN_IN, m) for m in task.landed if here[s.dst[m]])

    def do(self, what: int, task: Task, m: int) -> None:
        s = task.schedule
        if what == LEFT:
            task.waiting.remove(m)
            task.to_do[int(s.src[m])] -= 1
            join = int(s.join[m])
            if join < 0:
                task.landed.append(m)
                return
            task.joined.setdefault(join, []).append(m)
            task.join_left[join] -= 1
            if not task.join_left[join]:
                task.landed += task.joined[join]
            return
        task.landed.remove(m)
        task.taken.add(m)
        task.to_do[int(s.dst[m])] -= 1
        task.received[s.dst[m]] += not s.local[m]


def carried(system: AnyOrder, log: Sequence[tuple[int, int, int]], seed: int = 0, batch: int = 7) -> DataCarrier:
    """The carrier after all of a log, fed in batches."""
    carrier = DataCarrier(system, seed)
    for begin in range(0, len(log), batch):
        carrier.feed(np.array(log[begin : begin + batch], dtype=np.int64))
    carrier.finish()
    return carrier


def plan_of(kind: str, size: int, shape: Sequence[int], names: str | Sequence[str], **options: Any) -> Plan:
    return make_plan(kind, size, tuple(shape), names, **options)


ALGORITHMS = {
    "all-reduce": ["ring", "direct", "direct:1", "halving-doubling"],
    "reduce-scatter": ["ring", "direct", "halving-doubling"],
    "all-gather": ["ring", "direct", "halving-doubling"],
    "all-to-all": ["ring", "direct", "direct:2"],
    **{kind: [name("star"), name("chain")] for kind in ROOTED},
    "barrier": [name("star"), name("dissemination")],
}
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: math.prod(shape) <= 8)


@settings(max_examples=part_of(100))
@given(st.data(), st.integers(0, 2**32 - 1))
def test_any_order_gives_the_result(data: st.DataObject, seed: int) -> None:
    """All kinds, mixed algorithms, roots, sizes with and without empty blocks, some collectives at once."""
    system = AnyOrder(np.random.default_rng(seed))
    for _ in range(data.draw(st.integers(1, 2))):
        kind, shape = data.draw(st.sampled_from(sorted(ALGORITHMS))), data.draw(SHAPES)
        baseline = kind == "all-reduce" and data.draw(st.booleans())
        algorithms = [*ALGORITHMS[kind], name("in_network")] if baseline else ALGORITHMS[kind]
        names = [data.draw(st.sampled_from(algorithms)) for _ in shape]
        if data.draw(st.integers(0, 4)) == 0:
            names = [f"one-{names[0]}"]
        npus = math.prod(shape)
        options = {
            "root": data.draw(st.integers(0, npus - 1)),
            "optimization": "baseline" if baseline else data.draw(st.sampled_from(["localBWAware", "themis"])),
            "order": data.draw(st.permutations(range(len(shape)))),
        }
        size, chunks = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 2))
        plans = [plan_of(kind, part, shape, names, **options) for part in chunk_sizes(size, chunks)]
        system.issue(plans, members=data.draw(st.permutations(range(npus))))
    carried(system, list(system.run()), seed)


@pytest.mark.parametrize("kind", sorted(ALGORITHMS))
def test_every_root_and_no_time_at_all(kind: str) -> None:
    """Everything leaves and arrives at once."""
    for root in range(6):
        system = AnyOrder(np.random.default_rng(root))
        system.issue([plan_of(kind, 13, (2, 3), ALGORITHMS[kind][0], root=root)])
        carried(system, list(system.run()))


def test_cells_and_local_steps() -> None:
    for size in (1, 5):
        system = AnyOrder(np.random.default_rng(size))
        system.issue([plan_of("all-reduce", size, (4, 2), name("exchange"), optimization="baseline")])
        carried(system, list(system.run()))


def test_nothing_to_do_for_one_npu() -> None:
    system = AnyOrder(np.random.default_rng(0))
    for kind in sorted(ALGORITHMS):
        system.issue([plan_of(kind, 3, (1, 1), ALGORITHMS[kind][0])])
    carrier = DataCarrier(system)
    assert carrier.bytes_held == 3 * 8 + 1
    carrier.finish()
    assert carrier.bytes_held == 0


def test_the_data_are_random_and_the_same_for_a_seed() -> None:
    system = AnyOrder(np.random.default_rng(0))
    chunk = system.issue([plan_of("all-reduce", 50, (3,), "ring")] * 2).chunks
    same, again, other = (DataCarrier(system, seed)._data(chunk[0]).initial(1).tobytes() for seed in (1, 1, 2))
    assert same == again != other
    of_other_npu, of_other_chunk = (
        DataCarrier(system, 1)._data(chunk[0]).initial(2),
        DataCarrier(system, 1)._data(chunk[1]),
    )
    assert len({same, of_other_npu.tobytes(), of_other_chunk.initial(1).tobytes()}) == 3


# -- on the real system layer --


@settings(max_examples=part_of(100))
@given(st.data(), st.integers(0, 2**32 - 1))
def test_the_system_layer_with_messages_in_any_order(data: st.DataObject, seed: int) -> None:
    """The shelf's algorithms on a network whose messages take random times, several collectives and groups at once."""
    random = np.random.default_rng(seed)
    kind, shape = data.draw(st.sampled_from(sorted(KINDS))), data.draw(SHAPES)
    able = [entry.name for entry in collectives.entries if kind in entry.info.get("kinds", KINDS)]
    names = [data.draw(st.sampled_from(able)) for _ in shape]
    if data.draw(st.integers(0, 3)) == 0:
        names = [f"one-{names[0]}"] * len(shape)
    layer = ideal_system(
        shape,
        lambda src, dst, size: int(random.integers(1, 300)),
        names,
        optimization=data.draw(st.sampled_from(["baseline", "localBWAware"])),
        inter_dimension=data.draw(st.sampled_from(["ascending", "round-robin", "themis", "themis-flex"])),
        chunks=data.draw(st.integers(1, 4)),
        endpoint_delay=data.draw(st.integers(0, 9)),
        reduction_delay=data.draw(st.integers(0, 30)),
        slots=[data.draw(st.integers(1, 3))] * len(shape),
        queues=[(Queue(0, 1), Queue(1, -1))] * len(shape),
        carry=True,
    )
    npus = math.prod(shape)
    try:
        layer.issue(kind, data.draw(st.integers(1, 99)), root=data.draw(st.integers(0, npus - 1)))
        members = data.draw(st.permutations(range(npus)))[: data.draw(st.integers(1, npus))]
        group = grid.Communicator.of(members, shape)
        layer.issue(kind, 7, communicator=group, root=len(group) - 1, algorithms=[names[0]] * len(group.shape))
    except ScheduleError:
        raise
    except InputError:  # a number of ranks, or a kind of phase, for which an algorithm is not made
        return
    if npus > 1:
        layer.send(0, npus - 1, 5)
    carrier = DataCarrier(layer, seed)
    layer.listen = carrier.feed
    layer.run()
    carrier.finish()


def test_a_wrong_algorithm_is_noticed_on_the_real_system_layer() -> None:
    """The checker refuses it before a run; should nobody ask, the data tell."""
    plan = plan_of("all-reduce", 10, (5,), name("hasty_star"))
    with pytest.raises(ScheduleError, match=r"rank 1 ends without the contributions of ranks 2, 3, 4 in block 0"):
        prove_plan(plan)
    layer = ideal_system([5], 100, name("hasty_star"), carry=True, chunks=3)
    layer.issue("all-reduce", 10)
    carrier = DataCarrier(layer)
    layer.listen = carrier.feed
    with pytest.raises(
        ScheduleError, match=r"^all-reduce, chunk 0: NPU 1 ends with a wrong byte 0: \d+ instead of \d+$"
    ):
        layer.run()


def test_what_is_over_needs_no_memory() -> None:
    layer = ideal_system([4], 100, "ring", carry=True, chunks=2)
    held = []
    carrier = DataCarrier(layer)

    def once_more(before: Any) -> None:
        held.append(carrier.bytes_held)
        if len(held) < 5:
            layer.issue("all-gather", 50, at=layer.cycle, done=once_more)

    layer.issue("all-gather", 50, done=once_more)
    layer.listen = carrier.feed
    layer.run()
    assert max(held) <= 2 * 4 * 4 * 50
    assert carrier.bytes_held == 0
    carrier.finish()


def test_a_message_after_the_end() -> None:
    system = AnyOrder(np.random.default_rng(1))
    collective = system.issue([plan_of("all-reduce", 8, (4,), "ring")])
    log = list(system.run())
    carrier = DataCarrier(system)
    collective.end = 99
    carrier.feed(np.array(log))
    assert carrier.bytes_held == 0
    with pytest.raises(ScheduleError, match="all-reduce, chunk 0: a message leaves after the end of the chunk"):
        carrier.feed(np.array(log[:1]))


# -- what is not right is noticed --


def ring_log() -> tuple[AnyOrder, list[tuple[int, int, int]]]:
    system = AnyOrder(np.random.default_rng(1))
    system.issue([plan_of("all-reduce", 8, (4,), "ring"), plan_of("all-reduce", 9, (4,), "ring")], members=(7, 5, 3, 1))
    return system, list(system.run())


def refused(system: AnyOrder, log: Sequence[tuple[int, int, int]], text: str, **attributes: Any) -> None:
    with pytest.raises(ScheduleError, match=text) as caught:
        carried(system, log)
    assert "\n" not in str(caught.value)
    for attribute, value in attributes.items():
        assert getattr(caught.value, attribute) == value


def test_a_wrong_byte_is_named() -> None:
    """A contribution is added twice: NPU, chunk, byte and both values are told."""
    system, log = ring_log()
    s = system.tasks[1].schedule
    system.tasks[1].schedule = replace(s, reduce=np.zeros_like(s.reduce))
    refused(
        system,
        log,
        r"^all-reduce, chunk 1: NPU (\d) ends with a wrong byte \d: \d+ instead of \d+$",
        rank=7,
    )


def test_messages_out_of_order_are_noticed() -> None:
    system, log = ring_log()
    # Rank 0 of chunk 0 sends its second message before it has taken in the first one of rank 3.
    second = log.index((LEFT, 0, 4))
    early = [(LEFT, 0, 4), *log[:second], *log[second + 1 :]]
    refused(system, early, r"all-reduce, chunk 0: NPU \d ends with a wrong byte")


def test_impossible_logs_are_refused() -> None:
    system, log = ring_log()
    left, taken = log.index((LEFT, 0, 0)), log.index((TAKEN_IN, 0, 0))
    step = r"all-reduce, chunk 0, phase 0: step 0 of rank 0 \(-> 1\) of ring all-reduce on 4 ranks (or mirrored )?"
    step = r"all-reduce, chunk 0, phase 0: step 0 of rank \d \(-> \d\) of ring all-reduce on 4 ranks"
    refused(system, [*log[:left], *log[left + 1 :]], f"{step} is received before it is sent", step=0)
    refused(system, [*log[:taken], *log[taken + 1 :]], "is never received|wrong byte")
    refused(system, [*log[: left + 1], *log[left:]], f"{step} leaves twice")
    refused(system, [*log[: taken + 1], *log[taken:]], f"{step} is received a second time")
    refused(system, log[:-2], "is never received|never leaves")
    refused(system, [], "all-reduce, chunk 0: NPU 7 ends with a wrong byte 0")


def test_an_npu_that_goes_on_too_early() -> None:
    system = AnyOrder(np.random.default_rng(3))
    system.issue([plan_of("all-reduce", 8, (2, 2), "ring", optimization="baseline")])
    log = list(system.run())
    last = max(i for i, (what, task, _) in enumerate(log) if what == TAKEN_IN and system.tasks[task].stage.number == 0)
    refused(system, [*log[:last], *log[last + 1 :], log[last]], r"entered phase 1 before the end of phase 0")


def test_an_all_gather_without_a_block() -> None:
    system = AnyOrder(np.random.default_rng(3))
    system.issue([plan_of("all-gather", 4, (3,), "direct")])
    system.tasks[0].schedule = replace(system.tasks[0].schedule)
    log = [row for row in system.run() if row[2] != 5]
    refused(system, log, "never leaves")
    system, log = ring_log()
    refused(system, [row for row in log if row[1] == 0], "all-reduce, chunk 1: NPU 7 ends with a wrong byte 0", rank=7)


def test_a_join_is_handed_over_when_it_is_complete() -> None:
    system = AnyOrder(np.random.default_rng(3))
    system.issue([plan_of("all-reduce", 4, (3,), name("in_network"))])
    log = list(system.run())
    carried(system, log)
    first = next(i for i, (what, _, _) in enumerate(log) if what == TAKEN_IN)
    join = int(system.tasks[0].schedule.join[log[first][2]])
    left = [i for i in range(first) if log[i][0] == LEFT and system.tasks[0].schedule.join[log[i][2]] == join]
    late = next(i for i in left if log[i][2] != log[first][2])
    refused(system, [*log[:late], *log[late + 1 : first + 1], log[late]], "has not left when its join is delivered")


def test_a_barrier_that_does_not_wait_is_noticed() -> None:
    system = AnyOrder(np.random.default_rng(3))
    system.issue([plan_of("barrier", 1, (4,), name("dissemination"))])
    ordered = list(system.run())
    carried(system, ordered)
    s = system.tasks[0].schedule
    second = [m for m in range(len(s)) if s.gate[m] >= 0]
    hasty = [(LEFT, 0, m) for m in second] + [row for row in ordered if row not in {(LEFT, 0, m) for m in second}]
    refused(system, hasty, "barrier, chunk 0: NPU 0 ends with a wrong byte")


def test_what_has_no_data_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [Message(0, 1, nbytes=8), Message(1, 0, nbytes=8)]
    traced = compile_messages("all-reduce", 2, messages, algorithm="trace", unproved="a trace says sizes only")
    plan = plan_of("all-reduce", 8, (2,), "ring")
    monkeypatch.setattr(type(plan.phases[0]), "schedule", lambda self, mirror=False: traced)
    system = AnyOrder(np.random.default_rng(3))
    system.collectives.append(Collective("all-reduce", Communicator((0, 1))))
    system.collectives[0].chunks.append(Chunk(0, plan, system.collectives[0]))
    with pytest.raises(InputError, match=r"^output.carry: trace all-reduce on 2 ranks has no data to carry: a trace"):
        DataCarrier(system)


def test_too_many_data_are_refused() -> None:
    system = AnyOrder(np.random.default_rng(3))
    system.issue([plan_of("all-gather", 2**20, (4, 4), "ring")])
    carrier = DataCarrier(system)
    assert carrier.bytes_held == 16 * 16 * 2**20
    for _ in range(7):
        system.issue([plan_of("all-gather", 2**20, (4, 4), "ring")])
    carrier.feed(np.zeros((0, 3), dtype=np.int64))
    assert carrier.bytes_held == carry.MOST_BYTES
    system.issue([plan_of("all-reduce", 1, (4, 4), "ring")])
    with pytest.raises(
        InputError, match=r"^output.carry: the data of all NPUs have 2147483664 bytes; allowed: at most"
    ):
        carrier.feed(np.zeros((0, 3), dtype=np.int64))


def test_messages_of_their_own_are_passed_over() -> None:
    system, log = ring_log()
    system.tasks.append(object())
    carried(system, [(LEFT, 2, 0), *log, (TAKEN_IN, 2, 0)])
