"""`pyxsim run` and `pyxsim check` of a model that needs more memory than an NPU has."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.inputs import Command
from tests.runner.test_training_step import SMALL


def test_too_little_memory(pyxsim: Command, folder: Path) -> None:
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    file = folder / "experiment.toml"
    file.write_text(
        """
        network = { topology = "torus", shape = [4] }
        workload = { model = "small.toml", batch = 24, micro_batch = 2, parallelism = { pipeline = 2 } }
        [system]
        all_reduce = "ring"
        npu = { peak = "1 TFLOP/s", memory_bandwidth = "1 TB/s", memory = "9 kB" }
        """,
        encoding="utf-8",
    )
    for command in ("run", "check"):
        ended = pyxsim(command, str(file), "--backend", "analytical")
        assert ended.code == 2
        (line,) = ended.lines
        assert "workload.parallelism: an NPU of stage " in line
        assert line.endswith("; or --allow-oom")
    report = pyxsim("check", str(file), "--backend", "analytical", "--allow-oom")
    assert "NPU memory" in report.err
    assert "of 9 kB (" in report.err
    told = json.loads(pyxsim("check", str(file), "--backend", "analytical", "--allow-oom", "--json").out)
    need = told["npu_memory"]
    assert need["capacity"] == 9000
    rows = [row for row in told["footprint"] if row["stage"] == need["stage"]]
    assert sum(row["bytes"] for row in rows) == need["bytes"] > 9000
    ran = json.loads(pyxsim("run", str(file), "--backend", "analytical", "--allow-oom", "--json").out)
    assert ran["footprint"] == told["footprint"]
    assert ran["training"][0]["memory"] == need["bytes"]
