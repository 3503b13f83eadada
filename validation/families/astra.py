"""ASTRA-sim over its own analytical networks: every measured run ends in the same nanosecond."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, exact
from validation.families import astra_files
from validation.reference import reference

BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
UPDATE = 5  # ns: what version 1's MICRO workload adds after its collective
LARGE = 1024  # NPUs
Measured = dict[str, Any]


def network(case: Measured) -> dict[str, Any]:
    """The network of a case, as settings."""
    rows = zip(case["topology"], case["npus"], case["bandwidth"], case["latency"], strict=True)
    dims = [
        {"block": BLOCKS[block], "npus": npus, "bandwidth": f"{rate} GiB/s", "latency": f"{late} ns"}
        for block, npus, rate, late in rows
    ]
    return {"dims": dims, "clock": "1 GHz"}


def backend(case: Measured) -> str:
    """The collective of a case."""
    return "analytical-congestion" if case.get("model") == "congestion" else "analytical"


def system_2(case: Measured) -> dict[str, Any]:
    """The system layer of a case of version 2, as settings."""
    return {
        "compat": "astra-sim-2",
        "chunks": case.get("splits", 4),
        "active_chunks": case.get("active_chunks", 1),
        "scheduling": case.get("scheduling", "LIFO"),
        "optimization": case.get("optimization", "localBWAware"),
        "endpoint_delay": f"{case.get('endpoint_delay', 10)} ns",
        "local_memory_bandwidth": f"{case.get('memory', 1600)} GB/s",
        "queues": case.get("queues", 1),
        case["kind"].replace("-", "_"): case["algorithms"],
    }


def version_2(case: Measured) -> tuple[int, int]:
    """(measured, here), ns."""
    collective = {"kind": case["kind"], "size": f"{case['bytes']} B"}
    told = {"network": network(case), "system": system_2(case), "collective": collective}
    return max(case["ends"]), run(told, backend=backend(case)).time_cycles


def version_1(case: Measured) -> tuple[float, float]:
    """(measured, here), ns; where fewer digits are known, to these."""
    table = network(case)
    memory = case.get("memory")
    if memory is not None:
        table["analytical"] = {
            "router_latency": f"{case['router_latency']} ns",
            "hbm_latency": f"{memory['latency']} ns",
            "hbm_bandwidth": f"{memory['bandwidth']} GB/s",
            "hbm_scale": memory["scale"],
        }
    result = run(
        {
            "network": table,
            "system": {
                "compat": "astra-sim-1",
                "chunks": case["chunks"],
                "endpoint_delay": f"{case['endpoint_delay']} ns",
                "local_memory_bandwidth": "500000 GB/s",
                "queues": case.get("queues", 1),
                "boost": case.get("boost", False),
                "inter_dimension": case.get("inter_dimension", "ascending"),
                "intra_dimension": case.get("intra_dimension", "FIFO"),
                case["kind"].replace("-", "_"): case["algorithms"],
            },
            "collective": [{"kind": case["kind"], "size": f"{case['bytes']} B"}] * case["passes"],
        },
        backend="analytical",
    )
    end = result.time_cycles + UPDATE
    if "finished" in case:
        return case["finished"], end
    return case["finished_us"] * 1000, round(end / 1000, 1) * 1000


def same(measured: list[Measured], one: Callable[[Measured], tuple[float, float]]) -> Found:
    """Run all cases of a group and return the largest difference."""
    worst, picture = exact([one(case) for case in measured], "ns")
    npus = [math.prod(case["npus"]) for case in measured]
    told = f"{min(npus)}" if min(npus) == max(npus) else f"{min(npus)} to {max(npus)}"
    return Found(worst, picture, {"runs": str(len(measured)), "NPUs": told})


def groups() -> Iterator[tuple[str, str, list[Measured]]]:
    """(name, description, runs) of version 2."""
    runs = [case for case in reference("astra2")["cases"] if case["ends"] is not None]
    fair = [case for case in runs if case.get("model") != "congestion"]
    small = [case for case in fair if math.prod(case["npus"]) < LARGE]
    yield "one-dimension", "one dimension, every algorithm", [c for c in small if len(c["npus"]) == 1]
    yield "dimensions", "two and three dimensions", [c for c in small if len(c["npus"]) > 1]
    yield "large", "many NPUs", [c for c in fair if math.prod(c["npus"]) >= LARGE]
    yield "congestion", "one dimension, with messages that queue for links", [c for c in runs if c not in fair]


def cases() -> Iterator[Case]:
    claim = "Each run ends in the same nanosecond as in ASTRA-sim"
    for name, what, measured in groups():
        source = "measurements in inputs/reference/astra2.json"
        yield Case(f"astra/2-{name}", f"{claim} 2: {what}", source, 0, "ns", partial(same, measured, version_2), 8)
    measured = reference("astra1")["cases"]
    source = "measurements in inputs/reference/astra1.json"
    what = "MICRO, Themis, boost, and every order in a queue"
    yield Case("astra/1-micro", f"{claim} 1: {what}", source, 0, "ns", partial(same, measured, version_1), 3)
    yield from astra_files.cases()


FAMILY = ("astra", "ASTRA-sim over its analytical networks", ("runs", "NPUs"), cases)
