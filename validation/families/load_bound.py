"""No network carries more than what its routes put on its busiest link allows.

The bound is of traffic in which every node gets what it asks for. Beyond it a network may carry more in all, as flows
that do not meet the busiest link go on; so of a permutation the node counts that receives least.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import PreparedTraffic
from pyxsim.runner.traffic.open_loop import traffic_bound
from pyxsim.settings import load_experiment
from validation.case import Case, Found, Picture, Series, must

CYCLES = 5_000
LOADS = (0.25, 0.5, 0.75, 1.0)  # of a node's own lane
EVEN = ("uniform", "uniform-other")  # all flows are alike
PATTERNS = ("uniform", "uniform-other", "tornado", "neighbor", "bit-complement", "transpose", "random-permutation")
NETWORKS: dict[str, dict[str, Any]] = {
    "torus-8x8": {"topology": "torus", "shape": [8, 8]},
    "mesh-8x8": {"topology": "mesh", "shape": [8, 8]},
    "mesh-8x8-xy-yx": {"topology": "mesh", "shape": [8, 8], "router": {"routing": "xy-yx"}},
    "torus-8x8-valiant": {"topology": "torus", "shape": [8, 8], "router": {"routing": "valiant"}},
    "torus-8x8-adaptive": {
        "topology": "torus",
        "shape": [8, 8],
        "router": {"routing": "minimal-adaptive", "vc_reuse": "drained"},
    },
    "4-ary-3-tree": {"topology": "k-ary-n-tree", "options": {"k": 4, "n": 3}},
    "hyperx-4x4": {"topology": "hyperx", "options": {"routers": [4, 4], "concentration": [2, 2]}},
    "dragonfly": {"topology": "dragonfly", "options": {"p": 2, "a": 4, "h": 2}},
}
# These patterns need digits that the NPUs of these networks do not have.
WITHOUT = {"4-ary-3-tree": (), "dragonfly": ("tornado", "neighbor", "bit-complement", "transpose")}


def experiment(network: dict[str, Any], pattern: str, load: float) -> dict[str, Any]:
    return {
        "network": {
            "flit": "16 B",
            "bandwidth": "16 GB/s",
            "latency": "1 cycle",
            **network,
            "router": {"vcs": 8, "buffer": 8, **network.get("router", {})},
        },
        "traffic": {
            "pattern": pattern,
            "load": load,
            "packet_flits": 4,
            "warmup": CYCLES,
            "measure": CYCLES,
            "latency_limit": 2**40,
        },
    }


def never_above(name: str) -> Found:
    network = NETWORKS[name]
    worst, series, shares = 0.0, [], []
    for pattern in PATTERNS:
        if pattern in WITHOUT.get(name, ()):
            continue
        prepared = prepare(load_experiment(experiment(network, pattern, 1.0)))
        must(isinstance(prepared, PreparedTraffic), "no traffic")
        bound = traffic_bound(prepared) or 1.0  # type: ignore[arg-type]
        accepted = []
        for load in LOADS:
            told = run(experiment(network, pattern, load)).json()
            accepted.append(told["accepted_load" if pattern in EVEN else "accepted_load_min"])
            # A sample: for a while a source below the bound may send a little more.
            worst = max(worst, 100 * (accepted[-1] - told["accepted_load_interval"]) / bound)
        shares.append(f"{pattern} {100 * max(accepted) / bound:.0f} %")
        series.append(Series(pattern, LOADS, [value / bound for value in accepted]))
    picture = Picture("offered load", "accepted, over the bound", [Series("bound", [0, 1], [1, 1], "limit"), *series])
    return Found(worst, picture, {"most accepted, of the bound": ", ".join(shares)})


def cases() -> Iterator[Case]:
    claim = (
        "At any offered load, the accepted load (in a permutation, that of the node that receives least) never "
        "exceeds the load at which the routes fill the busiest link"
    )
    for name in NETWORKS:
        source = "channel loads of the routes (Dally and Towles, section 3.3)"
        yield Case(f"load-bound/{name}", claim, source, 100, "% of the bound", partial(never_above, name), 60)


FAMILY = ("load-bound", "Accepted load and the busiest link", ("most accepted, of the bound",), cases)
