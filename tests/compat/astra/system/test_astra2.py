"""Every run of ASTRA-sim 2 in inputs/reference/astra2.json, to the nanosecond, rank by rank where it was noted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from tests.compat.astra.system.originals import network, system
from validation.reference import reference

CASES: list[dict[str, Any]] = reference("astra2")["cases"]
LARGE = 256  # NPUs


def mark(case: dict[str, Any]) -> Any:
    slow = math.prod(case["npus"]) >= LARGE or "speed" in case["case"]
    return pytest.param(case, id=case["case"], marks=[pytest.mark.slow] if slow else [])


def astra(case: dict[str, Any]) -> Any:
    net = network(
        "astra-sim-2",
        case["topology"],
        case["npus"],
        case["bandwidth"],
        case["latency"],
        congestion=case.get("model") == "congestion",
    )
    return system(
        net,
        "astra-sim-2",
        case["algorithms"],
        queues=case.get("queues", 1),
        active=case.get("active_chunks", 1),
        chunks=case.get("splits", 4),
        scheduling=case.get("scheduling", "LIFO"),
        optimization=case.get("optimization", "localBWAware"),
        endpoint_delay=case.get("endpoint_delay", 10),
        reduction_bytes_per_cycle=Fraction(case.get("memory", 1600)),
    )


@pytest.mark.parametrize("case", [mark(case) for case in CASES if case["ends"] is not None])
def test_a_run(case: dict[str, Any]) -> None:
    layer = astra(case)
    collective = layer.issue(case["kind"], case["bytes"])
    assert layer.run() == max(case["ends"])
    ends = layer.ends(collective).tolist()
    if len(ends) == len(case["ends"]) > 2:
        assert ends == case["ends"]
    else:
        assert [min(ends), max(ends)] == [min(case["ends"]), max(case["ends"])]
    assert layer.network.bytes_delivered == layer.bytes_planned


@pytest.mark.parametrize("case", [mark(case) for case in CASES if case["ends"] is None])
def test_where_the_original_stops(case: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"ASTRA-sim.* stops"):
        astra(case).issue(case["kind"], case["bytes"])
