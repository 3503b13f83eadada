"""A run from its checkpoint to its Result."""

from __future__ import annotations

import os
from collections.abc import Callable

from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import take_up
from pyxsim.runner.lifecycle import Meter, Progress, with_checkpoints
from pyxsim.runner.prepare import PathLike


def resume(
    path: PathLike,
    *,
    keep: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Go on with a run from its checkpoint: the result is that of a run that was not left (docs/checkpoint.md).

    It may be one of `pyxsim run --checkpoint`: the files that the command was to write are written then. The checkpoint
    is gone when the run has ended; `keep`: it stays. A checkpoint is code: resume your own ones only.

    Ends as `pyxsim.run` does. Raises InputError for what is no checkpoint, or another pyxsim's.
    """
    _, prepared, rest = take_up(path)
    meter = Meter(progress)
    meter.prepared = prepared
    prepared.network.tick = meter.tick
    return with_checkpoints(prepared, rest, os.path.abspath(path), keep=keep)
