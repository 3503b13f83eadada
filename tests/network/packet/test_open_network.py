"""Open traffic on a packet network: messages in arrays, lanes in turns, what arrives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError, InputError
from pyxsim.network.engine_config import MessageClass
from pyxsim.network.packet.divided_network import FOREVER
from pyxsim.network.packet.open_network import OpenNetwork
from pyxsim.routing import valiant
from tests.examples import part_of
from tests.network.machines import cycles, machine_of, packet_network


def open_network(topology: str = "mesh", shape: Any = (2,), **network: Any) -> OpenNetwork:
    options = {
        key: network.pop(key) for key in ("classes", "packet_flits", "trace", "seed", "window") if key in network
    }
    return OpenNetwork(
        *machine_of(topology, shape, **network),
        classes=options.pop("classes", (MessageClass(),)),
        packet=options.pop("packet_flits", None),
        **options,
    )


def test_an_npu_has_one_lane() -> None:
    network = open_network("torus", [3, 3])
    assert (network.config.links.injection, network.config.links.ejection) == (9, 9)
    several = open_network("torus", [3, 3], lanes="per-link")
    assert several.config.links.injection == several.topology.links == 36


def test_the_latency_of_one_packet() -> None:
    """H*R + (H-1)*D + D_in + D_out + 1 + (n-1) from the launch, docs/router.md."""
    network = open_network("mesh", [3], latency=5, lane_latency=cycles(2))
    first = network.inject(7, 0, 2, 4)
    assert first == 0
    assert not network.run(1000)
    got = network.deliveries()
    assert {name: values.tolist() for name, values in got.items()} == {
        "serial": [0],
        "klass": [0],
        "at": [7],
        "first": [7],
        "last": [7 + 3 * 4 + 2 * 5 + 2 + 2 + 1 + 3],
        "hops": [3],
        "packets": [1],
        "flits": [4],
        "src": [0],
        "dst": [2],
    }
    assert all(len(values) == 0 for values in network.deliveries().values())
    assert network.counts()["bytes_delivered"] == 4


def test_time_stops_where_it_was_asked_to() -> None:
    network = open_network(latency=3)
    network.inject(50, 0, 1, 1)
    assert network.run(20)
    assert network.now == 20
    assert network.run(49)
    assert not network.run(FOREVER)
    assert network.deliveries()["last"].tolist() == [50 + 8 + 3 + 2 + 1]


def test_with_slack_it_comes_back_soon_after_an_arrival() -> None:
    network = open_network("mesh", [4], latency=3, window=7)
    network.inject([0, 0, 100], [0, 1, 0], [1, 3, 1], 1)
    alone = 8 + 3 + 2 + 1
    assert network.run(FOREVER, slack=1)
    assert network.now <= alone + 1
    assert network.deliveries()["serial"].tolist() == [0]
    assert network.run(FOREVER, slack=0)
    assert network.now == 12 + 6 + 2 + 1
    assert network.deliveries()["serial"].tolist() == [1]
    network.run(60, slack=5)
    assert network.now == 60
    network.run(FOREVER, slack=3)
    assert network.now <= 100 + alone + 3


def test_what_arrives_is_what_was_sent() -> None:
    """Thousands of messages in any order of time, and in several calls; everything comes back with what it was."""
    rng = np.random.default_rng(1)
    network = open_network("torus", [3, 3], classes=[MessageClass(), MessageClass(0, 3)], packet="8 B")
    sent: dict[int, tuple[int, ...]] = {}
    got: list[tuple[int, ...]] = []

    def take() -> None:
        new = network.deliveries()
        order = list(zip(new["last"].tolist(), new["serial"].tolist(), strict=True))
        assert order == sorted(order)
        names = ("serial", "at", "src", "dst", "flits", "klass", "packets")
        got.extend(zip(*(new[name].tolist() for name in names), strict=True))

    for begin in range(0, 5000, 500):
        count = int(rng.integers(1, 1500))
        at = begin + rng.integers(0, 500, count)
        src, dst = rng.integers(0, 9, (2, count))
        flits, klass, packets = rng.integers(1, 9, count), rng.integers(0, 2, count), rng.integers(1, 4, count)
        last = rng.integers(1, flits + 1)
        first = network.inject(at, src, dst, flits, klass, packets=packets, last_flits=last)
        total = (packets - 1) * flits + last
        for i, row in enumerate(zip(at, src, dst, total, klass, packets, strict=True)):
            sent[first + i] = tuple(map(int, row))
        network.run(begin + 500)
        take()
    network.run(FOREVER)
    take()
    assert {row[0]: row[1:] for row in got} == sent
    assert len(got) == len(sent) > 4000
    assert network.counts()["bytes_delivered"] == sum(row[3] for row in sent.values())
    network.engine.check()


@settings(max_examples=part_of(100))
@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_lanes_take_turns(first: list[int], second: list[int]) -> None:
    """Each NPU's messages go round its lanes, whichever call they come in."""
    network = open_network("ring", [4], lanes=3)
    lanes: list[list[int]] = [[] for _ in range(4)]
    for npus in (first, second):
        taken = network._into.take(np.array(npus, np.int64)).tolist()
        for npu, lane in zip(npus, taken, strict=True):
            lanes[npu].append(list(network.config.inject[npu].values()).index(lane))
    for mine in lanes:
        assert mine == [number % 3 for number in range(len(mine))]


