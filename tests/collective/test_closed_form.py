"""Closed forms against the rules of docs/router.md, played cycle by cycle, and against times measured elsewhere."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyxsim.collective.closed_form import (
    is_exact,
    message_time,
    neighbour_time,
    packet_flits,
    ring_all_reduce_time,
    ring_time,
)


@pytest.mark.parametrize(
    ("size", "header", "wanted"),
    [
        (1, 0, [1]),
        (256, 0, [1]),
        (257, 0, [2]),
        (4096, 0, [16]),
        (4097, 0, [16, 1]),
        (12288, 0, [16, 16, 16]),
        (4096, 8, [17]),
        (5000, 8, [17, 4]),  # 904 + 8 bytes
        (0, 8, []),
    ],
)
def test_packets(size: int, header: int, wanted: list[int]) -> None:
    assert packet_flits(size, flit=256, packet=4096, header=header) == wanted


def played(flits: list[int], s: list[Fraction], delays: list[int], waits: list[int]) -> int:
    """The rules of docs/router.md, cycle by cycle: arrivals, then launches of what is ready on an available link."""
    heads = {sum(flits[:p]) for p in range(len(flits))}
    total, links = sum(flits), len(s)
    queue: list[deque[tuple[int, int]]] = [deque() for _ in range(links)]  # (flit, cycle from which it may go)
    queue[0].extend((j, 0) for j in range(total))
    flying: list[tuple[int, int, int]] = []  # (arrival, link, flit)
    free = [Fraction(0)] * links
    t, last, left = 0, 0, total
    while left:
        for arrival, link, j in [f for f in flying if f[0] == t]:
            if link == links - 1:
                left, last = left - 1, arrival
            else:
                queue[link + 1].append((j, t + (waits[link] if j in heads else 0)))
        flying = [f for f in flying if f[0] > t]
        for link in range(links):
            if queue[link] and queue[link][0][1] <= t and free[link] < t + 1:
                j, _ = queue[link].popleft()
                start = max(Fraction(t), free[link])
                free[link] = start + s[link]
                flying.append((math.ceil(start + s[link]) + delays[link], link, j))
        t += 1
    return last


WIDTHS = st.one_of(st.just(Fraction(1)), st.fractions(min_value=1, max_value=9, max_denominator=7))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 4).flatmap(
        lambda links: st.tuples(
            st.lists(WIDTHS, min_size=links, max_size=links),
            st.lists(st.integers(1, 12), min_size=links, max_size=links),
            st.lists(st.integers(0, 3), min_size=links - 1, max_size=links - 1),
        )
    ),
)
def test_a_message_takes_what_the_rules_say(flits: list[int], way: tuple[list[Fraction], list[int], list[int]]) -> None:
    s, delays, waits = way
    assert message_time(flits, s, delays, waits) == played(flits, s, delays, waits)


@given(
    st.integers(1, 60), st.integers(1, 6), st.integers(1, 9), st.integers(1, 300), st.integers(1, 9), st.integers(1, 9)
)
def test_zero_load_latency(n: int, hops: int, stages: int, latency: int, inject: int, eject: int) -> None:
    """H*R + (H-1)*D + D_in + D_out + 1 + (n-1), docs/router.md; here rc = stages, sa = st = 1."""
    delays = [inject, *[latency + 1] * (hops - 1), eject + 1]
    wanted = hops * (stages + 2) + (hops - 1) * latency + inject + eject + 1 + (n - 1)
    assert message_time([n], [1] * (hops + 1), delays, stages) == wanted


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 8), st.integers(1, 500), st.integers(0, 4))
def test_equal_whole_widths(flits: list[int], s: int, latency: int, rc_va: int) -> None:
    """(n + 2)*s + all delays + 2*(rc + va): every link adds one flit time, the slowest n-1 more."""
    delays = [3, latency, 5]
    assert message_time(flits, [s] * 3, delays, rc_va) == (sum(flits) + 2) * s + sum(delays) + 2 * rc_va


def test_the_stages_of_a_router() -> None:
    # booksim: R = 4 for each of two routers; D = 10, lanes 1 and 1; 16 flits: 8 + 10 + 2 + 1 + 15.
    assert neighbour_time(4096, flit=256, packet=4096, s=1, latency=10) == 36
    # garnet with a router latency of 3: R = 3 for each.
    garnet = {"bw": 2, "rc": 0, "va": 0, "sa": 1, "st": 0}
    assert neighbour_time(4096, flit=256, packet=4096, s=1, latency=10, **garnet) == 34
    # 5/2 cycles per flit, one flit: 3 cycles on each of three links instead of 1.
    assert neighbour_time(1, flit=256, packet=4096, s=Fraction(5, 2), latency=10) == 8 + 10 + 2 + 1 + 3 * 2


@pytest.mark.parametrize(
    ("flits", "s", "delays", "rc_va"),
    [([], [1], [1], 0), ([0], [1], [1], 0), ([1], [1, 1], [1], 0), ([1], [1, 1], [1, 1], [0, 0]), ([1], [0], [1], 0)],
)
def test_what_is_no_message(flits: list[int], s: list[int], delays: list[int], rc_va: int | list[int]) -> None:
    with pytest.raises(ValueError, match=r"links|packets"):
        message_time(flits, s, delays, rc_va)


@pytest.mark.parametrize(
    ("flits", "s", "rc_va", "vcs", "exact"),
    [
        ([40], Fraction(3, 2), 2, 1, True),  # one packet
        ([1, 1, 1], Fraction(3, 2), 0, 1, True),  # heads do not wait
        ([16, 16, 9], 1, 2, 2, True),  # (16 + 1) * 1 >= 3
        ([2, 2, 1], 1, 2, 2, True),  # (2 + 1) * 1 >= 3: just
        ([1, 1, 1], 1, 2, 2, False),  # (1 + 1) * 1 < 3
        ([1, 1], 1, 2, 2, True),  # never a VC twice
        ([1, 1, 1, 1], 1, 2, 3, True),  # (2 + 1) * 1 >= 3
        ([16, 16], Fraction(5, 2), 2, 2, True),
        ([16, 16], 2, 2, 1, False),  # one VC: 1 * 2 < 3
        ([1, 1], 3, 2, 1, True),
        ([1, 1], Fraction(7, 2), 2, 1, False),  # a fraction: 1 * 3.5 < 4, arrivals may be rounded together
        ([1, 1], 4, 2, 1, True),
    ],
)
def test_where_it_is_exact(flits: list[int], s: Fraction | int, rc_va: int, vcs: int, exact: bool) -> None:
    assert is_exact(flits, s, rc_va, vcs) is exact


# ASTRA-sim 1 (e4aed7e) on gem5 Garnet 2.0 (gem5_astra 4169587), its sample network: flits of 256 B over links of 32
# B/cycle (s = 8) between lanes of 256 B/cycle, packets of 4 KiB, router latency 1, 4 cycles in its serialisers; lanes
# and local links 90 cycles, package links 200. Cycles as it prints them; 18 of them are its start and stop (13, and an
# update time of 5). Reduction 30 cycles.
GARNET: dict[str, Any] = {"flit": 256, "packet": 4096, "s": 8, "lane_s": 1, "lane_latency": 90, "serdes": 4}
GARNET |= {"bw": 0, "rc": 0, "va": 0, "sa": 1, "st": 0}
LATENCY = {"local": 90, "package": 200}


@pytest.mark.parametrize(
    ("kind", "n", "size", "dimension", "endpoint", "measured"),
    [
        ("reduce-scatter", 2, 8192, "package", 1, 564),
        ("reduce-scatter", 2, 524288, "package", 1, 8628),
        ("reduce-scatter", 2, 8192, "package", 100, 762),
        ("reduce-scatter", 4, 131072, "local", 1, 4012),
        ("all-reduce", 4, 131072, "local", 1, 7915),
        ("all-gather", 4, 131072, "local", 1, 13138),
        ("all-to-all", 4, 131072, "local", 1, 7825),
    ],
)
def test_times_measured_with_garnet(kind: str, n: int, size: int, dimension: str, endpoint: int, measured: int) -> None:
    hop = partial(neighbour_time, latency=LATENCY[dimension], **GARNET)
    assert ring_time(kind, n, size, hop, endpoint=endpoint, reduction=30) == measured - 18


def test_ring_times() -> None:
    def hop(size: int) -> int:
        return 100 + size

    # 10 bytes on 4 ranks: blocks of 2, 3, 2, 3 bytes.
    assert ring_all_reduce_time(4, 10, hop, endpoint=5, reduction=7) == 5 + 6 * (103 + 5) + 3 * 7
    assert ring_time("reduce-scatter", 4, 10, hop, endpoint=5, reduction=7) == 5 + 3 * (103 + 5) + 3 * 7
    assert ring_time("all-gather", 4, 10, hop, endpoint=5, reduction=7) == 5 + 3 * (110 + 5)
    assert ring_time("all-to-all", 4, 12, hop, endpoint=5, reduction=7) == 5 + 6 * (103 + 5)
    assert ring_all_reduce_time(1, 10, hop, endpoint=5) == 0
    assert ring_all_reduce_time(4, 0, hop, endpoint=5) == 0
    with pytest.raises(ValueError, match="10 bytes cannot be divided into 4 equal blocks"):
        ring_time("all-to-all", 4, 10, hop)


def fifo_ring(n: int, sizes: list[int], occupy: int, latency: int, endpoint: int, reduction: int) -> int:
    """A ring all-reduce, block by block, on links that are busy for occupy * size cycles and serve in order of coming.

    Events in order of time; a rank passes on every block `endpoint` cycles after it came, and `reduction` later if it
    was added: n-1 times to be summed up, then n-1 times to be known. Blocks without bytes do not travel.
    """
    free = [0] * n
    events = [(endpoint, (b + 1) % n, 0, b) for b in range(n) if sizes[b]]  # time, at rank, hops done, block
    done = 0
    while events:
        events.sort()
        time, rank, hops, block = events.pop(0)
        if hops == 2 * (n - 1):
            done = max(done, time)
            continue
        start = max(time, free[rank])
        free[rank] = start + occupy * sizes[block]
        ready = free[rank] + latency + endpoint + (reduction if hops < n - 1 else 0)
        events.append((ready, (rank + 1) % n, hops + 1, block))
    return done


@given(
    st.integers(2, 24),
    st.integers(1, 200),
    st.integers(1, 400),
    st.integers(0, 40),
    st.integers(0, 9),
    st.one_of(st.just(0), st.integers(1, 20_000)),
)
def test_unequal_blocks_take_the_time_of_the_largest(
    n: int, size: int, occupy: int, latency: int, endpoint: int, reduction: int
) -> None:
    """Also where small blocks catch up with large ones and have to queue behind them (docs/collectives.md)."""
    sizes = [size * (i + 1) // n - size * i // n for i in range(n)]

    def hop(block: int) -> int:
        return occupy * block + latency

    large = max(sizes)
    if reduction and large > 1:  # the condition under which a reduction delay keeps the order
        assume((n - 1) * (hop(large) - hop(large - 1)) < hop(large - 1) + endpoint)
    wanted = ring_all_reduce_time(n, size, hop, endpoint=endpoint, reduction=reduction)
    assert fifo_ring(n, sizes, occupy, latency, endpoint, reduction) == wanted


def test_a_long_reduction_can_break_the_order() -> None:
    """The condition is there for a reason: blocks of 2, 3, 3, 3 bytes, 31 cycles a byte and 20: 3 * 31 > 82 + 1."""
    sizes = [11 * (i + 1) // 4 - 11 * i // 4 for i in range(4)]

    def hop(block: int) -> int:
        return 31 * block + 20

    assert fifo_ring(4, sizes, 31, 20, 1, 0) == ring_all_reduce_time(4, 11, hop, endpoint=1)
    assert fifo_ring(4, sizes, 31, 20, 1, 3099) > ring_all_reduce_time(4, 11, hop, endpoint=1, reduction=3099)
