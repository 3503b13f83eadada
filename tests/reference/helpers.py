"""Short ways to run the oracle on a small network and to look at what it did."""

from __future__ import annotations

from typing import Any

from tests.reference.networks import Net, Stages, hub, options, style
from tests.reference.recording import RecordingEngine

CAUSES = ("vc", "credit", "serial", "arbitration")


def oracle(net: Net, stages: Stages, **others: Any) -> RecordingEngine:
    return RecordingEngine(net.routers, net.links(), net.routes(), options(stages, **others))


def finish(machine: RecordingEngine, limit: int = 100_000) -> RecordingEngine:
    while not (machine.finished or machine.deadlocked or machine.now > limit):
        machine.step()
    assert machine.finished
    return machine


def cycles(machine: RecordingEngine, link: int) -> list[int]:
    """The launch cycles of a link, in order."""
    return [launch[0] for launch in machine.launches if launch[1] == link]


def column(machine: RecordingEngine, link: int, name: str) -> list[int]:
    i = ("cycle", "link", "vc", "message", "packet", "flit").index(name)
    return [launch[i] for launch in machine.launches if launch[1] == link]


def stalls(machine: RecordingEngine, link: int) -> dict[str, int]:
    counters = machine.counters()
    return {cause: counters[f"stall_{cause}"][link] for cause in CAUSES}


def machine_ejection(net: Net, lane: int) -> int:
    return len(net.wires) + len(net.injection) + lane


def short(nodes: int, stages: Stages, **ejection: Any) -> Net:
    """`nodes` at one router with lanes of latency 1: a head launched at 0 is in its input VC at 2."""
    return hub(nodes).plain(
        style(stages, 1),
        style(stages, 1, kind="injection"),
        style(stages, 1, kind="ejection", **ejection),
    )


def path(machine: RecordingEngine, message: int) -> list[int]:
    """The links that the head of a one-packet message took."""
    return [link for _, link, _, m, _, flit in sorted(machine.launches) if m == message and flit == 0]
