"""Messages as fluids: against a slow exact model, against what max-min fairness means, and against formulas."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.delay.rule import Exact
from pyxsim.network.fluid.fluid import Fluid
from tests.examples import part_of
from tests.network.fluid.slow_fluid import Told, Way, fair, slowly

FOREVER = 2**62
NEAR = Fraction(1, 2**15)  # what comes so near to a whole cycle may be told as that
Sends = list[tuple[int, int, int]]


def engine(
    ways: list[Way],
    capacity: list[Fraction],
    latency: list[Fraction],
    flit: int = 10,
    lanes: list[int] | None = None,
) -> Fluid:
    tops = [min(capacity[link] / share for link, share in way.items()) for way in ways]
    unit = lcm(*(each.denominator for each in latency))
    rule = Exact(tops, unit)
    rule.extend(np.array([int(each * unit) for each in latency]), np.arange(len(ways)))
    made = Fluid(rule, [float(each) for each in capacity], flit, max(lanes or [-1]) + 1)
    made.extend(
        [len(way) for way in ways],
        [link for way in ways for link in way],
        [float(share) for way in ways for share in way.values()],
        [float(each) for each in latency],
        [True] * len(ways),
        np.array(lanes) if lanes else None,
    )
    return made


def send(net: Fluid, at: int, *messages: tuple[int, int]) -> int:
    """Messages (way, bytes)."""
    rows = np.array(messages, np.int64).reshape(-1, 2)
    return net.send(np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]), at)


def drain(net: Fluid, slack: int = 0) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len((arrived := net.advance(FOREVER, slack))[0]):
        found += zip(arrived[1].tolist(), arrived[0].tolist(), strict=True)
    return found


def routes(*ways: list[int]) -> list[Way]:
    return [{link: Fraction(1) for link in way} for way in ways]


def free(ways: list[Way]) -> list[Fraction]:
    return [Fraction(0)] * len(ways)


# -- networks at random ------------------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[Way], list[Fraction], list[Fraction]]:
    """Ways, capacities and latencies."""
    rate = st.builds(Fraction, st.integers(1, 60), st.sampled_from([1, 1, 2, 3, 7]))
    capacity = draw(st.lists(rate, min_size=1, max_size=6))
    share = st.sampled_from([Fraction(1)] * 4 + [Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)])
    way = st.dictionaries(st.integers(0, len(capacity) - 1), share, min_size=1, max_size=4)
    ways = draw(st.lists(way, min_size=1, max_size=6))
    late = st.builds(Fraction, st.integers(0, 30), st.sampled_from([1, 1, 2, 3]))
    return ways, capacity, draw(st.lists(late, min_size=len(ways), max_size=len(ways)))


def sends(ways: int) -> st.SearchStrategy[Sends]:
    return st.lists(st.tuples(st.integers(0, 40), st.integers(0, ways - 1), st.integers(1, 300)), max_size=12)


def same(found: list[tuple[int, int]], wanted: list[Told]) -> None:
    """To the cycle; where the exact time is nearly a whole number, either cycle."""
    assert sorted(number for _, number in found) == sorted(each.number for each in wanted)
    cycles = {number: cycle for cycle, number in found}
    for each in wanted:
        near = abs(each.exact - round(each.exact)) < NEAR and each.exact != round(each.exact)
        assert cycles[each.number] == each.cycle or (near and abs(cycles[each.number] - each.cycle) <= 1), each


@settings(max_examples=part_of(150), deadline=None)
@given(data=st.data(), network=networks(), slack=st.integers(0, 30), in_lanes=st.booleans())
def test_as_the_slow_model(
    data: st.DataObject, network: tuple[list[Way], list[Fraction], list[Fraction]], slack: int, in_lanes: bool
) -> None:
    what = data.draw(sends(len(network[0])))
    lanes = [data.draw(st.sampled_from(sorted(way))) for way in network[0]] if in_lanes else []
    net = engine(*network, lanes=lanes)
    for at, way, size in what:
        send(net, at, (way, size))
    same(drain(net, slack), slowly(*network, what, lanes))
    assert net.delivered == net.sent == len(what)
    assert net.bytes_delivered == sum(size for _, _, size in what)
    assert not net.busy


@settings(max_examples=part_of(60), deadline=None)
@given(data=st.data(), network=networks())
def test_it_does_not_matter_when_time_is_let_pass(
    data: st.DataObject, network: tuple[list[Way], list[Fraction], list[Fraction]]
) -> None:
    what = sorted(data.draw(sends(len(network[0]))))
    at_once, bit_by_bit = engine(*network), engine(*network)
    for at, way, size in what:
        send(at_once, at, (way, size))
    found: list[tuple[int, int]] = []
    for at, way, size in what:
        while bit_by_bit.now < at:
            messages, cycles = bit_by_bit.advance(at, 0)
            found += zip(cycles.tolist(), messages.tolist(), strict=True)
            if not len(messages):
                bit_by_bit.wait(at)
        send(bit_by_bit, at, (way, size))
    assert sorted(found + drain(bit_by_bit)) == sorted(drain(at_once))


@settings(max_examples=part_of(60), deadline=None)
@given(data=st.data(), network=networks())
def test_rates_are_max_min_fair_at_every_event(
    data: st.DataObject, network: tuple[list[Way], list[Fraction], list[Fraction]]
) -> None:
    ways, capacity, _ = network
    net = engine(*network)
    here: dict[int, int] = {}
    for at, way, size in sorted(data.draw(sends(len(ways)))):
        while net.next_cycle < at:
            net.advance(min(at - 1, net.next_cycle), 0)
            bottlenecks(net, ways, capacity)
        here[send(net, at, (way, size))] = way
        bottlenecks(net, ways, capacity)
    while net.next_cycle < FOREVER:
        net.advance(net.next_cycle, 0)
        bottlenecks(net, ways, capacity)


def bottlenecks(net: Fluid, ways: list[Way], capacity: list[Fraction]) -> None:
    """No link is overfull, and each way has one that is full and where nobody has a higher rate."""
    rates, counts = net.rates(), net.messages()
    used = [
        sum(rates[w] * counts[w] * float(way.get(link, 0)) for w, way in enumerate(ways))
        for link in range(len(capacity))
    ]
    for link, load in enumerate(used):
        assert load <= float(capacity[link]) * (1 + 1e-9)
    for number in np.flatnonzero(counts):
        assert any(
            used[link] >= float(capacity[link]) * (1 - 1e-9)
            and rates[number] >= max(rates[w] for w, way in enumerate(ways) if link in way) * (1 - 1e-9)
            for link in ways[number]
        )


@settings(max_examples=part_of(100), deadline=None)
@given(network=networks(), counts=st.lists(st.integers(1, 3), min_size=8, max_size=8))
def test_rates_are_those_of_the_textbook(
    network: tuple[list[Way], list[Fraction], list[Fraction]], counts: list[int]
) -> None:
    ways, capacity, _ = network
    net = engine(*network)
    messages = [way for way in range(len(ways)) for _ in range(counts[way])]
    send(net, 0, *[(way, 1000) for way in messages])
    wanted = fair([ways[way] for way in messages], capacity)
    assert [net.rates()[way] for way in messages] == pytest.approx([float(rate) for rate in wanted], rel=1e-12)


@settings(max_examples=part_of(60), deadline=None)
@given(seed=st.integers(0, 2**32), links=st.integers(2, 24), paths=st.integers(2, 40), shared=st.booleans())
def test_rates_after_a_change_are_those_of_a_whole_filling(seed: int, links: int, paths: int, shared: bool) -> None:
    """The engine refills what a change affects; `fair` fills everything, in fractions. The moves of paths from one
    bottleneck to another, with paths that fall and paths that rise in one filling, need many paths and few links."""
    random = np.random.default_rng(seed)
    capacity = [Fraction(int(each)) for each in random.integers(1, 40, links)]
    ways: list[Way] = []
    for _ in range(paths):
        chosen = random.choice(links, int(random.integers(1, min(links, 4) + 1)), replace=False)
        ways.append({int(link): Fraction(1, int(random.integers(1, 4)) if shared else 1) for link in chosen})
    net = engine(ways, capacity, free(ways))
    for _ in range(25):
        started = random.integers(0, paths, int(random.integers(1, 4)))
        send(net, net.now, *[(int(way), int(random.integers(1, 400))) for way in started])
        rates = net.rates()
        counts = net.messages()
        here = [way for way in range(paths) for _ in range(counts[way])]
        wanted = fair([ways[way] for way in here], capacity)
        assert [rates[way] for way in here] == pytest.approx([float(rate) for rate in wanted], rel=1e-11)
        if random.random() < 0.7 and net.next_cycle < FOREVER:
            net.advance(net.next_cycle, 0)


# -- formulas ----------------------------------------------------------------------------------------------------------


@settings(max_examples=part_of(200), deadline=None)
@given(
    rates=st.lists(st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**4)), min_size=1, max_size=5),
    latency=st.builds(Fraction, st.integers(0, 10**6), st.integers(1, 1000)),
    size=st.integers(1, 2**45),
    at=st.integers(0, 2**50),
)
def test_alone_it_takes_latency_and_bytes_over_the_narrowest_link_exactly(
    rates: list[Fraction], latency: Fraction, size: int, at: int
) -> None:
    net = engine(routes(list(range(len(rates)))), rates, [latency])
    send(net, at, (0, size))
    assert drain(net) == [(at + floor(latency + size / min(rates)), 0)]


@settings(max_examples=part_of(100), deadline=None)
@given(count=st.integers(1, 200), size=st.integers(1, 2**30), rate=st.integers(1, 1000), latency=st.integers(0, 999))
def test_flows_through_one_link_share_it_equally(count: int, size: int, rate: int, latency: int) -> None:
    ways = routes(*[[0, 1 + source] for source in range(count)])
    net = engine(ways, [Fraction(rate)] * (count + 1), [Fraction(latency)] * count)
    send(net, 0, *[(way, size) for way in range(count)])
    assert drain(net) == [(floor(Fraction(count * size, rate) + latency), number) for number in range(count)]


def test_messages_of_one_way_share_it_and_end_one_after_the_other() -> None:
    # 30, 20 and 10 bytes over 1 byte per cycle: 10 each until 30, 10 each until 50, and the rest.
    net = engine(routes([0]), [Fraction(1)], [Fraction(0)])
    send(net, 0, (0, 30), (0, 20), (0, 10))
    assert drain(net) == [(30, 2), (50, 1), (60, 0)]


def test_messages_of_one_lane_leave_one_after_the_other() -> None:
    """0 and 1 are of one lane, and share link 0 with 2: first 0 and 2, then 1 and what is left of 2, then 1 alone."""
    net = engine(routes([0, 1], [0, 2], [0]), [Fraction(2)] * 3, [Fraction(3)] * 3, lanes=[0, 0, 1])
    send(net, 0, (0, 10), (1, 10), (2, 15), (0, 1))
    assert net.messages().tolist() == [1, 0, 1]
    assert drain(net) == [(10 + 3, 0), (15 + 3, 2), (17 + 3, 1), (18 + 3, 3)]


def test_a_lane_with_room_lets_the_next_message_start() -> None:
    """Over link 1 goes 1 of the 4 bytes per cycle of the lane: 1 starts beside 0 and has the 3 that are left, then all
    of it; 2 is on the way of 0, and waits until there is room again; 3 goes beside it."""
    net = engine(routes([0, 1], [0, 2]), [Fraction(4), Fraction(1), Fraction(9)], [Fraction(1)] * 2, lanes=[0, 0])
    send(net, 0, (0, 10), (1, 60), (0, 10), (1, 60))
    assert net.rates().tolist() == [1, 3]
    assert drain(net) == [(11, 0), (18, 1), (28, 2), (36, 3)]


def test_the_example_of_the_textbook() -> None:
    """A long way over three links, each with others on it: 1/4 on the crowded link, the others get what is left."""
    ways = [routes([0, 1, 2])[0], *routes([0], [1], [1], [1], [2])]
    net = engine(ways, [Fraction(1)] * 3, free(ways))
    send(net, 0, *[(way, 1000) for way in range(len(ways))])
    assert net.rates().tolist() == pytest.approx([1 / 4, 3 / 4, 1 / 4, 1 / 4, 1 / 4, 3 / 4])


def test_a_permutation_that_shares_no_link_takes_the_time_of_one_message() -> None:
    net = engine(routes(*[[i, 8 + (i + 3) % 8] for i in range(8)]), [Fraction(7)] * 16, [Fraction(5)] * 8)
    send(net, 0, *[(way, 1001) for way in range(8)])
    assert drain(net) == [(5 + 143, way) for way in range(8)]
    assert net.fillings == 2  # at the start, and at the end


def test_a_link_with_room_does_not_slow_anybody() -> None:
    """Alone on its narrowest link: exact, whoever else is on the wide one."""
    net = engine(routes([0, 1], [0, 2]), [Fraction(100), Fraction(1, 3), Fraction(1, 7)], [Fraction(2, 3)] * 2)
    send(net, 0, (0, 10**9), (1, 10**9 + 1))
    assert drain(net) == [(3 * 10**9, 0), (7 * (10**9 + 1), 1)]


def test_only_those_are_looked_at_who_are_touched() -> None:
    net = engine(routes([0], [0], [1]), [Fraction(1), Fraction(1)], free([{}] * 3))
    send(net, 0, (2, 1000))
    send(net, 5, (0, 10))
    send(net, 7, (1, 10))
    assert drain(net) == [(5 + 18, 1), (5 + 20, 2), (1000, 0)]


def test_shares_of_links() -> None:
    """Half over each of two links: alone as fast as both together; with another on one of them that one is shared."""
    ways = [{0: Fraction(1, 2), 1: Fraction(1, 2)}, {0: Fraction(1)}]
    net = engine(ways, [Fraction(2), Fraction(2)], free(ways))
    send(net, 0, (0, 400))
    assert drain(net) == [(100, 0)]
    send(net, 100, (0, 400), (1, 400))
    # 4/3 each, of which 2/3 and 4/3 on link 0.
    assert net.rates().tolist() == pytest.approx([4 / 3, 4 / 3])
    assert drain(net) == [(400, 1), (400, 2)]


def test_what_starts_in_the_cycle_in_which_it_is_told_of_another_finds_the_links_free() -> None:
    """Without latency, and with times that are no whole cycles: each message takes what it takes alone."""
    net = engine(routes([0]), [Fraction(3)], [Fraction(0)])
    now = 0
    for _ in range(10):
        send(net, now, (0, 10))
        ((now, _),) = drain(net)
    assert now == 30


def test_more_than_can_be_counted() -> None:
    net = engine(routes([0], [0]), [Fraction(1)], free([{}] * 2))
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        send(net, 0, (0, 2**61))
    send(net, 0, *[(0, 2**60)] * 3)
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        drain(net)


# -- statistics --------------------------------------------------------------------------------------------------------


@settings(max_examples=part_of(100), deadline=None)
@given(data=st.data(), network=networks(), at=st.lists(st.integers(0, 200), max_size=5))
def test_what_ways_carry_grows_with_time_and_comes_to_all_of_it(
    data: st.DataObject, network: tuple[list[Way], list[Fraction], list[Fraction]], at: list[int]
) -> None:
    what = data.draw(sends(len(network[0])))
    net = engine(*network, flit=7)
    for cycle, way, size in what:
        send(net, cycle, (way, size))
    before = net.flits
    for cycle in sorted(at):
        while net.next_cycle <= cycle:
            net.advance(cycle, 0)
        seen = net.flits_at(cycle)
        assert (seen >= before).all()
        before = seen
    drain(net)
    wanted = np.zeros(len(network[0]), np.int64)
    for _, way, size in what:
        wanted[way] += ceil(size / 7)
    assert (net.flits >= before).all()
    assert net.flits.tolist() == wanted.tolist()


def test_what_a_way_has_carried_halfway() -> None:
    net = engine(routes([0]), [Fraction(1)], [Fraction(0)], flit=10)
    send(net, 0, (0, 100), (0, 60))
    assert not len(net.advance(0, 0)[0])
    assert [int(net.flits_at(cycle)[0]) for cycle in (0, 9, 10, 55, 119)] == [0, 0, 1, 5, 11]
    assert drain(net) == [(120, 1), (160, 0)]


# -- faults of the caller ----------------------------------------------------------------------------------------------


def test_faults() -> None:
    net = engine(routes([0]), [Fraction(1)], [Fraction(0)])
    with pytest.raises(IndexError, match="unknown path 1"):
        send(net, 0, (1, 1))
    with pytest.raises(ValueError, match="a message of 0 bytes"):
        send(net, 0, (0, 0))
    net.wait(5)
    with pytest.raises(ValueError, match="a message of cycle 4 in cycle 5"):
        send(net, 4, (0, 1))
    with pytest.raises(ValueError, match="a path without links"):
        net.extend([0], [], [], [0.0], [True])
    with pytest.raises(ValueError, match="an unknown lane"):
        net.extend([1], [0], [1.0], [0.0], [True], np.array([0]))
    with pytest.raises(ValueError, match="an unknown link"):
        net.extend([1], [1], [1.0], [0.0], [True])
