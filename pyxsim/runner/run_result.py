"""The Result of a run: its tables and counters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim import registry
from pyxsim.analysis.bound import ignored_limit
from pyxsim.arrays import IntArray, unique_by_identity
from pyxsim.garbage import without_collection
from pyxsim.lazy_columns import mapped
from pyxsim.network.protocol import Backend
from pyxsim.peak_memory import peak_mb
from pyxsim.results.dataset import Dataset
from pyxsim.results.links import LinkTable
from pyxsim.results.memory import Memory, used_columns
from pyxsim.results.phases import dimension_table, phase_table
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.runner.attribution_tables import attribution, notes
from pyxsim.runner.chunk_delays import detail
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.settings import resolved_toml
from pyxsim.system import PointToPoint
from pyxsim.units import format_time_ns
from pyxsim.workload import IssuedCollective
from pyxsim.workload.layer_table import layer_table
from pyxsim.workload.usage import at_work


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: the cycle, whether all work was done, its CPU seconds, and its backend."""

    cycle: int
    complete: bool
    cpu_s: float
    backend: str


def common_fields(prepared: Prepared | PreparedTraffic, end: RunEnd, peak: float) -> dict[str, Any]:
    """Return the fields of the Result that every run has; `peak`: the peak memory in MB."""
    experiment, network, before = prepared.experiment, prepared.network, prepared.resume_info
    return {
        "time_cycles": end.cycle,
        "clock_hz": experiment.network.clock,
        "complete": end.complete,
        "links": link_table(network),
        "windows": network.windows_table(),
        "totals": network.totals(),
        "buffer_max": network.buffer_max(),
        "counts": {**network.counts(), "resumed": before.resumed},
        **backend_tables(network),
        "sim_cpu_s": end.cpu_s,
        "total_cpu_s": before.cpu_s + time.process_time(),
        "peak_rss_mb": peak,
        "backend": end.backend,
        "seed": experiment.output.seed,
        "experiment_toml": resolved_toml(experiment),
        "topology": prepared.topology,
    }


@without_collection
def closed_result(prepared: Prepared, end: RunEnd) -> Result:
    """Return the Result of collectives, messages or a workload."""
    job, system = prepared.job, prepared.system
    issued = job.collectives
    bounds = [
        Fraction(0) if collective.repeated else prepared.lower_bound_of(collective.per_group) for collective in issued
    ]
    minimum = int(prepared.lower_bound) if end.complete else 0
    # Computation between collectives has no bound.
    lower_bound_ns = float(prepared.lower_bound * 10**9 / prepared.experiment.network.clock) if job.planned else None
    optimum = prepared.optimum()
    beside = prepared.background
    background = None if beside is None else beside.record(prepared.network, end.cycle)
    names = [] if beside is None else beside.names
    counted = system.chunk_table()
    where_time_went = attribution(prepared.network, [*job.traffic, *names])
    cut_tables = list(notes(where_time_went))
    delays = detail(prepared, counted)
    peak = peak_mb()
    chunks = _chunks(prepared, counted)
    workload = _workload(prepared, end)
    served = job.serving_record()
    work: Work | None = workload.get("work")
    return Result(
        **common_fields(prepared, end, peak),
        **workload,
        chunks=chunks,
        collectives=[
            collective_row(prepared, collective, bound) for collective, bound in zip(issued, bounds, strict=True)
        ],
        point_to_point=[message_row(message) for message in system.messages],
        dimensions=dimension_table(chunks, system.traffic_by_copies(), prepared.topology.shape, end.cycle),
        phases=phase_table(chunks, _kinds(prepared), prepared.topology.npus),
        chunk_delays=delays,
        memory=_memory(prepared),
        serving=served,
        jobs=job.jobs(),
        job_restarts=job.restarts(),
        job_failures=job.failures(),
        traffic=background,
        attribution=where_time_went,
        lower_bound_ns=lower_bound_ns,
        optimum_ns=None if optimum is None else float(optimum.cycles * 10**9 / prepared.experiment.network.clock),
        optimum_limit=optimum.limit if optimum else "",
        hints=prepared.hints,
        warnings=[
            *prepared.warnings,
            *cut_tables,
            *prepared.network.notes,
            *(work.warnings if work else ()),
            *_impossible(prepared, end, minimum),
            *(background.notes if background else ()),
            *(served.notes if served else ()),
        ],
    )


def backend_tables(network: Backend) -> dict[str, Any]:
    """Return the fields of the Result with the backend's own tables: those with a dataset, and others."""
    tables, clock = network.tables(), {"clock_hz": float(network.clock_hz)}
    known = {name: table for name, table in tables.items() if name in registry.datasets}
    others = {name: table for name, table in tables.items() if name not in known}
    extra = {
        name: Dataset(name, "", (), lambda result: None).of(table.columns, {**table.attrs, **clock})
        for name, table in others.items()
    }
    return {"backend_tables": known, "extra": extra}


def link_table(network: Backend) -> LinkTable:
    """Return the links of a result, host links behind the others; the end of one that is an NPU is -1."""
    topology, settings = network.topology, network.settings
    wires, which = unique_by_identity(network.link_params)
    homes = topology.home if topology.hosts else np.zeros(0, np.int32)
    nowhere = np.full_like(homes, -1)
    return LinkTable(
        name=topology.counted_link_name,
        src=np.concatenate([topology.link_src, nowhere, homes]),
        dst=np.concatenate([topology.link_dst, homes, nowhere]),
        dim=np.concatenate([topology.link_dim, np.zeros(2 * len(homes), np.int32)]),
        bandwidth=np.array([float(settings.flit * settings.clock / wire.s) for wire in wires])[which],
        latency=np.array([wire.latency for wire in wires], dtype=np.int64)[which],
        s_num=np.array([wire.s.numerator for wire in wires], dtype=np.int64)[which],
        s_den=np.array([wire.s.denominator for wire in wires], dtype=np.int64)[which],
    )


