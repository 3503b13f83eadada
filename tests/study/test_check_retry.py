"""pyxsim check of retry, and what runs do within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.study.check.check_retry import replay_buffers
from tests.examples import part_of

LINK: dict[str, Any] = {
    "topology": "mesh",
    "shape": [2],
    "bandwidth": "128 GB/s",
    "lane_bandwidth": "256 GB/s",
    "latency": "100 ns",
}


def experiment(nbytes: int, rate: float, **retry: Any) -> dict[str, Any]:
    faults = [{"link": "d0+:(0)->(1)", "both_directions": False, "bit_error_rate": rate}] if rate else []
    message = [{"src": 0, "dst": 1, "size": f"{nbytes} B"}]
    return {"network": {**LINK, "retry": retry}, "message": message, "faults": faults}


def test_a_buffer_of_half_the_round_trip() -> None:
    """As the study of docs/faults.md: a flit in 2 cycles, an answer after 204."""
    report = pyxsim.check(experiment(2**16, 0, buffer=51))
    (found,) = report["retry"]
    assert found == {"name": "d0", "slots": 51, "round_trip": 204, "pace": 2.0, "share": 0.5}
    assert "a replay buffer of 51 flits for a round trip of 204 cycles: 50.0 % busy at most" in str(report)
    assert "no limit" in str(pyxsim.check(experiment(2**16, 0)))
    assert "retry" not in pyxsim.check({"network": LINK, "message": [{"src": 0, "dst": 1, "size": "1 B"}]}).data


@settings(max_examples=part_of(200, 10), deadline=None)
@given(
    nbytes=st.integers(1, 200_000),
    rate=st.sampled_from([0, 1e-6, 1e-5, 1e-4]),
    buffer=st.sampled_from(["auto", 1, 7, 51, 102, 300]),
    ack=st.sampled_from(["0 ns", "31 ns"]),
)
def test_launches_and_occupancy(nbytes: int, rate: float, buffer: int | str, ack: str) -> None:
    """Launches are those of flits that arrive, and those that are sent again; each flit that arrives has a slot for its
    round trip, so that Little's law bounds the goodput."""
    table = experiment(nbytes, rate, buffer=buffer, ack_delay=ack)
    (bound,) = replay_buffers(prepare(load_experiment(table)))
    result = pyxsim.run(table)
    found = {name: values[0] for name, values in result.backend_tables["link_faults"].columns.items() if len(values)}
    flits = -(-nbytes // 256)
    assert result.totals["flits"][0] == flits + found["resent"]
    assert found["replay_max"] <= bound.slots
    # Flits that wait for an answer at the end of the run count until they have it.
    assert found["replay_mean"] * result.time_cycles <= found["replay_max"] * (result.time_cycles + bound.round_trip)
    assert found["errors"] <= found["resent"], "each flit with an error is sent again"
    assert result.time_cycles >= (flits - bound.slots) * bound.round_trip / bound.slots
    assert result.time_cycles >= flits * bound.pace
    if not rate:
        assert found["resent"] == 0
        if flits > 4 * bound.slots:  # the way of the last flit is short against the rest
            about = flits * max(bound.pace, bound.round_trip / bound.slots)
            assert result.time_cycles == pytest.approx(about, rel=0.3)
