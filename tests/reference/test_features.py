"""The oracle against hand-worked cases: allocators, speculation, speed-ups, flow control, pools, message classes.

Where not told otherwise there is one router, with lanes of latency 1: a flit launched at 0 is in the router at 2, and
the credit of a flit that leaves for a sink at 2 can be used at 6 (the presets of Garnet; with st = 1, at 7).
"""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.core.engine_options import CUT_THROUGH, STORE_AND_FORWARD, WORMHOLE
from tests.in_turn import in_turn
from tests.reference.allocator_names import AGE, INPUT_FIRST, ISLIP, ROTATING, WAVEFRONT
from tests.reference.helpers import column, cycles, finish, machine_ejection, oracle, short, stalls
from tests.reference.networks import BOOKSIM, Stages, crowd, garnet, hub, line, style
from tests.reference.recording import RecordingEngine

ODD = Stages(bw=2, rc=3, va=2, sa=2, st=2)


def holds(machine: RecordingEngine) -> list[int]:
    """The output VCs that the front flits hold, by the lanes that they came by."""
    return [row["holds"] for row in sorted(machine.waiting(), key=lambda row: row["link"])]


@pytest.mark.parametrize("allocator", [ROTATING, ISLIP])
@in_turn("stages", [BOOKSIM, Stages(rc=0, va=1, st=3), ODD])
@in_turn(("routers", "flits"), [(1, 1), (1, 5), (3, 4)])
@in_turn("m", [1, 2, 3])
@in_turn("speculative", [False, True])
@in_turn("flow", [WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD])
def test_zero_load_latency(
    stages: Stages, routers: int, flits: int, m: int, speculative: bool, flow: int, allocator: int
) -> None:
    inside, into, out = 7, 3, 5
    net = line(routers).plain(
        style(stages, inside, speedup=m),
        style(stages, into, kind="injection", speedup=m),
        style(stages, out, kind="ejection", speedup=m),
    )
    switch = INPUT_FIRST if allocator == ROTATING else allocator
    machine = oracle(
        net, stages, va_allocator=allocator, sa_allocator=switch, speedup=m, speculative=speculative, flow=flow
    )
    machine.send(0, routers - 1, routers - 1, 0, 1, flits, flits, 11)
    finish(machine)
    # H*R + (H-1)*D + D_in + D_out + 1 + (n-1); ticks of rc, va and st; one less with speculation.
    router = stages.bw + stages.sa + (stages.rc + stages.va + stages.st - speculative) // m
    waits = routers + 1 if flow == STORE_AND_FORWARD else 1
    latency = routers * router + (routers - 1) * inside + into + out + 1 + waits * (flits - 1)
    assert machine.message_times(0) == (11, 11, 11 + latency)
    assert machine.messages[0].hops == routers


@pytest.mark.parametrize(
    ("allocator", "iterations", "starts", "held"),
    [
        (ROTATING, 1, (0, 0), [0, -1]),  # one grant for a range and cycle
        (INPUT_FIRST, 1, (0, 0), [0, -1]),  # both pick VC 0
        (ISLIP, 1, (0, 0), [0, -1]),  # all three VCs grant head 0, which accepts VC 0
        (ISLIP, 2, (0, 0), [0, 1]),  # and VCs 1 and 2 grant head 1 after that
        # Inputs 0 and 1, outputs 6, 7, 8 (sink 2), n = 9: (1, 8) is on the first diagonal, (0, 6) on the seventh.
        (WAVEFRONT, 1, (0, 0), [0, 2]),
        (AGE, 1, (0, 0), [0, 1]),  # equally old: inputs in order, each the first VC left
        (AGE, 1, (1, 0), [1, 0]),  # head 1 is older
    ],
)
def test_va(allocator: int, iterations: int, starts: tuple[int, int], held: list[int]) -> None:
    """Two heads come at once and ask for the three VCs of sink 2."""
    lanes = [(n, style(BOOKSIM, 1 + max(starts) - starts[n % 2], kind="injection")) for n in range(3)]
    sinks = [(n, style(BOOKSIM, 1, kind="ejection", vcs=3)) for n in range(3)]
    net = hub(3).dress(lambda _: style(BOOKSIM, 1), lanes, sinks)
    machine = oracle(net, BOOKSIM, va_allocator=allocator, va_iterations=iterations)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 2, 2, starts[node])
    # Sent at 0, there at 2, RC in 2, VA in 3; all later by the cycle by which the other one started later.
    machine.step_to(3 + max(starts))
    assert holds(machine) == [-1, -1]
    machine.step_to(4 + max(starts))
    assert holds(machine) == held


