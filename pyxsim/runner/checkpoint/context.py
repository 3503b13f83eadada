"""Where the checkpoints of a run are, what they hold besides the run, and how a run continues from one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.paths import missing
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint import checkpoint_file as file
from pyxsim.runner.checkpoint.resume_info import ResumeInfo
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.outputs import ResultFile, RunFiles
from pyxsim.runner.packet_watch import PacketWatch
from pyxsim.runner.prepared import Prepared, PreparedTraffic

SUFFIX = ".checkpoint"
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class CheckpointContext:
    """What a run needs besides what was prepared: the files to write at its end, its backend, and the packet to log."""

    outputs: RunFiles = field(default_factory=ResultFile)
    backend: str = "packet"
    libraries: tuple[str, ...] = ()
    packet_watch: PacketWatch | None = None


def default_path(output: str | None, inputs: Iterable[PathLike]) -> str:
    """Return the name of a checkpoint: beside the output of the run, or in the present folder."""
    if output is not None:
        return f"{output}{SUFFIX}"
    names = [Path(name).stem for name in inputs]
    return f"{names[0] if names else 'run'}{SUFFIX}"


def check_new(path: str, advice: str) -> str:
    """Return the path. Raise InputError if it exists or cannot be written; `words` says how to resume from it."""
    if os.path.lexists(path) and not os.path.isdir(path):
        problem = "it is the checkpoint of an unfinished run"
        raise InputError(problem, file=path, allowed=f"{advice}, or remove the file")
    check_writable(path)
    return path


def checkpoint_writer(
    path: str,
    every: float | None,
    context: CheckpointContext,
    *,
    warn: Callable[[str], object],
    stop_requested: Callable[[], bool] | None = None,
) -> CheckpointWriter:
    """Return a writer of checkpoints every `every` seconds (None: only when the run is stopped)."""
    return CheckpointWriter(
        path,
        math.inf if every is None else every,
        libraries=context.libraries,
        context=context,
        about={"output": context.outputs.file, "plot": context.outputs.plot},
        stop_requested=stop_requested,
        warn=warn,
    )


def open_checkpoint(
    path: PathLike, output: str | None = None
) -> tuple[dict[str, Any], Prepared | PreparedTraffic, CheckpointContext]:
    """Return the head of a checkpoint, its run, and its context.

    Parameters
    ----------
    output
        A file for the result, in place of the planned one.

    Raises
    ------
    InputError
        For a file that is not a checkpoint, damaged, or of another version; for outputs that cannot be written.
    """
    path = os.fspath(path)
    if not os.path.lexists(path):
        _refuse_missing(path)
    prepared: Prepared | PreparedTraffic
    context: CheckpointContext
    head, (prepared, context) = file.read(path)
    if output is not None:
        context = replace(context, outputs=context.outputs.with_file(os.path.abspath(output)))
    relative_outputs(context.outputs, output).check([path])
    prepared.resume_info = ResumeInfo.of(head)
    return head, prepared, context


def relative_outputs(outputs: RunFiles, output: str | None) -> RunFiles:
    """Return the files of a resumed run with names as a user types them; `output` is what was typed now."""
    relative = outputs.from_here()
    return relative if output is None else relative.with_file(output)


def _refuse_missing(path: str) -> None:
    """Raise InputError that says why there is no checkpoint."""
    output = path.removesuffix(SUFFIX)
    if output != path and os.path.isfile(output) and Result.load(output).complete:
        problem = "there is no checkpoint, because the run has ended"
        raise InputError(problem, file=path, allowed=f"nothing to resume; the result is {output}")
    raise missing(path, "a checkpoint, such as out.h5.checkpoint")
