"""Batches and traces: on a queue by hand, then on networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.runner.traffic.finite import BatchRun
from pyxsim.settings.traffic import Traffic
from pyxsim.traffic import PatternContext
from tests.runner.queues import QueueNetwork
from tests.runner.traffic.test_open_loop import TORUS


def batch(npus: int = 4, wire: int = 10, servers: int = 1, **settings: Any) -> BatchRun:
    traffic = Traffic(**settings)
    assert traffic.batch is not None
    network = QueueNetwork(npus, wire, servers)
    found = BatchRun(network, traffic.resolved[0], traffic.batch, PatternContext(npus, (npus,)))
    found.run()
    return found


def test_a_batch_without_a_limit() -> None:
    # Four nodes create three packets each in cycles 0 to 2; one server needs 12 cycles, the wire 10 more.
    found = batch(batch={"size": 3})
    assert found.times == [12 + 10]
    # Packet n of 12 waits for the n before it and was created in cycle n // 4.
    expected = sum(n + 1 + 10 - n // 4 for n in range(12))
    assert found.observer.latency.upto(1).sum() == expected


def test_one_packet_at_a_time() -> None:
    # Every node has its own server: a packet takes 1 + 10 cycles, and the next one is created a cycle later.
    found = batch(npus=4, servers=4, pattern="neighbor", batch={"size": 5, "outstanding": 1})
    assert found.times == [5 * 12 - 1]
    assert found.observer.latency.upto(1).sum() == 20 * 11


@pytest.mark.parametrize(("outstanding", "rounds"), [(2, 3), (3, 2), (4, 2), (6, 1), (100, 1)])
def test_windows(outstanding: int, rounds: int) -> None:
    # Of six packets so many are under way at a time; they are created in successive cycles, and take 11 each.
    found = batch(npus=3, servers=3, pattern="neighbor", batch={"size": 6, "outstanding": outstanding})
    last = (6 - 1) % outstanding  # its place in the last round
    assert found.times == [12 * (rounds - 1) + last + 11]


def test_batches_follow_each_other() -> None:
    found = batch(npus=4, servers=4, pattern="neighbor", batch={"size": 2, "count": 3, "outstanding": 1})
    assert found.times == [23, 23, 23]
    assert found.observer.arrived.upto(1).sum() == 4 * 2 * 3


def test_requests_that_are_answered() -> None:
    replies = {"read_request": 1, "read_reply": 3, "write_request": 1, "write_reply": 3, "delay": 4}
    found = batch(npus=4, servers=4, pattern="neighbor", batch={"size": 2, "outstanding": 1}, replies=replies)
    # 1 + 10 there, 4 to think, 3 + 10 back; then the next one a cycle later.
    trip = 11 + 4 + 13
    assert found.times == [2 * trip + 1]
    assert found.observer.latency.upto(1).tolist() == [[8 * 11], [8 * 13], [8 * trip]]


def simulate(network: dict[str, Any] | None = None, **traffic: Any) -> Result:
    return run({"network": {**TORUS, **(network or {})}, "traffic": traffic})


def test_a_batch_on_a_network() -> None:
    result = simulate(pattern="neighbor", packet_flits=5, batch={"size": 10, "count": 2, "outstanding": 1})
    assert result.traffic is not None
    told = result.traffic.summary
    # A lonely packet over three routers: 7 + 2 * 6 + 4; nobody is in the way of a neighbour.
    alone = 23
    assert told["packet_latency"] == alone
    assert told["batch_cycles"] == [10 * (alone + 1) - 1] * 2
    assert told["measured_packets"] == 320
    assert told["stopped"] == "finished"
    assert told["packet_latency_interval"] is None
    assert told["offered_load"] == told["accepted_load"] == pytest.approx(320 * 5 / 16 / (20 * 24 - 1), rel=0.01)
    assert result.counts["packets"] == 320


def test_a_trace_on_a_network(tmp_path: Path) -> None:
    # A packet of 5 flits in cycle 100; a message of two packets, 5 and 2 flits; a message to itself.
    lines = ["cycle,src,dst,bytes", "100,0,1,1280", "500,0,5,1700", "1000,3,3,1"]
    (tmp_path / "trace.csv").write_text("\n".join(lines), encoding="utf-8")
    result = simulate(trace=str(tmp_path / "trace.csv"))
    assert result.traffic is not None
    told = result.traffic.summary
    assert told["measured_packets"] == 4
    assert told["stopped"] == "finished"
    # 7 + 6 + 4 for two routers; 7 + 12 for three, and seven flits one after the other; 7 for one.
    assert result.traffic.latency.tolist() == [7, 17, 25]
    assert told["hops"] == pytest.approx((2 + 3 + 3 + 1) / 4)
    assert result.counts["messages"] == 3
    assert result.counts["bytes_delivered"] == 13 * 256
    assert result.time_cycles == 1007
