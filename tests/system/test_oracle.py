"""The system layer against the oracle: two implementations of docs/system.md, which must agree on every cycle.

All that can be seen is compared: the rows of /chunks, the ends, every message in its order. Of some forty rules (a
rounding, a place in an order, who counts in a line), each changed on one side, nearly all are noticed within the slow
sample; the exceptions need rare cases, which tests/system/test_executor.py works out by hand.
"""

from __future__ import annotations

import math
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.collective.communicator import Communicator
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.kinds import KINDS, get_kind
from pyxsim.collective.lookup import get_algorithm
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives
from pyxsim.system import Options, System
from pyxsim.system.options import SharedBus
from pyxsim.system.table import COLUMNS
from pyxsim.topology.topology import Queue
from tests.examples import part_of
from tests.system.ideal import Ideal
from tests.system.ideal import options as plain
from tests.system.oracle import Oracle

library.load_all()

STRANGE = ("strange-waits", "strange-data")  # see `strange`
Shape = tuple[int, ...]
WINDOWED = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}  # what direct:W can do
few = settings(max_examples=part_of(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
many = settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@dataclass(frozen=True)
class Times:
    """How long messages take: drawn from who sends how much to whom, and for the how manieth time."""

    seed: int
    most: int
    _count: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def __call__(self, src: int, dst: int, size: int) -> int:
        self._count[src, dst, size] += 1
        drawn = zlib.crc32(f"{self.seed} {src} {dst} {size} {self._count[src, dst, size]}".encode())
        return 1 + drawn % self.most


@dataclass
class Case:
    """One run. `issues` and `sends`: the arguments of the calls, in their order. `most`: cycles of a message."""

    shape: Shape
    options: Options
    seed: int
    most: int
    issues: list[dict[str, Any]]
    sends: list[dict[str, Any]]


@cache
def able(*kinds: str) -> list[str]:
    """The algorithms of the shelf for these kinds of collective, some with a number."""
    shelf = [name for name in collectives.names() if name not in STRANGE]
    names = [name for name in shelf if set(kinds) <= set(get_algorithm(name).kinds)]
    return names if set(kinds) - WINDOWED else [*names, "ring", "direct:1", "direct:2"]


def by_dimension(kind: str) -> list[str]:
    """Those for one dimension of several, where an all-reduce may become a reduce-scatter and an all-gather."""
    return able(kind, "reduce-scatter", "all-gather") if kind == "all-reduce" else able(kind)


def strange_waits(kind: str, n: int, seed: int) -> CompiledSchedule:
    """Messages as no algorithm has them: given sizes and waits, steps of a rank for itself, joins, both ways round."""
    draw = random.Random(f"{kind} {n} {seed}")
    messages: list[Message] = []
    joins = 0

    def waits(rank: int, before: int) -> list[int]:
        taken = [number for number, message in enumerate(messages[:before]) if message.dst == rank]
        return draw.sample(taken, min(len(taken), draw.choice([0, 1, 1, 2])))

    while len(messages) < 3 * n:
        count = draw.choice([1, 1, 1, draw.randint(2, 4)])
        before = len(messages)
        for _ in range(count):
            src = draw.randrange(n)
            dst = draw.choice([rank for rank in range(n) if count == 1 or rank != src])
            messages.append(
                Message(
                    src,
                    dst,
                    reduce=draw.random() < 0.5,
                    waits=waits(src, before),
                    way=draw.choice([1, -1]),
                    join=joins if count > 1 else -1,
                    nbytes=draw.choice([0, 1, 3, 40, 300]),
                    extra_ns=draw.choice([0, 0, 7]) if src == dst else 0,
                )
            )
        joins += count > 1
    return compile_messages(kind, n, messages, algorithm="strange-waits")


def strange_data(kind: str, n: int, seed: int) -> Schedule:
    """Blocks that go anywhere, with a window or without, are added or stored there, or in the switch, or put aside."""
    draw = random.Random(f"{kind} {n} {seed}")
    blocks = get_kind(kind).default_blocks(n)
    spare = draw.choice([0, 0, 1])
    s = Schedule(kind, n, window=draw.choice([None, None, 1, 2, 3]), cells=blocks + spare)
    for _ in range(3 * n):
        src, dst = draw.sample(range(n), 2)
        block, some = draw.randrange(blocks), draw.sample(range(blocks), min(blocks, draw.randint(1, 3)))
        match draw.choice(["send", "send", "send", "switch", "local"]):
            case "send":
                s.send(src, dst, some, reduce=draw.random() < 0.5, way=draw.choice([1, -1]))
            case "switch":
                s.reduce_in_network(draw.sample(range(n), draw.randint(2, n)), some)
            case _ if spare:
                s.local(src, block, blocks)
                s.local(src, blocks, block, reduce=draw.random() < 0.5)
    return s


@pytest.fixture(scope="module", autouse=True)
def strange() -> Iterator[None]:
    """Schedules that are nonsense, but can be executed; nobody else shall see them on the shelf."""
    for name, function in zip(STRANGE, (strange_waits, strange_data), strict=True):
        collectives.register(name)(function)
    yield
    collectives.discard(__name__)


@st.composite
def options(draw: st.DrawFn, shape: Shape) -> Options:
    dims, npus = len(shape), math.prod(shape)
    delay = st.sampled_from([0, 0, 1, 3, 20])
    queues = [
        draw(st.lists(st.builds(Queue, st.integers(0, 3), st.sampled_from([1, 1, -1])), min_size=1, max_size=3))
        for _ in shape
    ]
    seed = draw(st.integers(0, 999))
    algorithms = {
        kind: [random.Random(f"{seed} {kind} {d}").choice(by_dimension(kind)) for d in range(dims)] for kind in KINDS
    }
    skewed, slow = draw(st.sampled_from([False, False, True])), draw(st.sampled_from([False, False, True]))
    factors = st.sampled_from([Fraction(1), Fraction(1), Fraction(3, 2), Fraction(7)])
    bus = st.builds(
        SharedBus,
        L=st.integers(0, 5),
        o=st.integers(0, 3),
        g=st.integers(0, 9),
        G=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 50)]),
        reduction=st.sampled_from([Fraction(0), Fraction(3, 2)]),
        reduction_start=st.sampled_from([0, 4]),
    )
    return Options(
        algorithms=lambda kind: algorithms[kind],
        queues=[tuple(own) for own in queues],
        slots=[draw(st.integers(1, 3)) for _ in shape],
        bandwidths=[draw(st.sampled_from([Fraction(1), Fraction(2), Fraction(1, 3)])) for _ in shape],
        chunks=draw(st.sampled_from([1, 1, 2, 3, 5, 8])),
        scheduling=draw(st.sampled_from(["LIFO", "FIFO", "explicit"])),
        optimization=draw(st.sampled_from(["baseline", "localBWAware"])),
        intra_dimension=draw(st.sampled_from(["FIFO", "RG", "smallest-first", "fewest-phases-first"])),
        inter_dimension=draw(st.sampled_from(["ascending", "round-robin", "themis", "themis-flex"])),
        endpoint_delay=draw(delay),
        reduction_delay=draw(delay),
        reduction_bytes_per_cycle=draw(st.sampled_from([None, None, Fraction(7, 2), Fraction(100)])),
        shared_bus=draw(st.one_of(st.none(), st.none(), bus)),
        boost=draw(st.sampled_from([False, False, False, True])),
        start_skew=[draw(st.sampled_from([0, 0, 5, 31])) for _ in range(npus)] if skewed else (),
        slowdown=[draw(factors) for _ in range(npus)] if slow else (),
    )


