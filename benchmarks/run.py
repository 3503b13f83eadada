"""How fast the simulator is: work per second of CPU time, on fixed cases.

    python benchmarks/run.py [--repeat N] [--only NAME ...] [-o FILE.json]

Work is router visits where there are packets (a flit that passes a router; BookSim2 counts the same as "hops"), and
messages where there are none. Every case runs `repeat` times, one after the other, each in a process of its own, so
that the peak of memory is that of one run; the median counts, because machines are shared. The JSON goes to the file,
or to stdout; the table for people goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cases import CASES, PEERS, Run
from rich.console import Console
from rich.table import Table

import pyxsim
from pyxsim.core.engine import build_info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case (default 5)")
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), metavar="NAME", help="these cases only")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the JSON there instead of to stdout")
    wanted = parser.parse_args()
    rows = [measure(name, max(1, wanted.repeat)) for name in wanted.only or CASES]
    show(rows)
    record = {
        "version": pyxsim.__version__,
        "build": build_info["kind"],
        "python": platform.python_version(),
        "machine": platform.machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cases": rows,
    }
    text = json.dumps(record, indent=2)
    if wanted.output is None:
        print(text)
    else:
        wanted.output.parent.mkdir(parents=True, exist_ok=True)
        wanted.output.write_text(text + "\n", encoding="utf-8")


def once(name: str) -> tuple[Run, float]:
    """One run of a case, and the peak of memory of this process (MB)."""
    return CASES[name].run(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure(name: str, repeat: int) -> dict[str, Any]:
    """One case, `repeat` times: its work (the same in every run), times and memory."""
    case = CASES[name]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        runs, peaks = zip(*(pool.submit(once, name).result() for _ in range(repeat)), strict=True)
    median = statistics.median(run.cpu_s for run in runs)
    first, unit = runs[0], case.unit.replace(" ", "_")
    return {
        "name": name,
        "what": case.what,
        unit: first.work,
        "cycles": first.cycles,
        "cpu_s": spread([run.cpu_s for run in runs]),
        "whole_cpu_s": spread([run.whole_cpu_s for run in runs]),
        f"{unit.rpartition('_')[2]}_per_cpu_s": first.work / median,
        "peak_rss_mb": statistics.median(peaks),
        **first.facts,
    }


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """The least, the median and the most."""
    return {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}


def show(rows: list[dict[str, Any]]) -> None:
    """The table for people, on stderr: where there are packets, and where there are none, beside other simulators."""
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    for unit in dict.fromkeys(CASES[row["name"]].unit for row in rows):
        table = Table("case", unit, "cycles", "CPU s", "in all", f"million {unit} / CPU s", "peak MB", title=unit)
        for row in rows:
            if CASES[row["name"]].unit != unit:
                continue
            work, seconds = row[unit.replace(" ", "_")], row["cpu_s"]
            rate = f"{work / seconds['median'] / 1e6:.2f}"
            times = f"{seconds['median']:.3f} ({seconds['min']:.3f} to {seconds['max']:.3f})"
            whole, peak = f"{row['whole_cpu_s']['median']:.3f}", f"{row['peak_rss_mb']:.0f}"
            table.add_row(row["name"], f"{work:,}", f"{row['cycles']:,}", times, whole, rate, peak)
            for peer in PEERS:
                if peer.case == row["name"]:
                    least, most = peer.cpu_s
                    rate = f"{work / most / 1e6:.2f} to {work / least / 1e6:.2f}"
                    table.add_row(peer.what, f"{work:,}", "", "", f"{least} to {most}", rate, "not noted")
        console.print(table)


if __name__ == "__main__":
    main()
