"""The oracle alone, against closed forms and hand-worked cases of docs/router.md."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from tests.in_turn import in_turn
from tests.reference.helpers import column, cycles, finish, machine_ejection, oracle, short, stalls
from tests.reference.networks import BOOKSIM, Net, Stages, crowd, garnet, hub, line, ring, star, style

DEEP = 1000  # slots that never run out
ODD = Stages(bw=2, rc=3, va=2, sa=2, st=2)
PRESETS = [BOOKSIM, garnet(1), garnet(4), ODD]


@pytest.mark.parametrize("stages", PRESETS, ids=str)
@pytest.mark.parametrize(("routers", "flits"), [(1, 1), (1, 7), (2, 3), (3, 1), (5, 9)])
def test_zero_load_latency(stages: Stages, routers: int, flits: int) -> None:
    inside, into, out = 7, 3, 5
    net = line(routers).plain(
        style(stages, inside), style(stages, into, kind="injection"), style(stages, out, kind="ejection")
    )
    machine = oracle(net, stages)
    machine.send(0, routers - 1, routers - 1, 0, 1, flits, flits, 11)
    finish(machine)
    # H*R + (H-1)*D + D_in + D_out + 1 + (n-1)
    latency = routers * stages.total + (routers - 1) * inside + into + out + 1 + (flits - 1)
    assert machine.message_times(0) == (11, 11, 11 + latency)


@pytest.mark.parametrize("depth", [1, 2, 5, 9, 40])
@in_turn("stages", PRESETS)
@in_turn("latency", [1, 6])
@in_turn("s", [1, 2])
def test_credit_loop_bounds_the_rate(stages: Stages, latency: int, s: int, depth: int) -> None:
    flits = 3 * depth + 20
    lane: dict[str, Any] = {"depth": DEEP}
    net = line(2).plain(
        style(stages, latency, depth=depth, s=s),
        style(stages, 1, kind="injection", **lane),
        style(stages, 1, kind="ejection", **lane),
    )
    machine = oracle(net, stages)
    machine.send(0, 1, 1, 0, 1, flits, flits, 0)
    finish(machine)
    # 1 + st + bw + sa + 2D with s = 1; a slower link adds the s - 1 cycles by which a flit arrives later.
    loop = 1 + stages.st + stages.bw + stages.sa + 2 * latency + (s - 1)
    at = cycles(machine, 0)
    # The head waits for RC and VA downstream, so the first slots come back later; then `depth` flits pass per loop.
    periods = {after - before for before, after in zip(at[depth:], at[2 * depth :], strict=False)}
    assert periods == {max(loop, depth * s)}


@pytest.mark.parametrize("output_queue", [False, True])
@pytest.mark.parametrize("s", [Fraction(w) for w in ("1", "3/2", "64/25", "8", "1001/1000")], ids=str)
def test_serialisation_rate_is_exact(s: Fraction, output_queue: bool) -> None:
    net = line(2).plain(
        style(BOOKSIM, 4, depth=DEEP, s=s, output_queue=output_queue),
        style(BOOKSIM, 1, kind="injection", depth=DEEP),
        style(BOOKSIM, 1, kind="ejection", depth=DEEP),
    )
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, 1, 100, 100, 0)
    finish(machine)
    at = cycles(machine, 0)
    # Flit n starts at n*s after the first one: in the cycle that holds this time.
    assert at == [at[0] + math.floor(n * s) for n in range(100)]
    # It is in the next router at ceil((n+1)*s) + D + st; the head goes on rc + va later, the others in their turn.
    arrivals = [at[0] + math.ceil((n + 1) * s) + 4 + 1 for n in range(100)]
    leaves = [arrivals[0] + 2]
    for arrival in arrivals[1:]:
        leaves.append(max(arrival, leaves[-1] + 1))
    assert cycles(machine, machine_ejection(net, 1)) == leaves


def garnet_pair(latency: int, vcs: int, depth: int = 5000) -> Net:
    """Two nodes of ASTRA-sim's sample network: flits of 2048 bits on links of 256 bits (s = 8) with serialisers."""
    r1 = garnet(1)
    lane: dict[str, Any] = {"vcs": vcs, "depth": depth}
    return ring(2, bidirectional=False, datelines=False).plain(
        style(r1, latency, s=8, serdes=4, output_queue=True, **lane),
        style(r1, 90, kind="injection", **lane),
        style(r1, 90, kind="ejection", **lane),
    )


