"""docs/attribution.md: the oracle against closed forms and hand-worked cases, then the engine against the oracle."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import CAUSES, CUT_THROUGH, EACH, STORE_AND_FORWARD, WORMHOLE, RouterOptions
from tests.examples import part_of
from tests.in_turn import in_turn
from tests.reference.allocator_names import AGE, INPUT_FIRST, ISLIP, ROTATING
from tests.reference.attribution import Attribution, Blame
from tests.reference.cases import (
    Case,
    adaptive_nets,
    cases,
    classed_nets,
    nets,
    plain_nets,
    ranked_options,
    risky_nets,
    router_options,
    speculative_options,
    whole_options,
)
from tests.reference.helpers import finish, oracle, short
from tests.reference.networks import BOOKSIM, Plane, Stages, crowd, garnet, hub, line, options, style
from tests.reference.recording import RecordingEngine

ODD = Stages(bw=2, rc=3, va=2, sa=2, st=2)
G1 = garnet(1)
OWN = ("serialisation", "hops")  # what nobody else is to blame for
Parts = dict[str, int]

FAR = max(1_200, part_of(6_000))  # who is not done by then goes round in circles
few = settings(max_examples=part_of(40), suppress_health_check=list(HealthCheck))
many = settings(max_examples=1000, suppress_health_check=list(HealthCheck))


def split(machine: RecordingEngine, message: int) -> Parts:
    """The parts of a message that are not zero."""
    row = Attribution(machine).splits()[message]
    return {part: cycles for part, cycles in zip(CAUSES, row, strict=True) if cycles}


def waits(machine: RecordingEngine) -> dict[Blame, int]:
    """The cycles that somebody waited, by link, victim, culprit and cause."""
    return {key: cycles for key, (cycles, _) in Attribution(machine).waits().items() if key[-1] not in OWN}


# Alone


@pytest.mark.parametrize("flow", [WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD])
@pytest.mark.parametrize("allocator", [ROTATING, ISLIP])
@in_turn(
    ("stages", "speculative"),
    [(BOOKSIM, False), (BOOKSIM, True), (G1, False), (garnet(4), False), (ODD, False), (ODD, True)],
)
@in_turn("m", [1, 2, 3])
def test_alone_it_takes_what_its_head_takes_and_the_links_width(
    stages: Stages, m: int, speculative: bool, flow: int, allocator: int
) -> None:
    inside, into, out, hops = 7, 3, 5, 2
    for s, flits, queue in [(1, 1, False), (1, 9, True), (2, 2, False), (2, 5, True), (5, 2, True), (5, 4, False)]:
        net = line(hops).plain(
            style(stages, inside, s=s, output_queue=queue, speedup=m),
            style(stages, into, kind="injection", s=s, speedup=m),
            style(stages, out, kind="ejection", s=s, output_queue=queue, speedup=m),
        )
        switch = INPUT_FIRST if allocator == ROTATING else allocator
        machine = oracle(
            net, stages, va_allocator=allocator, sa_allocator=switch, speedup=m, speculative=speculative, flow=flow
        )
        machine.send(0, hops - 1, hops - 1, 0, 1, flits, flits, 11)
        finish(machine)
        router = stages.bw + stages.sa + (stages.rc + stages.va + stages.st - speculative) // m
        head = hops * router + (hops - 1) * inside + into + out + 1 + (hops + 1) * (s - 1)
        times = hops + 1 if flow == STORE_AND_FORWARD else 1
        expected = {"hops": head, "serialisation": times * (flits - 1) * s}
        assert split(machine, 0) == {part: cycles for part, cycles in expected.items() if cycles}


@pytest.mark.parametrize("s", [(1, 1, 3), (1, 3, 1), (3, 1, 1), (4, 2, 1), (1, 2, 4), (Fraction(5, 2),) * 3], ids=str)
@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize("packets", [1, 6])
def test_alone_nothing_is_waited_for(s: tuple[Fraction, ...], queue: bool, packets: int) -> None:
    """Whatever the widths: a narrow link makes the flits wait for those before them, which is nobody's fault."""
    net = line(2).plain(
        style(BOOKSIM, 4, s=s[1], output_queue=queue, vcs=packets),
        style(BOOKSIM, 1, kind="injection", s=s[0], vcs=packets),
        style(BOOKSIM, 1, kind="ejection", s=s[2], output_queue=queue, vcs=packets),
    )
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, packets, 7, 7, 3)
    finish(machine)
    assert set(split(machine, 0)) == set(OWN)
    assert waits(machine) == {}


