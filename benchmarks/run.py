"""How fast the simulator is: router visits per second of CPU time, on fixed cases.

    python benchmarks/run.py [--repeat N] [--only NAME ...] [-o FILE.json]

A router visit is a flit that passes a router (BookSim2 counts the same as "hops"). Every case runs `repeat` times in
this process, one after the other; the median counts, because machines are shared. The JSON goes to the file, or to
stdout; the table for people goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cases import CASES
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


def measure(name: str, repeat: int) -> dict[str, Any]:
    """One case, `repeat` times: its work (the same in every run) and the times."""
    case = CASES[name]
    runs = [case.run() for _ in range(repeat)]
    seconds = sorted(run.cpu_s for run in runs)
    median = statistics.median(seconds)
    first = runs[0]
    return {
        "name": name,
        "what": case.what,
        "router_visits": first.visits,
        "cycles": first.cycles,
        "cpu_s": {"min": seconds[0], "median": median, "max": seconds[-1]},
        "visits_per_cpu_s": first.visits / median,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        **first.facts,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """The table for people, on stderr."""
    table = Table("case", "router visits", "cycles", "CPU s (median)", "million visits / CPU s", title="benchmarks")
    for row in rows:
        seconds = row["cpu_s"]
        spread = f"{seconds['median']:.3f} ({seconds['min']:.3f} to {seconds['max']:.3f})"
        table.add_row(
            row["name"],
            f"{row['router_visits']:,}",
            f"{row['cycles']:,}",
            spread,
            f"{row['visits_per_cpu_s'] / 1e6:.2f}",
        )
    Console(stderr=True, width=None if sys.stderr.isatty() else 110).print(table)


if __name__ == "__main__":
    main()
