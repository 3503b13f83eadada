"""`python -m benchmarks.scale`: CPU time and memory of whole processes against the number of NPUs.

Runs `inputs/torus_all_reduce.toml` with 16 MiB on tori of 64 to 131,072 NPUs, one process per run, and writes
docs/scale.json and docs/images/scale.png, which docs/scale.md shows.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TREE = Path(__file__).parent.parent
SHAPES = ([4, 4, 4], [8, 8, 8], [16, 16, 16], [16, 32, 32], [32, 32, 64], [32, 64, 64])
KINDS = {
    "packet, every flit": ("--backend", "packet", "--no-skip"),
    "packet, folded": ("--backend", "packet"),
    "analytical": ("--backend", "analytical"),
    "flow": ("--backend", "flow"),
}
COLUMNS = ("kind", "npus", "cpu_s", "rss_mb", "router_visits", "transmissions")


def measure(kind: str, shape: Sequence[int], timeout: float) -> dict[str, Any] | None:
    """Run one experiment; None if it takes longer than `timeout` seconds."""
    settings = {"network.shape": json.dumps(list(shape)), "collective.size": '"16 MiB"', "output.window": '"10 ms"'}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "pyxsim", "run", "inputs/torus_all_reduce.toml", *KINDS[kind], *words, "--json"]
    try:
        done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, timeout=timeout, check=True)
    except subprocess.TimeoutExpired:
        return None
    told = json.loads(done.stdout)
    # A packet of 4 KiB has 16 flits of 256 B; a packet that crosses one link is one transmission.
    hops = told.get("flit_hops")
    return {
        "kind": kind,
        "npus": math.prod(shape),
        "cpu_s": round(told["total_cpu_s"], 2),
        "rss_mb": round(told["peak_rss_mb"]),
        "router_visits": told.get("router_visits"),
        "transmissions": None if hops is None else hops // 16,
    }


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw CPU seconds and MB against NPUs, for each kind of run."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, column, label in zip(axes, ("cpu_s", "rss_mb"), ("CPU time (s)", "peak memory (MB)"), strict=True):
        for kind, marker in zip(KINDS, "so^D", strict=True):
            points = [(row["npus"], row[column]) for row in rows if row["kind"] == kind]
            axis.loglog(*zip(*points, strict=True), marker=marker, label=kind)
        axis.set(xlabel="NPUs", ylabel=label)
        axis.grid(which="major", alpha=0.3)
    axes[0].legend()
    figure.savefig(file, dpi=110)


def main() -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--timeout", type=float, default=150, metavar="S", help="leave out runs that take longer")
    parser.add_argument("--draw", action="store_true", help="only draw what was measured")
    given = parser.parse_args()
    stored = TREE / "docs" / "scale.json"
    if given.draw:
        rows = json.loads(stored.read_text(encoding="utf-8"))
    else:
        rows = []
        for kind in KINDS:
            for shape in SHAPES:
                if (row := measure(kind, shape, given.timeout)) is None:
                    break
                rows.append(row)
                print(*(row[column] for column in COLUMNS), sep="\t", flush=True)
        stored.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    draw(rows, TREE / "docs" / "images" / "scale.png")


if __name__ == "__main__":
    main()
