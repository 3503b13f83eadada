"""`--checkpoint`: who writes the checkpoints of a run of a command, and what to type to go on from one."""

from __future__ import annotations

import shlex

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.exit_codes import complain
from pyxsim.runner.checkpoint.context import CheckpointContext, keeper
from pyxsim.runner.checkpoint.writer import CheckpointWriter


def keeper_of(out: CommandOutput, path: str, every: float | None, rest: CheckpointContext) -> CheckpointWriter:
    """It ends the run when a signal has come."""
    return keeper(path, every, rest, stopping=lambda: bool(out.stop.number), complain=complain)


def words(path: str) -> str:
    """What to type to go on with a run."""
    return f"pyxsim resume {shlex.quote(path)}"