# Two meet


@pytest.mark.parametrize("stages", [G1, BOOKSIM], ids=str)
def test_two_share_a_link(stages: Stages) -> None:
    """Flit by flit in turn: tail 0 goes sixth plus one, tail 1 last; alone each would go with the fourth."""
    machine = oracle(short(3, stages, vcs=2), stages)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 4, 4, 0, tag=node)
    finish(machine)
    # Garnet: flits of 0 go in 2, 4, 6, 8 and of 1 in 3, 5, 7, 9; alone in 2 to 5.
    # BookSim2: VA serves 0 first, so 4, 6, 8, 10 and 5, 7, 9, 11 instead of 4 to 7.
    assert waits(machine) == {(5, 0, 1, "arbitration"): 3, (5, 1, 0, "arbitration"): 4}


def test_two_want_one_vc() -> None:
    machine = oracle(short(3, G1), G1)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 4, 4, 0, tag=node)
    finish(machine)
    # In 2 both ask for the switch and 0 wins the VC with it; it is free from 6 on. The flits behind head 1 have come
    # in 3, 4, 5 and pass in 7, 8, 9: what the tail waits for them is what the head waited for, 1 + 3 cycles in all.
    assert waits(machine) == {(5, 1, 0, "arbitration"): 1, (5, 1, 0, "vc"): 3}
    assert split(machine, 1) == {"arbitration": 1, "vc": 3, "serialisation": 3, "hops": 4}


def test_behind_another_in_one_buffer() -> None:
    machine = oracle(short(3, G1), G1)
    machine.send(1, 2, 2, 0, 1, 8, 8, 0, tag=1)
    machine.send(0, 2, 2, 0, 1, 4, 4, 1, tag=0)
    machine.send(0, 0, 0, 0, 1, 1, 1, 1, tag=2)
    finish(machine)
    # Message 0 has the sink in 2 to 9. Message 1 comes in 3 to 6 and waits from 3 to 9; its tail goes in 13.
    # Message 2 starts after its 4 flits, comes in 7, and is at the front from 14 on: nobody wants its own sink.
    assert waits(machine) == {(5, 0, 1, "vc"): 7, (0, 2, 0, "source"): 4, (3, 2, 0, "queue"): 7}
    assert split(machine, 2) == {"source": 4, "hops": 4, "queue": 7}


def test_the_culprit_is_passed_on() -> None:
    """Who keeps the buffer downstream full is to blame for the credits that are missing here."""
    net = line(3).plain(
        style(G1, 1, depth=4),
        style(G1, 1, kind="injection"),
        style(G1, 1, kind="ejection"),
    )
    machine = oracle(net, G1)
    machine.send(1, 2, 2, 0, 1, 12, 12, 0, tag=1)
    machine.send(0, 2, 2, 0, 1, 8, 8, 0, tag=0)
    finish(machine)
    link = next(k for k, wire in enumerate(net.wires) if (wire.src, wire.dst) == (0, 1))
    # Message 0 leaves router 1 in 2 to 13. Head 1 is in router 0 in 2, in router 1 in 4 and has the link in 14: late by
    # 10. Its tail is not in router 1 by then, as only 4 flits have room there.
    assert waits(machine) == {(link, 0, 1, "credit"): 10}
    assert split(machine, 1) == {"credit": 10, "serialisation": 7, "hops": 8}


def test_a_credit_loop_is_nobodys_fault() -> None:
    net = line(2).plain(
        style(G1, 3, depth=2),
        style(G1, 1, kind="injection"),
        style(G1, 1, kind="ejection"),
    )
    machine = oracle(net, G1)
    machine.send(0, 1, 1, 0, 1, 6, 6, 0, tag=0)
    finish(machine)
    # Two flits pass in 8 cycles (1 + 1 + 2 * 3): 2, 3, 10, 11, 18, 19 instead of 2 to 7.
    assert waits(machine) == {(0, 0, -1, "credit"): 12}
    assert split(machine, 0) == {"credit": 12, "serialisation": 5, "hops": 8}


