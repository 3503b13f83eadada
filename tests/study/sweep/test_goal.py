"""A search finds what theory says, and what trying every value finds; it tries few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.study.sweep import sweep
from tests.study.sweep.small import RING, ended, started

# Eight nodes on a switch, all but node 0 send to node 0: its link carries a flit per cycle, an eighth for each node.
HOT: dict[str, Any] = {
    "network": {
        **{"topology": "switch", "shape": [8], "flit": "256 B", "packet": "256 B"},
        **{"bandwidth": "256 GB/s", "latency": "2 cycles", "router": {"vcs": 4, "buffer": 16}},
    },
    "traffic": {"pattern": "hotspot", "pattern_options": {"nodes": [0]}, "load": 0.1, "precision": 0.05},
}
BUFFER = "network.router.buffer"


def test_saturation(tmp_path: Path) -> None:
    goal = {"kind": "saturation", "values": {"from": 0.02, "to": 0.3, "step": 0.02}}
    found = sweep({**HOT, "sweep": {"output.seed": [1, 2], "goal": goal}}, tmp_path / "s", workers=1)
    assert found.complete
    assert [row["traffic.load"] for row in found.answers] == [0.12, 0.12]  # below an eighth
    assert [row["refused"] for row in found.answers] == [0.14, 0.14]
    assert [row["tried"] for row in found.answers] == [4, 4]  # of 15
    again = sweep({**HOT, "sweep": {"output.seed": [1, 2], "goal": goal}}, tmp_path / "s", workers=2)
    assert again.answers == found.answers
    assert ended(tmp_path / "s") == started(tmp_path / "s")
    assert sum(started(tmp_path / "s").values()) == len(found)


def test_a_number_that_there_is_not(tmp_path: Path) -> None:
    goal = {"kind": "smallest", "key": BUFFER, "values": [1, 2, 4], "metric": "packet_latenzy"}
    with pytest.raises(
        InputError, match=r"^sweep\.goal\.metric: no point has a column .* did you mean 'packet_latency'"
    ):
        sweep({**RING, "sweep": {"goal": goal}}, tmp_path / "s", workers=1)


def test_the_smallest_buffer(tmp_path: Path) -> None:
    values = list(range(1, 13))
    goal = {"kind": "smallest", "key": BUFFER, "values": values, "metric": "packet_latency", "within": "5 %"}
    found = sweep({**RING, "sweep": {"goal": goal}}, tmp_path / "goal", workers=1)
    every = sweep({**RING, "sweep": {BUFFER: values}}, tmp_path / "goal", workers=1)  # goes on in the same folder
    levels = every.column("packet_latency")
    (row,) = found.answers
    assert row[BUFFER] == next(v for v, level in zip(values, levels, strict=True) if level <= 1.05 * levels[-1])
    assert row["tried"] == len(found) <= 5
    assert set(started(tmp_path / "goal").values()) == {1}
    assert len(started(tmp_path / "goal")) == len(values)
