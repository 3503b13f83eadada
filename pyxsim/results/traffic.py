"""Measurements of open traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.core.engine_options import CAUSES

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

# Keys of the JSON summary with their descriptions, which are attributes of HDF5 files.
TRAFFIC_KEYS = {
    "offered_load": "offered load in flits per node and cycle; for a batch or a trace, the load that was created",
    "generated_load": "load created in the measured time, in flits per node and cycle",
    "accepted_load": "load delivered in the measured time, in flits per node and cycle",
    "accepted_load_interval": "half-width of the 95 % confidence interval of accepted_load",
    "accepted_load_min": "lowest accepted load of a node",
    "accepted_load_max": "highest accepted load of a node",
    "packet_latency": "mean cycles from the creation of a packet to the arrival of its last flit",
    "packet_latency_interval": "half-width of the 95 % confidence interval of packet_latency",
    **{
        f"packet_latency_{name}": f"latency that {100 * share:g} % of the packets do not exceed"
        for name, share in PERCENTILES.items()
    },
    "packet_latency_max": "latency of the slowest packet",
    "network_latency": "mean cycles from the injection of a packet's first flit to the arrival of its last flit",
    "network_latency_interval": "half-width of the 95 % confidence interval of network_latency",
    **{f"latency_{part}": f"mean part '{part}' of the packet latency, with attribution" for part in CAUSES},
    "hops": "mean number of routers that a packet passes",
    "saturated": "whether the network is saturated at this load",
    "steady": "whether the latency is steady, and was measured with the required precision or for the required time",
    "stopped": "why the measurement ended",
    "warmup_cycles": "length of the warm-up",
    "measured_cycles": "length of the interval in which measured packets are created",
    "measured_packets": "number of measured packets",
    "zero_load_latency": "mean packet latency without contention, in cycles",
    "latency_limit": "mean packet latency above which the network counts as saturated",
    "round_trip": "mean cycles from the creation of a request to the arrival of its reply",
    "round_trip_interval": "half-width of the 95 % confidence interval of round_trip",
    "batch_cycles": "length of each batch in cycles, from its start to the arrival of its last packet",
    "classes": "the traffic classes, if there are several",
}


def unit_of(key: str) -> str:
    """Return the unit of a number of the summary."""
    return "flits/cycle" if "load" in key else "cycles" if "latency" in key else "1"


@dataclass(eq=False, repr=False)
class Traffic:
    """Measurements of open traffic.

    Attributes
    ----------
    summary
        Numbers by the keys of TRAFFIC_KEYS.
    classes, batches
        Columns of equal length, one row per class and per batch.
    accepted
        float64[npus]: flits per cycle that arrived at each node.
    latency, packets
        int64[n], int64[classes, n]: how many measured packets of each class had each latency.
    notes
        Lines for the user.
    """

    summary: dict[str, Any]
    classes: dict[str, Any] = field(default_factory=dict)
    batches: dict[str, Any] = field(default_factory=dict)
    accepted: FloatArray = field(default_factory=lambda: np.zeros(0))
    latency: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    packets: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        load, latency = (self.summary.get(key) for key in ("offered_load", "packet_latency"))
        return f"Traffic(load {load}, packet latency {latency}, stopped: {self.summary.get('stopped')})"
