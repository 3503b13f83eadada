"""`--checkpoint`: where the checkpoint of a run lies, and what whoever resumes the run has to know."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyxsim.cli.ends import complain
from pyxsim.cli.talk import Talk
from pyxsim.cli.watched import Watched
from pyxsim.errors import InputError
from pyxsim.output.hdf5 import check_writable
from pyxsim.study.checkpoint.keeper import Keeper

if TYPE_CHECKING:
    from pyxsim.cli.simulate import Outputs

SUFFIX = ".checkpoint"


@dataclass(frozen=True)
class Rest:
    """What is to be done with a run that stands in a checkpoint."""

    outputs: Outputs
    backend: str = "packet"
    libraries: tuple[str, ...] = ()
    watched: Watched | None = None


def checkpoint_of(outputs: Outputs, inputs: Iterable[str]) -> str:
    """Beside the output, or in the folder of the present where there is none."""
    if outputs.file is not None:
        return f"{outputs.file}{SUFFIX}"
    names = [Path(name).stem for name in inputs]
    return f"{names[0] if names else 'run'}{SUFFIX}"


def check_new(path: str) -> str:
    """Raise InputError where there is a checkpoint already, or none can be written."""
    if os.path.lexists(path):
        problem = "there is a checkpoint of a run that has not ended"
        raise InputError(problem, file=path, allowed=f"{words(path)}, or to remove it")
    check_writable(path)
    return path


def keeper_of(talk: Talk, path: str, every: float | None, rest: Rest) -> Keeper:
    """Writes the checkpoints of a run of a command. It ends when a signal has come."""
    outputs = rest.outputs
    about = {"output": outputs.file, "plot": outputs.plot}
    return Keeper(
        path,
        math.inf if every is None else every,
        libraries=rest.libraries,
        told=rest,
        about=about,
        stopping=lambda: bool(talk.stop.number),
        complain=complain,
    )


def words(path: str) -> str:
    """What to type to go on with a run."""
    return f"pyxsim resume {shlex.quote(path)}"
