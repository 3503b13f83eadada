"""Where the time of a message went, in closed form; what it is divided into adds up to it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.arrays import IntArray
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from tests.network.ethernet.closed_form_networks import DELAY, begin, chain, durations, engine_of, star

MTU, HEADER, GBPS = 1000, 80, 100
PACKET = (MTU + HEADER) * 8000 // GBPS  # ps
ACK = 84 * 8000 // GBPS
FRAME = {"mtu": f"{MTU} B", "header": f"{HEADER} B"}


def spent(network: EthernetNetwork) -> dict[str, list[int]]:
    """The parts of the time of each message; those without any are left out."""
    times = durations(network)
    parts = {name: column.tolist() for name, column in engine_of(network).flow_times().items() if column.any()}
    total = np.sum(list(parts.values()), axis=0)
    return {**parts, "network": [time - part for time, part in zip(times, total.tolist(), strict=True)]}


def test_a_message_alone() -> None:
    network = chain([GBPS * 1000] * 3, **FRAME)
    begin(network, [0], [1], 10 * MTU)
    assert spent(network) == {"sending": [10 * PACKET], "network": [2 * PACKET + 3 * DELAY]}


def test_two_messages_take_turns_at_a_port() -> None:
    network = star(2, GBPS * 1000, **FRAME, transport_options={"window": False})
    begin(network, [1, 1], [0, 2], 10 * MTU)
    assert spent(network) == {
        "sending": [10 * PACKET] * 2,
        "port": [9 * PACKET, 10 * PACKET],
        "network": [PACKET + 2 * DELAY] * 2,
    }


def test_a_window_of_one_packet() -> None:
    """Nine times until the acknowledgment has come."""
    network = chain([GBPS * 1000] * 2, **FRAME, transport="ndp", transport_options={"initial_window": 1})
    begin(network, [0], [1], 10 * MTU)
    idle = PACKET + 2 * DELAY + 3 * ACK + 2 * DELAY  # the pull is behind the acknowledgment
    assert spent(network) == {"sending": [10 * PACKET], "window": [9 * idle], "network": [PACKET + 2 * DELAY]}


def test_a_rate() -> None:
    """DCQCN cuts the rates of an incast and takes hundreds of microseconds to raise them again."""
    network = star(4, GBPS * 1000, **FRAME, transport="dcqcn", transport_options={"window": False})
    begin(network, [1, 2, 3, 4], [0] * 4, 1000 * MTU)
    parts = spent(network)
    assert set(parts) == {"sending", "rate", "network"}
    assert min(parts["rate"]) > 2 * min(parts["sending"])


def test_pauses() -> None:
    buffer: dict[str, Any] = {"capacity": "350 kB", "alpha": 0.125}
    network = star(8, GBPS * 1000, transport_options={"window": False}, buffer=buffer, **FRAME)
    begin(network, list(range(1, 9)), [0] * 8, 400 * MTU)
    parts = spent(network)
    paused = engine_of(network).port_counters()["paused_time"]
    assert parts["sending"] == [400 * PACKET] * 8
    assert set(parts) == {"sending", "pause", "network"}
    # the last packets are sent before the last pause ends, and a pause that hits a transmission begins at its end
    assert np.sort(paused)[-8:] == pytest.approx(np.sort(parts["pause"]), rel=0.1)


def test_packets_that_are_sent_again() -> None:
    """A switch drops all but the first packets of each burst, and go-back-N repeats them."""
    ethernet: dict[str, Any] = {"pfc": {"enabled": False}, "buffer": {"queue": "9 KiB", "alpha": 0}}
    network = star(4, GBPS * 1000, **FRAME, **ethernet, timeout="20 us", nack_interval="3 us")
    begin(network, [1, 2, 3, 4], [0] * 4, 100 * MTU)
    parts = spent(network)
    flows = engine_of(network).flow_table()
    assert sum(parts["resending"]) > 0
    assert (np.array(parts["resending"]) <= flows["resent"] * PACKET).all()


@given(
    st.sampled_from(["none", "dctcp", "dcqcn", "hpcc", "hpcc-pint", "swift", "timely", "newreno", "cubic", "ndp"]),
    st.booleans(),
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 7), st.integers(1, 200_000)), min_size=1, max_size=20),
)
def test_the_parts_add_up(transport: str, lossless: bool, npus: int, messages: list[tuple[int, int, int]]) -> None:
    """No part is negative, and what is left for the network is at least the way of a packet."""
    ethernet: dict[str, Any] = {"pfc": {"enabled": lossless}, "timeout": "50 us", "retries": 0}
    if not lossless:
        ethernet["buffer"] = {"queue": "20 KiB", "alpha": 0}
    if transport in ("newreno", "cubic"):
        ethernet["transport_options"] = {"min_rto": "20 us", "initial_rto": "100 us"}
    network = star(npus - 1, GBPS * 1000, transport=transport, **FRAME, **ethernet)
    rows = [(src % npus, (src + 1 + off % (npus - 1)) % npus, size) for src, off, size in messages]
    src, dst, size = (np.array(column) for column in zip(*rows, strict=True))
    network.send_many(src, dst, size, np.zeros(len(src), np.int64), 0)
    parts = spent(network)
    left: IntArray = np.array(parts.pop("network"))
    assert (left >= 2 * DELAY).all()
    assert all(min(column) >= 0 for column in parts.values())
    flows = engine_of(network).flow_table()
    header = network.arrays.rules["header"]
    whole = (flows["packets"] - 1) * ((MTU + header) * 8000 // GBPS)
    last = (flows["bytes"] - (flows["packets"] - 1) * MTU + header) * 8000 // GBPS
    assert parts["sending"] == (whole + last).tolist()


def test_attribution_changes_no_result() -> None:
    tables = []
    for attribution in (False, True):
        network = star(5, GBPS * 1000, transport="dcqcn", **FRAME)
        network = EthernetNetwork(network.topology, network.settings, attribution=attribution)
        begin(network, [1, 2, 3, 4, 5], [0] * 5, 10**6)
        durations(network)
        tables.append({name: column.tolist() for name, column in engine_of(network).flow_table().items()})
        assert ("flow_times" in network.tables()) == attribution
    assert tables[0] == tables[1]


def test_a_restored_engine_divides_time_as_the_first_one() -> None:
    network = star(5, GBPS * 1000, transport="dcqcn", **FRAME)
    begin(network, [1, 2, 3, 4, 5], [0] * 5, 10**6)
    network.advance(50 * PACKET)
    engine = engine_of(network)
    tables = []
    for each in engine, pickle.loads(pickle.dumps(engine)):
        each.run(1 << 60, 1, 1, 1 << 60)
        tables.append({name: column.tolist() for name, column in each.flow_times().items()})
    assert tables[0] == tables[1]
    assert sum(tables[0]["rate"]) > 0
