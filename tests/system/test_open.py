"""Open collectives and messages: each NPU begins by itself, and is told when it is through."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError, StuckError
from pyxsim.registry import collectives
from pyxsim.system import Collective, System
from pyxsim.system.data_carrier import DataCarrier
from pyxsim.system.table import COLUMNS
from tests.examples import part_of
from tests.system.ideal import Ideal, system
from tests.system.ideal import options as plain
from tests.system.oracle import Oracle
from tests.system.test_oracle import STRANGE, Times, issues, options, strange_data, strange_waits
from tests.system.walk import Walk, Walkers, walks

few = settings(max_examples=part_of(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
many = settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
T = 100  # cycles of a message in the examples by hand


@pytest.fixture(scope="module", autouse=True)
def strange() -> Iterator[None]:
    for name, function in zip(STRANGE, (strange_waits, strange_data), strict=True):
        collectives.register(name)(function)
    yield
    collectives.discard(__name__)


@st.composite
def works(draw: st.DrawFn, crowded: bool) -> tuple[tuple[int, ...], Any, Any]:
    """A shape, options, and what may be issued on it."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple).filter(lambda s: math.prod(s) <= 12))
    own = replace(draw(options(shape)), boost=False)
    if crowded:
        own = replace(own, slots=[1] * len(shape), queues=[queues[:1] for queues in own.queues])
    calls = issues(shape, False).map(lambda call: {key: value for key, value in call.items() if key != "at"})
    return shape, own, calls


def seen(layer: System) -> list[tuple[int, ...]]:
    table = layer.chunk_table()
    return sorted(zip(*(table[name].tolist() for name in COLUMNS), strict=True))


# -- against the oracle ------------------------------------------------------------------------------------------------


def agree(data: st.DataObject) -> None:
    """NPUs that go random ways: all come to their end, and both layers tell the same, to every message."""
    shape, own, calls = data.draw(works(data.draw(st.booleans())))
    walk = data.draw(walks(shape, calls.map(lambda call: [call])))
    seed, most = data.draw(st.integers(0, 999)), data.draw(st.sampled_from([1, 3, 30, 200]))
    network = Ideal(math.prod(shape), Times(seed, most))
    layer, oracle = System(network, shape, own), Oracle(Times(seed, most), shape, own)
    ours, theirs = Walkers(layer, walk), Walkers(oracle, walk)
    layer.run()
    oracle.run()
    assert ours.log == theirs.log
    assert seen(layer) == oracle.chunk_table()
    assert [one.end for one in layer.collectives] == [one.end for one in oracle.collectives]
    assert [one.start for one in layer.collectives] == [one.issued for one in oracle.collectives]
    assert [one.end for one in layer.messages] == [one.end for one in oracle.messages]
    assert network.sent == oracle.sent
    told = sorted((number, npu) for _, what, number, npu in ours.log if what == "joined")
    members = [one.communicator.members for one in layer.collectives]
    assert told == sorted((number, npu) for number, group in enumerate(members) for npu in group)


@few
@given(st.data())
def test_both_agree_on_random_ways(data: st.DataObject) -> None:
    agree(data)


@pytest.mark.slow
@many
@given(st.data())
def test_both_agree_on_many_more(data: st.DataObject) -> None:
    agree(data)


# -- against plain collectives -----------------------------------------------------------------------------------------


@few
@given(st.data())
def test_all_at_once_is_a_plain_collective(data: st.DataObject) -> None:
    """Open ones that all enter in their cycle (so much later as they are late) are the plain ones, to every message."""
    shape, own, calls = data.draw(works(data.draw(st.booleans())))
    asked = data.draw(st.lists(st.tuples(calls, st.sampled_from([0, 0, 3, 40])), min_size=1, max_size=3))
    if len(asked) > 1:
        own = replace(own, scheduling="explicit")  # who is first in the order of issue, skew decides
    pairs = st.lists(st.integers(0, math.prod(shape) - 1), min_size=2, max_size=2, unique=True)
    sends = data.draw(st.lists(pairs, max_size=2)) if math.prod(shape) > 1 and not own.start_skew else []
    seed, most = data.draw(st.integers(0, 999)), data.draw(st.sampled_from([1, 3, 30, 200]))
    both = [System(Ideal(math.prod(shape), Times(seed, most)), shape, own) for _ in range(2)]
    for call, at in asked:
        both[0].issue(**call, at=at)
        collective = both[1].issue(**call, open=True)
        for npu in collective.communicator.members:
            both[1].at(at + own.skew(npu), partial(both[1].enter, collective, npu))
    for src, dst in sends:
        both[0].send(src, dst, 77, at=3)
        both[1].at(3, partial(both[1].hand_over, both[1].send(src, dst, 77, open=True)))
    assert both[0].run() == both[1].run()
    assert seen(both[0]) == seen(both[1])
    assert both[0].network.sent == both[1].network.sent  # type: ignore[attr-defined]
    assert (both[0].traffic() == both[1].traffic()).all()
    assert both[0].bytes_planned == both[1].bytes_planned


