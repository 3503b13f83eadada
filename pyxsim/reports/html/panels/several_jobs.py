"""Panels of several jobs: their times and slowdowns, checkpoints and restarts, and their interference."""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.waiting_matrix import waiting_matrix
from pyxsim.reports.text.job_tables import failures_sheet, jobs_sheet, restarts_sheet
from pyxsim.results.interference import interference
from pyxsim.results.result import Result


@html_panel("jobs", section="workload", applies=lambda result: bool(result.jobs))
def jobs(result: Result, detail: Detail) -> list[Panel]:
    """The times of the jobs, checkpoints, restarts and failures, and the interference matrix."""
    about = "Arrival, first task, last task, and the time from arrival to end of each job."
    if any(row["alone"] >= 0 for row in result.jobs):
        about += " The slowdown is this time over the time alone on the same NPUs."
    panels = [Panel("Jobs", about, sheet=jobs_sheet(result))]
    if result.job_restarts:
        about = (
            "Work is iterations that count. Lost is work since the last checkpoint that a failure discarded; down is "
            "the time until the NPUs resumed. Goodput is the share of work."
        )
        panels.append(Panel("Checkpoints and restarts", about, sheet=restarts_sheet(result)))
    if result.job_failures:
        about = "The cost of each failure, and the NPU that replaced the failed one."
        panels.append(Panel("Failures of jobs", about, sheet=failures_sheet(result)))
    waits = interference(result.attribution, len(result.jobs))
    if waits is None or not waits.cycles.any():
        return panels
    text = "The share of each culprit in the cycles that the packets of a job waited in the network."
    return [*panels, waiting_matrix("Interference between jobs", text, waits.victims, waits.culprits, waits.cycles)]