@st.composite
def communicators(draw: st.DrawFn, shape: Shape) -> Communicator | None:
    npus = math.prod(shape)
    match draw(st.sampled_from(["all", "all", "along", "list", "turned"])):
        case "all":
            return None
        case "turned":
            return Communicator.of(range(npus)[::-1], shape)
        case "along":
            dims = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
            return draw(st.sampled_from(Communicator.along(dims, shape)))
        case _:
            members = draw(st.lists(st.integers(0, npus - 1), min_size=1, unique=True))
            return Communicator.of(draw(st.sampled_from([members, sorted(members)])), shape)


@st.composite
def issues(draw: st.DrawFn, shape: Shape, boost: bool) -> dict[str, Any]:
    kind = draw(st.sampled_from([name for name in KINDS if not (boost and KINDS[name].rooted)]))
    group = draw(communicators(shape))
    of = group or Communicator.whole(shape)
    dims = len(of.shape)
    one = st.sampled_from(able(kind)).map(lambda name: [f"one-{name}"] * dims)
    strange = st.builds("{}:{}".format, st.sampled_from(STRANGE), st.integers(1, 99))
    each = st.lists(st.one_of(st.sampled_from(by_dimension(kind)), strange), min_size=dims, max_size=dims)
    return {
        "kind": kind,
        "size": draw(st.one_of(st.integers(1, 8), st.integers(1, 300), st.sampled_from([720, 5040]))),
        "at": draw(st.sampled_from([0, 0, 0, 1, 20, 100])),
        "communicator": group,
        "algorithms": draw(st.one_of(st.none(), each, one)),
        "root": draw(st.integers(0, len(of) - 1)),
        "priority": draw(st.sampled_from([None, 0, 1, 2])),
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple).filter(lambda s: math.prod(s) <= 30))
    npus = math.prod(shape)
    own = draw(options(shape))
    sends: list[dict[str, Any]] = []
    if npus > 1 and not own.boost:
        ends = st.lists(st.integers(0, npus - 1), min_size=2, max_size=2, unique=True)
        message = st.tuples(ends, st.integers(1, 300), st.sampled_from([0, 0, 7, 40]))
        drawn = draw(st.lists(message, max_size=2))
        sends = [{"src": src, "dst": dst, "size": size, "at": at} for (src, dst), size, at in drawn]
    return Case(
        shape=shape,
        options=own,
        seed=draw(st.integers(0, 999)),
        most=draw(st.sampled_from([1, 3, 30, 200])),
        issues=draw(st.lists(issues(shape, own.boost), min_size=1, max_size=4)),
        sends=sends,
    )