@pytest.mark.parametrize(
    ("allocator", "starts", "order"),
    [
        (INPUT_FIRST, (0, 0), [0, 1, 0, 1, 0, 1, 0, 1]),
        (ISLIP, (0, 0), [0, 1, 0, 1, 0, 1, 0, 1]),  # one output: the grant pointer goes round
        # n = 3, output 2: input 1 is on diagonal 0 for w = 0, 3, 6, input 0 before it for the others.
        (WAVEFRONT, (0, 0), [1, 0, 0, 1, 0, 0, 1, 1]),
        (AGE, (0, 0), [0, 0, 0, 0, 1, 1, 1, 1]),  # equally old: inputs in order
        (AGE, (1, 0), [1, 1, 1, 1, 0, 0, 0, 0]),
        # Message 1 alone in 2; then the pointer stands behind it.
        (INPUT_FIRST, (1, 0), [1, 0, 1, 0, 1, 0, 1, 0]),
    ],
)
def test_sa(allocator: int, starts: tuple[int, int], order: list[int]) -> None:
    """Two packets of four flits for sink 2, which has a VC for each."""
    machine = oracle(short(3, garnet(1), vcs=2), garnet(1), sa_allocator=allocator)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 4, 4, starts[node])
    finish(machine)
    lane = machine_ejection(hub(3), 3 + 2)
    assert column(machine, lane, "message") == order
    assert cycles(machine, lane) == list(range(2, 10))


def test_speculation_may_be_for_nothing() -> None:
    net = short(3, BOOKSIM, vcs=2)
    machine = oracle(net, BOOKSIM, speculative=True)
    machine.send(0, 2, 2, 0, 1, 5, 5, 0)
    machine.send(1, 2, 2, 0, 1, 1, 1, 0)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 1, 1, 20)
    finish(machine)
    # Heads at 2, RC in 2. In 3 both ask and bid; 0 is granted a VC and wins (pointers of VA and SA: 1). In 4 message 1
    # is granted its VC (pointer of VA: 2), but the body of 0 ranks before its bid. In 5 it wins (pointer of SA: 2),
    # then 0 three times (1). In 23 both ask and bid again: VA grants 2, SA picks 3, for nothing. In 24 message 2 has
    # its VC and ranks first, in 25 message 3.
    lane = machine_ejection(net, 2)
    assert column(machine, lane, "message") == [0, 0, 1, 0, 0, 0, 2, 3]
    assert cycles(machine, lane) == [3, 4, 5, 6, 7, 8, 24, 25]
    # In VA in 3 and 23; the body of 0 in 5. The bids of 4, 23 and 24 do not count.
    assert stalls(machine, lane) == {"vc": 0, "credit": 0, "serial": 0, "arbitration": 3}


@pytest.mark.parametrize("allocator", [INPUT_FIRST, ISLIP, WAVEFRONT])
def test_input_speedup(allocator: int) -> None:
    """Two packets come over VCs 0 and 1 of one link and go to different sinks: they do not meet any more."""
    stages = Stages(rc=3, va=0, st=0)
    net = crowd(line(2), 2).plain(
        style(stages, 1, vcs=2), style(stages, 1, kind="injection"), style(stages, 1, kind="ejection")
    )
    machine = oracle(net, stages, input_speedup=2, sa_allocator=allocator)
    for node in (0, 1):
        machine.send(node, 2 + node, 2 + node, 0, 1, 6, 6, 0)
    finish(machine)
    link = cycles(machine, 0)
    assert link == list(range(5, 17))
    # Flits are here two cycles later; a head waits three cycles for RC, the others for those before them.
    for node in (0, 1):
        arrivals = [t + 2 for t, m in zip(link, column(machine, 0, "message"), strict=True) if m == node]
        expected = [arrivals[0] + 3]
        for arrival in arrivals[1:]:
            expected.append(max(arrival, expected[-1] + 1))
        assert cycles(machine, machine_ejection(net, 2 + node)) == expected


