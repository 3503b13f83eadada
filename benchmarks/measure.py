"""Runs of cases, each in its own process, so that the peak memory is that of one run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.case import Run
from benchmarks.cases import CASES
from benchmarks.traffic import Open
from pyxsim.errors import PyxsimError

EVERY = "--no-skip"  # argument of a process: simulate every cycle
LONG_REPEAT = 3  # most runs of a long case

Row = dict[str, Any]


def measure(name: str, repeat: int, against: Path | None = None, *, skip: bool = True) -> Row:
    """Measure one case `repeat` times: its work (the same in every run), times and memory.

    `against`: another built tree of pyxsim. Each run is then one of a pair, in alternating order, so
    that other load of the machine affects both; "against" has the ratios of the pairs: CPU time here over there. A
    case that the other tree lacks runs alone, and "alone" says so. `skip`: skip repeating cycles, as a run does.
    """
    case = CASES[name]
    count = max(1, min(repeat, LONG_REPEAT) if case.long else repeat)
    runs: list[Run] = []
    others: list[Run] = []
    peaks: list[float] = []
    alone = ""
    for number in range(count):
        for here in (number % 2 == 1, number % 2 == 0):
            if here:
                run, peak = once(name, skip=skip)
                runs.append(run)
                peaks.append(peak)
            elif against is not None and not alone:
                try:
                    others.append(once(name, against)[0])
                except PyxsimError as error:
                    if not str(error).endswith(f"KeyError: {name!r}"):
                        raise
                    alone = f"the pyxsim in {against} has no case {name}"
    for run in [*runs, *others]:
        if (run.work, run.cycles) != (runs[0].work, runs[0].cycles):
            raise PyxsimError(f"{name}: not the same work in every run; there is nothing to compare")
    row = {
        "name": name,
        "what": case.what,
        case.key: runs[0].work,
        "cycles": runs[0].cycles,
        "cpu_s": spread([run.cpu_s for run in runs]),
        "whole_cpu_s": spread([run.whole_cpu_s for run in runs]),
        case.rate_key: runs[0].work / statistics.median(run.cpu_s for run in runs),
        "peak_rss_mb": statistics.median(peaks),
        "runs": count,
        **runs[0].facts,
    }
    if alone:
        row["alone"] = alone
    elif against is not None:
        row["against"] = spread([ours.cpu_s / theirs.cpu_s for ours, theirs in zip(runs, others, strict=True)])
    return row


def skipped(row: Row) -> float:
    """Return the share of a case's cycles that were skipped because they repeat others."""
    share: float = row.get("skipped_cycles", 0) / row["cycles"]
    return share


def once(what: str | Open, tree: Path | None = None, *, skip: bool = True) -> tuple[Run, float]:
    """Run a case or traffic once; return it and the peak memory of its process (MB). `tree`: the pyxsim to run."""
    word = what if isinstance(what, str) else json.dumps(asdict(what))
    # The same modules as here, with the tree's first; without the cache, so proofs are repeated.
    path = [*([str(tree.resolve())] if tree is not None else []), *(entry or os.getcwd() for entry in sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYXSIM_CACHE": ""}
    # Trees before 2026-11-22 have the cases inside the package.
    old = tree is not None and (tree / "pyxsim" / "bench").is_dir()
    words = [sys.executable, "-P", "-m", "pyxsim.bench" if old else "benchmarks", word, *([] if skip else [EVERY])]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        where = "" if tree is None else f" with the pyxsim in {tree}"
        raise PyxsimError(f"{what} does not run{where}: {last}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    peak: float = told.pop("peak_rss_mb")
    return Run(**told), peak


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return minimum, median and maximum."""
    return {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}
