"""The lifecycle of one experiment: prepare, simulate, write its files."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyxsim import library
from pyxsim.errors import InputError, LockstepLost, SimulationError
from pyxsim.network.backends import backend_class
from pyxsim.results import dataset
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import (
    CheckpointContext,
    check_new,
    checkpoint_writer,
    default_path,
    open_checkpoint,
)
from pyxsim.runner.closed_run import ClosedRun
from pyxsim.runner.hooks import Progress, ProgressHooks
from pyxsim.runner.prepare import PathLike, prepare
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.run_result import RunEnd
from pyxsim.runner.signals import StopSignals
from pyxsim.settings import Experiment, folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.run import with_oom
from pyxsim.settings.types import listed

if TYPE_CHECKING:
    from pyxsim.runner.traffic.open_loop import TrafficRun


@dataclass
class RunOutcome:
    """How a run ended.

    Parameters
    ----------
    prepared
        What was run.
    result
        Everything that was simulated; `result.complete` is False for a run that failed or was interrupted.
    failure
        Why the simulated system failed.
    written
        The names of the files that were written, as a phrase.
    write_error
        Why they could not be written.
    """

    prepared: Prepared | PreparedTraffic
    result: Result
    failure: SimulationError | None = None
    written: str = ""
    write_error: InputError | None = None

    def result_or_raise(self) -> Result:
        """Return the result. Raises the failure of the run, or the InputError of its files."""
        if self.failure is not None:
            self.failure.result = self.result  # type: ignore[attr-defined]
            raise self.failure
        if self.write_error is not None:
            raise self.write_error
        return self.result


def run(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[PathLike] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
    progress: Callable[[Progress], None] | None = None,
    checkpoint_file: PathLike | None = None,
) -> Result:
    """Simulate one experiment.

    Ctrl-C ends the run early: the result is then incomplete (`result.complete`). SIGTERM ends Python, and
    the results since the last checkpoint are lost. After `signal.signal(signal.SIGTERM, signal.default_int_handler)`,
    SIGTERM acts like Ctrl-C.

    Parameters
    ----------
    source
        A TOML file, a dict or an Experiment.
    overrides
        Settings such as "network.router.vcs=8", which replace those of the source.
    backend
        The network model: packet, analytical, analytical-congestion, flow, or a registered one.
    libraries
        Folders with topologies, collectives and systems of your own.
    allow_deadlock
        Run routes that are not proved free of deadlock, with a warning.
    allow_oom
        Run a model that needs more memory than an NPU has, with a warning (docs/training.md).
    progress
        Called with the Progress, at most every 0.1 s.
    checkpoint_file
        The file that `[run] checkpoint` writes; by default in the current folder, named after the experiment.
        `pyxsim.resume` continues from this file. It is removed when the run has ended (docs/checkpoint.md).

    Raises
    ------
    InputError
        If the experiment is invalid.
    SimulationError
        When the simulated system fails (DeadlockError, UnreachableError, StuckError); its attribute `result` holds what
        was simulated.
    """
    libraries = listed(libraries)
    experiment = load_experiment(source, with_oom(overrides, allow_oom), libraries)
    path = _checkpoint_path(experiment, source, checkpoint_file)
    context = CheckpointContext(backend=backend, libraries=tuple(os.path.abspath(library) for library in libraries))
    return run_experiment(
        experiment,
        folder=folder_of(source),
        allow_deadlock=allow_deadlock,
        context=context,
        hooks=_library_hooks(progress, path, experiment.run.every, context),
    ).result_or_raise()


def resume(path: PathLike, *, keep: bool = False, progress: Callable[[Progress], None] | None = None) -> Result:
    """Continue a run from its checkpoint; the result equals that of a run without interruption.

    A checkpoint contains pickled objects, which can run code, so only files signed with the user's own key are read.

    Parameters
    ----------
    path
        The checkpoint of `pyxsim.run`, or of `pyxsim run --checkpoint`, whose output files are then written.
    keep
        Keep the checkpoint when the run has ended.
    progress
        As for `pyxsim.run`.

    Raises
    ------
    InputError
        If the file is not a checkpoint, is damaged, or is of another version of pyxsim.
    SimulationError
        As for `pyxsim.run`.
    """
    _, prepared, context = open_checkpoint(path)
    hooks = _library_hooks(progress, os.path.abspath(path), prepared.experiment.run.every, context)
    return complete_run(prepared, context, hooks, keep_checkpoint=keep).result_or_raise()


def _checkpoint_path(experiment: Experiment, source: Source, given: PathLike | None) -> str | None:
    """The file of the checkpoints; None without any. Raises InputError."""
    if experiment.run.every is None:
        if given is not None:
            problem = "the interval is missing"
            raise InputError(problem, key="run.checkpoint", allowed="a time such as '60 s', with a file of checkpoints")
        return None
    inputs = [source] if isinstance(source, str | os.PathLike) else []
    path = os.path.abspath(default_path(None, inputs) if given is None else given)
    return check_new(path, f"pyxsim.resume({path!r})")


def _library_hooks(
    progress: Callable[[Progress], None] | None, path: str | None, every: float | None, context: CheckpointContext
) -> ProgressHooks | None:
    if path is None:
        return None if progress is None else ProgressHooks(progress)
    writer = checkpoint_writer(
        path, every, context, warn=lambda line: warnings.warn(line, RuntimeWarning, stacklevel=2)
    )
    return ProgressHooks(progress, signals=StopSignals.of_library(terminate=True), checkpoints=writer)


def run_experiment(
    experiment: Experiment,
    *,
    folder: PathLike = ".",
    allow_deadlock: bool = False,
    context: CheckpointContext | None = None,
    hooks: ProgressHooks | None = None,
    finished: Callable[[RunOutcome], None] | None = None,
    warnings: Sequence[str] = (),
) -> RunOutcome:
    """Prepare an experiment, simulate it, and write its files: the lifecycle of every run.

    Parameters
    ----------
    folder
        Where relative paths of the experiment start.
    context
        The backend, the libraries, the files to write: what a checkpoint needs to continue.
    hooks
        What happens meanwhile; nothing but Ctrl-C by default.
    finished
        Called with the outcome before the run is left, while signals are still deferred.
    warnings
        Lines to put before the warnings of the result.

    Raises
    ------
    InputError
        For an experiment that cannot be run. Everything later is part of the outcome.
    """
    context = context or CheckpointContext()
    watch = context.packet_watch
    if watch is not None:
        if experiment.run.mpi:
            problem = "a watched packet excludes run.mpi (--mpi)"
            raise InputError(problem, key="--watch", allowed="with one process")
        library.load_all(context.libraries)
        if backend_class(context.backend).capabilities.watch_packet:  # others name --watch when it begins
            experiment = watch.with_attribution(experiment)
    prepared = prepare(
        experiment,
        folder=folder,
        libraries=context.libraries,
        backend=context.backend,
        allow_deadlock=allow_deadlock,
    )
    if hooks is not None and hooks.checkpoints is not None and not prepared.network.capabilities.checkpoint:
        what, allowed = f"backend '{context.backend}'", "no checkpoints, or another backend"
        if prepared.network.capabilities.transactions:
            what, allowed = "a network with transactions", "no checkpoints, or no network.transactions"
        raise InputError(f"{what} cannot write checkpoints", key="run.checkpoint", allowed=allowed)
    prepared.warnings[:0] = warnings
    if watch is not None:
        watch.begin(prepared.network)
    return complete_run(prepared, context, hooks, finished)


def complete_run(
    prepared: Prepared | PreparedTraffic,
    context: CheckpointContext,
    hooks: ProgressHooks | None = None,
    finished: Callable[[RunOutcome], None] | None = None,
    *,
    keep_checkpoint: bool = False,
) -> RunOutcome:
    """Simulate what was prepared or resumed, write its files, and remove its checkpoint; as `run_experiment`."""
    hooks = hooks or ProgressHooks()
    with hooks.signals.waiting():  # what was simulated is written, whatever signals arrive
        begin = time.process_time()
        this = _traffic_run(prepared) if prepared.mode == "open" else ClosedRun(prepared)
        failure: SimulationError | None = None
        complete = False
        try:
            try:
                with hooks.attached(prepared):
                    this.run()
            except LockstepLost as error:
                assert prepared.mode == "closed"
                prepared.start_over(str(error))
                with hooks.attached(prepared):
                    this.run()
            complete = True
        except SimulationError as error:
            failure = error
        except KeyboardInterrupt:
            pass  # what was simulated is kept, and `complete` stays False
        cpu = prepared.resume_info.cpu_s + time.process_time() - begin
        result = this.result(RunEnd(this.end(complete, failure), complete, cpu, context.backend), failure)
        if prepared.experiment.cost is not None:
            from pyxsim.costs.energy import record_energy  # most runs have no [cost]

            record_energy(result)
        dataset.compute(result, prepared)
        outcome = RunOutcome(prepared, result, failure)
        try:
            outcome.written = context.outputs.write(result)
        except InputError as error:
            outcome.write_error = error
        ended = outcome.write_error is None and (failure is not None or complete)
        if hooks.checkpoints is not None and ended and not keep_checkpoint:
            hooks.checkpoints.remove()
        if finished is not None:
            finished(outcome)
    return outcome


def _traffic_run(prepared: PreparedTraffic) -> TrafficRun:
    from pyxsim.runner.traffic.open_loop import TrafficRun  # most runs have no [traffic]

    return TrafficRun(prepared)


def simulate(
    prepared: Prepared | PreparedTraffic, *, backend: str = "packet", hooks: ProgressHooks | None = None
) -> Result:
    """Simulate what was prepared, or continue with it; its checkpoint stays.

    Raises
    ------
    SimulationError
        When the simulated system fails; its attribute `result` holds what was simulated.
    """
    return complete_run(prepared, CheckpointContext(backend=backend), hooks, keep_checkpoint=True).result_or_raise()


__all__ = ["Experiment", "Progress", "RunOutcome", "complete_run", "resume", "run", "run_experiment", "simulate"]