# Measured with ASTRA-sim 1 over Garnet: one packet 514 (package link), 404 (local link); every further one 16*8 cycles.
# Of its 50 VCs five are enough for packets that follow each other; with eight, twelve packets use some of them twice.
MEASURED = [
    (200, 50, 1, 514),
    (90, 50, 1, 404),
    (200, 8, 12, 514 + 11 * 128),
    pytest.param(200, 50, 64, 514 + 63 * 128, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("latency", "vcs", "packets", "time"), MEASURED)
def test_garnet_sample_network(latency: int, vcs: int, packets: int, time: int, interleaved: bool) -> None:
    machine = oracle(garnet_pair(latency, vcs), garnet(1), drained=True, step_arbiter=True, interleaved=interleaved)
    machine.send(0, 1, 1, 0, packets, 16, 16, 0)
    assert finish(machine).message_times(0) == (0, 0, time)


@pytest.mark.parametrize("vcs", [1, 2, 3, 4])
def test_garnet_packets_in_flight_are_bounded_by_the_vcs(vcs: int) -> None:
    latency, flits, k = 200, 16, 8
    machine = oracle(garnet_pair(latency, vcs), garnet(1), drained=True, step_arbiter=True)
    machine.send(0, 1, 1, 0, 12, flits, flits, 0)
    finish(machine)
    heads = [t for t, flit in zip(cycles(machine, 0), column(machine, 0, "flit"), strict=True) if flit == 0]
    # Garnet: F*k + k + 2L + 8 with a FIFO (its heap gains d = 1..3 of it; 542 measured). A VC is free when the tail's
    # credit is back: (F-1)*k after the head, then k + L + serdes to arrive and 1 + L + serdes + k - 1 for the credit.
    period = flits * k + k + 2 * latency + 8
    assert {b - a for a, b in zip(heads[vcs:], heads[2 * vcs :], strict=False)} == {period}


@pytest.mark.parametrize("latency", [1, 20, 200])
def test_garnet_without_serialiser(latency: int) -> None:
    r1 = garnet(1)
    deep: dict[str, Any] = {"depth": DEEP}
    lanes = style(r1, 1, kind="injection", **deep), style(r1, 1, kind="ejection", **deep)

    # One VC with one slot: a flit every 2(L+1) cycles.
    one_slot = oracle(line(2).plain(style(r1, latency, depth=1), *lanes), r1, drained=True)
    one_slot.send(0, 1, 1, 0, 1, 8, 8, 0)
    at = cycles(finish(one_slot), 0)
    assert {b - a for a, b in pairwise(at)} == {2 * (latency + 1)}

    # One VC with room for all: it is drained 2(L+1) after the tail, which follows the head by F - 1.
    drained = oracle(line(2).plain(style(r1, latency, **deep), *lanes), r1, drained=True)
    drained.send(0, 1, 1, 0, 5, 16, 16, 0)
    at = cycles(finish(drained), 0)
    assert {b - a for a, b in zip(at, at[16:], strict=False)} == {15 + 2 * (latency + 1)}

    # With reuse after the tail the next packet follows at once.
    tail = oracle(line(2).plain(style(r1, latency, **deep), *lanes), r1)
    tail.send(0, 1, 1, 0, 5, 16, 16, 0)
    at = cycles(finish(tail), 0)
    assert at == list(range(at[0], at[0] + 80))


@pytest.mark.parametrize(
    ("step", "order"),
    [
        (False, [0, 1, 0, 1, 0, 1, 0, 1]),  # each grant moves the pointer past the winner
        (True, [0, 0, 1, 0, 0, 0, 1, 0]),  # pointers 0 1 2 3 0 1 2 3 over the bids of ports 1 and 2
    ],
)
def test_output_arbiter(step: bool, order: list[int]) -> None:
    net = short(4, garnet(1), vcs=2)
    machine = oracle(net, garnet(1), step_arbiter=step)
    for node in (1, 2):
        machine.send(node, 3, 3, 0, 1, 20, 20, 0)
    finish(machine)
    assert column(machine, machine_ejection(net, 3), "message")[:8] == order


@pytest.mark.parametrize(
    ("step", "order"),
    [
        # The link brings 0 1 0 1 ... from cycle 7 on; the heads wait for RC until 10 and 11. Always past the winner.
        (False, [0, 1, 0, 1, 0, 1, 0, 1]),
        # The first router's pointer goes 0 1 2 0 ... over its ports, of which 1 and 2 bid: the link brings 0 0 1 0 0 1;
        # the heads wait until 10 and 12. The input port's pointer goes 0 1 2 0 ... over the VCs from cycle 10 on.
        (True, [0, 0, 0, 0, 1, 0, 0, 1]),
    ],
)
def test_input_arbiter(step: bool, order: list[int]) -> None:
    """Two packets come over VCs 0 and 1 (of 3) of one link and go to different sinks: only the input port decides."""
    stages = Stages(rc=3, va=0, st=0)
    net = crowd(line(2), 2).plain(
        style(stages, 1, vcs=3), style(stages, 1, kind="injection"), style(stages, 1, kind="ejection")
    )
    machine = oracle(net, stages, step_arbiter=step)
    for node in (0, 1):
        machine.send(node, 2 + node, 2 + node, 0, 1, 20, 20, 0)
    finish(machine)
    ejected = [launch for launch in machine.launches if launch[1] >= machine_ejection(net, 0)]
    assert [launch[3] for launch in ejected][:8] == order


@pytest.mark.parametrize(
    ("ordered", "order", "lost"),
    [
        # The link brings A B A B A B in 7 to 12, the heads wait for RC until 10 and 11. In 11 A loses, in 12 B, ...
        (False, [0, 1, 0, 1, 0, 1], 4),
        # A flit of A is there in 10, 11 and 12: the head of B, due in 11, waits twice.
        (True, [0, 0, 0, 1, 1, 1], 2),
    ],
)
def test_ordered_packets_do_not_overtake(ordered: bool, order: list[int], lost: int) -> None:
    stages = Stages(rc=3, va=0, st=0)
    net = crowd(line(2), 2).plain(
        style(stages, 1, vcs=2), style(stages, 1, kind="injection"), style(stages, 1, kind="ejection", vcs=2)
    )
    machine = oracle(net, stages, ordered=ordered)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 3, 3, 0)
    finish(machine)
    lane = machine_ejection(net, 2)
    assert cycles(machine, 0) == list(range(5, 11))
    assert column(machine, lane, "message") == order
    assert cycles(machine, lane) == list(range(10, 16))
    assert stalls(machine, lane) == {"vc": 0, "credit": 0, "serial": 0, "arbitration": lost}


