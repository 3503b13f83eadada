"""One experiment, from whatever describes it to a Result."""

from __future__ import annotations

import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.errors import SimulationError
from pyxsim.network.packet import PacketNetwork
from pyxsim.output.result import LinkTable, Result
from pyxsim.settings import Experiment, load_experiment, resolved_toml
from pyxsim.settings.load import Source
from pyxsim.study.bound import bound_cycles
from pyxsim.study.prepare import PathLike, Prepared, PreparedTraffic, prepare


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    cycle: int
    bytes_delivered: int
    bytes_total: int
    router_visits: int
    clock_hz: Fraction


def run(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[PathLike] = (),
    allow_deadlock: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Simulate the experiment of a TOML file, a dict or an Experiment.

    Raises InputError for what is wrong with it; SimulationError (DeadlockError, UnreachableError) when the simulated
    system fails, with what was simulated so far in its attribute `result`. KeyboardInterrupt ends the run early: the
    result is then marked incomplete (`result.complete`).
    """
    experiment = load_experiment(source, overrides)
    folder = Path(source).parent if isinstance(source, str | Path) else Path()
    meter = _Meter(progress)
    prepared = prepare(
        experiment,
        folder=folder,
        libraries=libraries,
        backend=backend,
        allow_deadlock=allow_deadlock,
        tick=meter.tick,
    )
    meter.prepared = prepared
    return simulate(prepared, backend=backend)


class _Meter:
    """Calls the user's progress function, not more often than every tenth of a second."""

    def __init__(self, show: Callable[[Progress], None] | None) -> None:
        self.show = show
        self.prepared: Prepared | PreparedTraffic | None = None
        self.last = time.monotonic()

    def tick(self) -> None:
        if self.show is None or self.prepared is None or time.monotonic() - self.last < 0.1:
            return
        self.last = time.monotonic()
        network = self.prepared.network
        total = self.prepared.bytes_planned
        visits = network.engine.router_visits
        self.show(Progress(network.now, network.bytes_delivered, total, visits, network.clock_hz))


def simulate(prepared: Prepared | PreparedTraffic, *, backend: str = "packet") -> Result:
    """Run what was prepared. See `run` for how it can end."""
    if isinstance(prepared, PreparedTraffic):
        from pyxsim.study.open_loop import measure

        return measure(prepared, backend=backend)
    begin = time.process_time()
    failure: SimulationError | None = None
    complete = False
    try:
        with at_safe_points(prepared.network):
            prepared.system.run()
        complete = True
    except SimulationError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # what there is so far is worth keeping; `complete` says that it is not all
    cpu = time.process_time() - begin
    end = prepared.job.end if complete else prepared.network.now
    prepared.network.finish(end)
    result = _result(prepared, end, complete, cpu, backend)
    if failure is not None:
        result.failure = str(failure)
        failure.result = result  # type: ignore[attr-defined]
        raise failure
    return result


@contextmanager
def at_safe_points(network: PacketNetwork) -> Iterator[None]:
    """Ctrl-C waits until the engine is back and what it brought is noted; a second one does not.

    Python's own handler would raise anywhere, mostly before anybody has heard what arrived, or in the middle of the
    statistics. Whoever has another handler, or another thread, sees to that himself.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        network.tick = tick


def link_table(network: PacketNetwork) -> LinkTable:
    """The network links of a result."""
    topology, settings, wires = network.topology, network.settings, network.machine.link_wires
    return LinkTable(
        name=list(topology.link_name),
        src=topology.link_src,
        dst=topology.link_dst,
        dim=topology.link_dim,
        bandwidth=np.array([float(settings.flit * settings.clock / wire.s) for wire in wires]),
        latency=np.array([wire.latency for wire in wires], dtype=np.int64),
        s_num=np.array([wire.s.numerator for wire in wires], dtype=np.int64),
        s_den=np.array([wire.s.denominator for wire in wires], dtype=np.int64),
    )


def _result(prepared: Prepared, end: int, complete: bool, cpu: float, backend: str) -> Result:
    experiment, network, system = prepared.experiment, prepared.network, prepared.system
    clock = experiment.network.clock
    bounds = [bound_cycles(collective, system, network) for collective in system.collectives]
    rows = [_row(collective, bound) for collective, bound in zip(system.collectives, bounds, strict=True)]
    bound = float(max(bounds, default=Fraction(0)) * 10**9 / clock)
    return Result(
        time_cycles=end,
        clock_hz=clock,
        complete=complete,
        links=link_table(network),
        windows=network.windows.table(),
        totals=network.totals(),
        buffer_max=network.buffer_max(),
        chunks=system.chunk_table(),
        collectives=rows,
        counts=network.counts(),
        bound_ns=bound,
        sim_cpu_s=cpu,
        total_cpu_s=time.process_time(),
        peak_rss_mb=peak_rss_mb(),
        backend=backend,
        seed=experiment.output.seed,
        experiment_toml=resolved_toml(experiment),
        warnings=list(prepared.warnings),
        topology=prepared.topology,
    )


def _row(collective: Any, bound: Fraction) -> dict[str, Any]:
    """A row of /collectives; cycles. `end` is -1 and `ratio` NaN for one that did not end."""
    took = collective.end - collective.start
    ratio = float(took / bound) if bound and collective.end >= 0 else float("nan")
    return {
        "kind": collective.kind,
        "start": collective.start,
        "end": collective.end,
        "bytes": collective.size,
        "bound": float(bound),
        "ratio": ratio,
    }


def peak_rss_mb() -> float:
    """The most memory that this process ever had, in 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


__all__ = ["Experiment", "Progress", "peak_rss_mb", "run", "simulate"]
