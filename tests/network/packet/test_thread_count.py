"""Who decides on threads, and that their number does not show in what a network tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.network.packet import thread_count as module
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.thread_count import ENOUGH, ENOUGH_IN_A_CALL, MEASURE, ThreadChoice, cores
from tests.network.machines import machine_of, packet_network


class Busy:
    """An engine that is as busy as it is told."""

    def __init__(self) -> None:
        self.now = self.router_visits = 0
        self.divisible = True
        self.parts = 1

    def divide(self, part_of: Any) -> None:
        self.parts = int(np.max(part_of)) + 1

    def work(self, rate: float, cycles: int = MEASURE) -> None:
        self.now += cycles
        self.router_visits += int(rate * cycles)


def decider(wanted: int | None, *, skips: bool = False, shape: tuple[int, int] = (8, 8)) -> tuple[ThreadChoice, Busy]:
    engine = Busy()
    network = packet_network("torus", list(shape), latency=2, router={"pipeline": "booksim"})
    routers = network.topology.routers
    return ThreadChoice(routers, network.config.links, wanted, skips=skips), engine


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module, "idle_cores", lambda _threads: 4)


@pytest.mark.parametrize(
    ("text", "allowed"), [("max 100000", 64), ("250000 100000", 2), ("50000 100000", 1), ("nonsense", 64), (None, 64)]
)
def test_cores(text: str | None, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if text is not None:
        (tmp_path / "cpu.max").write_text(text, encoding="ascii")
    monkeypatch.setattr(module, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert cores() == allowed


@pytest.mark.parametrize(("load", "idle"), [(0.0, 4), (1.0, 4), (1.4, 4), (2.1, 3), (4.0, 1), (50.0, 1)])
def test_cores_that_others_leave(load: float, idle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four, while so many processes ran, one of them this one."""
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert module.idle_cores() == idle
    monkeypatch.setattr(module.os, "getloadavg", lambda: (load + 1, 0.0, 0.0))
    assert module.idle_cores(threads=2) == idle


@pytest.mark.usefixtures("many")
def test_as_many_as_have_enough_to_do() -> None:
    """Three cycles between two meetings: a part has enough with ENOUGH / 3 router visits in a cycle."""
    threads, engine = decider(None)
    each = ENOUGH / 3
    assert not threads.decide(engine)  # nothing is known
    engine.work(1.9 * each)
    assert not threads.decide(engine)
    assert threads.used == 1
    assert threads.why.startswith("partitions are too small")
    engine.work(3.1 * each)
    assert threads.decide(engine)
    assert (engine.parts, threads.used, threads.why) == (3, 3, "3 cycles between barriers")
    engine.work(1.8 * each)  # a little less ends nothing
    assert threads.decide(engine)
    engine.work(0.5 * each)
    assert not threads.decide(engine)
    assert threads.used == 3
    engine.work(50 * each)
    assert threads.decide(engine)
    assert engine.parts == 4  # and no more than there are cores


@pytest.mark.usefixtures("many")
def test_calls_that_are_short_do_not_pay() -> None:
    threads, engine = decider(None)
    engine.work(ENOUGH_IN_A_CALL // 10, cycles=1)
    for _ in range(MEASURE):
        assert not threads.decide(engine)
        engine.work(ENOUGH_IN_A_CALL // 10, cycles=1)


@pytest.mark.usefixtures("many")
def test_one_thread_and_why() -> None:
    for wanted, skips, shape, why in [
        (1, False, (4, 4), "one thread requested"),
        (None, True, (4, 4), "fast-forward needs one thread"),
        (2, True, (4, 4), ""),
    ]:
        threads, engine = decider(wanted, skips=skips, shape=shape)
        assert threads.why == why
        engine.work(ENOUGH)
        assert threads.decide(engine) == (not why)
    threads, engine = decider(2)
    engine.divisible = False
    assert not threads.decide(engine)
    assert threads.why == "attribution and --watch need one thread"


def test_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 1)
    assert decider(None)[0].why == "only one core is available"
    threads, engine = decider(2)  # who asks for two gets them
    engine.work(1)
    assert threads.decide(engine)


def test_cores_that_become_idle_and_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run takes a second thread when the other processes have ended, and gives it back when others start."""
    load = 2.0  # one other process
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (load, 0.0, 0.0))
    threads, engine = decider(None)
    engine.work(ENOUGH)
    assert not threads.decide(engine)
    assert (threads.used, threads.why) == (1, "only one core is idle")
    load = 1.2
    engine.work(ENOUGH)
    assert threads.decide(engine)
    assert (engine.parts, threads.used) == (2, 2)
    load = 2.2  # both threads of this process
    engine.work(ENOUGH)
    assert threads.decide(engine)
    load = 3.0
    engine.work(ENOUGH)
    assert not threads.decide(engine)


def everything(network: PacketNetwork) -> dict[str, Any]:
    """Messages at random, some after others have arrived; and all that the network tells then."""
    rng = np.random.default_rng(7)
    arrived = []
    for at in (0, 40, 900):
        src, dst = rng.integers(0, network.npus, (2, 30))
        apart = src != dst
        sizes = rng.integers(1, 1000, 30)
        at = max(at, network.now)
        network.send_many(src[apart], dst[apart], sizes[apart], np.zeros(apart.sum(), np.int64), at)
        for _ in range(10):
            messages, cycles = network.advance(None)
            arrived.append((messages.tolist(), cycles.tolist()))
    while len(found := network.advance(None)[0]):
        arrived.append((found.tolist(), [network.now]))
    network.finish(network.now)
    table = network.windows.table()
    counts = {k: v for k, v in network.counts().items() if "threads" not in k and "skipped" not in k}
    return {
        "arrived": arrived,
        "now": network.now,
        "windows": {name: values.tolist() for name, values in table.counts.items()},
        "counts": counts,
        "buffer_max": network.buffer_max().tolist(),
    }


@pytest.mark.parametrize("shape", [[6], [4, 4]])
def test_their_number_does_not_show(shape: list[int]) -> None:
    told = []
    for count in (1, 2, 3):
        network = PacketNetwork(*machine_of("torus", shape, latency=3, packet="64 B"), window=100, threads=count)
        told.append(everything(network))
        assert network.threads.used == count
        assert (network.engine.epochs > 0) == (count > 1)
    assert told[1] == told[0]
    assert told[2] == told[0]