def collective_row(prepared: Prepared, collective: IssuedCollective, bound: Fraction) -> dict[str, Any]:
    """Return a row of /collectives, in cycles: `end` is -1 and `ratio` NaN if it did not end, `root` -1 without one.

    Calls of a repeated collective share a row, without bounds.
    """
    first = collective.per_group[0]
    optimum = None if collective.repeated else prepared.optimum_of(collective.per_group)
    bounded = bound and collective.end >= 0 and not collective.repeated
    return {
        "name": collective.name,
        "kind": first.kind if first.matrix is None else "all-to-all-v",
        "group": collective.group,
        "npus": len({npu for group_work in collective.per_group for npu in group_work.communicator.members}),
        "root": -1 if collective.root is None else collective.root,
        "algorithm": ", ".join(first.algorithms),
        "start": collective.start,
        "end": collective.end,
        "bytes": first.size,
        "lower_bound": float("nan") if collective.repeated else float(bound),
        "ratio": float((collective.end - collective.start) / bound) if bounded else float("nan"),
        "optimum": float("nan") if optimum is None else float(optimum.cycles),
        **(_calls(collective) if collective.repeated else {}),
    }


def _calls(collective: IssuedCollective) -> dict[str, Any]:
    """The columns of a repeated collective: how many calls, and means over them and those that have ended."""
    calls = collective.per_group
    times = [call.end - call.start for call in calls if call.end >= 0 and not call.abandoned]
    return {
        "bytes": round(sum(call.size for call in calls) / len(calls)),
        "calls": len(calls),
        "time": sum(times) / len(times) if times else float("nan"),
    }


def message_row(message: PointToPoint) -> dict[str, Any]:
    """Return a row of /messages, in cycles: `end` is -1 if it did not arrive."""
    return {
        "name": message.name,
        "src": message.src,
        "dst": message.dst,
        "bytes": message.size,
        "start": message.start,
        "end": -1 if message.abandoned else message.end,
    }


def _impossible(prepared: Prepared, end: RunEnd, minimum: int) -> Iterator[str]:
    """Warn about a time below the lower bound, `minimum` cycles."""
    if end.cycle < minimum:
        fastest = format_time_ns(minimum * 10**9 / prepared.experiment.network.clock)
        yield (
            f"the links cannot carry these bytes in less than {fastest}; this backend ignores "
            f"{ignored_limit(end.backend)}"
        )


def _chunks(prepared: Prepared, columns: Mapping[str, IntArray]) -> Mapping[str, IntArray]:
    """The chunks of the system layer, with physical dimensions and the number of the experiment's collective."""
    dims, collectives = prepared.job.dims, np.array(_rows(prepared), dtype=np.int64)
    columns = mapped(columns, "collective", lambda numbers: collectives[numbers])
    return columns if dims is None else mapped(columns, "dimension", dims.physical)


def _workload(prepared: Prepared, end: RunEnd) -> dict[str, Any]:
    """The fields of a workload: `layers`, `work`, and of a model's training `footprint` and `training`."""
    job = prepared.job
    layers = job.layers() if end.complete else {}
    run = job.tasks()
    if run is None:
        return {"layers": layers}
    graph, times = run.graph, run.times
    work = at_work(graph, times, end.cycle)
    table = Work.of(graph, times, end.cycle, active=work, tasks=prepared.experiment.output.tasks)
    fields = {"layers": layers or layer_table(graph, work), "work": table}
    step = job.training
    if step is None:
        return fields
    seconds = Fraction(end.cycle) / prepared.experiment.network.clock
    return fields | {
        "footprint": step.memory_rows(),
        "training": [step.throughput(seconds)] if end.complete else [],
    }


def _memory(prepared: Prepared) -> Memory | None:
    """The counters of remote memory and shared endpoints; None without any."""
    job, system = prepared.job, prepared.system
    remote = job.remote_memory()
    endpoint = system.endpoint
    if remote is None and endpoint is None:
        return None
    npus = {} if remote is None else {"loaded": remote.loaded, "stored": remote.stored}
    used = [] if remote is None else remote.used
    columns = used_columns(
        [memory.name for memory in used],
        [memory.rate for memory in used],
        [memory.bytes for memory in used],
        [memory.busy for memory in used],
        prepared.experiment.network.clock,
    )
    return Memory({**npus, **(endpoint.totals() if endpoint is not None else {})}, columns)


def _rows(prepared: Prepared) -> list[int]:
    """The number of the experiment's collective, for each collective of the system layer (one per group)."""
    row = {
        issued.number: number
        for number, collective in enumerate(prepared.job.collectives)
        for issued in collective.per_group
    }
    return [row[issued.number] for issued in prepared.system.collectives]


def _kinds(prepared: Prepared) -> dict[tuple[int, int], str]:
    """The kind of each phase of each collective."""
    system, rows = prepared.system, _rows(prepared)
    return {(rows[number], phase): kind for number, phase, kind in system.phase_kinds()}
