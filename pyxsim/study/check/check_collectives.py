"""The collectives and messages of an experiment."""

from __future__ import annotations

from typing import Any

from pyxsim.results.table import plain
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.run_result import collective_row
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import plural, rounded

MOST_ROWS = 8  # of collectives in the text


@checks.register("collectives", order=40)
def collectives(prepared: Prepared | PreparedTraffic) -> Finding:
    """List the collectives, with their groups, algorithms and sizes."""
    if prepared.mode == "open":
        return Finding((), {"collectives": []})
    table = [
        collective_row(prepared, collective, prepared.lower_bound_of(collective.per_group))
        for collective in prepared.job.collectives
    ]
    rows = [("collective", _line(row)) for row in table[:MOST_ROWS]]
    if len(table) > MOST_ROWS:
        rows.append(("collective", f"and {len(table) - MOST_ROWS} more"))
    known = [{key: plain(value) for key, value in row.items() if key not in ("end", "ratio")} for row in table]
    return Finding(rows, {"collectives": known})


@checks.register("messages", order=50)
def messages(prepared: Prepared | PreparedTraffic) -> Finding:
    """Count the messages and bytes that the run sends."""
    if prepared.mode == "open":
        return Finding((), {"messages": 0, "bytes": 0})
    traffic = prepared.system.traffic()
    count, nbytes = int(traffic[:, 4].sum()), int((traffic[:, 3] * traffic[:, 4]).sum())
    rows = [("messages", f"{count:,} of {rounded(nbytes, 'B', 1024)} together")] if count else []
    return Finding(rows, {"messages": count, "bytes": nbytes})


def _line(row: dict[str, Any]) -> str:
    """For example "gradients: all-reduce of 1.00 MiB on 4 NPUs (group left), ring"."""
    name = "" if row["name"] == row["kind"] else f"{row['name']}: "
    size = "" if row["kind"] == "barrier" else f" of {rounded(row['bytes'], 'B', 1024)}"
    group = "" if row["group"] == "all" else f" ({row['group']})"
    root = "" if row["root"] < 0 else f", root NPU {row['root']}"
    at = "" if row["start"] <= 0 else f", from cycle {row['start']:,} on"  # -1: it has not begun
    return f"{name}{row['kind']}{size} on {plural(row['npus'], 'NPU')}{group}{root}, {row['algorithm']}{at}"