@pytest.mark.parametrize(
    ("drained", "launches", "waits"),
    [
        # Heads arrive at 2, try in 3; the first wins the switch in 4, its tail in 5; the second gets the VC in 6.
        (False, [4, 5, 7, 8], 2),
        # The tail is consumed at 5 + 1 + D + st = 8, its credit is back at 8 + 1 + D = 10.
        (True, [4, 5, 11, 12], 6),
    ],
)
def test_free_output_vc(drained: bool, launches: list[int], waits: int) -> None:
    net = short(3, BOOKSIM)
    machine = oracle(net, BOOKSIM, drained=drained)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 1, 2, 2, 0)
    finish(machine)
    lane = machine_ejection(net, 2)
    assert cycles(machine, lane) == launches
    # The loser of VA in cycle 3 lost an arbitration; after it there was no free VC.
    assert stalls(machine, lane) == {"vc": waits, "credit": 0, "serial": 0, "arbitration": 1}


def test_stall_for_credit() -> None:
    net = short(2, BOOKSIM, depth=1)
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, 1, 3, 3, 0)
    finish(machine)
    lane = machine_ejection(net, 1)
    # A sink has no bw and sa: loop 1 + st + D + 1 + D = 5. The next flit is at the front from the cycle after.
    assert cycles(machine, lane) == [4, 9, 14]
    assert stalls(machine, lane) == {"vc": 0, "credit": 8, "serial": 0, "arbitration": 0}