def test_each_is_told_when_it_is_through() -> None:
    """A broadcast over a line of messages: the root is through when it has sent, the others one after the other."""
    layer = system([4], T, "ring", endpoint_delay=5)
    told: list[tuple[int, int]] = []
    collective = layer.issue("broadcast", 8, joined=lambda each, npu: told.append((layer.cycle, npu)))
    layer.run()
    assert sorted(npu for _, npu in told) == [0, 1, 2, 3]
    assert told[0] == (5, 0)
    assert told[-1][0] == collective.end
    ends = {npu: cycle for cycle, npu in told}
    table = layer.chunk_table()
    assert [ends[npu] for npu in table["rank"].tolist()] == table["end"].tolist()


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_nobody_waits_longer_than_for_its_data() -> None:
    """Direct all-gather of two: NPU 1 enters at 50; NPU 0's message is there, and NPU 0 is through after NPU 1's."""
    layer = system([2], T, "direct", endpoint_delay=3)
    told: list[tuple[int, int]] = []
    collective = layer.issue("all-gather", 8, open=True, joined=lambda each, npu: told.append((layer.cycle, npu)))
    assert (collective.start, collective.end) == (-1, -1)
    layer.at(10, lambda: layer.enter(collective, 0))
    layer.at(150, lambda: layer.enter(collective, 1))
    assert layer.run() == collective.end == 150 + 3 + T + 3
    assert collective.start == 10
    assert told == [(150 + 3, 1), (150 + 3 + T + 3, 0)]


def test_through_is_told_before_done_and_the_next_one_begins_in_that_cycle() -> None:
    layer = system([2], T, "direct")
    seen: list[tuple[int, Any]] = []

    def joined(each: Collective, npu: int) -> None:
        seen.append((layer.cycle, npu))
        layer.enter(second, npu)

    first = layer.issue("all-gather", 8, open=True, joined=joined, done=lambda each: seen.append((layer.cycle, "end")))
    second = layer.issue("all-gather", 8, open=True)
    layer.enter(first, 1)
    layer.enter(first, 0)
    assert layer.run() == 2 * T
    assert sorted(seen[:2]) == [(T, 0), (T, 1)]
    assert seen[2:] == [(T, "end")]
    assert (second.start, second.end) == (T, 2 * T)


def test_last_in_first_out_counts_from_the_first_that_enters() -> None:
    """Three collectives in one line: the one that is entered last passes the one that waits, not the one at work."""
    layer = system([2], T, "direct", scheduling="LIFO")
    issued = [layer.issue("all-gather", 8, open=True, name=str(number)) for number in range(3)]
    for cycle, number in ((0, 2), (1, 1), (2, 0)):
        for npu in range(2):
            layer.at(cycle, partial(layer.enter, issued[number], npu))
    layer.run()
    assert [each.end for each in issued] == [2 * T, 3 * T, T]


def test_one_npu_is_through_when_it_enters() -> None:
    layer = system([1], T, chunks=3)
    told: list[Any] = []
    collective = layer.issue(
        "all-reduce", 9, open=True, joined=lambda each, npu: told.append(npu), done=lambda each: told.append("end")
    )
    layer.at(17, lambda: layer.enter(collective, 0))
    assert layer.run() == collective.start == collective.end == 17
    assert told == [0, "end"]


def test_a_message_is_handed_over() -> None:
    layer = system([4], T, endpoint_delay=3)
    message = layer.send(1, 3, 10, open=True, done=lambda each: layer.at(layer.cycle + 5, layer_end))
    ends: list[int] = []

    def layer_end() -> None:
        ends.append(layer.cycle)

    layer.at(20, lambda: layer.hand_over(message))
    assert layer.run() == message.end == 20 + 3 + T + 3
    assert message.start == 20
    assert ends == [message.end + 5]


def test_actions_of_a_cycle_come_in_the_order_of_the_calls() -> None:
    layer = system([2], T)
    seen: list[tuple[int, str]] = []

    def first() -> None:
        seen.append((layer.cycle, "first"))
        layer.at(layer.cycle, lambda: seen.append((layer.cycle, "third")))

    layer.at(9, first)
    layer.at(9, lambda: seen.append((layer.cycle, "second")))
    layer.at(4, lambda: seen.append((layer.cycle, "zeroth")))
    layer.run()
    assert seen == [(4, "zeroth"), (9, "first"), (9, "second"), (9, "third")]


