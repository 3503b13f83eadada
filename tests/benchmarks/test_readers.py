"""Each format is written in small and read back; what is printed belongs to the file that was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.readers import FORMATS, measure, rows
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.text_workload import TextWorkload


@pytest.mark.parametrize("name", list(FORMATS))
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    target = tmp_path / form.file
    nodes = form.write(target, 1000)
    assert 890 < nodes <= 1000
    found = form.read(str(target))
    if isinstance(found, TextWorkload):
        assert len(found.layers) == nodes
    elif isinstance(found, TaskGraph):
        # Of 4 activities of PyTorch, the host has 2 pieces and the device a kernel; Nsight Systems has no host.
        expected = {"PyTorch": nodes * 3 // 4, "PyTorch, gzip": nodes * 3 // 4}.get(name, nodes)
        marks = (found.kind == Kind.MARK).sum()
        assert len(found) - marks == expected
    else:
        assert isinstance(found, CompiledSchedule)
    told = measure(name, target, target)
    assert told["cpu_s"] > 0
    assert told["graph_mb"] >= 0


def test_a_row(tmp_path: Path) -> None:
    row = rows("GOAL, text", 2400, tmp_path, 1)
    assert row is not None
    assert row["nodes"] == 2400
    assert row["per_cpu_s"] > 0
    assert 30 < row["file_bytes"] < 80
    assert row["graph_bytes"] > 40
    assert rows("SimAI", 400_000, tmp_path, 1) is None  # more than 16 MiB
