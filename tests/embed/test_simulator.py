"""The simulator that others drive: its times are those of `[[message]]`, whoever leads and however time is cut."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.embed.simulator import Simulator
from pyxsim.errors import InputError, InputErrors, StuckError
from tests.examples import part_of

BACKENDS = ("packet", "reference", "analytical", "analytical-congestion", "flow", "ethernet")
TORUS = {"topology": "torus", "shape": [2, 3], "bandwidth": "50 GB/s", "latency": "20 ns"}
SWITCH = {"topology": "switch", "shape": [6]}
ENDPOINTS = {
    "endpoint_delay": "30 ns",
    "start_skew": "40 ns",
    "stragglers": [{"npus": [3], "slow": 2, "start": "7 ns"}],
}
RING = {"network": {"topology": "ring", "shape": [4]}}

messages = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 9000), st.integers(0, 600)), min_size=1, max_size=12
).map(lambda rows: [(src, (src + hop) % 6, size, at) for src, hop, size, at in rows])


def tables(backend: str, system: dict) -> dict:
    return {"network": SWITCH if backend == "ethernet" else TORUS, "system": system}


def of_experiment(rows: list, backend: str, system: dict) -> list[int]:
    sent = [{"src": src, "dst": dst, "size": f"{size} B", "at": f"{at} ns"} for src, dst, size, at in rows]
    result = pyxsim.run({**tables(backend, system), "message": sent}, backend=backend)
    return [message["end"] for message in result.point_to_point]


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=part_of(100, 8))
@given(rows=messages, system=st.sampled_from([{}, ENDPOINTS]), cuts=st.lists(st.integers(0, 900), max_size=5))
def test_times_are_those_of_messages(backend: str, rows: list, system: dict, cuts: list[int]) -> None:
    expected = of_experiment(rows, backend, system)

    with Simulator(tables(backend, system), backend=backend) as sim:  # all known, taken out in one array
        for src, dst, size, at in rows:
            sim.submit(src, dst, size, at=at)
        arrivals = sim.advance()
        assert arrivals.cycle[np.argsort(arrivals.message)].tolist() == expected
        assert sim.now == max(expected)

    ends: dict[int, int] = {}
    with Simulator(tables(backend, system), backend=backend) as sim:  # the other simulator leads
        for number, (src, dst, size, at) in enumerate(rows):
            sim.schedule(at, lambda n=number, s=src, d=dst, b=size: sim.send(s, d, b, n))
            sim.recv(src, dst, size, number, lambda n=number: ends.__setitem__(n, sim.now))
        for until in sorted(cuts):
            sim.advance(until)
            assert sim.now == until
        sim.advance()
        sim.check_received()
        assert [ends[number] for number in range(len(rows))] == expected
        assert sim.messages_in_flight == sim.receptions_waiting == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_callbacks_send_on(backend: str) -> None:
    """In a relay in steps of another length, each message takes as long as one alone."""
    source = {"network": SWITCH if backend == "ethernet" else {**TORUS, "topology": "ring", "shape": [6]}}
    alone = Simulator(source, backend=backend)
    alone.submit(0, 1, 4000)
    once = int(alone.advance().cycle[0])
    times: list[int] = []
    sim = Simulator(source, backend=backend)

    def hop(npu: int) -> None:
        times.append(sim.now)
        if npu < 5:
            sim.send(npu, npu + 1, 4000, callback=lambda: hop(npu + 1))

    hop(0)
    while sim.messages_in_flight:
        sim.advance(sim.now + 37)
    fraction = backend == "ethernet"  # its packets do not leave in whole cycles
    assert np.abs(np.diff(times) - once).max() <= fraction


def test_receptions_match_in_order_whatever_comes_first() -> None:
    sim = Simulator(RING, backend="analytical")
    got: list[str] = []
    sim.recv(0, 1, 100, 7, lambda: got.append(f"a {sim.now}"))
    sim.recv(0, 1, 100, 7, lambda: got.append(f"b {sim.now}"))
    sim.recv(0, 1, 100, 8, lambda: got.append(f"other tag {sim.now}"))
    sim.recv(0, 1, 101, 7, lambda: got.append(f"other size {sim.now}"))
    sim.send(0, 1, 100, 7)
    sim.send(0, 1, 100, 7, at=1000)
    sim.send(0, 1, 100, 8, at=2000)
    sim.advance()
    first = int(got[0].split()[1])
    assert got == [f"a {first}", f"b {1000 + first}", f"other tag {2000 + first}"]
    with pytest.raises(StuckError, match="NPU 1 waits for 101 bytes from NPU 0, tag 7"):
        sim.check_received()
    for _ in range(3):
        sim.send(2, 3, 64, 1)
    sim.advance(10_000)
    for _ in range(3):  # after their messages: at once
        sim.recv(2, 3, 64, 1, lambda: got.append(f"late {sim.now}"))
    sim.advance(10_000)
    assert got[3:] == ["late 10000"] * 3


@settings(max_examples=part_of(200))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(1, 3), st.integers(-2, 2)), max_size=200))
def test_matching_is_that_of_lists(steps: list) -> None:
    """Against lists, with many keys and places that are used again."""
    sim = Simulator(RING, backend="analytical")
    got: list[int] = []
    waiting: dict[tuple, list[int]] = {}
    arrived: dict[tuple, int] = {}
    expected: list[int] = []
    for number, (sends, dst, size, tag) in enumerate(steps):
        key = (dst, size, tag)
        if sends:
            sim.send(3, dst, size, tag)
            sim.advance()
            if waiting.get(key):
                expected.append(waiting[key].pop(0))
            else:
                arrived[key] = arrived.get(key, 0) + 1
        else:
            sim.recv(3, dst, size, tag, lambda n=number: got.append(n))
            sim.advance(sim.now)
            if arrived.get(key):
                arrived[key] -= 1
                expected.append(number)
            else:
                waiting.setdefault(key, []).append(number)
        assert got == expected
        assert sim.receptions_waiting == sum(map(len, waiting.values()))


def test_stop_returns_at_the_end_of_a_cycle() -> None:
    sim = Simulator(RING, backend="flow")
    sim.send(0, 1, 1000, callback=sim.stop)
    sim.send(2, 3, 1000, callback=sim.stop)
    sim.send(1, 2, 5000)
    sim.advance()
    both, left = sim.now, sim.messages_in_flight
    sim.advance()
    assert left == 1
    assert sim.now > both


def test_actions_come_in_the_order_of_the_calls() -> None:
    sim = Simulator(RING)
    seen: list[object] = []
    sim.schedule("5 ns", lambda: seen.append("b"))
    sim.schedule(5, lambda: (seen.append("c"), sim.schedule(0, lambda: seen.append(("d", sim.now)))))
    sim.schedule(0, lambda: seen.append("a"))
    sim.advance(4)
    assert seen == ["a"]
    sim.advance(5)
    assert seen == ["a", "b", "c", ("d", 5)]
    assert sim.now_ns == 5.0


def test_a_callback_that_fails_ends_the_call_and_the_others_follow() -> None:
    sim = Simulator(RING)
    seen: list[int] = []
    sim.schedule(3, lambda: 1 // 0)
    sim.schedule(3, lambda: seen.append(sim.now))
    with pytest.raises(ZeroDivisionError):
        sim.advance()
    assert (sim.now, seen) == (3, [])
    sim.advance()
    assert seen == [3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_are_those_of_the_result(backend: str) -> None:
    rows = [(0, 1, 5000, 0), (1, 5, 3000, 10), (4, 2, 700, 20)]
    sent = [{"src": src, "dst": dst, "size": f"{size} B", "at": f"{at} ns"} for src, dst, size, at in rows]
    result = pyxsim.run({**tables(backend, {}), "message": sent}, backend=backend)
    sim = Simulator(tables(backend, {}), backend=backend)
    for src, dst, size, at in rows:
        sim.submit(src, dst, size, at=at)
    sim.advance()
    statistics, totals = sim.statistics(), result.totals
    assert statistics.link == result.links.name
    assert statistics.flits.tolist() == totals["flits"].tolist()
    assert statistics.flits.sum() > 0
    assert statistics.bytes_delivered == 8700
    assert (statistics.messages_sent, statistics.messages_arrived) == (3, 3)
    assert 0 < statistics.utilization.max() <= 1


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda sim: sim.send(0, 4, 10), "there is no NPU 4; allowed: NPUs 0 to 3"),
        (lambda sim: sim.recv(-1, 2, 10, 0), "there is no NPU -1"),
        (lambda sim: sim.send(2, 2, 10), "NPU 2 cannot send a message to itself"),
        (lambda sim: sim.send(0, 1, 0), "a message of 0 bytes is not possible"),
        (lambda sim: sim.send(0, 1, 10, at=99), "cycle 99 is in the past; allowed: cycle 100 or later"),
        (lambda sim: sim.advance(99), "cycle 99 is in the past"),
        (lambda sim: sim.advance("99 parsecs"), "parsecs"),
        (lambda sim: sim.advance(2**62 + 1), "is too late; allowed: cycles up to 2\\^62"),
        (lambda sim: sim.advance(2**70), "is out of range"),
        (lambda sim: sim.send(0, 1, 10, at=2**62 + 1), "is too late"),
        (lambda sim: sim.send(0, 1, 2**63), "is out of range"),
        (lambda sim: sim.recv(0, 1, 10, -(2**63) - 1), "is out of range"),
        (lambda sim: sim.recv(0, 1, 10, -(2**63)), "no message has this tag"),
        (lambda sim: sim.schedule(2**63 - 1, print), "is out of range"),
        (lambda sim: sim.schedule(-1, print), "-1 is not a delay"),
        (lambda sim: sim.submit([0, 1], [1, 1], 10), "NPU 1 cannot send a message to itself"),
        (lambda sim: sim.submit([0.5], [1], 10), "messages are arrays of integers"),
        (lambda sim: (sim.schedule(0, sim.advance), sim.advance()), "the simulator is already advancing"),
        (lambda sim: (sim.close(), sim.send(0, 1, 10)), "the simulator is closed"),
        (lambda sim: (sim.close(), sim.advance()), "the simulator is closed"),
    ],
)
def test_faults_of_calls_are_one_line(call: object, line: str) -> None:
    sim = Simulator(RING)
    sim.advance(100)
    with pytest.raises(InputError, match=line):
        call(sim)
    assert sim.messages_in_flight == 0


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"collective": {"kind": "all-reduce", "size": "1 KiB"}}, "collective"),
        ({"message": [{"src": 0, "dst": 1, "size": "1 KiB"}]}, "message"),
        ({"system": {"chunks": 4}}, "system.chunks"),
        ({"run": {"mpi": True}}, "run.mpi"),
        ({"run": {"checkpoint": "60 s"}}, "run.checkpoint"),
    ],
)
def test_settings_without_effect_are_refused(more: dict, key: str) -> None:
    with pytest.raises((InputError, InputErrors), match=f"^{key}: "):
        Simulator({**RING, **more})


def test_sources_are_toml_and_json(tmp_path: Path) -> None:
    toml = '[network]\ntopology = "ring"\nshape = [4]\n'
    (tmp_path / "a.toml").write_text(toml)
    (tmp_path / "a.json").write_text(json.dumps(RING))
    for sim in (
        Simulator(tmp_path / "a.toml"),
        Simulator(str(tmp_path / "a.json")),
        Simulator.from_text(toml),
        Simulator.from_text(json.dumps(RING)),
        pyxsim.Simulator(RING, overrides=["network.latency=1 ns"]),
    ):
        assert sim.npus == 4
    for text in ("{", "[network", "{]", '{"network": 3}'):
        with pytest.raises(InputError):
            Simulator.from_text(text)
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(InputError, match=r"b.json: not an experiment"):
        Simulator(tmp_path / "b.json")
