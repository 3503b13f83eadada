"""Backends by name: each runs what the others run, and says in one line what it is not for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.network.backends import by_cost
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment

NAMES = ["packet", "analytical", "analytical-congestion", "flow"]
COLLECTIVE = {"kind": "all-reduce", "size": "64 KiB"}
MIXED = {
    "dims": [
        {"block": "ring", "npus": 4, "bandwidth": "4 GB/s", "latency": "20 ns"},
        {"block": "switch", "npus": 3, "bandwidth": "2 GB/s", "latency": "50 ns"},
    ]
}
TABLES = {"network": MIXED, "system": {"chunks": 2}, "collective": COLLECTIVE}
NIC = {"topology": "ring", "shape": [4], "analytical": {"nic_latency": "1 ns"}}


def test_their_names() -> None:
    assert by_cost() == [*NAMES[1:], NAMES[0]]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_of_any_of_them(name: str) -> None:
    prepared: Any = prepare(load_experiment(TABLES), backend=name)
    network = prepared.network
    widths = network.injection_bandwidths()
    assert widths[0] / widths[1] == Fraction(4)
    wires = network.link_params
    assert {(wire.s, wire.latency) for wire in wires} == {(64, 20), (128, 50)}
    result = run(TABLES, backend=name)
    assert result.backend == name
    assert result.complete
    assert result.counts["bytes_delivered"] == prepared.bytes_planned
    assert result.lower_bound_ns is not None
    assert 0 < result.lower_bound_ns <= result.time_ns
    assert network.router_visits == 0
    assert (result.counts["router_visits"] > 0) == (name == "packet")
    # What links carry is told by each of them, and how busy they were.
    assert result.totals["flits"].all()
    assert result.windows.counts["flits"].sum(axis=0).tolist() == result.totals["flits"].tolist()


def test_where_steps_keep_to_their_links_all_but_packets_take_the_same_time() -> None:
    """A ring on a ring: a message on each link at a time, 500 of 64 B/cycle and 20 of latency, 6 times."""
    network = {"topology": "ring", "shape": [4], "bandwidth": "64 GB/s", "latency": "20 ns"}
    collective = {"kind": "all-reduce", "size": "128000 B"}
    tables = {"network": network, "system": {"all_reduce": "ring"}, "collective": collective}
    times = {name: run(tables, backend=name).time_ns for name in NAMES}
    assert {times[name] for name in NAMES[1:]} == {6 * 520}
    assert 6 * 520 < times["packet"] < 6 * 560


@pytest.mark.parametrize(
    ("name", "tables", "told"),
    [
        ("flaw", {}, "backend: unknown backend 'flaw'; allowed: analytical, .*; did you mean 'flow'"),
        *[
            (
                name,
                {"traffic": {"load": 0.1}},
                f"backend: backend '{name}' does not support open traffic; allowed: packet",
            )
            for name in NAMES[1:]
        ],
        *[(name, {"network": NIC}, "nic_latency: applies only to the delays of ASTRA-sim 1") for name in NAMES[1:]],
    ],
)
def test_what_they_are_not_for(name: str, tables: dict[str, Any], told: str) -> None:
    work = {} if "traffic" in tables else {"collective": COLLECTIVE}
    with pytest.raises(InputError, match=told):
        run({"network": MIXED, **work, **tables}, backend=name)