def test_internal_speedup() -> None:
    """Two flits pass the switch in every cycle, and wait in the output queue of the sink's lane."""
    net = short(3, garnet(1), vcs=2)
    machine = oracle(net, garnet(1), speedup=2)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 3, 3, 0)
    finish(machine)
    lane = machine_ejection(net, 2)
    # In 2, 3 and 4 message 0 wins the first tick and message 1 the second.
    assert column(machine, lane, "message") == [0, 1, 0, 1, 0, 1]
    assert cycles(machine, lane) == [2, 3, 4, 5, 6, 7]
    # Queue at the end of 2: one flit; 3: two come and one was launched before; 4: three, 5: two, 6: one.
    assert stalls(machine, lane) == {"vc": 0, "credit": 0, "serial": 5, "arbitration": 3}


def test_stages_in_ticks() -> None:
    """rc = va = 1, st = 2, three ticks in a cycle: VA in tick 7, SA in 8, in the queue in (8 + 2) // 3 = 3."""
    stages = Stages(rc=1, va=1, st=2)
    net = hub(1).plain(style(stages, 1, speedup=3))
    net.injection = [(0, style(stages, 1, kind="injection", speedup=3))]
    net.ejection = [(0, style(stages, 1, kind="ejection", speedup=3))]
    machine = oracle(net, stages, speedup=3)
    machine.send(0, 0, 0, 0, 1, 3, 3, 0)
    finish(machine)
    # Body flits come in 3 and 4 and win in ticks 9 and 12, which is in the queue in 3 and 4.
    assert cycles(machine, 1) == [3, 4, 5]
    # The flit of tick 9 is in the queue in 3, where the head is just launched, and leaves in 4; so the one of tick 12.
    assert stalls(machine, 1)["serial"] == 2


@pytest.mark.parametrize(
    ("flow", "at", "waits"),
    [
        (WORMHOLE, [2, 3, 4, 5, 6, 7], 0),  # the credits of 2, 3 come back in time
        # Three of four are taken in 2, and back in 6, 7, 8: the second packet waits in 5 and 6, and has three in 7.
        (CUT_THROUGH, [2, 3, 4, 7, 8, 9], 2),
        # The tails come in 4 and 7. Taken in 4, back in 8, 9, 10: it waits in 7 and 8.
        (STORE_AND_FORWARD, [4, 5, 6, 9, 10, 11], 2),
    ],
)
def test_flow_control(flow: int, at: list[int], waits: int) -> None:
    """Two packets of three flits to a sink with four slots."""
    net = short(2, garnet(1), depth=4)
    machine = oracle(net, garnet(1), flow=flow)
    machine.send(0, 1, 1, 0, 2, 3, 3, 0)
    finish(machine)
    lane = machine_ejection(net, 1)
    assert cycles(machine, 0) == [0, 1, 2, 3, 4, 5]
    assert cycles(machine, lane) == at
    assert stalls(machine, lane) == {"vc": 0, "credit": waits, "serial": 0, "arbitration": 0}


@pytest.mark.parametrize(
    ("flow", "at"),
    [
        # Slots are emptied in 2, 3, ... and known to be so two cycles later.
        (WORMHOLE, [0, 1, 2, 3, 4, 5]),
        (CUT_THROUGH, [0, 1, 2, 5, 6, 7]),  # 1 + 1 + 1 credits in 5
        (STORE_AND_FORWARD, [0, 1, 2, 7, 8, 9]),  # emptied from 4 on
    ],
)
def test_a_lane_opens_where_there_is_room(flow: int, at: list[int]) -> None:
    net = hub(2).plain(style(garnet(1), 1), style(garnet(1), 1, kind="injection", depth=4))
    machine = oracle(net, garnet(1), flow=flow)
    machine.send(0, 1, 1, 0, 2, 3, 3, 0)
    assert cycles(finish(machine), 0) == at


