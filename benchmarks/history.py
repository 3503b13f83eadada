"""What was measured before: a file with a line of JSON for each session, and what a new session is compared with."""

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

CLEAR = 1.02  # a smaller ratio is not told from none, however alike the runs were
SAME = ("machine", "build", "python")  # what must agree between two sessions that are compared

Session = dict[str, Any]


class Change(NamedTuple):
    """CPU time now over that before, and the word for it: "slower", "faster", or "same" within the noise."""

    ratio: float
    word: str


def session(rows: Sequence[Row], yardstick: Yardstick | None = None) -> Session:
    """What was measured now, with what it was measured on, and how fast that was."""
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
    """The processor by name, how many of them, and the host."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{os.cpu_count()} x {name} ({platform.node()})"


def read(path: Path) -> list[Session]:
    """The sessions of a file, the oldest first; none if it is not there. InputError for a line that is none."""
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
    """Add a session."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def session_before(sessions: Iterable[Session], now: Session) -> Session | None:
    """The last session of the same machine, build and Python."""
    found = [before for before in sessions if all(before.get(key) == now[key] for key in SAME)]
    return found[-1] if found else None


def last_alike(sessions: Iterable[Session], now: Session, row: Row) -> Row | None:
    """The last time that the same case was measured on the same machine, with the same build and Python."""
    found: Row | None = None
    for before in sessions:
        if all(before.get(key) == now[key] for key in SAME):
            found = before["cases"].get(row["name"], found)
    return found


def change(row: Row, before: Row | None) -> Change | None:
    """How a case did against an earlier time; None if there is none, or if it was other work then.

    Runs of one session differ by what else the machine does. So a change counts as one only if all runs of one session
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
