"""Tables of the system layer: its phases with their times, all messages that it sends, and how they access memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.collective.accesses import LOAD, MULTICAST, OPERAND, STORE, SUM
from pyxsim.lazy_columns import LazyColumns, Repeated
from pyxsim.network.lines import Lines
from pyxsim.system.program import Program
from pyxsim.system.work import ChunkTask, Collective, PointToPoint

MEASURED = ("ready", "start", "end", "messages", "network")
COLUMNS = (
    "collective",
    "chunk",
    "phase",
    "rank",
    "dimension",
    "queue",
    "bytes",
    *MEASURED,
)


NO_TARGET = -1  # of an access of the switch
LEAST_ROWS = 1 << 16  # of a chunk table that is made when it is read
LEAST_RUN = 256  # rows of its chunk phases, on average; the arrays of shorter ones take as long to find as to hold


def chunk_table(collectives: Sequence[Collective]) -> Mapping[str, IntArray]:
    """One row per chunk, phase and NPU that takes part; `rank` is the NPU. `chunk` counts over all collectives."""
    all_chunks = [(number, chunk) for number, collective in enumerate(collectives) for chunk in collective.chunks]
    stages = [(number, i, stage) for i, (number, chunk) in enumerate(all_chunks) for stage in chunk.stages]
    sizes = [stage.parts for _, _, stage in stages]
    constants = {
        "collective": [number for number, _, _ in stages],
        "chunk": [chunk for _, chunk, _ in stages],
        "phase": [stage.number for _, _, stage in stages],
        "dimension": [stage.dimension for _, _, stage in stages],
        "queue": [stage.place for _, _, stage in stages],
    }
    members = [np.array(collective.communicator.members, np.int64) for collective in collectives]
    repeated: dict[str, list[Repeated]] = {name: [] for name in ("rank", "bytes", *MEASURED)}
    for (number, _, stage), size in zip(stages, sizes, strict=True):
        part = None if size == len(members[number]) else stage.positions  # mostly all, which is faster
        repeated["rank"].append((members[number], part))
        repeated["bytes"].append((stage.phase.bytes_in, part))
        for name in MEASURED:
            repeated[name].append(stage.measured(name, part))
    columns = LazyColumns(
        COLUMNS,
        np.array(sizes, np.int64),
        {name: np.array(values, np.int64) for name, values in constants.items()},
        repeated,
    )
    many = columns.rows >= LEAST_ROWS and columns.rows >= LEAST_RUN * len(stages)
    return columns if many else dict(columns)


def traffic(tasks: Iterable[ChunkTask | PointToPoint], plane_between: Callable[[int, int], int]) -> IntArray:
    """Return what tasks send: int64[K, 5], rows (source, destination, plane, bytes, count), sorted and unique in the
    first four columns. `plane_between`: the plane of a point-to-point message."""
    alike: dict[tuple[int, int, int, tuple[int, ...]], int] = {}
    programs: dict[int, Program] = {}
    alone: Counter[tuple[int, int, int, int]] = Counter()
    for task in tasks:
        if isinstance(task, PointToPoint):
            alone[task.src, task.dst, plane_between(task.src, task.dst), task.size] += 1
            continue
        programs[id(task.program)] = task.program
        key = (id(task.program), *task.planes, tuple(task.members))
        alike[key] = alike.get(key, 0) + 1
    rows = [np.array([(*message, count) for message, count in alone.items()], np.int64).reshape(len(alone), 5)]
    sent = {number: _sent(program) for number, program in programs.items()}
    for (number, forward, back, npus), count in alike.items():
        src, dst, way, size, times = sent[number].T
        members = np.array(npus)
        plane = np.where(way > 0, forward, back)
        rows.append(np.stack([members[src], members[dst], plane, size, times * count], axis=1))
    return merged(np.concatenate(rows))


def accesses(tasks: Iterable[ChunkTask | PointToPoint], plane_between: Callable[[int, int], int]) -> IntArray:
    """Return how tasks access memory, in the rows of `SystemLayer.accesses`."""
    rows = [np.zeros((0, 7), np.int64)]
    issued: dict[int, IntArray] = {}
    for task in tasks:
        if isinstance(task, PointToPoint):
            plane = plane_between(task.src, task.dst)
            rows.append(np.array([[STORE, task.src, task.dst, task.size, 2, plane, 1]], np.int64))
            continue
        if id(task.program) not in issued:
            issued[id(task.program)] = _issued(task.program)
        of_task = issued[id(task.program)].copy()
        npus = np.append(np.array(task.members, np.int64), NO_TARGET)
        of_task[:, 1:3] = npus[of_task[:, 1:3]]
        of_task[:, 5] = np.where(of_task[:, 5] > 0, *task.planes)
        rows.append(of_task)
    return merged(np.concatenate(rows))


def _issued(program: Program) -> IntArray:
    """Rows of `accesses` of a program, in ranks, with the direction for the plane: one for each message, or for all
    messages of an access of the switch that one rank issues."""
    sent = np.flatnonzero((program.src != program.dst) & (program.size > 0))
    src, dst, size = program.src[sent], program.dst[sent], program.size[sent]
    if program.accesses is None:
        kind, joined = np.zeros(len(sent), np.int64), np.full(len(sent), -1, np.int64)
    else:
        kind, joined = program.accesses.kind[sent].astype(np.int64), program.accesses.fused[sent].astype(np.int64)
    whole = (kind == SUM) | (kind == MULTICAST)
    first = np.zeros(len(sent), dtype=bool)
    first[np.unique(joined, return_index=True)[1]] = True
    of_all = np.bincount(joined + 1, minlength=1)[joined + 1]  # messages of the same access of the switch
    members = np.where(whole, of_all + 1, np.where(kind == OPERAND, of_all, 2))
    initiator = np.where((kind == LOAD) | (kind == SUM) | (kind == OPERAND), dst, src)
    target = np.where(kind >= SUM, NO_TARGET, np.where(kind == LOAD, src, dst))
    columns = (kind, initiator, target, size, members, program.way[sent], np.ones(len(sent), np.int64))
    rows: IntArray = np.stack([column.astype(np.int64) for column in columns], axis=1)[~whole | first]
    return rows


def lines(tasks: Iterable[ChunkTask]) -> list[Lines]:
    """Return the groups of phases with what they send, one for each kind of groups; all groups must send the same."""
    groups: dict[tuple[int, ...], Int32Array] = {}
    alike: Counter[tuple[tuple[int, ...], int, int, int]] = Counter()
    programs: dict[int, Program] = {}
    for task in tasks:
        phase = task.stage.phase
        groups.setdefault(phase.dims, phase.groups)
        programs[id(task.program)] = task.program
        alike[phase.dims, id(task.program), *task.planes] += 1
    rows: dict[tuple[int, ...], list[IntArray]] = {dims: [] for dims in groups}
    for (dims, number, forward, back), count in alike.items():
        src, dst, way, size, times = _sent(programs[number]).T
        rows[dims].append(np.stack([src, dst, np.where(way > 0, forward, back), size, times * count], axis=1))
    return [Lines(members, np.concatenate(rows[dims])) for dims, members in groups.items()]


def _sent(program: Program) -> IntArray:
    """Rows (source, destination, direction, bytes, count) of a program, in ranks; many groups share one program."""
    leaves = (program.src != program.dst) & (program.size > 0)
    columns = (program.src, program.dst, program.way, program.size, np.ones_like(program.size))
    return merged(np.stack([column[leaves] for column in columns], axis=1).astype(np.int64))


def merged(rows: IntArray) -> IntArray:
    """Sort rows whose last column is a count, and merge those that are otherwise equal."""
    if not len(rows):
        return rows
    rows = rows[np.lexsort(rows[:, -2::-1].T)]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:, :-1] != rows[:-1, :-1]).any(axis=1)
    distinct_rows = rows[new]
    distinct_rows[:, -1] = np.add.reduceat(rows[:, -1], np.flatnonzero(new))
    return distinct_rows