def test_pool() -> None:
    """Two VCs with a slot each and one to share; without VA the lowest VC with a credit is taken."""
    net = short(2, garnet(1), vcs=2, depth=1, pool=1)
    machine = oracle(net, garnet(1))
    machine.send(0, 1, 1, 0, 6, 1, 1, 0)
    finish(machine)
    lane = machine_ejection(net, 1)
    # In 2 VC 0 takes its own slot, in 3 that of the pool; in 4 there is only VC 1's, in 5 none. The credits of 6 and 7
    # go back to the pool, as VC 0 holds one of it, and VC 0 takes it again; that of 8 is VC 1's own.
    assert column(machine, lane, "vc") == [0, 0, 1, 0, 0, 1]
    assert cycles(machine, lane) == [2, 3, 4, 6, 7, 8]
    assert stalls(machine, lane)["credit"] == 1


@pytest.mark.parametrize("allocator", [INPUT_FIRST, ISLIP, WAVEFRONT, AGE])
def test_priority_at_the_switch(allocator: int) -> None:
    net = short(3, garnet(1), vcs=2)
    machine = oracle(net, garnet(1), sa_allocator=allocator, class_vnet=(0, 0), class_priority=(0, 1))
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 3, 3, 0, node)
    finish(machine)
    assert column(machine, machine_ejection(net, 2), "message") == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("allocator", [ROTATING, INPUT_FIRST, ISLIP, AGE])
def test_priority_in_va(allocator: int) -> None:
    """As in `test_va`, but for one VC."""
    net = short(3, BOOKSIM)
    machine = oracle(net, BOOKSIM, va_allocator=allocator, class_vnet=(0, 0), class_priority=(0, 1))
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 3, 3, 0, node)
    machine.step_to(4)
    assert holds(machine) == [-1, 0]


def classes(priorities: tuple[int, int], vnets: int, vcs: int) -> RecordingEngine:
    """Two message classes at one lane: each in a virtual network of its own, if there are two."""
    net = hub(2)
    net.vnets = vnets
    net.plain(style(garnet(1), 1, vcs=vnets), style(garnet(1), 1, kind="injection", vcs=vcs))
    return oracle(net, garnet(1), vnets=vnets, class_vnet=(0, vnets - 1), class_priority=priorities)


def test_priority_at_a_lane() -> None:
    machine = classes((0, 1), 1, 2)
    machine.send(0, 1, 1, 0, 1, 4, 4, 0, 0)
    machine.send(0, 1, 1, 0, 1, 2, 2, 2, 1)
    finish(machine)
    # The better class opens in 2, and goes before the packet that is half out.
    assert column(machine, 0, "message") == [0, 0, 1, 1, 0, 0]
    assert column(machine, 0, "vc") == [0, 0, 1, 1, 0, 0]
    assert cycles(machine, 0) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("vnets", "vcs"), [(1, [0, 1, 2, 3, 0, 1]), (2, [0, 2, 1, 3, 0, 2])])
def test_classes_in_turn(vnets: int, vcs: list[int]) -> None:
    """Equal priorities open in turn; each virtual network hands out its own two VCs (of four) in turn."""
    machine = classes((0, 0), vnets, 4)
    for klass in (0, 1):
        machine.send(0, 1, 1, 0, 3, 1, 1, 0, klass)
    finish(machine)
    assert column(machine, 0, "message") == [0, 1, 0, 1, 0, 1]
    assert column(machine, 0, "vc") == vcs


def test_virtual_networks_do_not_wait_for_each_other() -> None:
    """One VC each, sinks with one slot: in 3 class 0 has no credit, and class 1 passes. With one network it waits."""
    at: dict[int, list[Any]] = {}
    for vnets in (1, 2):
        net = hub(3)
        net.vnets = vnets
        lane = style(garnet(1), 1, kind="injection", vcs=vnets)
        net.plain(style(garnet(1), 1), lane, style(garnet(1), 1, kind="ejection", vcs=vnets, depth=1))
        machine = oracle(net, garnet(1), vnets=vnets, class_vnet=(0, vnets - 1), class_priority=(0, 0))
        machine.send(0, 1, 1, 0, 1, 2, 2, 0, 0)
        machine.send(0, 2, 2, 0, 1, 1, 1, 1, 1)
        finish(machine)
        at[vnets] = [cycles(machine, machine_ejection(net, n)) for n in (1, 2)]
    # The flits of class 0 leave in 2 and 6 (loop of a sink: 4). Class 1 is launched in 2 and there in 4; behind class 0
    # in the same buffer it is in front from 7 on.
    assert at == {1: [[2, 6], [7]], 2: [[2, 6], [4]]}
