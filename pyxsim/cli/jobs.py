"""`pyxsim jobs`: several jobs together and each alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.exit_codes import lines
from pyxsim.cli.faults import placed
from pyxsim.cli.simulate import numbers, progress_of
from pyxsim.errors import InputError
from pyxsim.reports.text.job_tables import interference_sheet, jobs_sheet, restarts_sheet
from pyxsim.reports.text.text_width import bound
from pyxsim.results.hdf5 import check_hdf5
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.settings import load_experiment
from pyxsim.study.jobs import run_jobs


def show_jobs(
    out: CommandOutput,
    path: str,
    file: str | None,
    *,
    backend: str,
    overrides: Sequence[str],
    libraries: Sequence[str],
    allow_deadlock: bool,
) -> None:
    """Print times, slowdowns and interference of the jobs of an experiment, and write the result of all together.

    Raises what ends the command: a failure, an unwritten file, an interruption.
    """
    if file is not None:
        check_hdf5(file)
    experiment = load_experiment(path, overrides, libraries)
    try:
        done = run_jobs(
            experiment,
            folder=Path(path).parent,
            context=CheckpointContext(backend=backend, libraries=tuple(map(os.path.abspath, libraries))),
            allow_deadlock=allow_deadlock,
            hooks=lambda label: ProgressHooks(progress_of(out, label), signals=out.signals),
        )
    except InputError as error:
        raise placed(error, path, overrides) from None
    result = done.result
    with out.signals.deferred():  # write the file even if a signal arrives
        if file is not None:
            result.save(file)
        width = bound(out.console)
        out.say(jobs_sheet(result).rich(width=width))
        if result.job_restarts:
            out.say("", restarts_sheet(result).rich(width=width))
        if (sheet := interference_sheet(result)) is not None:
            out.say("", sheet.rich(width=width))
        out.say(*(f"warning: {line}" for line in result.warnings))
        ended = {"exit_code": done.failure.exit_code, "errors": lines(done.failure)} if done.failure is not None else {}
        out.put({**numbers(result), **ended})
        kept = (
            "nothing was written, because -o is missing" if file is None else f"{file} contains the incomplete result"
        )
        if done.failure is not None:
            done.failure.args = (f"{done.failure}; {kept}", *done.failure.args[1:])
            raise done.failure
        if done.interrupted:
            raise KeyboardInterrupt(kept)