def agree(case: Case) -> None:
    """Run both, and compare all that can be seen of them."""
    network = Ideal(math.prod(case.shape), Times(case.seed, case.most))
    system = System(network, case.shape, case.options)
    oracle = Oracle(Times(case.seed, case.most), case.shape, case.options)
    for call in case.issues:
        system.issue(**call)
        oracle.issue(**call)
    for call in case.sends:
        system.send(**call)
        oracle.send(**call)
    traffic = system.traffic()
    system.run()
    oracle.run()
    table = system.chunk_table()
    assert sorted(zip(*(table[name].tolist() for name in COLUMNS), strict=True)) == oracle.chunk_table()
    assert [one.end for one in system.collectives] == [one.end for one in oracle.collectives]
    assert [one.end for one in system.messages] == [one.end for one in oracle.messages]
    assert network.sent == oracle.sent
    planned: Counter[tuple[int, ...]] = Counter()
    for *message, count in traffic.tolist():
        planned[tuple(message)] += count
    assert planned == Counter((src, dst, plane, size) for _, src, dst, size, plane in oracle.sent)


@st.composite
def crowds(draw: st.DrawFn) -> Case:
    """Many chunks of several collectives in lines with little room, where the policies decide."""
    shape = draw(st.sampled_from([(2, 2), (2, 3), (3, 2), (2, 2, 2)]))
    own = replace(
        draw(options(shape)),
        queues=[(Queue(dim, 1),) * draw(st.integers(1, 2)) for dim in range(len(shape))],
        slots=[draw(st.sampled_from([1, 1, 2])) for _ in shape],
        chunks=draw(st.integers(3, 6)),
        scheduling=draw(st.sampled_from(["explicit", "explicit", "LIFO", "FIFO"])),
        shared_bus=None,
        boost=False,
    )
    kinds = st.sampled_from(["all-reduce", "all-reduce", "reduce-scatter", "all-gather", "scatter", "broadcast"])
    issue = st.fixed_dictionaries(
        {
            "kind": kinds,
            "size": st.integers(1, 400),
            "at": st.sampled_from([0, 0, 10, 60]),
            "root": st.integers(0, math.prod(shape) - 1),
            "priority": st.sampled_from([None, None, None, 1]),
        }
    )
    issues = draw(st.lists(issue, min_size=2, max_size=4))
    return Case(shape, own, draw(st.integers(0, 999)), draw(st.sampled_from([1, 3, 30])), issues, [])


