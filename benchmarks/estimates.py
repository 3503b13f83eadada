"""Predicted and measured CPU seconds of experiments of several kinds: `python -m benchmarks.estimates [NAME ...]`."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TREE = """
[network]
topology = "leaf-spine"
options = {{ npus = 8, leaves = 8, spines = 8 }}
bandwidth = "50 GB/s"
latency = "500 ns"
flit = "256 B"
packet = "4 KiB"
router = {{ routing = "nearest-common-ancestor", routing_options = {{ select = "{select}" }} }}
[system]
all_reduce = "one-direct"
all_to_all = "one-direct"
[collective]
kind = "{kind}"
size = "64 KiB"
"""
TORUS = """
[network]
topology = "torus"
shape = [4, 4, 4]
{output}
[collective]
kind = "all-reduce"
size = "64 KiB"
"""
DRAGONFLY = """
[network]
topology = "dragonfly"
options = { p = 2, a = 4, h = 2, g = 9 }
[system]
all_to_all = "one-direct"
[collective]
kind = "all-to-all"
size = "36 KiB"
"""

CASES: dict[str, tuple[str, str, str]] = {
    "torus": (TORUS.replace("{output}", ""), "packet", "collective.size='4 MiB'"),
    "torus, attribution": (
        TORUS.replace("{output}", '[output]\nattribution = "messages"'),
        "packet",
        "collective.size='4 MiB'",
    ),
    "fat tree, hashed, direct": (TREE.format(select="hash", kind="all-reduce"), "packet", "collective.size='4 MiB'"),
    "fat tree, hashed, all-to-all": (
        TREE.format(select="hash", kind="all-to-all"),
        "packet",
        "collective.size='4 MiB'",
    ),
    "fat tree, random, all-to-all": (
        TREE.format(select="random", kind="all-to-all"),
        "packet",
        "collective.size='4 MiB'",
    ),
    "dragonfly, all-to-all": (DRAGONFLY, "packet", "collective.size='1152 KiB'"),
    "flow, fat tree, hashed": (
        TREE.format(select="hash", kind="all-to-all"),
        "flow",
        "network.options.npus=16",
    ),
    "flow, torus": (TORUS.replace("{output}", ""), "flow", "network.shape=[16, 16, 16]"),
    "analytical, torus": (TORUS.replace("{output}", ""), "analytical", "network.shape=[16, 16, 16]"),
    "analytical-congestion, torus": (
        TORUS.replace("{output}", ""),
        "analytical-congestion",
        "network.shape=[16, 16, 16]",
    ),
    "training model": ("inputs/training/resnet50_data.toml", "analytical", "output.window='1 us'"),
    "open traffic": ("inputs/torus_uniform.toml", "packet", "network.shape=[8, 8]"),
}
"""Experiment or file, backend, and the override that makes it long enough to be measured."""


def main(names: Sequence[str] = ()) -> None:
    """Print a table row for each case: CPU seconds that `pyxsim check` predicts, those of `pyxsim run`, their ratio."""
    print("| experiment | predicted (s) | measured (s) | ratio |\n|---|---|---|---|")
    for name in names or CASES:
        text, backend, override = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            path = text
            if "\n" in text:
                path = str(Path(folder, "experiment.toml"))
                Path(path).write_text(text, encoding="utf-8")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "pyxsim", "run", path, "--backend", backend, "--set", override, "--json"]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            command[3] = "check"
            report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        predicted = report["run_s"]
        if predicted is None:
            print(f"| {name} | unknown: {report['unknown']} | {took:.1f} | |", flush=True)
        else:
            print(f"| {name} | {predicted:.1f} | {took:.1f} | {predicted / took:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
