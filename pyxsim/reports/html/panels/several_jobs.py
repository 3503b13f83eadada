"""Panels of several jobs: their times and slowdowns, where their time went, and who disturbed whom."""

from __future__ import annotations

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.waiting_matrix import waiting_matrix
from pyxsim.reports.text.job_tables import failures_sheet, jobs_sheet, restarts_sheet
from pyxsim.results.interference import interference
from pyxsim.results.result import Result


@html_panel("jobs", section="workload", applies=lambda result: bool(result.jobs))
def jobs(result: Result, detail: Detail) -> list[Panel]:
    """The times of the jobs, the account of those that start again, and the matrix of their interference."""
    about = "Arrival, first task, last task, and the time from arrival to end of each job."
    if any(row["alone"] >= 0 for row in result.jobs):
        about += " The slowdown is this time over the time alone on the same NPUs."
    panels = [Panel("Jobs", about, sheet=jobs_sheet(result))]
    if result.job_restarts:
        about = (
            "Work is iterations that count. Lost is work since the last checkpoint that a failure undid; down is the "
            "time until the NPUs began again. Goodput is the share of work."
        )
        panels.append(Panel("Checkpoints and restarts", about, sheet=restarts_sheet(result)))
    if result.job_failures:
        about = "What each failure cost, and the NPU that replaced the failed one."
        panels.append(Panel("Failures of jobs", about, sheet=failures_sheet(result)))
    found = interference(result.attribution, len(result.jobs))
    if found is None or not found.cycles.any():
        return panels
    text = "The share of each culprit in the cycles that the packets of a job waited in the network."
    return [*panels, waiting_matrix("Who disturbed whom", text, found.victims, found.culprits, found.cycles)]
