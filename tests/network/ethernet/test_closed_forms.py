"""Times in closed form, exact to the picosecond, and M/D/1 within statistical bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.network.ethernet.closed_form_networks import DELAY, begin, chain, durations, engine_of, star

MTU, HEADER = 1000, 82
FRAME = {"mtu": f"{MTU} B", "header": f"{HEADER} B", "timeout": "0 ns"}
RATES = [1, 400, 10_000, 40_000, 100_000, 333_333]  # Mb/s


def time_of(size: int, mbps: int) -> int:
    """A transmission in ps, rounded to the nearest, a half down."""
    return math.ceil(Fraction(size * 8 * 10**6, mbps) - Fraction(1, 2))


def sizes_of(nbytes: int) -> list[int]:
    """Bytes on the wire of the packets of a message."""
    return [min(MTU, nbytes - first) + HEADER for first in range(0, nbytes, MTU)]


@given(st.lists(st.sampled_from(RATES), min_size=1, max_size=6), st.integers(1, 9 * MTU))
def test_store_and_forward_pipeline(mbps: list[int], nbytes: int) -> None:
    """The longest path through the grid of links and packets (max-plus algebra: Baccelli et al. 1992, chapter 1).

    T, t: times of a full packet and of the last, short one. All packets but the last go as far as link k, and the last
    one waits there: sum(T[..k]) + (P - 2) max(T[..k]) + sum(t[k..]).
    """
    full, short = ([time_of(size, rate) for rate in mbps] for size in (MTU + HEADER, sizes_of(nbytes)[-1]))
    packets = len(sizes_of(nbytes))
    waits = [sum(full[: k + 1]) + (packets - 2) * max(full[: k + 1]) + sum(short[k:]) for k in range(len(mbps))]
    expected = (max(waits) if packets > 1 else sum(short)) + len(mbps) * DELAY
    network = chain(mbps, **FRAME)
    begin(network, [0], [1], nbytes)
    assert durations(network) == [expected]


@given(st.sampled_from(RATES), st.integers(1, 6), st.integers(1, 9 * MTU), st.sampled_from([0, 300]))
def test_cut_through_at_equal_rates(mbps: int, links: int, nbytes: int, latency: int) -> None:
    """Each switch adds the time of a header, the latency of its link, and its own."""
    sizes = sizes_of(nbytes)
    expected = sum(time_of(size, mbps) for size in sizes) + links * DELAY
    expected += (links - 1) * (time_of(HEADER, mbps) + latency * 1000)
    network = chain([mbps] * links, forwarding="cut-through", switch_latency=f"{latency} ns", **FRAME)
    begin(network, [0], [1], nbytes)
    assert durations(network) == [expected]


@given(st.lists(st.sampled_from(RATES), min_size=1, max_size=6), st.integers(1, MTU))
def test_cut_through_of_a_packet_at_unequal_rates(mbps: list[int], nbytes: int) -> None:
    """It leaves when its header is there, and never ends before it has come: the slowest link from k on counts.

    It ends at link k after the headers on the links before, its transmission there, and the latency of all links.
    """
    head = [time_of(HEADER, rate) for rate in mbps]
    ends = [sum(head[:k]) + time_of(nbytes + HEADER, rate) for k, rate in enumerate(mbps)]
    network = chain(mbps, forwarding="cut-through", **FRAME)
    begin(network, [0], [1], nbytes)
    assert durations(network) == [max(ends) + len(mbps) * DELAY]


@pytest.mark.parametrize("nbytes", [1, 1000, 12_345])
@pytest.mark.parametrize("senders", [2, 5, 16])
@pytest.mark.parametrize("mbps", [10_000, 100_000])
def test_drain_time_of_an_incast(nbytes: int, senders: int, mbps: int) -> None:
    """The last link is never idle after the first packet has reached the switch."""
    sizes = sizes_of(nbytes)
    drain = senders * sum(time_of(size, mbps) for size in sizes)
    network = star(senders, mbps, transport_options={"window": False}, **FRAME)
    begin(network, list(range(1, senders + 1)), [0] * senders, nbytes)
    expected = time_of(sizes[0], mbps) + drain + 2 * DELAY
    assert max(durations(network)) == expected
    assert engine_of(network).counts["dropped"] == 0


def test_pauses_do_not_slow_the_drain_of_an_incast() -> None:
    """PFC stops the senders, but the queue of the last link is never empty."""
    senders, nbytes, mbps = 8, 100_000, 100_000
    buffer: dict[str, Any] = {"capacity": "350 kB", "alpha": 0.125}
    network = star(senders, mbps, transport_options={"window": False}, buffer=buffer, **FRAME)
    begin(network, list(range(1, senders + 1)), [0] * senders, nbytes)
    assert max(durations(network)) == (1 + senders * 100) * time_of(MTU + HEADER, mbps) + 2 * DELAY
    assert engine_of(network).port_counters()["pauses"].sum() > 0


@pytest.mark.parametrize(("load", "where"), [(0.3, "NIC"), (0.8, "NIC"), (0.6, "switch")])
def test_mean_wait_of_md1(load: float, where: str) -> None:
    """Poisson messages of a packet each wait rho T / (2 (1 - rho)) on average (Pollaczek and Khinchine).

    15,000 samples in 30 batches: the mean of all batches may be off by 4 standard errors of their means (a chance of
    4e-4 by Student's t with 29 degrees of freedom). At the switch, packets come by links that are 100 times as fast
    from 16 senders, so hardly any waits before.
    """
    samples, batches = 15_000, 30
    mbps, size = 10_000, MTU + HEADER
    service = time_of(size, mbps)
    senders = 1 if where == "NIC" else 16
    network = star(senders, mbps if where == "NIC" else 100 * mbps, mbps, ecn={"enabled": False}, **FRAME)
    random = np.random.default_rng(int(100 * load))
    engine = engine_of(network)
    at = np.cumsum(random.exponential(service / load, samples)).astype(np.int64)
    src = random.integers(1, senders + 1, samples)
    for time, source in zip(at.tolist(), src.tolist(), strict=True):
        engine.send(*(np.array([value]) for value in (source, 0, MTU, 0, 10**7)), time, np.array([-1]))
    first = service if where == "NIC" else time_of(size, 100 * mbps)
    engine.run(1 << 60, 1, 1, 1 << 60)
    flows = engine.flow_table()
    waits = flows["end"] - flows["start"] - (first + service + 2 * DELAY)
    assert waits.min() == 0
    means = waits.reshape(batches, -1).mean(axis=1) / service
    error = means.std(ddof=1) / math.sqrt(batches)
    assert abs(means.mean() - load / (2 * (1 - load))) < 4 * error