def test_the_link_is_busy_with_another() -> None:
    """A slow sink: without an output queue the flits wait in front of the switch, with one behind it."""
    for queue in (False, True):
        machine = oracle(short(3, G1, vcs=2, s=4, output_queue=queue), G1)
        for node in (0, 1):
            machine.send(node, 2, 2, 0, 1, 1, 1, node, tag=node)
        finish(machine)
        # Message 0 starts on the lane of the sink in 2, message 1 comes in 3 and starts in 6.
        assert waits(machine) == {(5, 1, 0, "link"): 3}


def test_two_share_an_output_queue() -> None:
    machine = oracle(short(3, G1, vcs=2, s=2, output_queue=True), G1)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 4, 4, 0, tag=node)
    finish(machine)
    # Switch: 0 in 2, 4, 6, 8 and 1 in 3, 5, 7, 9; the flits behind it have come in 2 to 5. Start: 0 in 2, 6, 10, 14 and
    # 1 in 4, 8, 12, 16. Tail 0 is in the queue from 8 on, behind 1 in 8, 9, 12, 13 and behind 0 in 10 and 11; a flit of
    # 0 is there from 6 on, and nobody else has the link up to 8. Tail 1 is there from 9 on, behind 0 in 10, 11, 14, 15
    # and behind 1 in 9, 12, 13, of which two go to `link`: flits of 1 are there from 5 on, behind 0 in 6 and 7.
    assert waits(machine) == {
        (5, 0, 1, "arbitration"): 3,
        (5, 0, 1, "link"): 4,
        (5, 1, 0, "arbitration"): 4,
        (5, 1, 0, "link"): 6,
    }
    assert split(machine, 1) == {"serialisation": 4, "hops": 5, "arbitration": 4, "link": 6}


def test_messages_take_their_turn_at_the_source() -> None:
    machine = oracle(short(3, G1), G1)
    machine.send(0, 2, 2, 0, 2, 3, 3, 0, tag=0)
    machine.send(0, 1, 1, 0, 1, 2, 2, 0, tag=1)
    finish(machine)
    # The second is first of its queue when the last packet of the first is opened, in 3, and starts in 6.
    assert waits(machine) == {(0, 1, 0, "source"): 6}
    assert split(machine, 1) == {"source": 6, "serialisation": 1, "hops": 4}


def test_waiting_for_the_lane_begins_at_the_front_of_its_queue() -> None:
    lane = style(G1, 1, kind="injection", vcs=3, depth=2)
    net = hub(2).plain(style(G1, 1), lane, style(G1, 1, kind="ejection", vcs=4))
    sends = [(0, 1, 1, 0, 3, 3, 3, 4, 0), (0, 1, 1, 0, 1, 1, 1, 4, 0)]
    machine = oracle(net, G1, interleaved=True, ordered=True)
    for tag, send in enumerate(sends):
        machine.send(*send, tag)
    finish(machine)
    # The packets of message 0 are opened in 4, 5 and 6; the lane may not turn to another one while the first lacks a
    # credit. Flits start in 4, 5, 8, 9, 10, 13, 14, 15, 18 and 19, the last one of message 1, which is first of its
    # queue from 7 on: 4, 5, 6, and the starts of message 0 from 8 on, are `source`.
    assert waits(machine)[0, 1, 0, "source"] == 3 + 7
    assert waits(machine)[0, 1, -1, "credit"] == 5
    both(Case(net, options(G1, interleaved=True, ordered=True), sends), [], [0, 1])


def test_the_lowest_vc_that_was_won_is_to_blame() -> None:
    net = short(4, BOOKSIM, vcs=2)
    machine = oracle(net, BOOKSIM, va_allocator=AGE)
    sends = [(node, 3, 3, 0, 1, 1, 1, 0, 0) for node in range(3)]
    for tag, send in enumerate(sends):
        machine.send(*send, tag)
    finish(machine)
    # All ask for both VCs in 3: VC 0 goes to message 0, VC 1 to message 1. 0 leaves in 4, so VC 0 is free in 5.
    assert waits(machine) == {(7, 2, 0, "arbitration"): 1, (7, 2, 0, "vc"): 1, (7, 1, 0, "arbitration"): 1}
    both(Case(net, options(BOOKSIM, va_allocator=AGE), sends), [], [0, 1, 2])