@few
@given(cases())
def test_both_agree(case: Case) -> None:
    agree(case)


@few
@given(crowds())
def test_both_agree_in_crowds(case: Case) -> None:
    agree(case)


@pytest.mark.slow
@many
@given(st.one_of(cases(), crowds()))
def test_both_agree_on_many_more(case: Case) -> None:
    agree(case)


# -- the oracle alone, by hand -----------------------------------------------------------------------------------------


def oracle_of(shape: Shape, time: int, algorithm: str, **others: Any) -> Oracle:
    return Oracle(lambda src, dst, size: time, shape, plain(algorithm, len(shape), **others))


@pytest.mark.parametrize(("endpoint", "reduction"), [(0, 0), (7, 0), (7, 20)])
def test_a_ring_by_hand(endpoint: int, reduction: int) -> None:
    """The formula of docs/collectives.md: E + 2(N-1)(T+E) + (N-1)R."""
    oracle = oracle_of((4,), 100, "ring", endpoint_delay=endpoint, reduction_delay=reduction)
    assert oracle.issue("all-reduce", 400, at=50).end == -1
    assert oracle.run() == oracle.collectives[0].end == 50 + endpoint + 6 * (100 + endpoint) + 3 * reduction


def test_two_chunks_and_room_for_one_by_hand() -> None:
    """On two NPUs a direct all-gather is one message each way; the second chunk begins when the first has ended."""
    oracle = oracle_of((2,), 10, "direct", chunks=2, endpoint_delay=1)
    oracle.issue("all-gather", 20)
    assert oracle.run() == 24
    # collective, chunk, phase, NPU, dimension, queue, bytes, ready, start, end, messages, network
    assert oracle.chunk_table() == [
        (0, 0, 0, 0, 0, 0, 10, 0, 0, 12, 1, 10),
        (0, 0, 0, 1, 0, 0, 10, 0, 0, 12, 1, 10),
        (0, 1, 0, 0, 0, 0, 10, 0, 12, 24, 1, 10),
        (0, 1, 0, 1, 0, 0, 10, 0, 12, 24, 1, 10),
    ]


def test_a_late_npu_by_hand() -> None:
    """NPU 1 begins at 50: what came at 10 is handed over then, and both messages are taken in after that."""
    oracle = oracle_of((2,), 10, "direct", endpoint_delay=1, start_skew=[0, 50])
    oracle.issue("all-gather", 20)
    assert oracle.run() == 50 + 1 + 10 + 1
    assert [row[7:10] for row in oracle.chunk_table()] == [(0, 0, 62), (50, 50, 51)]


def test_a_bus_by_hand() -> None:
    """Three messages of 11 bytes leave NPU 0, one after the other: o + ceil(10 G) = 2 + 5 keep the bus, g = 1 is less;
    L + o = 5 later each is outside. On the way in each crosses the bus of its receiver: 12 again."""
    bus = SharedBus(L=3, o=2, g=1, G=Fraction(1, 2))
    oracle = oracle_of((4,), 100, "direct", shared_bus=bus)
    oracle.issue("scatter", 44)
    assert oracle.run() == 12 + 2 * 7 + 100 + 12
    assert [row[:3] for row in oracle.sent] == [(12, 0, 1), (19, 0, 2), (26, 0, 3)]


def test_a_join_by_hand() -> None:
    """What the switch adds up is handed over when the last has come: NPU 1 begins at 5."""
    oracle = oracle_of((2,), 10, "in-switch", start_skew=[0, 5])
    oracle.issue("all-reduce", 8)
    assert oracle.run() == 15
    assert [row[9:] for row in oracle.chunk_table()] == [(15, 1, 10), (15, 1, 10)]


def test_a_message_by_hand() -> None:
    """It leaves e after its time, and is taken in e after its arrival, by a slow NPU three times as late."""
    oracle = oracle_of((2, 2), 10, "ring", endpoint_delay=2, slowdown=[Fraction(1)] * 3 + [Fraction(3)])
    message = oracle.send(2, 3, 5, at=4)
    assert oracle.run() == message.end == 4 + 2 + 10 + 6
    assert oracle.sent == [(6, 2, 3, 5, 0)]