@pytest.mark.parametrize(
    ("output_queue", "serial", "depth"),
    [
        (False, 2, 3),  # a front flit sees the link taken in 5 and 7; all three flits were in the buffer at 4
        (True, 3, 3),  # grants in 4, 5, 6; the queue is not empty at the end of 5, 6 and 7
    ],
)
def test_stall_for_the_link(output_queue: bool, serial: int, depth: int) -> None:
    net = short(2, BOOKSIM, s=2, output_queue=output_queue)
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, 1, 3, 3, 0)
    finish(machine)
    lane = machine_ejection(net, 1)
    assert cycles(machine, lane) == [4, 6, 8]
    assert stalls(machine, lane) == {"vc": 0, "credit": 0, "serial": serial, "arbitration": 0}
    assert machine.buffer_max().tolist() == [depth, 0, 0, 1]  # a sink empties a slot as it is filled


def test_vc_choice_of_va_rotates() -> None:
    net = short(2, BOOKSIM, vcs=3)
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, 5, 1, 1, 0)
    finish(machine)
    assert column(machine, machine_ejection(net, 1), "vc") == [0, 1, 2, 0, 1]


def test_va_hands_the_vcs_of_a_range_out_in_turn() -> None:
    net = short(3, BOOKSIM, vcs=3)
    machine = oracle(net, BOOKSIM)
    for node in (0, 1):
        machine.send(node, 2, 2, 0, 3, 1, 1, 0)
    finish(machine)
    lane = machine_ejection(net, 2)
    # Both heads are there at 2 and ask in 3, one is served; it wins the switch in 4 and the other one in 5. The next
    # head of a lane is at the front one cycle after that, asks after RC in the next and wins the switch in the third.
    assert cycles(machine, lane) == [4, 5, 7, 8, 10, 11]
    assert column(machine, lane, "message") == [0, 1, 0, 1, 0, 1]
    # Though VC 0 is free again in 5, the third packet takes VC 2.
    assert column(machine, lane, "vc") == [0, 1, 2, 0, 1, 2]
    assert stalls(machine, lane) == {"vc": 0, "credit": 0, "serial": 0, "arbitration": 1}


def test_without_va_the_lowest_vc_with_a_credit_is_taken() -> None:
    net = short(2, garnet(1), vcs=3, depth=1)
    machine = oracle(net, garnet(1))
    machine.send(0, 1, 1, 0, 8, 1, 1, 0)
    finish(machine)
    lane = machine_ejection(net, 1)
    # Loop of a sink without st: 2 + 2D = 4. Arrival at 2; three VCs in three cycles, then each as its credit returns.
    assert column(machine, lane, "vc") == [0, 1, 2, 0, 1, 2, 0, 1]
    assert cycles(machine, lane) == [2, 3, 4, 6, 7, 8, 10, 11]
    assert stalls(machine, lane)["credit"] == 2


