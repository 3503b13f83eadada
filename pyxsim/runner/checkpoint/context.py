"""What else there is to know of a run with checkpoints: where they lie, what to do when it has ended, how to go on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.paths import missing
from pyxsim.reports.files import Outputs
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint import checkpoint_file as file
from pyxsim.runner.checkpoint.resume_info import ResumeInfo
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.prepare import Prepared, PreparedTraffic

SUFFIX = ".checkpoint"
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class CheckpointContext:
    """What is to be done with a run that stands in a checkpoint. `watched`: what the command line wants to tell."""

    outputs: Outputs = field(default_factory=Outputs)
    backend: str = "packet"
    libraries: tuple[str, ...] = ()
    watched: Any = None


def place_of(output: str | None, inputs: Iterable[PathLike]) -> str:
    """Where the checkpoint of a run lies: beside its output; without one in the present folder."""
    if output is not None:
        return f"{output}{SUFFIX}"
    names = [Path(name).stem for name in inputs]
    return f"{names[0] if names else 'run'}{SUFFIX}"


def check_new(path: str, words: str) -> str:
    """Raise InputError where there is a checkpoint already, or none can be written. `words`: how to go on with it."""
    if os.path.lexists(path) and not os.path.isdir(path):
        problem = "there is a checkpoint of a run that has not ended"
        raise InputError(problem, file=path, allowed=f"{words}, or to remove it")
    check_writable(path)
    return path


def keeper(
    path: str,
    every: float | None,
    rest: CheckpointContext,
    *,
    stopping: Callable[[], bool],
    complain: Callable[[str], object],
) -> CheckpointWriter:
    """Who writes the checkpoints of a run: `every` so many seconds, and when it is to be left."""
    about = {"output": rest.outputs.file, "plot": rest.outputs.plot}
    time = math.inf if every is None else every
    return CheckpointWriter(
        path, time, libraries=rest.libraries, told=rest, about=about, stopping=stopping, complain=complain
    )


def take_up(
    path: PathLike, output: str | None = None
) -> tuple[dict[str, Any], Prepared | PreparedTraffic, CheckpointContext]:
    """The head of a checkpoint, the run in it, ready to go on, and what is to be done with it. Raises InputError.

    `output`: the file of its result, in the place of the one that it was to have.
    """
    path = os.fspath(path)
    if not os.path.lexists(path):
        _no_checkpoint(path)
    prepared: Prepared | PreparedTraffic
    rest: CheckpointContext
    head, (prepared, rest) = file.read(path)
    if output is not None:
        rest = replace(rest, outputs=replace(rest.outputs, file=os.path.abspath(output)))
    typed_again(rest.outputs, output).check([path])
    prepared.past = ResumeInfo.of(head)
    return head, prepared, rest


def typed_again(outputs: Outputs, output: str | None) -> Outputs:
    """The files of a run that goes on, as whoever goes on with it would type them. `output`: what was typed now."""
    told = outputs.from_here()
    return told if output is None else replace(told, file=output)


def _no_checkpoint(path: str) -> None:
    """Say why. Raises InputError."""
    output = path.removesuffix(SUFFIX)
    if output != path and os.path.isfile(output) and Result.load(output).complete:
        problem = "there is no checkpoint: the run has ended"
        raise InputError(problem, file=path, allowed=f"nothing; its result is {output}")
    raise missing(path, "a checkpoint, such as out.h5.checkpoint")
