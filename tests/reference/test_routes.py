"""Where packets go in the oracle, by hand: sets, planes that are `any`, escapes, ways, vias, groups."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pyxsim.core.engine_options import EACH, LEAST, RANDOM, TWO, VIA_ANY, VIA_BOX
from pyxsim.reference.draws import SELECT, VIA, WAY, draw, key
from tests.in_turn import in_turn
from tests.reference.helpers import cycles, finish, oracle, path
from tests.reference.networks import BOOKSIM, Net, Plane, Style, Turn, Way, Wire, full, garnet, grid, line, ring, style
from tests.reference.recording import RecordingEngine

SEED = 2025
FAR_APART = 100  # cycles between packets that shall not meet


def pair(select: int) -> Net:
    """Node 0 and node 1, three links from router 0 to router 1, of which the table knows two, and one back."""
    wires = [Wire(0, 1), Wire(0, 1), Wire(1, 0)]
    tables = [[[(0, [Turn(0), (Turn(0), Turn(1))])], [(1, [Turn(2), Turn(0)])]]]
    net = Net("pair", 2, [0, 1], [(0,), (1,)], wires, tables)  # type: ignore[arg-type]
    net.manners[0] = Plane(select=select)
    return net


def routers(machine: RecordingEngine, net: Net, message: int) -> list[int]:
    """The routers that a one-packet message passed."""
    links = [net.wires[link] for link in path(machine, message) if link < len(net.wires)]
    return [wire.src for wire in links] + [wire.dst for wire in links[-1:]]


def singles(net: Net, src: int, dst: int, count: int, *, plane: int, like: Style | None = None) -> RecordingEngine:
    """Messages of one flit from one node to another, far apart. (Lanes are numbered as nodes.)"""
    net.plain(like or style(garnet(1), 1, vcs=2))
    machine = oracle(net, garnet(1), seed=SEED)
    for k in range(count):
        machine.send(src, dst, dst, plane, 1, 1, 1, k * FAR_APART)
    return finish(machine)


def test_random_selection() -> None:
    machine = singles(pair(RANDOM), 0, 1, 20, plane=0)
    expected = [draw(key(SEED, k, 0), 0, SELECT) % 2 for k in range(20)]
    assert [path(machine, k)[1] for k in range(20)] == expected
    assert set(expected) == {0, 1}


@pytest.mark.parametrize("select", [LEAST, TWO])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_used(select: int, seed: int) -> None:
    """Credits take long to come back, so what was launched is in use: of two links the draw decides only when equal."""
    net = pair(select)
    net.plain(style(garnet(1), 50, vcs=4), style(garnet(1), 1, kind="injection"))
    machine = oracle(net, garnet(1), seed=seed)
    for flits in (4, 3, 1, 2):
        machine.send(0, 1, 1, 0, 1, flits, flits, 0)
    finish(machine)
    first, fourth = (draw(key(seed, k, 0), 0, SELECT) % 2 for k in (0, 3))
    # 0 and 0: as drawn. 4 and 0: the other. 4 and 3: the other. 4 and 4: as drawn.
    assert [path(machine, k)[1] for k in range(4)] == [first, 1 - first, 1 - first, fourth]


def test_least_of_three_looks_round_from_the_draw() -> None:
    net = pair(LEAST)
    net.tables[0][0] = [(0, [Turn(0), (Turn(0), Turn(1), Turn(0))])]
    net.plain(style(garnet(1), 50, vcs=4), style(garnet(1), 1, kind="injection"))
    machine = oracle(net, garnet(1), seed=SEED)
    machine.send(0, 1, 1, 0, 1, 4, 4, 0)
    machine.send(0, 1, 1, 0, 1, 1, 1, 0)
    finish(machine)
    first = (0, 1, 0)[draw(key(SEED, 0, 0), 0, SELECT) % 3]
    assert [path(machine, k)[1] for k in range(2)] == [first, 1 - first]


def test_any() -> None:
    """In a square from (0, 0) to (1, 1): the draw of router 0 says which digit goes first, and then one is left."""
    net = grid([2, 2], wrap=[False, False])
    net.manners[0] = Plane(any=True)
    machine = singles(net, 0, 3, 20, plane=0)
    between = [routers(machine, net, k) for k in range(20)]
    assert between == [[0, (1, 2)[draw(key(SEED, k, 0), 0, SELECT) % 2], 3] for k in range(20)]


def two_lanes(sticky: bool) -> Net:
    """Routers 0, 1, 2 in a row with two links each: 0 and 2 for plane 0, 1 and 3 to escape. Two nodes at router 0."""
    wires = [Wire(0, 1), Wire(0, 1), Wire(1, 2), Wire(1, 2)]
    tables = [
        [[(0, [None, Turn(k), Turn(k)])], [(1, [None, None, Turn(2 + k)])], [(2, [None, None, None])]] for k in (0, 1)
    ]
    net = Net("two lanes", 3, [0, 0, 1, 2], [(0,), (0,), (1,), (2,)], wires, tables)  # type: ignore[arg-type]
    net.manners[0] = Plane(select=EACH, escape=1, sticky=sticky)
    return net


@pytest.mark.parametrize(("sticky", "onward"), [(False, 2), (True, 3)])
def test_escape(sticky: bool, onward: int) -> None:
    net = two_lanes(sticky).plain(style(BOOKSIM, 1), style(BOOKSIM, 1, kind="injection"))
    machine = oracle(net, BOOKSIM)
    machine.send(0, 2, 2, 0, 1, 20, 20, 0)  # holds link 0's only VC from 3 on
    machine.send(1, 3, 3, 0, 1, 1, 1, 5)
    finish(machine)
    assert path(machine, 0) == [4, 0, 8 + 2]
    # There at 7: link 0 has no free VC, so it escapes at once, and stays on the escape plane only if that is sticky.
    assert path(machine, 1) == [5, 1, onward, 8 + 3]
    # Without contention nobody escapes.
    assert cycles(machine, 1) == [7 + 2]
    free = oracle(net, BOOKSIM)
    free.send(1, 3, 3, 0, 1, 1, 1, 5)
    assert path(finish(free), 0) == [5, 0, 2, 8 + 3]


def test_who_finds_nothing_waits_for_all() -> None:
    """A head with `each` that finds no free VC stalls for all its candidates."""
    net = two_lanes(False)
    net.homes.append(0)
    net.digits.append((0,))
    net.plain(style(BOOKSIM, 1), style(BOOKSIM, 1, kind="injection"))
    machine = oracle(net, BOOKSIM)
    machine.send(0, 2, 2, 0, 1, 8, 8, 0)
    machine.send(4, 2, 2, 1, 1, 8, 8, 0)  # on the escape plane by itself
    machine.send(1, 2, 2, 0, 1, 1, 1, 0)
    finish(machine)
    # All are there at 2 and ask in 3: 0 and 2 for link 0 (2 loses), 1 for link 1. The tails leave in 4 + 7 = 11, so in
    # 12 both links have a VC again: 2 has waited for both from 4 to 11, which is 8 cycles.
    assert [machine.counters()["stall_vc"][link] for link in (0, 1)] == [8, 8]
    assert machine.counters()["stall_arbitration"][0] == 1


def walk(net: Net, plane: int, src: int, dst: int) -> list[int]:
    """The routers after `src` on the way to a node's router, by the first digit that differs."""
    passed = []
    while src != net.homes[dst]:
        row = zip(net.tables[plane][src], net.digits[dst], strict=True)
        turn = next(entries[digit] for (own, entries), digit in row if own != digit)
        assert isinstance(turn, Turn)
        src = net.wires[turn.link].dst
        passed.append(src)
    return passed


