"""What a worker does with a point: run it, and send home the file of its result, or why there is none.

Workers write no files: whoever holds the folder of the sweep does. So a worker that was forgotten spoils nothing, and
one on another machine needs no common disk for its results.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyxsim.errors import InputError, PyxsimError, SimulationError
from pyxsim.results.result_file import image
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings.points import Point

DIED = "WorkerDied"  # as the kind of a failure: the process is gone, mostly for want of memory
NO_MEMORY = "MemoryError"
AGAIN = (DIED, NO_MEMORY)  # what may go well another time, with less beside it; the rest would happen again


@dataclass(frozen=True)
class Task:
    """A point and what it is run with. `folder`: where relative paths count from, absolute. `alone`: nobody else needs
    the processors."""

    point: Point
    folder: Path
    backend: str = "packet"
    libraries: tuple[str, ...] = ()
    allow_deadlock: bool = False
    alone: bool = True
    only_prepare: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a point: `image`, the file of its result; or `reason` and `kind`, the name of the error. Neither
    where it was only to be prepared, and could be. `final`: the same settings would fail again. `fault`: of the input.
    """

    image: bytes | None = None
    reason: str = ""
    kind: str = ""
    final: bool = False
    fault: InputError | None = None

    @property
    def failed(self) -> bool:
        return bool(self.kind)


def carry_out(task: Task) -> Outcome:
    """Run a point. Whatever goes wrong comes back as an Outcome: one point must not end the others."""
    begin = time.process_time()
    try:
        experiment = task.point.experiment
        if not task.alone and experiment.run.threads == "auto":
            experiment = experiment.model_copy(update={"run": experiment.run.model_copy(update={"threads": 1})})
        prepared = prepare(
            experiment,
            folder=task.folder,
            libraries=task.libraries,
            backend=task.backend,
            allow_deadlock=task.allow_deadlock,
        )
        if task.only_prepare:
            return Outcome()
        result = simulate(prepared, backend=task.backend)
        if not result.complete:
            return Outcome(reason="was interrupted", kind=DIED)
        result.total_cpu_s -= begin  # of this point: the process had others before
        return Outcome(bytes(image(result)))
    except InputError as error:
        fault = task.point.placed(error)
        return Outcome(reason=str(fault), kind=type(error).__name__, fault=fault)
    except SimulationError as error:
        return Outcome(kind=type(error).__name__, reason=str(error), final=True)
    except MemoryError as error:
        return Outcome(kind=NO_MEMORY, reason=f"not enough memory: {error}".rstrip(": "))
    except Exception as error:
        words = str(error) if isinstance(error, PyxsimError) else f"{type(error).__name__}: {error}"
        return Outcome(kind=type(error).__name__, reason=f"this is a bug of pyxsim: {words}")


def only_prepared(task: Task) -> Task:
    """The same, to see whether it can be run at all."""
    return replace(task, only_prepare=True)
