"""[[faults]] on the Ethernet backend equal the tables [[network.ethernet.links]] that say the same."""

from __future__ import annotations

from typing import Any

import pytest

import pyxsim
from pyxsim.errors import InputError

RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4], "bandwidth": "50 GB/s", "latency": "500 ns"},
    "message": [{"src": npu, "dst": (npu + 1) % 4, "size": "256 KiB"} for npu in range(4)],
}
LINK = "d0+:(0)->(1)"


def run(faults: list[dict[str, Any]], links: list[dict[str, Any]]) -> dict[str, Any]:
    network = {**RING["network"], "ethernet": {"links": links, "timeout": "100 us"}}
    result = pyxsim.run({**RING, "network": network, "faults": faults}, backend="ethernet")
    flows = result.backend_tables["flows"].columns
    return {"end": flows["end"].tolist(), "resent": flows["resent"].tolist(), "time": result.time_cycles}


@pytest.mark.parametrize(
    ("fault", "tables"),
    [
        ({"bandwidth": "25 GB/s"}, [{"rate_factor": 0.5}]),
        ({"bit_error_rate": 1e-6}, [{"bit_error_rate": 1e-6}]),
        ({"down": True, "at": "2 us", "for": "3 us"}, [{"down": True, "start": "2 us", "end": "5 us"}]),
        (
            {"down": True, "at": "2 us", "for": "1 us", "every": "2 us", "until": "5 us"},
            [{"down": True, "start": "2 us", "end": "3 us"}, {"down": True, "start": "4 us", "end": "5 us"}],
        ),
    ],
)
@pytest.mark.parametrize("both", [True, False])
def test_a_fault_equals_its_tables(fault: dict[str, Any], tables: list[dict[str, Any]], both: bool) -> None:
    place = {"link": LINK, "both_directions": both}
    found = run([place | fault], [])
    assert found == run([], [place | table for table in tables])
    assert found != run([], [])


def test_cables_that_fail_at_random_equal_tables_of_their_own() -> None:
    every = {"link": "d0+:*", "bandwidth": "25 GB/s", "for": "1 us", "mttf": "4 us", "until": "30 us"}
    found = run([every], [])
    assert found != run([], [])
    assert found == run([every], [])
    assert found != run([every | {"seed": 1}], [])


REFUSED = [
    ({"flit_error_rate": 0.1}, r"faults\[0\].flit_error_rate: the Ethernet backend has no flits"),
    ({"down": True, "for": "1 us", "mttf": "1 us"}, r"faults\[0\].until: the Ethernet backend repeats faults up to"),
    ({"latency": "1 ms"}, r"faults\[0\].latency: the Ethernet backend does not change latencies"),
    ({"down": True, "in_flight": "lose"}, r"faults\[0\].in_flight: packets on the wire arrive"),
    ({"down": True, "for": "1 us", "up": "1 us"}, r"faults\[0\].until: the Ethernet backend repeats faults up to"),
]


@pytest.mark.parametrize(("fault", "message"), REFUSED)
def test_what_it_does_not_model_is_refused(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run([{"link": LINK} | fault], [])


def test_errors_name_the_fault() -> None:
    star = {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}}
    experiment = {"network": star, "message": RING["message"], "faults": [{"npu": 0, "down": True}]}
    with pytest.raises(InputError, match=r"faults\[0\]"):
        pyxsim.run(experiment, backend="ethernet")


def test_retry_is_refused() -> None:
    with pytest.raises(InputError, match=r"network\.retry: backend 'ethernet' has no retry at the link"):
        pyxsim.run({**RING, "network": {**RING["network"], "retry": {}}}, backend="ethernet")