def test_the_data_are_right_whoever_enters_when() -> None:
    """Carried for real: three collectives over two lists, entered at different times in different orders."""
    layer = system([2, 3], T, "ring", carry=True, chunks=2)
    groups = [None, Communicator.of([0, 3, 4], (2, 3)), Communicator.of([4, 3, 2, 1], (2, 3))]
    kinds = ("all-reduce", "reduce-scatter", "all-to-all")
    calls = [{"kind": kind, "size": 60, "communicator": group} for kind, group in zip(kinds, groups, strict=True)]
    ways: list[list[tuple[str, Any]]] = []
    for npu in range(6):
        own = [number for number, group in enumerate(groups) if group is None or npu in group.members]
        own = own[::-1] if npu % 2 else own
        ways.append([step for number in own for step in (("pause", 31 * npu), ("enter", number))])
    Walkers(layer, Walk(calls, [], ways))
    carrier = DataCarrier(layer)
    layer.listen = carrier.feed
    layer.run()
    carrier.finish()


# -- what never ends ---------------------------------------------------------------------------------------------------


def test_a_circle_is_told() -> None:
    layer = system([2], T, "direct")
    calls = [{"kind": "all-gather", "size": 8, "name": name} for name in ("weights", "gradients")]
    ways = [[("enter", first), ("wait", ([first], [])), ("enter", 1 - first)] for first in range(2)]
    Walkers(layer, Walk(calls, [], ways))
    with pytest.raises(StuckError) as caught:
        layer.run()
    lines = [str(caught.value), *caught.value.waits]
    assert "nothing moves after cycle 100, but some work has not ended: " in lines[0]
    assert "NPU 1 did not enter the weights; NPU 0 waits for this" in lines[0]
    assert lines[1] == "NPU 0 did not enter the gradients; NPU 1 waits for this"


def test_what_nobody_begins_is_told() -> None:
    layer = system([4], T, "ring")
    layer.issue("all-reduce", 8, open=True, name="loss")
    layer.send(2, 1, 9, open=True, name="token")
    partly = layer.issue("broadcast", 8, open=True, name="seed", joined=lambda each, npu: None)
    layer.enter(partly, 0)
    with pytest.raises(StuckError) as caught:
        layer.run()
    assert str(caught.value).endswith("token of 9 bytes from NPU 2 to 1 was not handed over")
    assert caught.value.waits[0] == "NPUs 0, 1, 2, 3 did not enter the loss"
    assert caught.value.waits[1] == "NPUs 1, 2, 3 did not enter the seed"


# -- what must not be --------------------------------------------------------------------------------------------------


def test_strangers_and_those_who_come_twice() -> None:
    layer = system([2, 2], T, "ring")
    group = layer.issue("all-reduce", 8, communicator=Communicator.of([0, 3], (2, 2)), open=True, name="loss")
    whole = layer.issue("all-reduce", 8, name="weights")
    layer.enter(group, 3)
    for npu, problem in ((3, "NPU 3 has already entered the loss"), (1, "NPU 1 does not participate in the loss")):
        with pytest.raises(ValueError, match=problem):
            layer.enter(group, npu)
    with pytest.raises(ValueError, match="the weights is not open"):
        layer.enter(whole, 0)
    message, timed = layer.send(0, 1, 4, open=True), layer.send(0, 1, 4)
    layer.hand_over(message)
    for each in (message, timed):
        with pytest.raises(ValueError, match="from NPU 0 to 1 has already been handed over, or is not open"):
            layer.hand_over(each)


def test_open_work_has_no_time_and_the_past_is_over() -> None:
    layer = system([2], T, "ring")
    with pytest.raises(ValueError, match="an open collective begins when its NPUs enter it"):
        layer.issue("all-reduce", 8, at=5, open=True)
    with pytest.raises(ValueError, match="an open message leaves when it is handed over"):
        layer.send(0, 1, 8, at=5, open=True)
    layer.at(9, lambda: None)
    layer.run()
    with pytest.raises(ValueError, match="cycle 8 is in the past; the current cycle is 9"):
        layer.at(8, lambda: None)


@pytest.mark.parametrize("how", [{"open": True}, {"joined": lambda each, npu: None}])
def test_boost_is_refused(how: dict[str, Any]) -> None:
    layer = System(Ideal(4, T), [4], plain("ring", boost=True))
    with pytest.raises(InputError, match="boost simulates only the groups of one NPU"):
        layer.issue("all-reduce", 8, **how)