@pytest.mark.parametrize(
    ("interleaved", "ordered", "order", "at"),
    [
        # The slot of a head launched at 4 is free in 8 (arrival 6, RC, VA) and the lane knows in 10.
        (False, False, [(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 1, 0), (1, 1, 1), (1, 1, 2)], [4, 5, 10, 11, 12, 17]),
        # The second packet is open from 5 on, and has its turn when the first is out of credit.
        (True, False, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1), (0, 0, 2), (1, 1, 2)], [4, 5, 6, 7, 10, 12]),
        # It is open and has credits, but may not overtake.
        (True, True, [(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 1, 0), (1, 1, 1), (1, 1, 2)], [4, 5, 10, 11, 12, 17]),
    ],
)
def test_injection_lane(interleaved: bool, ordered: bool, order: list[tuple[int, int, int]], at: list[int]) -> None:
    net = hub(2).plain(
        style(BOOKSIM, 1),
        style(BOOKSIM, 1, kind="injection", vcs=2, depth=2),
        style(BOOKSIM, 1, kind="ejection", vcs=2),
    )
    machine = oracle(net, BOOKSIM, interleaved=interleaved, ordered=ordered)
    machine.send(0, 1, 1, 0, 2, 3, 3, 4)
    finish(machine)
    assert [(vc, packet, flit) for _, link, vc, _, packet, flit in machine.launches if link == 0] == order
    assert cycles(machine, 0) == at


def test_messages_of_a_lane_keep_their_order() -> None:
    net = short(2, BOOKSIM)
    machine = oracle(net, BOOKSIM)
    machine.send(0, 1, 1, 0, 1, 1, 1, 9)
    machine.send(0, 1, 1, 0, 2, 3, 2, 5)
    machine.send(0, 0, 0, 0, 1, 1, 1, 5)  # to itself, through its router
    finish(machine)
    # Start 5: message 1 (3 + 2 flits), then message 2; message 0 comes at 9 and waits its turn.
    assert column(machine, 0, "message") == [1, 1, 1, 1, 1, 2, 0]
    assert [machine.message_times(m)[1] for m in range(3)] == [11, 5, 10]


def test_a_packet_keeps_its_class_in_a_ring() -> None:
    for source, target, vc in ((2, 1, 1), (0, 2, 0)):
        machine = oracle(ring(4, bidirectional=False).plain(style(BOOKSIM, 1, vcs=2)), BOOKSIM)
        machine.send(source, target, target, 0, 1, 2, 2, 0)
        finish(machine)
        # From 2 to 1 the class is 1 all the way, though beyond the dateline the table says 0.
        used = {launch[2] for launch in machine.launches if launch[1] < 4}
        assert used == {vc}


@pytest.mark.parametrize("datelines", [True, False])
def test_ring_deadlock(datelines: bool) -> None:
    net = ring(4, bidirectional=False, datelines=datelines).plain(style(BOOKSIM, 1, depth=1))
    machine = oracle(net, BOOKSIM)
    for node in range(4):
        machine.send(node, (node + 2) % 4, (node + 2) % 4, 0, 1, 6, 6, 0)
    machine.step_to(500)
    # Each packet holds the only VC of its first link and waits for that of the next packet.
    assert machine.finished == datelines
    assert machine.deadlocked != datelines


def test_switches_route_by_destination() -> None:
    net = star(4).plain(style(BOOKSIM, 2))
    machine = oracle(net, BOOKSIM)
    machine.send(1, 3, 3, 0, 1, 1, 1, 0)
    finish(machine)
    # Up link of 1 is 2, down link of 3 is 7; lanes follow the 8 network links.
    assert [launch[1] for launch in machine.launches] == [8 + 1, 2, 7, 8 + 4 + 3]


def test_the_past_cannot_be_changed() -> None:
    machine = oracle(short(2, BOOKSIM), BOOKSIM)
    machine.step_to(5)
    with pytest.raises(ValueError, match="cycle 4 is in the past"):
        machine.send(0, 1, 1, 0, 1, 1, 1, 4)


def test_a_lost_credit_is_noticed() -> None:
    machine = oracle(short(2, BOOKSIM), BOOKSIM)
    machine.step()
    machine.links[0].outputs[0].credits -= 1
    with pytest.raises(AssertionError, match="link 0 vc 0: 63 slots of 64"):
        machine.step()
