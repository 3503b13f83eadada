"""Earlier sessions: a file with a line of JSON for each, and their comparison with a new one."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Row
from benchmarks.yardstick import Yardstick
from pyxsim.core.engine import build_info
from pyxsim.errors import InputError
from pyxsim.results.provenance import provenance

CLEAR = 1.02  # a smaller change is not significant, however similar the runs are
SAME = ("machine", "build", "python")  # fields that must agree between two compared sessions

Session = dict[str, Any]


class Change(NamedTuple):
    """CPU time now over CPU time before, and the verdict: "slower", "faster", or "same" within the noise."""

    ratio: float
    word: str


def session(rows: Sequence[Row], yardstick: Yardstick | None = None) -> Session:
    """Return this session's measurements with the machine and its speed."""
    told = provenance()
    return {
        "version": told["version"],
        "commit": told.get("commit", ""),
        "build": build_info["kind"],
        "python": told["python"],
        "machine": machine(),
        "yardstick": yardstick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cases": list(rows),
    }


def machine() -> str:
    """Return the processor's name, the number of processors, and the host."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{os.cpu_count()} x {name} ({platform.node()})"


def read(path: Path) -> list[Session]:
    """Return the sessions of a file, oldest first; none without the file. Raises InputError for an invalid line."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            told = json.loads(line)
            found.append({**told, "cases": {row["name"]: row for row in told["cases"]}})
        except (ValueError, TypeError, KeyError) as error:
            what = f"line {number} is no session of the benchmarks"
            raise InputError(what, file=str(path), allowed="what make bench writes") from error
    return found


def append(path: Path, told: Session) -> None:
    """Append a session."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def session_before(sessions: Iterable[Session], now: Session) -> Session | None:
    """Return the last session of the same machine, build and Python."""
    found = [before for before in sessions if all(before.get(key) == now[key] for key in SAME)]
    return found[-1] if found else None


def last_alike(sessions: Iterable[Session], now: Session, row: Row) -> Row | None:
    """Return the last measurement of a case on the same machine, with the same build and Python."""
    found: Row | None = None
    for before in sessions:
        if all(before.get(key) == now[key] for key in SAME):
            found = before["cases"].get(row["name"], found)
    return found


def change(row: Row, before: Row | None) -> Change | None:
    """Compare a case with an earlier measurement; None if there is none, or if its work has changed.

    Runs of one session differ by the other load of the machine, so a change counts only if all runs of one session
    were slower than all of the other.
    """
    if before is None or before["cycles"] != row["cycles"]:
        return None
    now, then = row["cpu_s"], before["cpu_s"]
    ratio = now["median"] / then["median"]
    if now["min"] > then["max"] and ratio > CLEAR:
        return Change(ratio, "slower")
    if now["max"] < then["min"] and ratio < 1 / CLEAR:
        return Change(ratio, "faster")
    return Change(ratio, "same")
