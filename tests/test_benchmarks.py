"""The benchmarks run, and tell of each case its work, its time and its memory, beside other simulators."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_case_of_each_kind(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    cases = ["torus4x4x4-all-reduce", "torus16x16x16-analytical"]
    words = [sys.executable, "benchmarks/run.py", "--repeat", "1", "--only", *cases, "-o", str(file)]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, timeout=120, check=True)
    packets, messages = json.loads(file.read_text(encoding="utf-8"))["cases"]
    assert [packets["name"], messages["name"]] == cases
    assert packets["router_visits"] > 10**6
    # In each of 4 chunks each of 4096 NPUs sends 15 + 15 + 30 + 15 + 15 messages.
    assert messages["messages"] == 4 * 4096 * 90
    for row, rate in ((packets, "visits_per_cpu_s"), (messages, "messages_per_cpu_s")):
        assert 0 < row["cpu_s"]["median"] < row["whole_cpu_s"]["median"]
        assert row[rate] > 0
        assert row["peak_rss_mb"] > 10
    assert "ASTRA-sim 2" in done.stderr
    assert "7.8 to 9.1" in done.stderr
