"""The lifecycle of one experiment: prepare, simulate, write its files."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyxsim.arrays import unique_by_identity
from pyxsim.errors import InputError, PyxsimError, SimulationError, StuckError
from pyxsim.network.protocol import Backend
from pyxsim.results.memory import Memory, used_columns
from pyxsim.results.phases import dimension_table, phase_table
from pyxsim.results.result import LinkTable, Longs, Result
from pyxsim.results.work import Work
from pyxsim.runner.attribution_tables import attribution, notes
from pyxsim.runner.checkpoint.context import (
    CheckpointContext,
    check_new,
    checkpoint_writer,
    default_path,
    open_checkpoint,
)
from pyxsim.runner.chunk_delays import detail
from pyxsim.runner.hooks import Progress, ProgressHooks
from pyxsim.runner.peak_memory import peak_mb
from pyxsim.runner.prepare import PathLike, Prepared, PreparedTraffic, nothing_to_collect, prepare
from pyxsim.settings import Experiment, load_experiment, resolved_toml
from pyxsim.settings.load import Source
from pyxsim.settings.types import listed
from pyxsim.system import PointToPoint
from pyxsim.units import format_time_ns
from pyxsim.workload import IssuedCollective
from pyxsim.workload.layer_table import layer_table
from pyxsim.workload.usage import at_work


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
    progress: Callable[[Progress], None] | None = None,
    checkpoint_file: PathLike | None = None,
) -> Result:
    """Simulate one experiment.

    Ctrl-C ends the run early: the result is then incomplete (`result.complete`). SIGTERM ends Python as everywhere, and
    what was simulated without checkpoints is lost; after `signal.signal(signal.SIGTERM, signal.default_int_handler)` it
    acts like Ctrl-C.

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
    progress
        Called with the Progress, at most every 0.1 s.
    checkpoint_file
        Where `[run] checkpoint` writes; by default a file named after the experiment in the present folder.
        `pyxsim.resume` continues from it. It is removed when the run has ended (docs/checkpoint.md).

    Raises
    ------
    InputError
        For everything that is wrong with the experiment.
    SimulationError
        When the simulated system fails (DeadlockError, UnreachableError, StuckError); its attribute `result` holds what
        was simulated.
    """
    libraries = listed(libraries)
    experiment = load_experiment(source, overrides, libraries)
    path = _checkpoint_path(experiment, source, checkpoint_file)
    context = CheckpointContext(backend=backend, libraries=tuple(os.path.abspath(each) for each in libraries))
    return run_experiment(
        experiment,
        folder=Path(source).parent if isinstance(source, str | Path) else Path(),
        allow_deadlock=allow_deadlock,
        context=context,
        hooks=_library_hooks(progress, path, experiment.run.every, context),
    ).result_or_raise()


def resume(path: PathLike, *, keep: bool = False, progress: Callable[[Progress], None] | None = None) -> Result:
    """Continue a run from its checkpoint; the result equals that of a run without interruption.

    A checkpoint contains pickled objects, which is code: resume only your own.

    Parameters
    ----------
    path
        The checkpoint, of `pyxsim.run` or of `pyxsim run --checkpoint`, whose files are then written.
    keep
        Keep the checkpoint when the run has ended.
    progress
        As of `pyxsim.run`.

    Raises
    ------
    InputError
        For a file that is no checkpoint, damaged, or of another version of pyxsim.
    SimulationError
        As of `pyxsim.run`.
    """
    _, prepared, context = open_checkpoint(path)
    hooks = _library_hooks(progress, os.path.abspath(path), prepared.experiment.run.every, context)
    return complete_run(prepared, context, hooks, keep_checkpoint=keep).result_or_raise()


def _checkpoint_path(experiment: Experiment, source: Source, given: PathLike | None) -> str | None:
    """The file of the checkpoints; None without any. Raises InputError."""
    if experiment.run.every is None:
        if given is not None:
            problem = "it is not said how often"
            raise InputError(problem, key="run.checkpoint", allowed="a time such as '60 s', with a file of checkpoints")
        return None
    inputs = [source] if isinstance(source, str | Path) else []
    path = os.path.abspath(default_path(None, inputs) if given is None else given)
    return check_new(path, f"pyxsim.resume({path!r})")


def _library_hooks(
    progress: Callable[[Progress], None] | None, path: str | None, every: float | None, context: CheckpointContext
) -> ProgressHooks:
    if path is None:
        return ProgressHooks(progress)
    writer = checkpoint_writer(
        path, every, context, warn=lambda line: warnings.warn(line, RuntimeWarning, stacklevel=2)
    )
    return ProgressHooks(progress, checkpoints=writer)


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
    prepared = prepare(
        experiment,
        folder=folder,
        libraries=context.libraries,
        backend=context.backend,
        allow_deadlock=allow_deadlock,
    )
    prepared.warnings[:0] = warnings
    if context.packet_watch is not None:
        context.packet_watch.begin(prepared.network)
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
    with hooks.listening():  # what was simulated is written, whatever signals arrive
        try:
            outcome = RunOutcome(prepared, simulate(prepared, backend=context.backend, hooks=hooks))
        except SimulationError as error:
            if not hasattr(error, "result"):
                raise
            outcome = RunOutcome(prepared, error.result, error)
        try:
            outcome.written = context.outputs.write(outcome.result)
        except InputError as error:
            outcome.write_error = error
        ended = outcome.write_error is None and (outcome.failure is not None or outcome.result.complete)
        if hooks.checkpoints is not None and ended and not keep_checkpoint:
            hooks.checkpoints.remove()
        if finished is not None:
            finished(outcome)
    return outcome


def simulate(
    prepared: Prepared | PreparedTraffic, *, backend: str = "packet", hooks: ProgressHooks | None = None
) -> Result:
    """Simulate what was prepared, or continue with it.

    Raises
    ------
    SimulationError
        When the simulated system fails; its attribute `result` holds what was simulated.
    """
    hooks = hooks or ProgressHooks()
    if isinstance(prepared, PreparedTraffic):
        from pyxsim.runner.traffic.open_loop import measure

        return measure(prepared, backend=backend, hooks=hooks)
    begin = time.process_time()
    _announce(prepared)
    failure: SimulationError | None = None
    complete = False
    try:
        with hooks.attached(prepared), _what_is_there_stays():
            run_out(prepared)
        complete = True
    except SimulationError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # what there is so far is worth keeping; `complete` says that it is not all
    cpu = prepared.resume_info.cpu_s + time.process_time() - begin
    end = prepared.job.end if complete else prepared.network.now
    if isinstance(failure, StuckError):
        end = prepared.system.cycle  # as the error says; after it the network has but taken back its credits
    prepared.network.finish(end)
    if complete:
        check_bytes(prepared)
    with nothing_to_collect():
        result = _result(prepared, end, complete, cpu, backend)
    if complete and prepared.carrier is not None:
        prepared.carrier.finish()
        members = [each.communicator.members for each in prepared.system.collectives]
        result.carried = len({npu for some in members for npu in some})
    if failure is not None:
        waits = failure.waits if isinstance(failure, StuckError) else ()
        result.failure = "\n".join([str(failure), *waits])
        if why := result.counts.get("not_skipped"):
            result.counts["not_skipped"] = why.replace(" within the run", " before it failed")
        failure.result = result  # type: ignore[attr-defined]
        raise failure
    return result


def _announce(prepared: Prepared) -> None:
    """Tell the backend all messages of the run, where they are known and not all in one dimension at a time."""
    network, system = prepared.network, prepared.system
    if not (network.wants_traffic and prepared.planned and system.independent_messages):
        return
    if sum(len(each.chunks) for each in system.collectives) >= 2:
        network.expect(system.traffic())


_put_away = SimpleNamespace(by_program=False, by_a_run=False)


@contextmanager
def _what_is_there_stays() -> Iterator[None]:
    """Garbage is looked for among what a run makes, and not, again and again, among all that was made before it. Where
    the program has put away objects itself, which are all put away or none, they stay there: whether it has is asked
    until it has, as each answer counts all of them, 10 ms for a million."""
    if _put_away.by_program or _put_away.by_a_run:
        yield
        return
    if gc.get_freeze_count():
        _put_away.by_program = True
        yield
        return
    gc.freeze()
    _put_away.by_a_run = True
    try:
        yield
    finally:
        _put_away.by_a_run = False
        gc.unfreeze()


def run_out(prepared: Prepared) -> None:
    """Carry everything out. Where that does not come to an end, the tasks of a workload know best who waits for whom.

    Raises SimulationError.
    """
    job = prepared.job
    try:
        prepared.system.run()
    except StuckError as error:
        lines = job.stuck_report()
        raise StuckError(str(error), [*lines, *(line for line in error.waits if line not in lines)]) from None
    if lines := job.stuck_report():
        problem = f"nothing moves after cycle {prepared.system.cycle}, and not all is done"
        raise StuckError(f"{problem}: {lines[0]}", lines[1:])


def check_bytes(prepared: Prepared) -> None:
    """The network has delivered what the system layer has planned, to the byte; anything else is a bug of pyxsim."""
    rows = prepared.system.traffic()
    sent = int((rows[:, 3] * rows[:, 4]).sum())
    delivered, planned = prepared.network.bytes_delivered, prepared.system.bytes_planned
    if not delivered == planned == sent:
        problem = f"{delivered} bytes were delivered, {planned} were planned in messages of {sent} bytes together"
        raise PyxsimError(f"this is a bug of pyxsim: {problem}")


def link_table(network: Backend) -> LinkTable:
    """The network links of a result."""
    topology, settings = network.topology, network.settings
    wires, which = unique_by_identity(network.link_params)
    return LinkTable(
        name=list(topology.link_name),
        src=topology.link_src,
        dst=topology.link_dst,
        dim=topology.link_dim,
        bandwidth=np.array([float(settings.flit * settings.clock / wire.s) for wire in wires])[which],
        latency=np.array([wire.latency for wire in wires], dtype=np.int64)[which],
        s_num=np.array([wire.s.numerator for wire in wires], dtype=np.int64)[which],
        s_den=np.array([wire.s.denominator for wire in wires], dtype=np.int64)[which],
    )


def _result(prepared: Prepared, end: int, complete: bool, cpu: float, backend: str) -> Result:
    experiment, network, system = prepared.experiment, prepared.network, prepared.system
    clock = experiment.network.clock
    traffic = system.traffic()
    counted = system.chunk_table()
    chunks = _chunks(prepared, counted)
    told = attribution(network, prepared.job.traffic)
    workload = _workload(prepared, end, complete)
    work: Work | None = workload.get("work")
    return Result(
        time_cycles=end,
        clock_hz=clock,
        complete=complete,
        links=link_table(network),
        windows=network.windows_table(),
        totals=network.totals(),
        buffer_max=network.buffer_max(),
        chunks=chunks,
        collectives=[collective_row(each, prepared) for each in prepared.job.collectives],
        messages=[message_row(message) for message in system.messages],
        by_dimension=dimension_table(chunks, traffic, prepared.topology.shape, end),
        phases=phase_table(chunks, _kinds(prepared)),
        **workload,
        chunk_delays=detail(prepared, counted),
        memory=_memory(prepared),
        attribution=told,
        counts={**network.counts(), "resumed": prepared.resume_info.resumed},
        # What is computed between collectives has no bound of its own.
        bound_ns=float(prepared.bound * 10**9 / clock) if prepared.job.planned else None,
        sim_cpu_s=cpu,
        total_cpu_s=prepared.resume_info.cpu_s + time.process_time(),
        peak_rss_mb=peak_mb(),
        backend=backend,
        seed=experiment.output.seed,
        experiment_toml=resolved_toml(experiment),
        warnings=[
            *prepared.warnings,
            *notes(told),
            *(work.warnings if work else ()),
            *(_impossible(prepared, end) if complete else ()),
        ],
        topology=prepared.topology,
    )


def _impossible(prepared: Prepared, end: int) -> Iterator[str]:
    """What people are told of a time that no machine with these links could reach."""
    least = int(prepared.first + prepared.physical)
    if end < least:
        told = format_time_ns(least * 10**9 / prepared.experiment.network.clock)
        yield (
            f"no machine with these links is faster than {told}, the bytes over their capacity: "
            "this backend does not know that messages share links"
        )


def _chunks(prepared: Prepared, columns: dict[str, Longs]) -> dict[str, Longs]:
    """The rows of the system layer, whose collectives are what was asked for: one in several groups is one."""
    if prepared.job.dims is not None:
        columns = {**columns, "dimension": prepared.job.dims.physical(columns["dimension"])}
    return {**columns, "collective": np.array(_rows(prepared), dtype=np.int64)[columns["collective"]]}


def _workload(prepared: Prepared, end: int, complete: bool) -> dict[str, Any]:
    """What became of the layers and of the tasks of a workload, as fields of the result."""
    job = prepared.job
    own = job.layers() if complete else {}
    run = job.tasks()
    if run is None:
        return {"layers": own}
    graph, times = run.graph, run.times
    work = at_work(graph, times, end)
    told = Work.of(graph, times, end, found=work, tasks=prepared.experiment.output.tasks)
    return {"layers": own or layer_table(graph, work), "work": told}


def _memory(prepared: Prepared) -> Memory | None:
    """What remote memory and shared endpoints did, where there are such."""
    job, system = prepared.job, prepared.system
    remote = job.remote_memory()
    endpoint = system.endpoint
    if remote is None and endpoint is None:
        return None
    npus = {} if remote is None else {"loaded": remote.loaded, "stored": remote.stored}
    used = [] if remote is None else remote.used
    columns = used_columns(
        [each.name for each in used],
        [each.rate for each in used],
        [each.bytes for each in used],
        [each.busy for each in used],
        prepared.experiment.network.clock,
    )
    return Memory({**npus, **(endpoint.totals() if endpoint is not None else {})}, columns)


def _rows(prepared: Prepared) -> list[int]:
    """Of each collective of the system layer the number of what was asked for."""
    row = {id(issued): number for number, each in enumerate(prepared.job.collectives) for issued in each.per_group}
    return [row[id(issued)] for issued in prepared.system.collectives]


def _kinds(prepared: Prepared) -> dict[tuple[int, int], str]:
    """What each phase of what was asked for is."""
    system, rows = prepared.system, _rows(prepared)
    return {(rows[number], phase): kind for number, phase, kind in system.phase_kinds()}


def collective_row(collective: IssuedCollective, prepared: Prepared) -> dict[str, Any]:
    """A row of /collectives; cycles. `end` is -1 and `ratio` NaN for one that did not end; `root` -1 for none."""
    first = collective.per_group[0]
    bound = prepared.bound_of(collective.per_group)
    ratio = float((collective.end - collective.start) / bound) if bound and collective.end >= 0 else float("nan")
    return {
        "name": collective.name,
        "kind": first.kind,
        "group": collective.group,
        "npus": len({npu for each in collective.per_group for npu in each.communicator.members}),
        "root": -1 if collective.root is None else collective.root,
        "algorithm": ", ".join(first.algorithms),
        "start": collective.start,
        "end": collective.end,
        "bytes": first.size,
        "bound": float(bound),
        "ratio": ratio,
    }


def message_row(message: PointToPoint) -> dict[str, Any]:
    """A row of /messages; cycles. `end` is -1 for one that did not arrive."""
    return {
        "name": message.name,
        "src": message.src,
        "dst": message.dst,
        "bytes": message.size,
        "start": message.start,
        "end": message.end,
    }


__all__ = ["Experiment", "Progress", "RunOutcome", "complete_run", "resume", "run", "run_experiment", "simulate"]
