"""Open collectives and messages in ASTRA-sim's system layer: each NPU issues for itself, as in the original."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.compat.astra.system import AstraSystem
from pyxsim.errors import InputError, StuckError
from pyxsim.system.table import COLUMNS
from tests.compat.astra.system.originals import network, system
from tests.compat.astra.system.slow import World
from tests.compat.astra.system.test_slow import INTRA, NAMES
from tests.examples import part_of
from tests.system.walk import Walk, Walkers, walks

E, HOP = 10, 500  # ns: an endpoint, and a flight of little more than the latency
some = settings(
    max_examples=part_of(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
more = settings(
    max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def layer_of(npus: tuple[int, ...] = (4,), compat: str = "astra-sim-2", **options: Any) -> AstraSystem:
    blocks = ["FullyConnected"] * len(npus)
    net = network(compat, blocks, npus, [50] * len(npus), [HOP] * len(npus))
    return system(net, compat, ["ring"] * len(npus), **options)


# -- against the slow one ----------------------------------------------------------------------------------------------


@st.composite
def pairs(draw: st.DrawFn, compat: str) -> tuple[AstraSystem, AstraSystem, Any]:
    """Two layers that are the same, and a network to ask how long messages take."""
    npus = draw(st.sampled_from([(2,), (4,), (8,), (4, 2), (2, 4), (2, 2, 2), (4, 1, 4)]))
    dims, first = len(npus), compat == "astra-sim-1"
    blocks = draw(st.lists(st.sampled_from(["Ring", "FullyConnected", "Switch"]), min_size=dims, max_size=dims))
    latency = draw(st.lists(st.sampled_from([1, 20, 500]), min_size=dims, max_size=dims))
    rates = draw(st.lists(st.sampled_from([1, 25, 400]), min_size=dims, max_size=dims))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=dims, max_size=dims))
    # Of a dimension of one NPU the original asks Themis, and gives the answer to the next collective, too.
    orders = ["ascending", "round-robin"] + ["themis"] * (1 not in npus)
    options: dict[str, Any] = {
        "queues": draw(st.integers(1, 3)),
        "active": draw(st.integers(1, 4)),
        "chunks": draw(st.integers(1, 5)),
        "endpoint_delay": draw(st.sampled_from([1, 7, 300])),
        "reduction_delay": draw(st.sampled_from([0, 30])) if first else 0,
        "reduction_bytes_per_cycle": draw(st.sampled_from([None, Fraction(50), Fraction(3)])),
        "scheduling": draw(st.sampled_from(["LIFO", "LIFO", "FIFO"])),
        "optimization": draw(st.sampled_from(["baseline", "localBWAware"])),
        "intra_dimension": draw(st.sampled_from(INTRA)) if first else "FIFO",
        "inter_dimension": draw(st.sampled_from(orders)) if first else "ascending",
        "bandwidths": [Fraction(1)] * dims,
        "rendezvous": not first and draw(st.booleans()),
    }
    nets = [network(compat, blocks, npus, rates, latency) for _ in range(3)]
    one, other = (system(net, compat, names, **options) for net in nets[:2])
    return one, other, nets[2]


@st.composite
def families(draw: st.DrawFn, layer: AstraSystem, names: list[str]) -> list[dict[str, Any]]:
    """A collective; or the same one on all the groups along some dimensions; or one on a list of NPUs."""
    npus, first = math.prod(layer.shape), layer.options.compat == "astra-sim-1"
    kind = draw(st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]))
    size = 60 * 64 * draw(st.sampled_from([1, 40, 1000]))
    chosen = [*names]
    if kind == "all-to-all":
        chosen = ["ring" if name == "halving-doubling" else name for name in chosen]
    groups: list[Communicator | None] = [None]
    if draw(st.booleans()):
        dims = draw(st.lists(st.integers(0, len(layer.shape) - 1), min_size=1, unique=True))
        groups = list(Communicator.along(sorted(dims), layer.shape))
    elif not first and len(layer.options.queues[0]) == 1 and draw(st.booleans()):
        members = draw(st.permutations(range(npus)))[: draw(st.sampled_from([2, 4]))]
        if len(members) < npus:
            groups = [Communicator(tuple(members), (len(members),), (-1,))]
            chosen = ["direct" if name == "double-binary-tree" else name for name in chosen]
    return [{"kind": kind, "size": size, "communicator": group, "algorithms": chosen} for group in groups]


class Slow:
    """The slow world with the face of a layer."""

    def __init__(self, layer: AstraSystem, net: Any) -> None:
        @cache
        def delay(src: int, dst: int, size: int) -> int:
            start = net.now
            net.send(src, dst, size, at=start)
            taken: int = int(net.advance(None)[1][0]) - start
            return taken

        self.world, self.delay = World(layer, delay), delay
        self.enter, self.at = self.world.enter, self.world.call

    @property
    def cycle(self) -> int:
        return self.world.now

    def issue(self, *args: Any, joined: Any, done: Any, **others: Any) -> int:
        return self.world.open(joined, done)

    def send(self, src: int, dst: int, size: int, *, open: bool, done: Any) -> Any:  # noqa: A002
        return src, dst, size, done

    def hand_over(self, message: Any) -> None:
        *way, done = message
        self.world.at(self.cycle + self.delay(*way), lambda: done(message))


def agree(data: st.DataObject) -> None:
    compat = data.draw(st.sampled_from(["astra-sim-1", "astra-sim-2"]))
    layer, _, net = data.draw(pairs(compat))
    names = list(layer.options.algorithms("all-reduce"))
    sends = 0 if compat == "astra-sim-1" else 2
    walk = data.draw(walks(layer.shape, families(layer, names), sends, orderly=True))
    ours = Walkers(layer, walk)
    # A queue may be held by a chunk that waits for another NPU: some of these never end, here and there.
    with suppress(StuckError):
        layer.run()
    slow = Slow(layer, net)
    theirs = Walkers(slow, walk)
    wanted = slow.world.run()
    found = {
        (number, phase, npu): [time for time in chunk.rows[phase, rank, :3].tolist() if time >= 0]
        for number, chunk in enumerate(layer.chunks)
        for phase in range(len(chunk.steps))
        for rank, npu in enumerate(chunk.comm.members)
    }
    assert {key: times for key, times in found.items() if times} == wanted
    assert ours.log == theirs.log


@some
@given(st.data())
def test_every_phase_begins_and_ends_when_the_slow_one_says(data: st.DataObject) -> None:
    agree(data)


@pytest.mark.slow
@more
@given(st.data())
def test_they_agree_on_many_more(data: st.DataObject) -> None:
    agree(data)


@some
@given(st.data())
def test_all_at_once_are_plain_collectives(data: st.DataObject) -> None:
    """When all NPUs issue in a cycle, one after the other as plain collectives have them, all is the same."""
    one, other, _ = data.draw(pairs(data.draw(st.sampled_from(["astra-sim-1", "astra-sim-2"]))))
    every = families(one, list(one.options.algorithms("all-reduce")))
    times = sorted(data.draw(st.lists(st.sampled_from([0, 13, 400, 3000]), min_size=1, max_size=3)))
    asked = [(call, at) for at in times for call in data.draw(every)]
    opened: dict[int, list[Any]] = {}
    for call, at in asked:
        one.issue(**call, at=at)
        opened.setdefault(at, []).append(other.issue(**call, open=True))

    def issue(at: int) -> None:
        for npu in range(math.prod(other.shape)):
            for each in opened[at]:
                if npu in each.communicator.members:
                    other.enter(each, npu)

    for at in opened:
        other.at(at, partial(issue, at))
    for layer in (one, other):
        with suppress(StuckError):
            layer.run()
    # Chunks are counted as they are planned, which is NPU by NPU here.
    names = [name for name in COLUMNS if name != "chunk"]
    tables = [layer.chunk_table() for layer in (one, other)]
    rows = [sorted(zip(*(table[name].tolist() for name in names), strict=True)) for table in tables]
    assert rows[0] == rows[1]
    assert [each.end for each in one.collectives] == [each.end for each in other.collectives]
    assert [each.start for each in other.collectives] == [at for _, at in asked]
    assert (one.traffic() == other.traffic()).all()
    assert one.bytes_planned == other.bytes_planned


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_late_npu() -> None:
    """All-gather of two: NPU 1 issues at 1000; then both send once, what NPU 0 sent was there long before."""
    layer = layer_of((2,))
    told: list[tuple[int, int]] = []
    collective = layer.issue("all-gather", 2, open=True, joined=lambda each, npu: told.append((layer.cycle, npu)))
    layer.at(7, lambda: layer.enter(collective, 0))
    layer.at(1000, lambda: layer.enter(collective, 1))
    assert layer.run() == 1000 + E + HOP + E
    assert told == [(1000 + 2 * E, 1), (1000 + E + HOP + E, 0)]
    assert (collective.start, collective.end) == (7, 1000 + E + HOP + E)
    assert layer.ends(collective).tolist() == [1000 + E + HOP + E, 1000 + 2 * E]


def test_who_is_through_begins_the_next_one_before_its_place_is_free() -> None:
    """The workload is told before the stream has left its queue: with LIFO the newest one passes those that wait."""
    layer = layer_of((2,), scheduling="LIFO")
    ends: list[str] = []

    def joined(each: Any, npu: int) -> None:
        if each.name == "first":
            layer.enter(third, npu)

    def issue(name: str) -> Any:
        return layer.issue(
            "all-gather", 2, name=name, open=True, joined=joined, done=lambda each: ends.append(each.name)
        )

    first, second, third = (issue(name) for name in ("first", "second", "third"))
    for each in (first, second):
        for npu in range(2):
            layer.enter(each, npu)
    layer.run()
    assert ends == ["first", "third", "second"]


def test_things_of_an_npu_are_done_together() -> None:
    layer = layer_of((2,))
    seen: list[str] = []
    for name, npu in (("a", 0), ("b", 1), ("c", 0), ("d", None), ("e", 1)):
        layer.at(5, partial(seen.append, name), npu)
    layer.run()
    assert "".join(seen) == "acbed"
    with pytest.raises(ValueError, match="cycle 4 is in the past; the current cycle is 5"):
        layer.at(4, lambda: None)


def test_one_npu_has_nothing_to_do() -> None:
    layer = layer_of()
    told: list[Any] = []
    alone = layer.issue(
        "all-reduce",
        4,
        communicator=Communicator((3,), (1,), (-1,)),
        open=True,
        joined=lambda each, npu: told.append(npu),
        done=lambda each: told.append("end"),
    )
    layer.at(5, lambda: layer.enter(alone, 3))
    assert layer.run() == alone.end == 5
    assert told == [3, "end"]


def test_a_message_is_handed_over() -> None:
    layer = layer_of()
    message = layer.send(0, 1, 10, open=True)
    layer.at(20, lambda: layer.hand_over(message))
    assert layer.run() == message.end == 20 + HOP
    assert message.start == 20
    with pytest.raises(ValueError, match="has already been handed over, or is not open"):
        layer.hand_over(message)


def test_a_plain_collective_tells_who_is_through() -> None:
    layer = layer_of(compat="astra-sim-1")
    told: list[int] = []
    collective = layer.issue("all-reduce", 64, at=3, joined=lambda each, npu: told.append(npu))
    layer.run()
    assert sorted(told) == [0, 1, 2, 3]
    assert (layer.ends(collective) == collective.end).all()


@pytest.mark.parametrize("open_ones", [False, True])
def test_each_npu_takes_its_trees_in_turns(open_ones: bool) -> None:
    """Whole, along the second dimension, whole: the third time that each NPU uses a tree there, so the first of two."""
    net = network("astra-sim-2", ["Ring", "Switch"], (4, 2), [50, 50], [HOP, HOP])
    layer = system(net, "astra-sim-2", ["ring", "double-binary-tree"], chunks=1)
    along = Communicator.along((1,), (4, 2))
    groups: list[Communicator | None] = [None, *along, None]
    issued = [layer.issue("all-reduce", 3840, communicator=group, open=open_ones) for group in groups]
    for npu in range(8 * open_ones):
        for each in issued:
            if npu in each.communicator.members:
                layer.enter(each, npu)
    layer.run()
    used = [next(step.tree for step in chunk.steps if step.tree >= 0) for chunk in layer.chunks]
    assert sorted(used) == [0, 0, 1, 1, 1, 1]
    assert [tree for tree, chunk in zip(used, layer.chunks, strict=True) if len(chunk.comm.members) == 2] == [1] * 4


def test_other_trees_are_refused() -> None:
    layer = system(
        network("astra-sim-2", ["Ring", "Switch"], (4, 2), [50, 50], [HOP, HOP]),
        "astra-sim-2",
        ["ring", "double-binary-tree"],
        chunks=1,
    )
    layer.issue("all-reduce", 3840, communicator=Communicator.along((1,), (4, 2))[0])
    layer.issue("all-reduce", 3840)
    with pytest.raises(InputError, match="have used its double-binary-tree differently often"):
        layer.run()


# -- what never ends, and what must not be -----------------------------------------------------------------------------


def test_a_circle_is_told() -> None:
    groups = [Communicator((0, 1), (2,), (-1,)) for _ in range(2)]
    layer = layer_of((2, 2))
    calls = [
        {"kind": "all-gather", "size": 8, "name": name, "communicator": group}
        for name, group in zip(("weights", "gradients"), groups, strict=True)
    ]
    ways: list[Any] = [[("enter", first), ("wait", ([first], [])), ("enter", 1 - first)] for first in range(2)]
    Walkers(layer, Walk(calls, [], [*ways, [], []]))
    with pytest.raises(StuckError) as caught:
        layer.run()
    assert str(caught.value).endswith("some work has not ended: NPU 1 did not enter the weights; NPU 0 waits for this")
    assert caught.value.waits[0] == "NPU 0 did not enter the gradients; NPU 1 waits for this"


def test_another_order_is_refused() -> None:
    layer = layer_of()
    one, other = (layer.issue("all-gather", 4, open=True, name=name) for name in ("weights", "gradients"))
    layer.enter(one, 0)
    layer.enter(other, 0)
    with pytest.raises(InputError, match="NPU 3 enters the gradients in another order"):
        layer.enter(other, 3)


def test_other_queues_are_refused() -> None:
    layer = layer_of((4,), queues=2)
    group = layer.issue("all-gather", 4, open=True, communicator=Communicator((0, 1), (2,), (-1,)))
    whole = layer.issue("all-gather", 4, open=True)
    layer.enter(group, 0)
    layer.enter(whole, 0)
    with pytest.raises(InputError, match="have used their queues differently"):
        layer.enter(whole, 2)


def test_groups_that_are_missing_in_version_1() -> None:
    layer = layer_of((4, 2), "astra-sim-1")
    group = layer.issue("all-gather", 4, open=True, communicator=Communicator.along((0,), (4, 2))[0])
    with pytest.raises(InputError, match="the groups of this collective"):
        layer.enter(group, 0)


def test_strangers_and_those_who_come_twice() -> None:
    layer = layer_of((2, 2))
    group = layer.issue("all-reduce", 8, communicator=Communicator((0, 3), (2,), (-1,)), open=True, name="loss")
    layer.enter(group, 3)
    for npu, problem in ((3, "NPU 3 has already entered the loss"), (1, "NPU 1 does not participate in the loss")):
        with pytest.raises(ValueError, match=problem):
            layer.enter(group, npu)
    with pytest.raises(ValueError, match="an open collective begins when its NPUs enter it"):
        layer.issue("all-reduce", 8, at=5, open=True)
    with pytest.raises(ValueError, match="an open message leaves when it is handed over"):
        layer.send(0, 1, 8, at=5, open=True)


def test_nobody_counts_before_somebody_enters() -> None:
    layer = layer_of()
    collective = layer.issue("all-gather", 4, open=True)
    assert len(layer.traffic()) == layer.bytes_planned == 0
    assert list(layer.schedules()) == []
    for npu in range(4):
        layer.enter(collective, npu)
    layer.run()
    assert layer.traffic()[:, 4].sum() == 4 * 3
    assert np.array_equal(layer.traffic(), layer.traffic(layer.collectives))
