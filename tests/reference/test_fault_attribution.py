"""docs/attribution.md, "Faults and retry": hand-worked cases, then the engine against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import CreditReturns
from tests.core.changing_links import (
    FAR,
    Change,
    any_case,
    apply,
    changes,
    run_to,
    schedule,
    varied,
    without_speedups,
)
from tests.core.test_credit_return import rules as credit_rules
from tests.core.test_credit_return import with_credits
from tests.examples import part_of
from tests.reference.cases import Case
from tests.reference.networks import garnet, line, options, style
from tests.reference.recording import RecordingEngine
from tests.reference.test_attribution import same, split, tags, waits

slots = st.lists(st.sampled_from([0, 1, 2, 7, 40]), max_size=4)
few = settings(max_examples=part_of(100), deadline=None, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=2000)


# Hand-worked: 6 flits pass the link between two routers in 2 to 7, 4 cycles each, and arrive at the end from 8 to 13.

ALONE = {"serialisation": 5, "hops": 8}
CERTAIN = 2**64 - 1


def line_of_two(
    *faults: tuple[int, dict[str, Any]],
    retry: int = 0,
    queue: bool = False,
    depth: int = 40,
    sends: tuple[int, ...] = (6,),
) -> RecordingEngine:
    """Messages of so many flits from one router to the other; `faults`: of the link, from when on."""
    stages = garnet(1)
    lane = {"depth": depth, "vcs": 2}
    net = line(2).plain(
        style(stages, 3, output_queue=queue, **lane),
        style(stages, 1, kind="injection", **lane),
        style(stages, 1, kind="ejection", **lane),
    )
    links = net.links()
    links.varies, links.longest, links.lossy = True, 200, True
    if retry:
        count = len(links.src)
        links.replay = np.where(np.arange(count) == 0, retry, 0).astype(np.int32)
        links.ack, links.timeout = np.zeros(count, np.int32), np.full(count, 30)
    machine = RecordingEngine(net.routers, links, net.routes(), options(stages))
    for tag, flits in enumerate(sends):
        machine.send(0, 1, 1, 0, 1, flits, flits, 0, 0, tag)
    for cycle, fault in faults:
        machine.step_to(cycle)
        machine.arrive()
        machine.change_links(
            [0],
            [int(links.s_num[0]) * fault.get("s", 1)],
            [int(links.delay[0]) + fault.get("later", 0)],
            [int(links.credit_delay[0]) + fault.get("later", 0)],
            [fault.get("down", False)],
            lose=[fault.get("lose", False)],
            error_bound=np.array([fault.get("bound", 0)], np.uint64),
        )
    machine.step_to(machine.now + 200)
    machine.arrive()
    return machine


@pytest.mark.parametrize(
    ("faults", "retry", "queue", "cycles"),
    [
        ([], 0, False, 0),
        # Flit 2 would go in 4 and goes in 20, or, from a queue, in step 1 of 21.
        ([(4, {"down": True}), (20, {})], 0, False, 16),
        ([(4, {"down": True}), (20, {})], 0, True, 17),
        # The tail goes in 2 + 5 * 3 instead of 2 + 5, and takes two cycles more on the link.
        ([(0, {"s": 3})], 0, False, 12),
        ([(0, {"s": 3})], 0, True, 12),
        ([(0, {"later": 10})], 0, False, 10),
        # Flit 2, of 4, is wrong; the nack is there 8 cycles later (4 + 4), and flits 2 to 5 go in 12 to 15.
        ([(4, {"bound": CERTAIN}), (5, {})], 20, False, 8),
        # Flits 2 to 5 go in 2 to 5, the acknowledgement of the first is there in 10, so the others go in 10 and 11.
        ([], 4, False, 4),
        # Flits 1 to 3 are on the wire in 6, and are retransmitted in 21 to 23; flits 4 and 5 follow, not in 6 and 7.
        ([(6, {"down": True, "lose": True}), (20, {})], 20, False, 18),
    ],
)
def test_alone_a_fault_costs_what_it_adds(
    faults: list[tuple[int, dict[str, Any]]], retry: int, queue: bool, cycles: int
) -> None:
    machine = line_of_two(*faults, retry=retry, queue=queue)
    assert machine.message_times(0)[2] == 13 + cycles
    assert split(machine, 0) == (ALONE | {"fault": cycles} if cycles else ALONE)
    assert waits(machine) == ({(0, 0, -2, "fault"): cycles} if cycles else {})


def test_faults_are_the_culprit_of_waits_for_credits_behind_them() -> None:
    """With two slots per VC, flits of message 0 fill the buffer in front of the link, and wait for credits behind."""
    machine = line_of_two((4, {"down": True}), (40, {}), depth=2)
    cycles = waits(machine)
    assert cycles[2, 0, -2, "credit"] > 30
    assert all(culprit == -2 for (_, _, culprit, cause), spent in cycles.items() if cause == "fault")
    assert sum(split(machine, 0).values()) == machine.message_times(0)[2]


def test_what_is_sent_again_delays_those_behind_it() -> None:
    machine = line_of_two((4, {"bound": CERTAIN}), (5, {}), retry=20, sends=(4, 4))
    # Message 1 would go in 6 to 9; its flits have all been sent once as the sender goes back to flit 2 in 12.
    parts = {"serialisation": 3, "hops": 8, "fault": 8}
    assert split(machine, 0) == parts
    assert split(machine, 1) == {"source": 4} | parts
    assert waits(machine) == {(2, 1, 0, "source"): 4, (0, 0, -2, "fault"): 8, (0, 1, -2, "fault"): 8}


def test_lost_packets_have_no_row() -> None:
    machine = line_of_two((4, {"bound": CERTAIN}), (5, {}), sends=(4, 4))
    assert machine.lost_messages().tolist() == [[0, 1]]
    assert split(machine, 0).get("hops") == -1
    assert split(machine, 1) == {"source": 4, "serialisation": 3, "hops": 8}
    assert {victim for _, victim, _, _ in waits(machine)} == {1}


# The engine


def both(
    case: Case,
    some: list[Change],
    tags: list[int],
    *,
    lossy: bool,
    retry: list[int],
    credit_rule: CreditReturns | None = None,
) -> None:
    """Compare the parts at every change, and at the end."""
    retry = retry if any(retry) else []
    case = without_speedups(case) if retry else case
    links = varied(case, lossy=lossy, retry=retry)
    links = links if credit_rule is None else with_credits(links, credit_rule)
    wiring = case.net.routers, links, case.net.routes(), case.options
    engine, machine = Engine(*wiring, attribution=2), RecordingEngine(*wiring, every=100)
    for i, send in enumerate(case.messages):
        tag = tags[i % len(tags)]
        assert engine.send(*send, tag) == machine.send(*send, tag)
    for due in schedule(links, some):
        reason, _ = run_to(engine, due[0].cycle, patient=True)
        if reason == "idle":
            run_to(engine, engine.now)
        machine.step_to(engine.now)
        machine.arrive()
        same(engine, machine)
        if engine.now < due[0].cycle:
            break
        apply(engine, links, due, lossy=lossy)
        apply(machine, links, due, lossy=lossy)
        engine.check()
    run_to(engine, FAR)
    machine.step_to(engine.now)
    machine.arrive()
    same(engine, machine)
    engine.check()


@few
@given(any_case, changes, tags)
def test_changing_links_agree(case: Case, some: list[Change], tags: list[int]) -> None:
    both(case, some, tags, lossy=False, retry=[])


@few
@given(any_case, changes, tags)
def test_lossy_links_agree(case: Case, some: list[Change], tags: list[int]) -> None:
    both(case, some, tags, lossy=True, retry=[])


@few
@given(any_case, changes, slots, tags)
def test_retry_agrees(case: Case, some: list[Change], retry: list[int], tags: list[int]) -> None:
    both(case, some, tags, lossy=True, retry=retry)


@few
@given(any_case, changes, slots, tags, credit_rules())
def test_credits_as_messages_agree(
    case: Case, some: list[Change], retry: list[int], tags: list[int], rule: CreditReturns
) -> None:
    both(case, some, tags, lossy=True, retry=retry, credit_rule=rule)


@pytest.mark.slow
@many
@given(any_case, changes, slots, tags, st.booleans())
def test_many_schedules_agree(case: Case, some: list[Change], retry: list[int], tags: list[int], lossy: bool) -> None:
    both(case, some, tags, lossy=lossy or any(retry), retry=retry)
