"""`pyxsim jobs`: several jobs together and each alone."""

from __future__ import annotations

from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.text.job_tables import interference_sheet, jobs_sheet
from pyxsim.reports.text.text_width import bound
from pyxsim.results.hdf5 import check_writable
from pyxsim.study.jobs import jobs


def show_jobs(out: CommandOutput, file: str, output: str | None, simulation: dict[str, Any], backend: str) -> None:
    """Print times, slowdowns and interference of the jobs of an experiment, and write the result of all together."""
    if output is not None:
        check_writable(output)
    result = jobs(file, **simulation, backend=backend)
    if output is not None:
        result.save(output)
    width = bound(out.console)
    out.say(jobs_sheet(result).rich(width=width))
    if (sheet := interference_sheet(result)) is not None:
        out.say("", sheet.rich(width=width))
    for line in result.warnings:
        out.say(f"warning: {line}")
    out.put({**result.json(), **result.tables(), "warnings": result.warnings})
