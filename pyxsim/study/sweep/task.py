"""Run one point in a worker and return the image of its result file, or the reason of its failure.

Workers write no files: the process that holds the folder of the sweep does. So a stray worker does no harm, and one on
another machine needs no shared disk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pyxsim.errors import InputError, PyxsimError, SimulationError
from pyxsim.library import user_fault
from pyxsim.results.result_file import image
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings.points import Point

DIED = "WorkerDied"  # kind of failure of a dead process, mostly out of memory
NO_MEMORY = "MemoryError"
AGAIN = (DIED, NO_MEMORY)  # failures that a retry may avoid, with fewer points beside it


class Work(Protocol):
    """What a worker carries out."""

    def carry_out(self) -> Outcome:
        """Return the outcome; errors are part of it."""


@dataclass(frozen=True)
class Task:
    """A point and its options. `folder`: where relative paths start, absolute. `alone`: no other task uses the
    processors."""

    point: Point
    folder: Path
    backend: str = "packet"
    libraries: tuple[str, ...] = ()
    allow_deadlock: bool = False
    alone: bool = True
    only_prepare: bool = False

    def carry_out(self) -> Outcome:
        """Run a point. Every error is returned as an Outcome, so that one point does not end the others."""
        begin = time.process_time()
        try:
            experiment = self.point.experiment
            if not self.alone and experiment.run.threads == "auto":
                experiment = experiment.model_copy(update={"run": experiment.run.model_copy(update={"threads": 1})})
            prepared = prepare(
                experiment,
                folder=self.folder,
                libraries=self.libraries,
                backend=self.backend,
                allow_deadlock=self.allow_deadlock,
            )
            if self.only_prepare:
                return Outcome()
            result = simulate(prepared, backend=self.backend)
            if not result.complete:
                return Outcome(reason="was interrupted", kind=DIED)
            result.total_cpu_s -= begin  # of this point: the process has run others before
            return Outcome(bytes(image(result)))
        except InputError as error:
            fault = self.point.placed(error)
            return Outcome(reason=str(fault), kind=type(error).__name__, fault=fault)
        except SimulationError as error:
            return Outcome(kind=type(error).__name__, reason=str(error), final=True)
        except MemoryError as error:
            return Outcome(kind=NO_MEMORY, reason=f"not enough memory: {error}".rstrip(": "))
        except Exception as error:
            if (user := user_fault(error)) is not None:
                return Outcome(kind=type(error).__name__, reason=str(user))
            reason = str(error) if isinstance(error, PyxsimError) else f"{type(error).__name__}: {error}"
            return Outcome(kind=type(error).__name__, reason=f"this is a bug of pyxsim: {reason}")


@dataclass(frozen=True)
class Outcome:
    """How a point ended: `image`, the bytes of its result file; or `reason` and `kind`, the name of the error. Neither
    for a point that was only prepared. `final`: the same settings would fail again. `fault`: of the input.
    """

    image: bytes | None = None
    reason: str = ""
    kind: str = ""
    final: bool = False
    fault: InputError | None = None

    @property
    def failed(self) -> bool:
        """Whether the task has no result."""
        return bool(self.kind)


def carry_out(work: Work) -> Outcome:
    """Carry out a work; a function of the module, which a cluster can name."""
    return work.carry_out()


def only_prepared(task: Task) -> Task:
    """Return the task that only prepares the point."""
    return replace(task, only_prepare=True)
