"""Packets that can never move again: the fixpoint against brute force, and what is told of running networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.core.engine_options import EQUAL_SHARE, POWER_SHARE
from pyxsim.errors import DeadlockError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.watchdog import SlotState, WaitGraph
from pyxsim.routing import minimal_adaptive
from pyxsim.routing.relation import Relation
from tests.examples import part_of
from tests.network.machines import cycles, drain, machine_of, packet_network

Entry = dict[str, Any]


# -- the fixpoint ------------------------------------------------------------------------------------------------------


def entry(
    link: int,
    vc: int = 0,
    *,
    wants: int,
    holds: int = -1,
    asks: Sequence[tuple[int, int, int]] = (),
    own: int = 0,
) -> Entry:
    return {"link": link, "vc": vc, "wants": wants, "holds": holds, "asks": list(asks), "own": own, "front": 0}


def full(links: int, vcs: int = 1) -> SlotState:
    """All buffers, of one flit, are full."""
    every = links * vcs
    return SlotState(range(0, every, vcs), [vcs] * links, [1] * links, [0] * every, [1] * every, [0] * links)


def never(stuck: Sequence[Entry], room: SlotState, **options: Any) -> set[int]:
    reasons = WaitGraph(stuck, [1] * len(stuck), room, **options).never_move()
    assert all(others and set(others) <= set(reasons) for others in reasons.values())
    return set(reasons)


def test_three_that_wait_for_each_other() -> None:
    stuck = [entry(0, wants=1, holds=0), entry(1, wants=2, holds=0), entry(2, wants=0, holds=0)]
    assert never(stuck, full(3)) == {0, 1, 2}


def test_a_credit_on_its_way_is_waited_for() -> None:
    stuck = [entry(0, wants=1, holds=0), entry(1, wants=0, holds=0)]
    room = full(2)
    coming = replace(room, occupancy=[1, 0])  # slot out, and no flit in the buffer: flit or credit on its way
    assert never(stuck, room) == {0, 1}
    assert never(stuck, coming) == set()


def test_one_free_vc_is_enough() -> None:
    """Of two VCs that a head asks for, one is held by a packet that moves."""
    circle = [entry(0, wants=1, asks=[(1, 0, 2)]), entry(1, 0, wants=0, holds=0), entry(1, 1, wants=2, holds=0)]
    assert never(circle, full(3, 2)) == set()
    circle[2] = entry(1, 1, wants=0, holds=1)
    assert never(circle, full(3, 2)) == set()  # what it holds leads to VC 1 of link 0, which has no front packet
    circle[2] = entry(1, 1, wants=0, holds=0)
    assert never(circle, full(3, 2)) == {0, 1, 2}


def test_a_vc_that_must_drain_first_is_kept_by_who_sits_in_it() -> None:
    stuck = [entry(0, wants=1, asks=[(1, 0, 1)]), entry(1, wants=0, holds=0)]
    room = SlotState([0, 1], [1, 1], [1, 2], [0, 1], [1, 1], [0, 0])  # link 1: two slots, one of them free
    assert never(stuck, room) == set()
    assert never(stuck, room, drained=True) == {0, 1}


def test_slots_of_a_pool_come_back_from_other_vcs() -> None:
    """VC 0 of link 1 is full; VC 1 has a slot of the pool, and its packet moves, or it does not."""
    circle = [entry(0, wants=1, holds=0), entry(1, 0, wants=0, holds=0), entry(1, 1, wants=2, holds=0)]
    room = SlotState([0, 1, 3], [1, 2, 1], [1, 1, 1], [0, 0, -1, 0], [1, 1, 2, 0], [0, 0, 0])
    assert never(circle, room) == set()
    circle[2] = entry(1, 1, wants=0, holds=0)
    assert never(circle, room) == {0, 1, 2}


def test_slots_of_a_pool_are_no_room_for_heads_that_may_choose() -> None:
    """Two packets of two flits ask for the VC that the other one is in: one slot is left there, and two of the pool."""
    stuck = [entry(0, wants=1, asks=[(1, 0, 1)], own=own) for own in (2, 0)]
    stuck[1] |= {"link": 1, "wants": 0, "asks": [(0, 0, 1)]}
    room = SlotState([0, 1], [1, 1], [3, 3], [1, 1], [2, 2], [2, 2])
    assert set(WaitGraph(stuck, [2, 2], room).never_move()) == set()
    stuck[1]["own"] = 2
    assert set(WaitGraph(stuck, [2, 2], room).never_move()) == {0, 1}
    assert set(WaitGraph(stuck, [2, 2], replace(room, credit=[2, 1], occupancy=[1, 2])).never_move()) == set()


@pytest.mark.parametrize(
    ("limit", "first", "second"),
    [(0, False, False), (2, False, False), (1, True, True), (EQUAL_SHARE, False, True), (POWER_SHARE, False, True)],
)
def test_a_limit_of_shared_slots_counts(limit: int, first: bool, second: bool) -> None:
    """Two links of four VCs with a slot each, and a pool of one slot, which is free: five slots.

    The share of one VC is all five, that of four VCs is 5 // 4 = 1 ("power-of-two": also 5 // 4). A VC that uses its
    own slot takes the one of the pool unless its limit is 1.
    """
    room = SlotState([0, 4], [4, 4], [1, 1], [0, *[1] * 3] * 2, [1, 0, 0, 0] * 2, [1, 1], [5, 5], limit)
    circle = [entry(0, 0, wants=1, holds=0), entry(1, 0, wants=0, holds=0)]
    assert never(circle, room) == ({0, 1} if first else set())
    # Each of the four VCs of both links is held by a packet that waits at the end of the other link.
    fronts = [entry(link, vc, wants=1 - link, holds=vc) for link in (0, 1) for vc in range(4)]
    full_vcs = replace(room, credit=[0] * 8, occupancy=[1] * 8)
    assert never(fronts, full_vcs) == (set(range(8)) if second else set())


def test_older_packets_of_a_port_go_first_if_ordered() -> None:
    stuck = [
        entry(0, 0, wants=1, holds=0),
        entry(1, 0, wants=0, holds=0),
        entry(0, 1, wants=1, holds=1) | {"front": 5},
    ]
    room = replace(full(2, 2), credit=[0, 0, 0, 1], occupancy=[1, 1, 1, 0])
    assert never(stuck, room) == {0, 1}
    assert never(stuck, room, ordered=True) == {0, 1, 2}


LINKS, VCS = 3, 2


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Entry], list[int], SlotState]:
    """Any front packets at the ends of three links of two VCs, however they may have come about."""
    small = st.integers(0, 2)
    depth = [draw(st.integers(1, 2)) for _ in range(LINKS)]
    pool_left = [draw(st.integers(0, 1)) for _ in range(LINKS)]
    credit = [draw(st.integers(-1, depth[vc // VCS])) for vc in range(LINKS * VCS)]
    occupancy = [
        max(0, depth[vc // VCS] - credit[vc] - draw(st.sampled_from([0, 0, 0, 1]))) for vc in range(LINKS * VCS)
    ]
    stuck: list[Entry] = []
    held: set[tuple[int, int]] = set()
    for link in range(LINKS):
        for vc in range(VCS):
            wants, holds = draw(small), draw(st.integers(0, VCS - 1))
            if not draw(st.booleans()):
                continue
            if draw(st.booleans()) and (wants, holds) not in held:
                held.add((wants, holds))
                stuck.append(entry(link, vc, wants=wants, holds=holds))
            else:
                ranges = st.sampled_from([(0, 1), (1, 2), (0, 2)])
                asks = [(draw(small), *draw(ranges)) for _ in range(draw(st.integers(0, 2)))]
                stuck.append(entry(link, vc, wants=wants, asks=asks, own=draw(st.integers(0, 2))))
            stuck[-1]["front"] = draw(small)
    needs = [draw(st.integers(0, 2)) for _ in stuck]
    return stuck, needs, SlotState(range(0, LINKS * VCS, VCS), [VCS] * LINKS, depth, credit, occupancy, pool_left)


def stands_still(
    stuck: Sequence[Entry], needs: Sequence[int], room: SlotState, still: Iterable[int], drained: bool, ordered: bool
) -> bool:
    """Whether none of a set of packets can be the first to move: the definition, in other words."""
    still = set(still)
    front = {(each["link"], each["vc"]): i for i, each in enumerate(stuck)}

    def dead_end(link: int, vc: int, need: int, own: bool = False) -> bool:
        """No more credits will ever come, and there are too few."""
        borrowers = [other for other in range(VCS) if other != vc and room.credit[link * VCS + other] < 0]
        givers = [vc] if own else [vc, *borrowers]
        for other in givers:
            number = link * VCS + other
            if front.get((link, other), -1) not in still:
                return False
            if room.depth[link] - room.credit[number] != room.occupancy[number]:
                return False
        left = max(0, room.credit[link * VCS + vc])
        return left < min(need, room.depth[link]) if own else left + room.pool_left[link] < need

    def taken(link: int, vc: int) -> bool:
        holders = [i for i, each in enumerate(stuck) if (each["wants"], each["holds"]) == (link, vc)]
        return any(i in still for i in holders) or (drained and front.get((link, vc), -1) in still)

    def blocked(i: int) -> bool:
        each = stuck[i]
        if ordered and any(
            j in still and (other["front"], other["vc"]) < (each["front"], each["vc"])
            for j, other in enumerate(stuck)
            if (other["link"], other["wants"]) == (each["link"], each["wants"])
        ):
            return True
        if each["holds"] >= 0:
            return dead_end(each["wants"], each["holds"], needs[i])
        vcs = [(link, vc) for link, low, high in each["asks"] for vc in range(low, high)]
        return bool(vcs) and all(
            dead_end(link, vc, each["own"] or needs[i], each["own"] > 0) or taken(link, vc) for link, vc in vcs
        )

    return all(blocked(i) for i in still)


@given(situations(), st.booleans(), st.booleans())
@settings(max_examples=part_of(400))
def test_it_is_the_largest_set_that_stands_still(
    situation: tuple[list[Entry], list[int], SlotState], drained: bool, ordered: bool
) -> None:
    stuck, needs, room = situation
    found = WaitGraph(stuck, needs, room, drained=drained, ordered=ordered).never_move()
    everybody = range(len(stuck))
    largest: set[int] = set()
    for some in chain.from_iterable(combinations(everybody, size) for size in everybody[1:]):
        if stands_still(stuck, needs, room, some, drained, ordered):
            largest |= set(some)
    if stands_still(stuck, needs, room, everybody, drained, ordered):
        largest = set(everybody)
    assert set(found) == largest
    assert all(others and set(others) <= largest for others in found.values())


# -- running networks --------------------------------------------------------------------------------------------------


def without_datelines(relation: Relation) -> Relation:
    return replace(
        relation,
        vc_class=np.zeros_like(relation.vc_class),
        link_classes=np.ones_like(relation.link_classes),
        link_group=np.full_like(relation.link_group, -1),
        fixed_vcs=(),
    )


def unsafe(shape: Sequence[int], *, adaptive: bool = False, world: Any = None, **network: Any) -> PacketNetwork:
    """A torus whose routes can deadlock."""
    topology, words = machine_of("torus", shape, **network)
    relation = without_datelines(topology.relation)
    if adaptive:
        relation = minimal_adaptive(topology.relation)
    return PacketNetwork(replace(topology, relation=relation), words, world=world)


def send_all(network: PacketNetwork, messages: Sequence[tuple[int, int, int, int]], plane: int = 0) -> None:
    for src, dst, size, at in messages:
        network.send(src % network.npus, dst % network.npus, size, plane=plane, at=at)


def places(network: PacketNetwork) -> dict[tuple[int, int], tuple[int, int, int]]:
    """The front packet of each VC, and what is left of it."""
    return {
        (each["link"], each["vc"]): (each["message"], each["packet"], each["left"]) for each in network.engine.waiting()
    }


def part_of_a_ring(watchdog: int, world: Any = None, **router: Any) -> PacketNetwork:
    """Two rings of four: in one everybody sends two places on and waits, in the other somebody sends for long."""
    words = {"vcs": 1, "buffer": 2, "watchdog": watchdog, **router}
    network = unsafe([4, 2], options={"bidirectional": False}, router=words, lanes=1, world=world)
    for src in range(4):
        network.send(src, (src + 2) % 4, 40, at=0)
    network.send(4, 5, 5000, at=0)
    return network


def test_a_part_of_a_network_is_found_while_the_rest_moves() -> None:
    network = part_of_a_ring(100)
    with pytest.raises(DeadlockError) as caught:
        drain(network)
    assert str(caught.value).startswith(
        "deadlock in cycle 200: the packets in 8 VCs can never move again, though others do; waiting for each other: "
    )
    # Those in the ring, and what of their messages is in the injection lanes behind them.
    assert sorted(caught.value.cycle) == [
        "d0+:(0,0)->(1,0) VC 0 (message 0, NPU 0 to 2)",
        "d0+:(1,0)->(2,0) VC 0 (message 1, NPU 1 to 3)",
        "d0+:(2,0)->(3,0) VC 0 (message 2, NPU 2 to 0)",
        "d0+:(3,0)->(0,0) VC 0 (message 3, NPU 3 to 1)",
    ]
    # Each waits for the one that sits at the end of the next link.
    ends = [name.split(":")[1].split(" ")[0].split("->") for name in caught.value.cycle]
    assert all(end == start for (_, end), (start, _) in zip(ends, [*ends[1:], ends[0]], strict=True))
    assert network.now == 200


@pytest.mark.parametrize("shared_limit", [1, 2, 3])
def test_a_part_that_waits_within_its_limit_is_found_too(shared_limit: int) -> None:
    """The pool of three slots has free ones, which no VC may take: each holds as many flits as its limit allows."""
    network = part_of_a_ring(100, shared_buffer=3, shared_limit=shared_limit)
    with pytest.raises(DeadlockError, match="can never move again, though others do"):
        drain(network)
    assert network.now == 200


def test_without_looking_it_shows_only_at_the_end() -> None:
    network = part_of_a_ring(10**9)
    with pytest.raises(DeadlockError, match="nothing can move"):
        drain(network)
    assert network.now > 5000


def test_a_low_rate_is_no_deadlock() -> None:
    """A flit takes longer than the watchdog waits."""
    network = packet_network("ring", [4], s=1000, router={"watchdog": 10, "buffer": 1})
    for src in range(4):
        network.send(src, (src + 2) % 4, 20, at=0)
    assert len(drain(network)) == 4


def test_who_is_passed_over_for_long_is_not_stuck() -> None:
    """Of two classes of messages the one with the better rank has the link for a long time."""
    from pyxsim.network.engine_config import MessageClass

    topology, words = machine_of("mesh", [3], lanes=1, router={"watchdog": 20, "vcs": 2, "virtual_networks": [1, 1]})
    network = PacketNetwork(topology, words, classes=[MessageClass(0, 0), MessageClass(1, 7)])
    network.send(1, 2, 30, at=0, klass=0)
    network.send(0, 2, 3000, at=0, klass=1)
    first, second = drain(network)
    assert (first[0], second[0]) == (1, 0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[int, int, int, int]]]:
    """An unsafe torus, and messages."""
    flow = draw(st.sampled_from(["wormhole", "wormhole", "virtual-cut-through", "store-and-forward"]))
    adaptive = draw(st.booleans())
    packet = draw(st.sampled_from([2, 5, 20]))
    router: dict[str, Any] = {
        "vcs": draw(st.integers(3 if adaptive else 1, 3)),
        "buffer": draw(st.integers(1, 3)) + (0 if flow == "wormhole" else packet - 1),
        "shared_buffer": draw(st.sampled_from([0, 0, 1, 3])),
        "flow_control": flow,
        "vc_reuse": draw(st.sampled_from(["tail", "drained"])),
        "output_queue": draw(st.booleans()),
        "internal_speedup": draw(st.sampled_from([1, 1, 2])),
    }
    if router["shared_buffer"] and flow == "wormhole":
        router["shared_limit"] = draw(st.sampled_from([0, 1, 2, "equal", "power-of-two"]))
    if draw(st.booleans()):
        router["speculation"] = True
    elif not adaptive and draw(st.booleans()):
        router["pipeline"] = "garnet"
        router["ordered"] = router["internal_speedup"] == 1 and draw(st.booleans())
    network = {
        "shape": draw(st.sampled_from([[4], [5], [3, 3], [4, 2]])),
        "options": {"bidirectional": draw(st.booleans())},
        "packet": f"{packet} B",
        "lanes": 1,
        "latency": draw(st.integers(1, 3)),
        "adaptive": adaptive,
        "router": router,
    }
    # Everybody to somebody some places on, then whatever comes, and somebody who sends for long.
    npu, step = st.integers(0, 8), draw(st.integers(1, 4))
    messages = [(src, src + step, draw(st.integers(1, 60)), 0) for src in range(9)]
    messages += draw(st.lists(st.tuples(npu, npu, st.integers(1, 60), st.integers(0, 60)), max_size=30))
    src = draw(npu)
    return network, [*messages, (src, src + draw(st.integers(1, 2)), draw(st.integers(1, 1000)), 0)]


def outcome(network: PacketNetwork) -> DeadlockError | None:
    try:
        drain(network)
    except DeadlockError as error:
        return error
    return None


@given(cases(), st.integers(5, 60))
@settings(max_examples=part_of(150))
def test_what_is_told_is_so(case: tuple[Mapping[str, Any], list[tuple[int, int, int, int]]], watchdog: int) -> None:
    """Against the same network without a watchdog: no alarm where all arrives; who is said to be stuck never moves."""
    words, messages = case
    words = dict(words)
    shape, router = words.pop("shape"), words.pop("router")
    plane = -1 if words["adaptive"] else 0
    quiet = unsafe(shape, **words, router=router | {"watchdog": 10**9})
    watched = unsafe(shape, **words, router=router | {"watchdog": watchdog})
    for network in (quiet, watched):
        send_all(network, messages, plane)
    end, told = outcome(quiet), outcome(watched)
    assert (end is None) == (told is None)
    if end is None or told is None:
        return
    assert watched.now <= quiet.now
    at_end = places(quiet)
    if "nothing can move" in str(told):
        assert (watched.now, places(watched)) == (quiet.now, at_end)
        assert set(watched.watchdog.waits(watched.engine.waiting())) == set(range(len(at_end)))
        return
    stuck, reasons = watched.watchdog.search()
    assert len(reasons) >= len(told.cycle) >= 1
    for i in reasons:
        each = stuck[i]
        assert at_end[each["link"], each["vc"]] == (each["message"], each["packet"], each["left"])


def test_the_interval_is_that_of_the_settings() -> None:
    network = packet_network(latency=50, lane_latency=cycles(50), router={"watchdog": 7}, skip=False)
    looks: list[int] = []
    look = network.watchdog.search

    def noted() -> Any:
        looks.append(network.now)
        return look()

    network.watchdog.search = noted  # type: ignore[method-assign]
    network.send(0, 1, 1, at=0)
    drain(network)
    assert looks == list(range(7, network.now + 1, 7))
