"""Several engines for messages that never meet: what arrives, and what is counted, is as in one engine."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.arrays import IntArray
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.split_engine import Groups
from tests.examples import part_of
from tests.network.machines import packet_network

SIDE = 4
Sent = tuple[int, int, int, int]  # how much later than the one before, source, along which dimension how far, flits
messages = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, SIDE**2 - 1), st.integers(0, 2 * SIDE - 3), st.integers(1, 400)),
    min_size=1,
    max_size=30,
)


def mesh(window: int = 100) -> PacketNetwork:
    return packet_network("mesh", (SIDE, SIDE), latency=5, s=Fraction(3, 2), window=window)


def ends(src: int, way: int) -> tuple[int, int]:
    """The dimension, and who is so far away in it."""
    dim, step = divmod(way, SIDE - 1)
    stride = SIDE**dim
    place = src // stride % SIDE
    return dim, src + ((place + step + 1) % SIDE - place) * stride


def groups(network: PacketNetwork) -> Groups:
    """Dimension by dimension: of a mesh each has its own links, and each link its lanes."""
    topology, links = network.topology, network.config.links
    lane, eject = np.full(links.injection, -1), np.full(links.ejection, -1)
    for src in range(SIDE**2):
        for way in range(2 * (SIDE - 1)):
            dim, dst = ends(src, way)
            (out,), (into,) = network.lanes_of(*(np.array([each]) for each in (src, dst, 0)))
            assert lane[out] in (-1, dim)
            assert eject[into] in (-1, dim)
            lane[out] = eject[into] = dim
    own = [np.flatnonzero(topology.link_dim == dim) for dim in range(2)]
    room = int((links.vcs * links.depth).max()) * (SIDE + 1)
    return Groups(lane, eject, own, [Fraction(3, 2)] * 2, [room] * 2, [5] * 2)


def carry_out(
    network: PacketNetwork, sent: list[Sent], *, again: bool = False
) -> tuple[PacketNetwork, list[tuple[int, int]]]:
    """Send each message so long after the cycle in which something was heard of last. The network, pickled after each
    if `again`, and what arrived when."""
    found: list[tuple[int, int]] = []

    def take(until: int | None) -> IntArray:
        arrived, cycles = network.advance(until)
        pairs = list(zip(cycles.tolist(), arrived.tolist(), strict=True))
        assert pairs == sorted(pairs)
        found.extend(pairs)
        return arrived

    at = 0
    for late, src, way, flits in sent:
        at = max(network.now, at + late)
        while network.now < at and (len(take(at)) or network.engine.flits_in_flight):
            pass
        at = max(at, network.now)
        network.send(src, ends(src, way)[1], flits, at=at)
        if again:
            network = pickle.loads(pickle.dumps(network))
    while len(take(None)):
        pass
    network.finish(network.now)
    return network, found


def as_one(sent: list[Sent], window: int, *, again: bool = False) -> None:
    one, several = mesh(window), mesh(window)
    several.split(groups(several))
    first, times = carry_out(one, sent)
    second, found = carry_out(several, sent, again=again)
    assert found == times
    assert first.now == second.now
    assert first.engine.counters().keys() == second.engine.counters().keys()
    for name, values in first.engine.counters().items():
        assert np.array_equal(values, second.engine.counters()[name])
    assert np.array_equal(first.engine.buffer_max(), second.engine.buffer_max())
    assert first.engine.totals() == second.engine.totals()
    assert first.bytes_delivered == second.bytes_delivered
    mine, other = first.windows.table(), second.windows.table()
    assert mine.length == other.length
    assert mine.start.tolist() == other.start.tolist()
    for name, table in mine.counts.items():
        assert np.array_equal(table, other.counts[name])


@settings(max_examples=part_of(40), deadline=None)
@given(sent=messages, window=st.sampled_from([1, 7, 100, 1000]))
def test_what_arrives_and_is_counted_is_as_in_one_engine(sent: list[Sent], window: int) -> None:
    as_one(sent, window)


def test_a_network_in_parts_may_be_pickled_at_any_time() -> None:
    sent = [(50, src, way, 200) for src in range(0, 16, 3) for way in (0, 4)]
    as_one(sent, 100, again=True)


@settings(max_examples=part_of(40), deadline=None)
@given(sent=messages, slack=st.integers(0, 200))
def test_with_slack_messages_arrive_when_they_do_without(sent: list[Sent], slack: int) -> None:
    """All are sent beforehand: then nothing hangs on when somebody hears of what has arrived."""
    networks = [mesh(), mesh()]
    networks[1].split(groups(networks[1]))
    found = []
    for network in networks:
        at = 0
        for late, src, way, flits in sent:
            at += late
            network.send(src, ends(src, way)[1], flits, at=at)
        arrived = []
        while len((some := network.advance(None, slack=slack))[0]):
            assert network.now <= some[1][0] + slack
            arrived += list(zip(some[1].tolist(), some[0].tolist(), strict=True))
        assert arrived == sorted(arrived)
        found.append(arrived)
    assert found[0] == found[1]


def test_a_message_of_no_group_is_refused() -> None:
    network = mesh()
    known = groups(network)
    network.split(Groups(np.full_like(known.lane, -1), known.eject, known.links, known.pace, known.room, known.latency))
    with pytest.raises(RuntimeError, match="other lanes"):
        network.send(0, 1, 10, at=0)
