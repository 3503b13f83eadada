"""One message alone: its rate is the formula of docs/router.md, and what is counted of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from tests.examples import part_of
from tests.network.machines import drain, packet_network, pairs


def launches(network: PacketNetwork, link: int) -> list[int]:
    """The cycles in which a link launched its flits."""
    trace = network.engine.trace()
    return [int(cycle) for cycle in trace[trace[:, 1] == link, 0]]


def played(s: Fraction, slots: int, delays: list[int], latencies: list[int], head: int, count: int) -> list[int]:
    """Launch cycles of `count` flits of one packet on the second of three links, flit by flit: docs/router.md.

    Flit j may go when it is there (a head `head` cycles later), when the credit of flit j - slots is back (sent when
    that one left the buffer, the latency and a cycle before), and when the link is free.
    """
    links = range(3)
    free = [Fraction(0)] * 3
    credit: list[list[int]] = [[], [], []]
    found = []
    for j in range(count):
        ready = 0
        for link in links:
            t = max(ready, free[link].numerator // free[link].denominator)
            if j >= slots:
                t = max(t, credit[link][j - slots])
            start = max(Fraction(t), free[link])
            free[link] = start + s
            arrival = ceil(start + s) + delays[link]
            if link:  # it has left the buffer behind the link before
                credit[link - 1].append(t + 1 + latencies[link - 1])
            if link == 1:
                found.append(t)
            ready = arrival + (head if j == 0 else 0)
        credit[2].append(arrival + 1 + latencies[2])
    return found


RATES = [Fraction(1), Fraction(2), Fraction(5), Fraction(3, 2), Fraction(8, 5), Fraction(64, 25), Fraction(11, 10)]


@pytest.mark.parametrize("s", RATES, ids=str)
@pytest.mark.parametrize(
    ("latency", "router", "stages"),
    [(1, {}, (0, 2, 1, 1)), (20, {}, (0, 2, 1, 1)), (7, {"pipeline": "garnet", "latency": 3}, (2, 0, 1, 0))],
    ids=["booksim-1", "booksim-20", "garnet-7"],
)
def test_slots_of_one_vc_carry_what_the_credit_loop_allows(
    s: Fraction, latency: int, router: dict[str, Any], stages: tuple[int, int, int, int]
) -> None:
    """A VC with B slots carries min(1/s, B/loop) flits per cycle: over many loops, for every B up to full rate.

    To the flit where flits end with cycles, or where the two limits are well apart. Between them (B*s < loop + 1,
    B*ceil(s) > loop) flits of a burst that end within a cycle wait for the next one, and the rate is up to 3 % less.
    """
    bw, head, sa, st = stages
    delays = [1 + bw + sa - 1, st + latency + bw + sa - 1, st + 1]
    # One flit on its way, its buffer write and switch, and the credit back; see docs/router.md, "What follows".
    loop = ceil(s) + st + latency + (bw + sa - 1) + 1 + latency
    if s == 1:
        assert loop == 1 + st + bw + sa + 2 * latency
    span = 4 * loop * s.numerator  # a whole number of loops, and of flits
    full = int((loop + 1) / s) + 2
    for slots in range(1, full, max(1, full // 12))[:: 12 // part_of(12, usual=6)]:
        network = packet_network(s=s, latency=latency, router={"vcs": 1, "buffer": slots, **router}, trace=True)
        most = min(1 / s, Fraction(slots, loop))
        wanted = most * span
        warm = 6 * slots
        network.send(0, 1, warm + int(wanted) + slots + 1, at=0)
        drain(network)
        found = launches(network, 0)
        assert found == played(s, slots, delays, [1, latency, 1], head, len(found))
        begin = found[warm]
        carried = sum(begin <= t < begin + span for t in found)
        if s.denominator == 1:
            assert carried == wanted
        elif slots * ceil(s) <= loop or slots * s >= loop + 1:
            assert abs(carried - wanted) <= 1
        else:
            assert Fraction(97, 100) * wanted - 1 <= carried <= wanted + 1


@pytest.mark.parametrize("s", RATES, ids=str)
@pytest.mark.parametrize("latency", [1, 6, 50])
def test_automatic_buffers_cover_the_loop(s: Fraction, latency: int) -> None:
    """A message alone, in packets of 16 flits: from the first flit to the last one the link never waits."""
    network = packet_network(s=s, latency=latency, packet="16 B", trace=True)
    flits = 16 * 20
    network.send(0, 1, flits, at=0)
    drain(network)
    found = launches(network, 0)
    assert len(found) == flits
    # The k-th launch is in the cycle in which the link is free: floor(k*s) after the first, a cycle more at most.
    assert all(t - found[0] in (int(k * s), int(k * s) + 1) for k, t in enumerate(found))


# -- messages, packets, flits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "settings", "cut"),
    [
        # flit 4 B, packet 16 B: (packets, flits of each, flits of the last)
        (1, {}, (1, 1, 1)),
        (16, {}, (1, 4, 4)),
        (17, {}, (2, 4, 1)),
        (31, {}, (2, 4, 4)),
        (33, {}, (3, 4, 1)),
        # A header of 2 B: 16 + 2 bytes are 5 flits, 4 + 2 bytes are 2.
        (16, {"header": "2 B"}, (1, 5, 5)),
        (20, {"header": "2 B"}, (2, 5, 2)),
        (2, {"header": "2 B"}, (1, 1, 1)),
        # Padded: the last packet is as long as the others.
        (1, {"pad_packets": True}, (1, 4, 4)),
        (17, {"pad_packets": True, "header": "4 B"}, (2, 5, 5)),
    ],
)
def test_a_message_is_cut(size: int, settings: dict[str, Any], cut: tuple[int, int, int]) -> None:
    network = packet_network("ring", [4], **{"flit": "4 B", "packet": "16 B", **settings})
    assert network.cut(size) == cut
    packets, flits, last = cut
    total = (packets - 1) * flits + last
    network.send(0, 2, size, at=0)
    drain(network)
    counts = network.counts()
    assert counts == {
        "npus": 4,
        "messages": 1,
        "packets": packets,
        "flits": total,
        "flit_hops": 2 * total,
        "router_visits": 3 * total,
        "bytes_delivered": size,
        "skipped_cycles": 0,
        "skipped_visits": 0,
        "not_skipped": "nothing was found to repeat within the run",
        "threads": 1,
        "threads_asked": 1,
        "threads_why": "one thread requested",
    }
    assert network.totals()["flits"].tolist() == [total, total, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("size", "packet"),
    [(2**31, "1 B"), (2**40, "1 PB"), (2**31, "1 PB")],
    ids=["packets", "flits of the last", "flits"],
)
def test_more_flits_than_can_be_counted_are_refused(size: int, packet: str) -> None:
    network = packet_network(packet=packet)
    with pytest.raises(InputError, match=r"network\.packet: .* too many"):
        network.send(0, 1, size, at=0)


def test_a_message_has_bytes() -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        packet_network().send(0, 1, 0, at=0)


def test_arrivals_come_in_order_of_cycle_and_message() -> None:
    network = packet_network("fully-connected", [4], latency=3)
    for dst in (3, 1, 2):
        network.send(0, dst, 5, at=0)
    network.send(1, 2, 1, at=0)
    first = pairs(network.advance(None))
    # Two routers of 4 cycles, latencies of 1 + 3 + 1, and 1 for the first flit; four more flits behind it.
    assert first == [(3, 14)]
    assert pairs(network.advance(None)) == [(0, 18), (1, 18), (2, 18)]
    assert pairs(network.advance(None)) == []


@pytest.mark.parametrize("slack", [0, 1, 5])
def test_where_a_window_ends_hides_no_arrival(slack: int) -> None:
    """What is told of a cycle is told of all of it, and of as many cycles as the caller can wait: a collective takes
    messages in in the order in which it hears of them."""

    def calls(window: int) -> list[tuple[int, list[tuple[int, int]]]]:
        network = packet_network("ring", [6], latency=2, window=window)
        for src in range(6):
            for far in range(1, 6):
                network.send(src, (src + far) % 6, far, at=src)
        found = []
        while arrived := pairs(network.advance(None, slack=slack)):
            found.append((network.now, arrived))
        return found

    whole = calls(10**6)
    assert len(whole) > 3
    for now, arrived in whole:
        assert [cycle for _, cycle in arrived] == sorted(cycle for _, cycle in arrived)
        assert arrived[-1][1] <= now == arrived[0][1] + slack
    assert all(now < later[0][1] for (now, _), (_, later) in pairwise(whole))
    assert all(calls(window) == whole for window in (1, 2, 3, 7))


def test_time_passes_to_where_it_was_asked_to() -> None:
    network = packet_network(latency=3)
    assert pairs(network.advance(10)) == []
    network.send(0, 1, 1, at=15)
    assert pairs(network.advance(12)) == []
    assert network.now == 12
    assert pairs(network.advance(None)) == [(0, 15 + 4 + 4 + 1 + 3 + 1 + 1)]


def test_a_message_to_oneself_goes_through_the_router() -> None:
    network = packet_network("ring", [3], latency=9)
    network.send(1, 1, 4, at=0)
    # One router, two lanes: R + D_in + D_out + 1 + (n - 1).
    assert drain(network) == [(0, 4 + 1 + 1 + 1 + 3)]
    assert network.counts()["flit_hops"] == 0


def test_the_tick_comes_even_where_nothing_happens() -> None:
    calls: list[int] = []
    network = packet_network(latency=1_000_000, tick=lambda: calls.append(network.now), skip=False)
    network.send(0, 1, 1, at=0)
    drain(network)
    assert len(calls) >= 5
    assert np.diff(calls).max() <= 200_000


def test_many_messages_at_once_are_as_one_by_one() -> None:
    """Whatever the number: few go one by one, many by arrays."""
    rng = np.random.default_rng(5)
    for count in (1, 7, 8, 40):
        src, dst = rng.integers(0, 6, (2, count))
        size, plane = rng.integers(1, 50, count), rng.integers(0, 2, count)
        both = [packet_network("torus", [3, 2], latency=3) for _ in range(2)]
        for network in both:
            network.send(0, 1, 5, at=0)
            network.advance(2)
        rows = zip(src.tolist(), dst.tolist(), size.tolist(), plane.tolist(), strict=True)
        numbers = [both[0].send(a, b, n, plane=p, at=4) for a, b, n, p in rows]
        assert both[1].send_many(src, dst, size, plane, 4) == numbers[0]
        assert drain(both[0]) == drain(both[1])
        assert both[0].bytes_delivered == both[1].bytes_delivered == 5 + size.sum()
