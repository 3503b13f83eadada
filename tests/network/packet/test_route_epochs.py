"""Tables of routes that follow the links that are up: the engine against the reference, and against graphs."""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.core.engine import Engine
from pyxsim.errors import InputError, StuckError
from pyxsim.library import load_all
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.reference.backend import ReferenceNetwork
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from tests.core.test_oracle import same_launches
from tests.examples import part_of
from tests.reference.recording import RecordingEngine

EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
few = settings(max_examples=part_of(120), deadline=None, suppress_health_check=EVERYWHERE)
many = settings(few, max_examples=part_of(2000))

NETWORKS: list[dict[str, Any]] = [
    {"topology": "folded-clos", "options": {"children": [2, 2, 2], "parents": [2, 2]}},
    {"topology": "folded-clos", "options": {"children": [2, 3], "parents": [2], "parallel": [2]}},
    {
        "topology": "folded-clos",
        "options": {"children": [2, 2], "parents": [2]},
        "router": {"routing": "adaptive-nearest-common-ancestor"},
    },
    {"topology": "torus", "shape": [3, 3]},
    {"topology": "torus", "shape": [4, 2], "router": {"routing": "minimal-adaptive", "vcs": 6}},
    {"topology": "torus", "shape": [3, 3], "router": {"routing": "valiant", "vcs": 4}},
    {"topology": "mesh", "shape": [2, 3]},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}},
    {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}, "router": {"routing": "ugal", "vcs": 6}},
    {"topology": "random-regular", "options": {"p": 1, "routers": 6, "degree": 3}},
    {
        "topology": "random-regular",
        "options": {"p": 1, "routers": 6, "degree": 3},
        "router": {"routing": "minimal-adaptive"},
    },
]


def network(number: int, **more: Any) -> dict[str, Any]:
    base = {"latency": "20 ns", "bandwidth": "64 GB/s", "flit": "64 B", "packet": "256 B"}
    chosen = NETWORKS[number]
    router = {"buffer": 8, **chosen.get("router", {})}
    return {**base, **chosen, "router": router, "reroute": {"reaction": "60 ns"}, **more}


class Recorded(ReferenceNetwork):
    """The reference with a record of all launches."""

    def _make_engine(self, **options: Any) -> Engine:
        config = self.config
        return cast(
            Engine, RecordingEngine(self.topology.routers, config.links, config.routes, config.options, every=10**9)
        )


def experiment(number: int, faults: list[dict[str, Any]], seed: int = 0, **more: Any) -> Any:
    message = [{"src": 0, "dst": 1, "size": "1 B"}]
    tables = {"network": network(number, **more), "message": message, "faults": faults, "output": {"seed": seed}}
    return load_experiment(tables, ())


def both(number: int, faults: list[dict[str, Any]], seed: int = 0, **more: Any) -> tuple[PacketNetwork, Recorded]:
    loaded = experiment(number, faults, seed, **more)
    topology = network_of(loaded.network)
    options: Any = {"skip": False, "faulty": loaded, "seed": seed}
    return (
        PacketNetwork(topology, loaded.network, trace=True, **options),
        Recorded(topology, loaded.network, **options),
    )


def run_out(machine: PacketNetwork, messages: list[tuple[int, int, int, int]]) -> tuple[list[tuple[int, int]], str]:
    """Send all messages (src, dst, bytes, cycle), and run until nothing moves. Return the deliveries, and why it ended."""
    npus = machine.topology.npus
    for src, dst, nbytes, at in messages:
        if src % npus != dst % npus:
            machine.send(src % npus, dst % npus, nbytes, plane=machine.topology.queues[0][0].plane, at=at)
    delivered: list[tuple[int, int]] = []
    try:
        while True:
            arrived, cycles = machine.advance(None)
            delivered += zip(arrived.tolist(), cycles.tolist(), strict=True)
            if not len(arrived):
                return sorted(delivered), "end"
    except StuckError as error:
        return sorted(delivered), str(error)


def compare(number: int, faults: list[dict[str, Any]], messages: list[tuple[int, int, int, int]], seed: int) -> None:
    engine, oracle = both(number, faults, seed)
    found, why = run_out(engine, messages)
    expected, other = run_out(oracle, messages)
    recorded = cast(RecordingEngine, oracle.engine)
    same_launches(engine.engine, recorded)
    assert found == expected
    assert why == other
    assert engine.engine.totals() == oracle.engine.totals()
    assert engine.engine.lost_messages().tolist() == oracle.engine.lost_messages().tolist()
    engine.engine.check()
    sent = sum(machine_flits(engine))
    totals = engine.engine.totals()
    # Injected = delivered + lost + in flight, and what never left its NPU.
    waiting = sent - totals["flits"] - totals["flits_lost"] - engine.engine.flits_in_flight
    assert waiting >= 0
    assert engine.faults is not None
    assert engine.faults.epochs is not None
    assert oracle.faults is not None
    assert oracle.faults.epochs is not None
    mine, its = (each.faults.epochs.table(each.engine).columns for each in (engine, oracle))  # type: ignore[union-attr]
    assert {name: values.tolist() for name, values in mine.items()} == {
        name: values.tolist() for name, values in its.items()
    }


def machine_flits(machine: PacketNetwork) -> list[int]:
    return [(p - 1) * f + last for p, f, last in map(machine.cut, machine._bytes)]


def link_names(number: int) -> list[str]:
    return list(network_of(experiment(number, []).network).counted_link_name)


load_all()
NAMES = [link_names(number) for number in range(len(NETWORKS))]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[int, list[dict[str, Any]]]:
    number = draw(st.integers(0, len(NETWORKS) - 1))
    faults = []
    for _ in range(draw(st.integers(1, 5))):
        fault: dict[str, Any] = {"link": draw(st.sampled_from(NAMES[number])), "down": True}
        fault["at"] = f"{draw(st.integers(0, 700))} ns"
        fault["in_flight"] = draw(st.sampled_from(["drain", "lose"]))
        fault["both_directions"] = draw(st.booleans())
        length = draw(st.sampled_from([None, 1, 20, 100, 400]))
        if length is not None:
            fault["for"] = f"{length} ns"
            if draw(st.booleans()):
                fault["up"] = f"{draw(st.integers(1, 300))} ns"
                fault["until"] = "3 us"
        faults.append(fault)
    return number, faults


messages_of = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(1, 6000), st.integers(0, 600)),
    min_size=1,
    max_size=14,
)


@few
@given(schedules(), messages_of, st.integers(0, 99))
def test_random_schedules_agree(case: Any, messages: list[tuple[int, int, int, int]], seed: int) -> None:
    number, faults = case
    compare(number, faults, messages, seed)


@pytest.mark.slow
@many
@given(schedules(), messages_of, st.integers(0, 99))
def test_many_schedules_agree(case: Any, messages: list[tuple[int, int, int, int]], seed: int) -> None:
    number, faults = case
    compare(number, faults, messages, seed)