def test_the_winner_of_the_range_is_to_blame_even_if_its_vc_had_no_room_for_the_loser() -> None:
    """Cut-through: a packet of two flits loses to one of a single flit, which takes the VC with a single slot left."""
    net = crowd(line(2), 3)  # each route has two candidates, the same link twice
    net.tables = [[[(k, [(turn, turn) for turn in turns]) for k, turns in row] for row in net.tables[0]]]
    net.manners[0] = Plane(select=EACH)
    wide = style(BOOKSIM, 100, vcs=2, depth=4)
    net.plain(wide, style(BOOKSIM, 1, kind="injection"), style(BOOKSIM, 1, kind="ejection"))
    # After the packets of node 0, VC 0 has two free slots and VC 1 has one; it is the turn of VC 1 and of node 1.
    fill = [(0, 3, 3, 0, 1, flits, flits, 0, 0) for flits in (1, 3, 1)]
    sends = [*fill, (1, 3, 3, 0, 1, 1, 1, 40, 0), (2, 3, 3, 0, 1, 2, 2, 40, 0)]
    machine = oracle(net, BOOKSIM, flow=CUT_THROUGH)
    for tag, send in enumerate(sends):
        machine.send(*send, tag)
    finish(machine)
    assert [vc for _, link, vc, _, _, flit in sorted(machine.launches) if link == 0 and flit == 0] == [0, 1, 0, 1, 0]
    assert waits(machine)[0, 4, 3, "arbitration"] == 1
    both(Case(net, options(BOOKSIM, flow=CUT_THROUGH), sends), [], list(range(5)))


def test_stays_tell_the_way() -> None:
    machine = oracle(line(4).plain(style(BOOKSIM, 1)), BOOKSIM)
    machine.send(0, 3, 3, 0, 3, 2, 1, 0)
    finish(machine)
    rows = Attribution(machine).stays()
    assert [row[:2] for row in rows] == [(0, packet) for packet in range(3) for _ in range(5)]
    assert all(sum(row[3:]) > 0 for row in rows)
    for before, after in pairwise(machine.done):
        assert before[1] < after[1]
    last = [row for row in rows if row[1] == 2]
    assert sum(sum(row[3:]) for row in last) == machine.message_times(0)[2]


# The engine


def engine_waits(engine: Engine) -> dict[Blame, tuple[int, int]]:
    told = engine.waits()
    rows = zip(*(told[name].tolist() for name in ("link", "victim", "culprit", "cause")), strict=True)
    keys = [(link, victim, culprit, CAUSES[cause]) for link, victim, culprit, cause in rows]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, zip(told["cycles"].tolist(), told["packets"].tolist(), strict=True), strict=True))


def same(engine: Engine, machine: RecordingEngine) -> None:
    """All that is told of what has arrived by now; first what differs, which is short."""
    expected = Attribution(machine)
    rows, others = (Counter(tuple(row) for row in some) for some in (engine.stays().tolist(), expected.stays()))
    assert sorted((rows - others).elements()) == sorted((others - rows).elements()), ("message, packet, link", CAUSES)
    assert engine.splits().tolist() == expected.splits()
    mine, other = engine_waits(engine), expected.waits()
    assert {key: row for key, row in mine.items() if other.get(key) != row} == {
        key: row for key, row in other.items() if mine.get(key) != row
    }


def both(case: Case, slices: list[int], tags: list[int]) -> None:
    """Compared at every stop, and at the end."""
    wiring = case.net.routers, case.net.links(), case.net.routes(), case.options
    engine, machine = Engine(*wiring, attribution=2), RecordingEngine(*wiring, every=100)
    for i, send in enumerate(case.messages):
        tag = tags[i % len(tags)]
        assert engine.send(*send, tag) == machine.send(*send, tag)
    until = 0
    for wait in [*slices, FAR]:
        until += wait
        while engine.now < until and engine.run(until).reason == "delivered":
            pass
        machine.step_to(engine.now)
        machine.arrive()
        same(engine, machine)
        engine.check()


