"""Measure the speed of the simulator: work per CPU second on fixed cases, and beside peers on the same packets.

    python -m benchmarks.run [--quick] [--repeat N] [--only NAME ...] [--against TREE] [--fail-if-slower PERCENT]
    python -m benchmarks.run --curves [NAME ...]

Work is router visits where there are packets (a flit that passes a router; BookSim2 counts the same as "hops"), and
messages where there are none. Every case runs `repeat` times, one after the other, each in its own process, so
that the peak memory is that of one run; the median counts, because machines are shared. docs/performance.md explains
the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import history, page
from benchmarks.beside import beside
from benchmarks.beside import table as peers_table
from benchmarks.cases import CASES
from benchmarks.curves import CURVES, measure_curves
from benchmarks.measure import Row, measure
from benchmarks.show import tables
from benchmarks.yardstick import measure_yardstick, said
from pyxsim.errors import PyxsimError

RESULTS = Path("results", "bench")
PEER_REPEAT = 3
INTERRUPTED = 130  # exit code, as in every command of pyxsim


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--repeat", type=_count, default=5, metavar="N", help="runs of each case (5); long cases run 3 times at most")
    add("--quick", action="store_true", help="one run of each case but the long ones, and no peers")
    add("--only", nargs="+", choices=sorted(CASES), metavar="NAME", help="these cases only, and no peers")
    add("--peers", action="store_true", help="the peers only")
    add("--python", action="append", default=[], metavar="FILE", help="another Python that has peers")
    add("--curves", nargs="*", choices=sorted(CURVES), metavar="NAME", help="cost against size, load, ..., no cases")
    add("--against", type=Path, metavar="TREE", help="pair every run with one of another tree of pyxsim, built")
    add("--history", type=Path, default=RESULTS / "history.jsonl", metavar="FILE", help="where earlier sessions are")
    add("--fail-if-slower", type=float, metavar="PERCENT", help="exit code 1 if a case is slower by so much")
    add("--write", type=Path, metavar="PAGE.md", help="bring the tables of docs/performance.md up to date")
    add("-o", "--output", type=Path, metavar="FILE", help="write what was measured there, too, as JSON")
    return parser


def main() -> None:
    wanted = options().parse_args()
    # Rows of a table in a file are not folded.
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    try:
        slower = run(wanted, console)
    except PyxsimError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if slower and wanted.fail_if_slower is not None:
        sys.exit(f"slower by more than {wanted.fail_if_slower:g} %: {', '.join(slower)}")


def run(wanted: argparse.Namespace, console: Console) -> list[str]:
    """Measure, print and store. Returns the cases that are slower than `wanted.fail_if_slower` allows."""
    if wanted.curves is not None:
        curves = measure_curves(wanted.curves or list(CURVES), 1 if wanted.quick else wanted.repeat, RESULTS, console)
        _keep(wanted, {**history.session([], measure_yardstick()), **curves}, RESULTS / "curves.json")
        return []
    repeat = 1 if wanted.quick else wanted.repeat
    before = history.read(wanted.history)
    yardstick = measure_yardstick()
    rows: list[Row] = []
    for name in _cases(wanted):
        console.print(f"{name} ...", style="dim", highlight=False)
        rows.append(measure(name, repeat, wanted.against))
        if "alone" in rows[-1]:
            console.print(f"measured alone: {rows[-1]['alone']}", highlight=False, soft_wrap=True)
    now = history.session(rows, yardstick)
    changes = [history.change(row, history.last_alike(before, now, row)) for row in rows]
    for table in tables(rows, changes):
        console.print(table)
    console.print(said(yardstick, history.session_before(before, now)), highlight=False, soft_wrap=True)
    if wanted.peers or not (wanted.quick or wanted.only):
        now["peers"] = beside(min(repeat, PEER_REPEAT), wanted.python)
        console.print(peers_table(now["peers"]))
    history.append(wanted.history, now)
    _keep(wanted, now)
    limit = 1 + (wanted.fail_if_slower or 0) / 100
    return [row["name"] for row, change in zip(rows, changes, strict=True) if _is_slower(row, change, limit)]


def _cases(wanted: argparse.Namespace) -> list[str]:
    if wanted.peers:
        return []
    return wanted.only or [name for name, case in CASES.items() if not (wanted.quick and case.long)]


def _is_slower(row: Row, change: history.Change | None, limit: float) -> bool:
    """Compare by pairs if there are any, else with the last session."""
    if "against" in row:
        pairs = row["against"]
        return bool(pairs["min"] > 1 and pairs["median"] > limit)
    return change is not None and change.word == "slower" and change.ratio > limit


def _keep(wanted: argparse.Namespace, told: dict[str, Any], usual: Path | None = None) -> None:
    """Return the given path, or the default one."""
    file = wanted.output or usual
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    if wanted.write is not None:
        page.write(wanted.write, told)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    main()