def test_via_any() -> None:
    net = line(4)
    net.ways = [Way(last=0, first=0, via=VIA_ANY)]
    machine = singles(net, 1, 3, 20, plane=-1)
    vias = [draw(key(SEED, k, 0), 0, VIA) % 4 for k in range(20)]
    assert set(vias) == {0, 1, 2, 3}
    # Router 1 to the via, and from there to 3: a via of 1 is none.
    ways = {0: [1, 0, 1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]}
    assert [routers(machine, net, k) for k in range(20)] == [ways[via] for via in vias]
    # Also to oneself.
    net = line(4)
    net.ways = [Way(last=0, first=0, via=VIA_ANY)]
    machine = singles(net, 0, 0, 20, plane=-1)
    assert [machine.messages[k].hops for k in range(20)] == [
        1 + 2 * (draw(key(SEED, k, 0), 0, VIA) % 4) for k in range(20)
    ]


def test_via_in_the_box() -> None:
    """From (0, 2) to (3, 0) in a mesh of 4 x 3: the via is at (0 .. 3, 2 .. 0), so no path is longer than 3 + 2."""
    net = grid([4, 3], wrap=[False, False])
    net.stride = [1, 4]
    net.ways = [Way(last=0, first=0, via=VIA_BOX)]
    machine = singles(net, 8, 3, 30, plane=-1)
    for k in range(30):
        packet = key(SEED, k, 0)
        via = draw(packet, 0, VIA) % 4 + 4 * (2 - draw(packet, 1, VIA) % 3)
        assert routers(machine, net, k) == [8, *walk(net, 0, 8, via), *walk(net, 0, via, 3)]
        assert machine.messages[k].hops == 6


