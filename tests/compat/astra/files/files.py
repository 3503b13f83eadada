"""Files of ASTRA-sim, for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Write = Callable[[Mapping[str, str | None]], Path]
WriteJson = Callable[[Mapping[str, Any]], Path]

TORUS = {
    "num-npus": "24",
    "num-packages": "12",
    "package-rows": "3",
    "topology": "Torus3D",
    "local-rings": "2",
    "horizontal-rings": "3",
    "vertical-rings": "1",
    "flit-width": "1024",
    "local-packet-size": "64",
    "package-packet-size": "2048",
    "tile-link-width": "512",
    "package-link-width": "300",
    "vcs-per-vnet": "6",
    "buffers-per-vc": "7",
    "routing-algorithm": "Ring_XY",
    "router-latency": "2",
    "local-link-latency": "40",
    "package-link-latency": "150",
    "local-link-efficiency": "1.0",
    "package-link-efficiency": "0.9",
}
SWITCH = {
    "num-npus": "8",
    "num-packages": "4",
    "topology": "NV_Switch",
    "links-per-tile": "1",
    "routing-algorithm": "AllToAll",
    "flit-width": "256",
    "tile-link-width": "256",
}
SYSTEM = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": "7",
    "active-chunks-per-dimension": "2",
    "preferred-dataset-splits": "5",
    "boost-mode": "0",
    "all-reduce-implementation": "ring_direct4_halvingDoubling",
    "all-gather-implementation": "oneRing",
    "collective-optimization": "localBWAware",
    "inter-dimension-scheduling": "roundRobin",
}
HIERARCHICAL: dict[str, Any] = {
    "topology-name": "Hierarchical",
    "topologies-per-dim": ["Ring", "FullyConnected", "Switch"],
    "dimension-type": ["N", "N", "PP"],
    "dimensions-count": 3,
    "units-count": [4, 3, 2],
    "links-count": [5, 4, 3],
    "link-latency": [500, 1, 2.5],
    "link-bandwidth": [32, 12.5, 25],
    "nic-latency": [0, 0, 7],
    "router-latency": [0, 0, 0],
    "hbm-latency": [500, 500, 500],
    "hbm-bandwidth": [370, 370, 370],
    "hbm-scale": [0, 0, 0],
}
SYSTEM_2: dict[str, Any] = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": 7,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 5,
    "all-reduce-implementation": ["ring", "direct4", "halvingDoubling"],
    "all-gather-implementation": ["oneRing"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600.5,
}
YAML = """topology: [ Ring, FullyConnected, Switch ]  # three dimensions
npus_count: [4, 3, 2]
bandwidth: [ 50.0, 12.5, 100 ]  # GB/s
latency: [ 500.0, 1, 936.25 ]   # ns
"""


def write_text(path: Path, pairs: Mapping[str, str | None]) -> Path:
    """A file of pairs; None: without that key."""
    path.write_text("".join(f"{key}: {value}\n" for key, value in pairs.items() if value is not None), encoding="utf-8")
    return path


def write_json(path: Path, pairs: Mapping[str, Any]) -> Path:
    """A JSON object, a key in each line; None: without that key."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in pairs.items() if value is not None]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return path
