"""Measurements of open traffic."""

from __future__ import annotations

from pyxsim.arrays import FloatArray, IntArray

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.engine_options import CAUSES


PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

# Keys of the JSON summary with their descriptions, which are attributes of HDF5 files.
TRAFFIC_KEYS = {
    "offered_load": "flits per node and cycle that the settings ask for; of a batch or a trace, that were created",
    "generated_load": "flits per node and cycle that were created in the measured time",
    "accepted_load": "flits per node and cycle that arrived in the measured time",
    "accepted_load_interval": "half of its 95 % interval",
    "accepted_load_min": "of the node that got the least",
    "accepted_load_max": "of the node that got the most",
    "packet_latency": "mean cycles from the creation of a packet to the arrival of its last flit",
    "packet_latency_interval": "half of its 95 % interval",
    **{
        f"packet_latency_{name}": f"{100 * share:g} % of the packets took no longer"
        for name, share in PERCENTILES.items()
    },
    "packet_latency_max": "the slowest packet",
    "network_latency": "mean cycles from the launch of a packet's first flit to the arrival of its last one",
    "network_latency_interval": "half of its 95 % interval",
    **{f"latency_{part}": f"of the packet latency, with attribution: {part}, mean" for part in CAUSES},
    "hops": "routers that a packet passes, on average",
    "saturated": "the network cannot take this load",
    "steady": "the latency has a steady value, and is as precise as asked for (or was measured as long)",
    "stopped": "why the measurement ended",
    "warmup_cycles": "left out at the beginning",
    "measured_cycles": "the packets that were created in them are measured",
    "measured_packets": "how many these are",
    "zero_load_latency": "mean cycles of a packet in the empty network",
    "latency_limit": "mean packet latency above which the network is called saturated",
    "round_trip": "mean cycles from the creation of a request to the arrival of its reply",
    "round_trip_interval": "half of its 95 % interval",
    "batch_cycles": "of each batch, from its beginning to the arrival of its last packet",
    "classes": "the classes, if there are several",
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
