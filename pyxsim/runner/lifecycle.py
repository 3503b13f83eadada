"""One experiment, from whatever describes it to a Result."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyxsim.analytical.alike import alike
from pyxsim.compat.astra.chunk_detail import detail
from pyxsim.errors import InputError, PyxsimError, SimulationError, StuckError
from pyxsim.network.protocol import Backend
from pyxsim.results.memory import Memory, used_columns
from pyxsim.results.phases import dimension_table, phase_table
from pyxsim.results.result import LinkTable, Longs, Result
from pyxsim.results.work import Work
from pyxsim.runner.attribution_tables import attribution, notes
from pyxsim.runner.checkpoint.context import CheckpointContext, check_new, keeper, place_of
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.peak_memory import peak_mb
from pyxsim.runner.prepare import PathLike, Prepared, PreparedTraffic, nothing_to_collect, prepare
from pyxsim.settings import Experiment, load_experiment, resolved_toml
from pyxsim.settings.load import Source
from pyxsim.settings.types import listed
from pyxsim.system import PointToPoint
from pyxsim.units import format_time_ns
from pyxsim.workload import IssuedCollective
from pyxsim.workload.layers import layer_table
from pyxsim.workload.usage import at_work


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    cycle: int
    bytes_delivered: int
    bytes_total: int
    router_visits: int
    simulated_visits: int  # those that were not skipped
    clock_hz: Fraction


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
    """Simulate the experiment of a TOML file, a dict or an Experiment.

    With `[run] checkpoint` it writes checkpoints into `checkpoint_file`, or into one of the name of the experiment in
    the present folder, from which `pyxsim.resume` goes on; it is gone when the run has ended (docs/checkpoint.md).

    Raises InputError for what is wrong with it; SimulationError (DeadlockError, UnreachableError) when the simulated
    system fails, with what was simulated so far in its attribute `result`. KeyboardInterrupt (Ctrl-C) ends the run
    early: the result is then marked incomplete (`result.complete`). SIGTERM ends Python as everywhere, and what was
    simulated without checkpoints is gone; after `signal.signal(signal.SIGTERM, signal.default_int_handler)` it is like
    Ctrl-C, and the result can be saved.
    """
    libraries = listed(libraries)
    experiment = load_experiment(source, overrides, libraries)
    folder = Path(source).parent if isinstance(source, str | Path) else Path()
    place = _checkpoint(experiment, source, checkpoint_file)
    meter = Meter(progress)
    prepared = prepare(
        experiment,
        folder=folder,
        libraries=libraries,
        backend=backend,
        allow_deadlock=allow_deadlock,
        tick=meter.tick,
    )
    meter.prepared = prepared
    if place is None:
        return simulate(prepared, backend=backend)
    own = tuple(os.path.abspath(folder) for folder in libraries)
    return with_checkpoints(prepared, CheckpointContext(backend=backend, libraries=own), place)


def _checkpoint(experiment: Experiment, source: Source, given: PathLike | None) -> str | None:
    """The file of the checkpoints; None if there are none. Raises InputError."""
    if experiment.run.every is None:
        if given is not None:
            problem = "it is not said how often"
            raise InputError(problem, key="run.checkpoint", allowed="a time such as '60 s', with a file of checkpoints")
        return None
    inputs = [source] if isinstance(source, str | Path) else []
    path = os.path.abspath(place_of(None, inputs) if given is None else given)
    return check_new(path, f"pyxsim.resume({path!r})")


def with_checkpoints(
    prepared: Prepared | PreparedTraffic, rest: CheckpointContext, path: str, *, keep: bool = False
) -> Result:
    """Run what was prepared, or go on with it; see `run` for how it can end. The files of `rest` are written, and the
    checkpoint goes when the run has ended, unless it is to be kept.

    Ctrl-C and SIGTERM wait for a last checkpoint. SIGTERM then ends the process, as it would have done at once.
    """
    with _signals() as heard:
        kept = keeper(
            path,
            prepared.experiment.run.every,
            rest,
            stopping=lambda: bool(heard),
            complain=lambda line: warnings.warn(line, RuntimeWarning, stacklevel=2),
        )
        failure: SimulationError | None = None
        try:
            result = simulate(prepared, backend=rest.backend, keeper=kept)
        except SimulationError as error:
            if not hasattr(error, "result"):
                raise
            failure, result = error, error.result
        rest.outputs.write(result)
        if not keep and (failure is not None or result.complete):
            kept.forget()
        if failure is not None:
            raise failure
    return result


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Inside, the first of Ctrl-C and SIGTERM only goes into the list; the second is impatient. A SIGTERM that would
    have ended Python does so afterwards. Whoever has other handlers than Python's own, or another thread, sees to that
    himself."""
    heard: list[int] = []

    def note(number: int, frame: object) -> None:
        heard.append(number)
        if len(heard) > 1:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _ENDS}
    taken = {number: before[number] for number in _ENDS if ours and before[number] == signal.default_int_handler}
    if ours and before[signal.SIGTERM] == signal.SIG_DFL:
        taken[signal.SIGTERM] = signal.SIG_DFL
    for number in taken:
        signal.signal(number, note)
    try:
        yield heard
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
        if signal.SIGTERM in heard and taken[signal.SIGTERM] == signal.SIG_DFL:
            signal.raise_signal(signal.SIGTERM)


