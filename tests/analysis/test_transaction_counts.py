"""What a run has done against what is known before: packets and flits in closed form, limits, Little's law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import pyxsim
from pyxsim.analysis.transaction_counts import COUNTED
from pyxsim.errors import InputError
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.study.check.check_transactions import transactions
from tests.examples import part_of
from tests.network.packet.transactions.random_transactions import experiments


@settings(max_examples=part_of(300, 20), deadline=None)
@given(table=experiments())
def test_a_run_has_the_expected_counts_and_keeps_its_limits(table: dict[str, Any]) -> None:
    try:
        ready = prepare(load_experiment(table))
    except InputError:
        return
    found = transactions(ready)
    assert found is not None
    result = pyxsim.run(table)
    rows = result.backend_tables["transactions"].columns
    assert list(rows["kind"]) == [row["kind"] for row in found.data["transactions"]]
    for name in COUNTED:
        assert rows[name].tolist() == [row[name] for row in found.data["transactions"]], name
    assert (rows["ended"] == rows["transactions"]).all(), "loads are answered"
    packets = result.backend_tables["transaction_packets"].columns
    assert (packets["sent"] == packets["arrived"]).all()
    assert result.time_cycles >= found.data["transaction_bound_cycles"]
    rules = table["network"]["transactions"]
    most = result.backend_tables["transactions"].attrs["outstanding_max"]
    assert most <= rules["outstanding"]
    assert rows["outstanding_mean"].sum() <= most * (1 + 1e-9)
    if "buffers" in rules["switch"] and "switch_reduction" in result.backend_tables:
        assert result.backend_tables["switch_reduction"].columns["entries_max"][0] <= rules["switch"]["buffers"]
    if len(ready.topology.shape) == 1 and ready.topology.name == "switch":  # each packet passes two links, or one
        flits = sum(row["request_flits"] + row["response_flits"] for row in found.data["transactions"])
        half = np.isin(rows["kind"], ["load of a sum", "store to all", "operand"])
        passes = (2 - half) * (rows["request_flits"] + rows["response_flits"])
        resent = 0
        if "link_faults" in result.backend_tables:
            resent = int(result.backend_tables["link_faults"].columns["resent"].sum())
        assert int(result.totals["flits"].sum()) == int(passes.sum()) + resent
        assert flits


def test_the_bound_is_near_where_limits_decide() -> None:
    """16 loads at a time, of 758 cycles each with the turnaround; the bound lacks the time of flits and turnaround."""
    table = {
        "network": {
            "topology": "switch",
            "shape": [2],
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "100 ns",
            "transactions": {"outstanding": 16},
        },
        "system": {"reduce_scatter": "two-shot"},
        "collective": {"kind": "reduce-scatter", "size": "64 KiB"},
    }
    report = pyxsim.check(table)
    result = pyxsim.run(table)
    bound = report["transaction_bound_cycles"]
    assert bound == 256 // 16 * (2 * 205 + 300)
    assert bound <= result.time_cycles <= 1.1 * bound
    assert report["router_visits"] == result.counts["router_visits"]


@pytest.mark.parametrize("algorithm", ["multimem:2", "in-switch", "one-shot", "one-shot:1"])
def test_router_visits_are_those_of_the_run(algorithm: str) -> None:
    table = {
        "network": {"topology": "switch", "shape": [4], "flit": "16 B", "transactions": {"store_acks": False}},
        "system": {"all_reduce": algorithm},
        "collective": {"kind": "all-reduce", "size": "5000 B"},
    }
    ready = prepare(load_experiment(table))
    assert ready.router_visits == pyxsim.run(table).counts["router_visits"]
