"""The same experiment gives the same result, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pyxsim.results.result import HOW_IT_RAN
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series

MACHINES: dict[str, dict[str, Any]] = {
    "default": {},
    "islip": {"va_allocator": "islip:2", "sa_allocator": "islip:2"},
    "wavefront, speculation": {"va_allocator": "wavefront", "sa_allocator": "wavefront", "speculation": True},
    "age": {"va_allocator": "age", "sa_allocator": "age"},
    "speed-ups": {"input_speedup": 2, "internal_speedup": 2},
    "shared buffer": {"buffer": 2, "shared_buffer": 16},
    "cut-through": {"flow_control": "virtual-cut-through", "buffer": 8},
    "garnet": {"pipeline": "garnet", "vc_reuse": "drained", "arbiter": "step", "injection": "interleaved"},
}
ROUTINGS = ("dimension-order", "xy-yx", "adaptive-xy-yx", "minimal-adaptive", "valiant", "romm", "ugal")
# Only the packet at the front of a VC reaches the escape: the proof requires VCs that hold one packet.
OPTIONS: dict[str, dict[str, Any]] = {"minimal-adaptive": {"vc_reuse": "drained"}}


def experiment(router: dict[str, Any], routing: str, window: str, topology: str) -> dict[str, Any]:
    return {
        "network": {
            "topology": topology,
            "shape": [4, 4],
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "2 cycles",
            "router": {"vcs": 8, "buffer": 4, **router, "routing": routing, **OPTIONS.get(routing, {})},
        },
        "traffic": {"load": 0.3, "packet_flits": [1, 4], "warmup": 500, "measure": 2000, "latency_limit": 10**6},
        "output": {"window": window, "seed": 7},
    }


def twice(name: str) -> Found:
    """Run twice, with other statistics windows the second time: no number and no counter may differ."""
    faults = runs = 0
    places: list[float] = []
    latencies: list[float] = []
    for topology in ("torus", "mesh"):
        for routing in ROUTINGS:
            if name == "garnet" and routing == "minimal-adaptive":
                continue  # heads that skip VA cannot request several links
            first, again = (run(experiment(MACHINES[name], routing, w, topology)) for w in ("100 cycles", "777 cycles"))
            told = [{k: v for k, v in each.json().items() if k not in HOW_IT_RAN} for each in (first, again)]
            faults += told[0] != told[1]
            faults += {k: v.tolist() for k, v in first.totals.items()} != {
                k: v.tolist() for k, v in again.totals.items()
            }
            runs += 1
            places.append(runs)
            latencies.append(told[0]["packet_latency"])
    picture = Picture("run", "packet latency (cycles), the same twice", [Series(name, places, latencies, "points")])
    return Found(faults, picture, {"runs": str(2 * runs)})


def cases() -> Iterator[Case]:
    claim = "The same seed gives the same result to the bit, with any output windows"
    for name in MACHINES:
        slug = "".join(c if c.isalnum() else "-" for c in name).replace("--", "-")
        yield Case(f"repeat/{slug}", claim, "a second run", 0, "differences", partial(twice, name), 10)


FAMILY = ("repeat", "Same seed, same result", ("runs",), cases)