_ENDS = (signal.SIGINT, signal.SIGTERM)


class Meter:
    """Calls the user's progress function, not more often than every tenth of a second."""

    def __init__(self, show: Callable[[Progress], None] | None) -> None:
        self.show = show
        self.prepared: Prepared | PreparedTraffic | None = None
        self.last = time.monotonic()

    def tick(self) -> None:
        if self.show is None or self.prepared is None or time.monotonic() - self.last < 0.1:
            return
        self.last = time.monotonic()
        self.show(standing(self.prepared))


def standing(prepared: Prepared | PreparedTraffic) -> Progress:
    """Where a run stands."""
    network = prepared.network
    return Progress(
        network.now,
        network.bytes_delivered,
        prepared.bytes_planned,
        network.router_visits,
        network.simulated_visits,
        network.clock_hz,
    )


def simulate(
    prepared: Prepared | PreparedTraffic, *, backend: str = "packet", keeper: CheckpointWriter | None = None
) -> Result:
    """Run what was prepared, or go on with it. See `run` for how it can end. `keeper`: writes checkpoints."""
    if keeper is not None:
        keeper.over(prepared)
    if isinstance(prepared, PreparedTraffic):
        from pyxsim.runner.traffic.open_loop import measure

        return measure(prepared, backend=backend)
    begin = time.process_time()
    _announce(prepared)
    failure: SimulationError | None = None
    complete = False
    try:
        with at_safe_points(prepared.network), _what_is_there_stays():
            run_out(prepared)
        complete = True
    except SimulationError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # what there is so far is worth keeping; `complete` says that it is not all
    cpu = prepared.past.cpu_s + time.process_time() - begin
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


@contextmanager
def at_safe_points(network: Backend) -> Iterator[None]:
    """Ctrl-C waits until the engine is back and what it brought is noted; a second one does not. So does SIGTERM, where
    it has Ctrl-C's handler: else it ends Python, as everywhere.

    Python's own handler would raise anywhere, mostly before anybody has heard what arrived, or in the middle of the
    statistics. Whoever has another handler, or another thread, sees to that himself.
    """
    ours = threading.current_thread() is threading.main_thread()
    taken = [number for number in _ENDS if ours and signal.getsignal(number) is signal.default_int_handler]
    if not taken:
        yield
        return
    tick, heard = network.tick, False

    def note(number: int, frame: object) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True

    def obey() -> None:
        tick()
        if heard:
            raise KeyboardInterrupt

    network.tick = obey
    for number in taken:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.default_int_handler)
        network.tick = tick


def link_table(network: Backend) -> LinkTable:
    """The network links of a result."""
    topology, settings = network.topology, network.settings
    wires, which = alike(network.link_params)
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
        counts={**network.counts(), "resumed": prepared.past.resumed},
        # What is computed between collectives has no bound of its own.
        bound_ns=float(prepared.bound * 10**9 / clock) if prepared.job.planned else None,
        sim_cpu_s=cpu,
        total_cpu_s=prepared.past.cpu_s + time.process_time(),
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


__all__ = ["Experiment", "Progress", "run", "simulate"]
