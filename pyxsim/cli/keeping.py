"""`--checkpoint`: who writes the checkpoints of a run of a command, and what to type to go on from one."""

from __future__ import annotations

import shlex

from pyxsim.cli.ends import complain
from pyxsim.cli.talk import Talk
from pyxsim.runner.checkpoint.context import Rest, keeper
from pyxsim.runner.checkpoint.writer import Keeper


def keeper_of(talk: Talk, path: str, every: float | None, rest: Rest) -> Keeper:
    """It ends the run when a signal has come."""
    return keeper(path, every, rest, stopping=lambda: bool(talk.stop.number), complain=complain)


def words(path: str) -> str:
    """What to type to go on with a run."""
    return f"pyxsim resume {shlex.quote(path)}"
