"""Which class carries out a graph with `system.compat`."""

from __future__ import annotations

from pyxsim.compat.astra.workload.rendezvous_job import RendezvousJob
from pyxsim.compat.astra.workload.sequential_job import SequentialGraphJob
from pyxsim.settings import System
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.training_job import TrainingLoopJob


class SequentialTrainingLoopJob(TrainingLoopJob, SequentialGraphJob):
    """A training loop in ASTRA-sim's order of events, where the first event of a nanosecond can decide for all NPUs."""


def job_class(base: type[GraphJob], system: System) -> type[GraphJob]:
    """Return the class that carries out what `base` does in ASTRA-sim's order of events."""
    if issubclass(base, TrainingLoopJob):
        return SequentialTrainingLoopJob
    return RendezvousJob if system.rendezvous else SequentialGraphJob
