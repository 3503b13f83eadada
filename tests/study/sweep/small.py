"""A sweep of 24 points of a hundredth of a second each, as a dict and as a file, and what its journal says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pyxsim.study.sweep.folder import journal

RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4], "flit": "16 B", "packet": "64 B", "latency": "1 cycle"},
    "traffic": {"pattern": "uniform", "packet_flits": 4, "load": 0.1, "warmup": 100, "measure": 400},
}
VCS, LOAD = "network.router.vcs", "traffic.load"
LOADS = [round(0.02 * k, 2) for k in range(1, 13)]
SWEEP: dict[str, Any] = {**RING, "sweep": {VCS: [2, 4], LOAD: LOADS}}
TEXT = """\
[network]
topology = "ring"
shape = [4]
flit = "16 B"
packet = "64 B"
latency = "1 cycle"

[traffic]
pattern = "uniform"
packet_flits = 4
load = 0.1
warmup = 100
measure = 400

[sweep]
"network.router.vcs" = [2, 4]
"traffic.load" = { from = 0.02, to = 0.24, step = 0.02 }
"""


def started(folder: Path) -> Counter[str]:
    """How often each point was begun."""
    return Counter({key: n for (event, key), n in journal(folder).items() if event == "start"})


def ended(folder: Path) -> Counter[str]:
    """How often each point was counted as run."""
    found: Counter[str] = Counter()
    for (event, key), number in journal(folder).items():
        if event in ("done", "found"):
            found[key] += number
    return found


def keys(folder: Path) -> list[str]:
    """Those of the points that are wanted."""
    return [row["key"] for row in json.loads((folder / "sweep.json").read_text())["points"]]