tags = st.lists(st.integers(0, 31), min_size=1, max_size=4)
slices = st.lists(st.integers(1, 60), max_size=3)


@few
@given(case=cases(limit=12), slices=slices, tags=tags)
def test_engine_agrees(case: Case, slices: list[int], tags: list[int]) -> None:
    both(case, slices, tags)


@st.composite
def bare_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Without VA, where that is possible."""
    options = draw(router_options(each=each))
    if not each:
        options.va, options.speculative = 0, False
    return options


@st.composite
def wide_options(draw: st.DrawFn, *, each: bool = False) -> RouterOptions:
    """Input ports with several connections to the switch."""
    options = draw(router_options(each=each))
    options.step_arbiter = options.ordered = False
    options.input_speedup, options.speedup, options.interleaved = 2, 1, True
    return options


KINDS: dict[str, dict[str, Any]] = {
    "every kind": {"limit": 20},
    "crowded rings": {"of": classed_nets(), "vcs": st.integers(2, 7), "limit": 30},
    "deadlocks": {"of": risky_nets(), "vcs": st.integers(1, 2), "limit": 20},
    "adaptive": {"of": adaptive_nets(), "vcs": st.integers(1, 3), "limit": 16, "how": ranked_options},
    "speculative": {"of": nets(), "vcs": st.integers(1, 3), "limit": 16, "how": speculative_options, "longest": 3},
    "room": {"of": adaptive_nets(), "vcs": st.integers(1, 3), "limit": 24, "how": whole_options, "longest": 5},
    "one router": {
        "of": st.builds(hub, st.integers(3, 6)),
        "vcs": st.integers(2, 4),
        "limit": 25,
        "how": ranked_options,
    },
    "without VA": {"of": plain_nets(), "vcs": st.integers(2, 4), "limit": 25, "how": bare_options},
    "wide inputs": {"of": classed_nets(), "vcs": st.integers(4, 8), "limit": 30, "how": wide_options},
    "many VCs": {"vcs": st.sampled_from([1, 31, 64, 70]), "limit": 6},
}


@pytest.mark.parametrize("kind", list(KINDS)[1:])
@settings(few, max_examples=part_of(10))
@given(data=st.data(), slices=slices, tags=tags)
def test_engine_agrees_where_it_is_hard(kind: str, data: st.DataObject, slices: list[int], tags: list[int]) -> None:
    both(data.draw(cases(**KINDS[kind])), slices, tags)


@settings(few, max_examples=part_of(15))
@given(case=cases(limit=12), tags=tags, which=st.integers(0, 50))
def test_less_is_told_but_the_same(case: Case, tags: list[int], which: int) -> None:
    """Without the list of stays, but of a watched message; and by an engine that forgets what has arrived."""
    wiring = case.net.routers, case.net.links(), case.net.routes(), case.options
    short_of, forgetful = Engine(*wiring, attribution=1), Engine(*wiring, attribution=1, recycle=True)
    machine = RecordingEngine(*wiring, every=100)
    for i, send in enumerate(case.messages):
        tag = tags[i % len(tags)]
        for each in (short_of, forgetful, machine):
            each.send(*send, tag)
    watched = which % len(case.messages)
    short_of.watch(watched, 0)
    for engine in (short_of, forgetful):
        while engine.now < FAR and engine.run(FAR).reason == "delivered":
            pass
        machine.step_to(engine.now)
        machine.arrive()
        expected = Attribution(machine)
        assert engine_waits(engine) == expected.waits()
    assert short_of.splits().tolist() == expected.splits()
    assert sorted(map(tuple, short_of.stays().tolist())) == [row for row in expected.stays() if row[0] == watched]
    told = forgetful.deliveries()
    parts = dict(zip(told["serial"].tolist(), told["parts"].tolist(), strict=True))
    assert parts == {m: row for m, row in enumerate(expected.splits()) if row[0] >= 0}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@many
@given(data=st.data(), slices=slices, tags=tags)
def test_engine_agrees_many(kind: str, data: st.DataObject, slices: list[int], tags: list[int]) -> None:
    both(data.draw(cases(**KINDS[kind])), slices, tags)
