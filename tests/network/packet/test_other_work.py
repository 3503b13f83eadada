"""What a link that stays down does to the rest of a run: other work ends as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest

import pyxsim
from pyxsim.errors import StuckError

CUT = {"link": "d0*:(4)->(5)", "down": True}
SIX = {"topology": "mesh", "shape": [6], "bandwidth": "64 GB/s", "latency": "10 ns"}
BLOCKED = {"src": 4, "dst": 5, "size": "4 KiB"}


@pytest.mark.parametrize("backend", ["packet", "reference"])
@pytest.mark.parametrize("more", [{}, {"retry": {}}, {"credits": {}}, {"flit": "32 B", "transactions": {}}], ids=str)
def test_a_link_that_stays_down_delays_no_message_elsewhere(backend: str, more: dict[str, Any]) -> None:
    """One of them starts later, and with transactions, the memory of the other one has yet to answer."""
    others = [{"src": 0, "dst": 1, "size": "4 KiB", "at": at} for at in ("0 ns", "1 us")]
    tables = {"network": {**SIX, **more}, "message": others}
    ends = [row["end"] for row in pyxsim.run(tables, backend=backend).point_to_point]
    with pytest.raises(StuckError, match=r"d0\+:\(4\)->\(5\)") as caught:
        pyxsim.run({**tables, "message": [*others, BLOCKED], "faults": [CUT]}, backend=backend)
    assert [row["end"] for row in caught.value.result.point_to_point] == [*ends, -1]


def test_a_job_that_a_link_blocks_does_not_end_those_that_arrive_later() -> None:
    work = {"collective": [{"kind": "all-reduce", "size": "4 KiB"}]}
    jobs = [{"name": "a", "placement": [4, 5], **work}, {"name": "b", "placement": [0, 1], "at": "50 us", **work}]
    alone = pyxsim.run({"network": SIX, "job": jobs[1:]}).jobs[0]
    with pytest.raises(StuckError) as caught:
        pyxsim.run({"network": SIX, "job": jobs, "faults": [CUT]})
    blocked, other = caught.value.result.jobs
    assert (blocked["end"], other["end"]) == (-1, alone["end"])


@pytest.mark.parametrize("load", [0.002, 0.2])
def test_background_traffic_does_not_keep_a_stuck_run_alive(load: float) -> None:
    tables = {"network": SIX, "message": [BLOCKED], "faults": [CUT], "traffic": {"pattern": "uniform", "load": load}}
    with pytest.raises(StuckError, match="no message arrives after cycle"):
        pyxsim.run(tables)


@pytest.mark.parametrize("backend", ["packet", "reference"])
def test_messages_that_cannot_leave_their_npu_are_named(backend: str) -> None:
    leaves = {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}}
    message = [{"src": 1, "dst": 3, "size": "1 KiB", "name": "a"}, {"src": 0, "dst": 2, "size": "1 KiB"}]
    with pytest.raises(StuckError, match=r"host:NPU 1->\(0\) is down: message 0, NPU 1 to 3") as caught:
        pyxsim.run({"network": leaves, "message": message, "faults": [{"npu": 1, "down": True}]}, backend=backend)
    assert [row["end"] >= 0 for row in caught.value.result.point_to_point] == [False, True]  # the other one arrives
