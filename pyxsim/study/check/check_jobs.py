"""The jobs of an experiment."""

from __future__ import annotations

from typing import Any

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.settings.job import JobTable
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import format_duration, plural

MOST_ROWS = 16  # of jobs in the text


@checks.register("jobs", order=35)
def jobs(prepared: Prepared | PreparedTraffic) -> Finding:
    """List the jobs with their NPUs, arrival, work and restarts."""
    if prepared.mode == "open":
        return Finding((), {})
    known = [
        {key: row[key] for key in ("name", "npus", "placement", "at")} | {"restarts": table.restart is not None}
        for row, table in zip(prepared.job.jobs(), prepared.experiment.job, strict=True)
    ]
    if not known:
        return Finding((), {})
    rows = [("job", _line(*pair)) for pair in zip(known, prepared.experiment.job, strict=True)][:MOST_ROWS]
    if len(known) > MOST_ROWS:
        rows.append(("job", f"and {len(known) - MOST_ROWS} more"))
    return Finding(rows, {"jobs": known})


def _line(row: dict[str, Any], table: JobTable) -> str:
    """For example "train: 2 collectives on 8 NPUs (packed 0,1,2,3), from 5 us on"."""
    work = "workload" if table.collective is None else plural(len(table.collectives), "collective")
    at = f", from {format_duration(table.at)} on" if row["at"] else ""
    return f"{row['name']}: {work} on {plural(row['npus'], 'NPU')} ({row['placement']}){at}{_restart(table)}"


def _restart(table: JobTable) -> str:
    """Its iterations, checkpoints and restarts."""
    restart = table.restart
    if restart is None:
        return ""
    saved = "no checkpoint"
    if restart.checkpoint_every is not None:
        saved = f"a checkpoint every {restart.checkpoint_every:,}"
    elif restart.checkpoint_interval is not None:
        saved = f"a checkpoint every {format_duration(restart.checkpoint_interval)}"
    spares = restart.spares if isinstance(restart.spares, int) else len(restart.spares)
    again = f"restarts after {format_duration(restart.after)}, with {plural(spares, 'spare NPU')}"
    return f"; {plural(restart.iterations, 'iteration')}, {saved}; {again}"