@pytest.mark.parametrize(
    ("src", "dst", "box"),
    [
        (5, 1, [5, 0, 1]),  # up by 2, not down by 4
        (1, 5, [1, 0, 5]),  # down by 2
        (1, 4, [1, 2, 3, 4]),  # 3 both ways: up
    ],
)
def test_boxes_go_round(src: int, dst: int, box: list[int]) -> None:
    """Ring of 6. The last plane always goes up, the first one as the digits say, so the path shows the via."""
    net = ring(6)
    up = [[(r, [Turn(2 * r) for _ in range(6)])] for r in range(6)]
    assert [(net.wires[2 * r].src, net.wires[2 * r].dst) for r in range(6)] == list(pairwise([0, 1, 2, 3, 4, 5, 0]))
    net.tables.append(up)  # type: ignore[arg-type]
    net.wrap, net.stride = [6], [1]
    net.ways = [Way(last=2, first=0, via=VIA_BOX)]
    machine = singles(net, src, dst, 20, plane=-1)
    for k in range(20):
        via = box[draw(key(SEED, k, 0), 0, VIA) % len(box)]
        first = [] if via == src else walk(net, 0, src, via)
        assert routers(machine, net, k) == [src, *first, *walk(net, 2, via, dst)]


def test_ways_at_random() -> None:
    """Plane 0 of a ring breaks ties upward, plane 1 downward."""
    net = ring(4)
    net.ways = [Way(last=0), Way(last=1)]
    machine = singles(net, 0, 2, 20, plane=-1)
    assert [routers(machine, net, k)[1] for k in range(20)] == [
        (1, 3)[draw(key(SEED, k, 0), 0, WAY) % 2] for k in range(20)
    ]


@in_turn(("bias", "around"), [(0, True), (3, True), (5, True), (6, False), (9, False)])
@in_turn("seed", range(6))
def test_the_cheapest_way(bias: int, around: bool, seed: int) -> None:
    """Three nodes, all joined. Six flits are in use on the direct link: 6 * 1 against 0 * 2 + bias by the third node.

    A via that is the source is none, one that is the destination leads over the same link: 6 * 1 + bias.
    """
    net = full(3)
    net.ways = [Way(last=0), Way(last=0, first=0, via=VIA_ANY, bias=bias)]
    net.choose_least = 1
    net.plain(style(garnet(1), 50, vcs=2), style(garnet(1), 1, kind="injection"))
    machine = oracle(net, garnet(1), seed=seed)
    machine.send(0, 1, 1, 0, 1, 6, 6, 0)
    machine.send(0, 1, 1, -1, 1, 1, 1, 10)
    finish(machine)
    third = draw(key(seed, 1, 0), 0, VIA) % 3 == 2
    assert routers(machine, net, 1) == ([0, 2, 1] if third and around else [0, 1])


def test_a_packet_that_turns_may_change_its_class() -> None:
    """Ring of 5, one direction, from 2 to 1 by 4: class 0 to the via; from there it has to pass the dateline.

    Class 1 from 4 to 0, and kept from 0 to 1, where the table says 0.
    """
    seed = next(s for s in range(100) if draw(key(s, 0, 0), 0, VIA) % 5 == 4)
    net = ring(5, bidirectional=False).plain(style(garnet(1), 1, vcs=2))
    net.ways = [Way(last=0, first=0, via=VIA_ANY)]
    machine = oracle(net, garnet(1), seed=seed)
    machine.send(2, 1, 1, -1, 1, 1, 1, 0)
    finish(machine)
    assert [(link, vc) for _, link, vc, *_ in machine.launches if link < 5] == [(2, 0), (3, 0), (4, 1), (0, 1)]