def test_a_lane_in_turn_is_where_a_message_goes() -> None:
    network = open_network("ring", [4], lanes=2, trace=True)
    network.inject(0, [0, 0, 0], [1, 1, 2], 1)
    network.run(100)
    trace = network.engine.trace()
    links = network.config.links
    lanes = {int(message): int(link) for _, link, _, message, _, _ in trace[::-1]}
    assert lanes == {i: links.network + list(network.config.inject[0].values())[i % 2] for i in range(3)}
    last = {int(message): int(link) for _, link, _, message, _, _ in trace}
    out = links.network + links.injection
    into = [list(network.config.eject[npu].values()) for npu in (1, 2)]
    assert last == {0: out + into[0][0], 1: out + into[0][1], 2: out + into[1][0]}


def test_the_same_seed_is_the_same_run() -> None:
    topology, words = machine_of("torus", [4, 4], latency=2, router={"vcs": 8})
    random = replace(topology, relation=valiant(topology.relation))

    def arrivals(seed: int) -> list[int]:
        network = OpenNetwork(random, words, seed=seed)
        rng = np.random.default_rng(5)
        src, dst = rng.integers(0, 16, (2, 3000))
        network.inject(rng.integers(0, 1500, 3000), src, dst, 3)
        network.run(FOREVER)
        times: list[int] = network.deliveries()["last"].tolist()
        return times

    assert arrivals(1) == arrivals(1) != arrivals(2)


def test_priorities_act() -> None:
    """Two classes share a link that each of them could fill: the one with the better rank is hardly held up."""
    network = open_network(
        "mesh",
        [3],
        classes=[MessageClass(0, 0), MessageClass(1, 1)],
        router={"vcs": 4, "virtual_networks": [2, 2]},
    )
    at = np.arange(0, 4000, 5)
    network.inject(at, 0, 2, 5, 0)
    network.inject(at, 1, 2, 5, 1)
    network.run(6000)
    got = network.deliveries()
    took = got["last"] - got["at"]
    alone = 2 * 4 + 1 + 2 + 1 + 4
    assert took[got["klass"] == 1].mean() < 2 * alone < took[got["klass"] == 0].mean()


def test_a_class_of_a_network_that_is_not_there() -> None:
    with pytest.raises(InputError, match="message class 1 uses virtual network 1 of 1; allowed: at least 2 networks"):
        open_network(classes=[MessageClass(), MessageClass(1)])


def test_an_npu_without_a_link_has_no_lane_per_link() -> None:
    with pytest.raises(InputError, match=r"network\.lanes: NPU 0 has no link and therefore no lane"):
        open_network("ring", [1], lanes="per-link")
    network = open_network("ring", [1])
    network.inject(0, 0, 0, 3)
    network.run(100)
    assert network.deliveries()["last"].tolist() == [4 + 1 + 1 + 1 + 2]


def test_a_deadlock_names_messages_that_have_not_arrived() -> None:
    network = open_network("garnet-torus", [8, 1, 1], latency=[3, 1, 1], router={"vcs": 1, "buffer": 4})
    network.inject(0, range(8), [(npu + 1) % 8 for npu in range(8)], 1, plane=0)
    network.run(FOREVER)
    assert len(network.deliveries()["serial"]) == 8
    network.inject(network.now, range(8), [(npu + 3) % 8 for npu in range(8)], 64, plane=0)
    with pytest.raises(DeadlockError) as caught:
        network.run(FOREVER)
    assert any("(message 8, NPU 0 to 3)" in name for name in caught.value.cycle)


def test_cut_through_wants_room_for_the_longest_packet() -> None:
    words: dict[str, Any] = {"router": {"flow_control": "virtual-cut-through", "buffer": 8}}
    with pytest.raises(InputError, match=r"router\.buffer: .* a packet: 9 flits, not 8; allowed: at least 9"):
        open_network(packet_flits=9, **words)
    network = open_network(packet_flits=8, **words)
    network.inject(0, 0, 1, 8)
    network.run(100)
    assert network.deliveries()["flits"].tolist() == [8]


def test_windows_count_the_same_as_a_network_for_collectives() -> None:
    tables = []
    for network in (open_network("mesh", [3], window=10, lanes=1), packet_network("mesh", [3], window=10, lanes=1)):
        if isinstance(network, OpenNetwork):
            network.inject([0, 35, 90], [0, 1, 2], [2, 0, 1], [20, 3, 4])
            network.run(FOREVER)
        else:
            for at, src, dst, size in ((0, 0, 2, 20), (35, 1, 0, 3), (90, 2, 1, 4)):
                network.send(src, dst, size, at=at)
            while len(network.advance(None)[0]):
                pass
        network.finish(200)
        tables.append(network.windows.table())
    first, second = tables
    assert first.start.tolist() == second.start.tolist()
    for name, counts in first.counts.items():
        assert counts.tolist() == second.counts[name].tolist()


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 7), st.integers(0, 7), st.integers(1, 12)),
        min_size=1,
        max_size=60,
    ),
    stops=st.lists(st.integers(1, 80), max_size=8),
)
@settings(max_examples=part_of(50))
def test_it_is_no_matter_where_time_is_cut(rows: list[tuple[int, int, int, int]], stops: list[int]) -> None:
    def arrivals(pauses: list[int]) -> list[tuple[int, int]]:
        network = open_network("mesh", [8], latency=2, window=13, router={"watchdog": 50})
        network.inject(*(np.array(column) for column in zip(*rows, strict=True)))
        found: list[tuple[int, int]] = []
        for pause in [*pauses, FOREVER]:
            network.run(min(FOREVER, network.now + pause), slack=2 if pause % 2 else None)
            got = network.deliveries()
            found += zip(got["serial"].tolist(), got["last"].tolist(), strict=True)
        while network.run(FOREVER):
            pass
        got = network.deliveries()
        return found + list(zip(got["serial"].tolist(), got["last"].tolist(), strict=True))

    assert arrivals(stops) == arrivals([])
