"""Tables of ASTRA-sim's system layer: its phases with their times, all messages, the stuck report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.compat.astra.system.custom import Custom
from pyxsim.compat.astra.system.issued import Chunk
from pyxsim.compat.astra.system.phase_algorithms import DIRECT, HALVING, TREE
from pyxsim.compat.astra.system.streams import REQUEST_BYTES
from pyxsim.system.options import ASTRA_SIM_1, Options
from pyxsim.system.stuck import MOST, not_entered, unfinished_message
from pyxsim.system.table import COLUMNS
from pyxsim.system.work import Collective, PointToPoint

_COUNTED = ("ready", "start", "end", "messages", "network")
FULL = (
    "queues are full of chunks that wait for other NPUs, as in ASTRA-sim 2 (docs/compat.md); more active_chunks, "
    'usually scheduling = "FIFO", and always no compat avoid it'
)
Waiting = tuple[int, int, int, bool, list[int]]  # stream, phase, rank, at work, slots without their message


class Recorded(Protocol):
    """What these tables read of ASTRA-sim's system layer."""

    options: Options
    collectives: list[Collective]
    messages: list[PointToPoint]
    chunks: list[Chunk]
    chunks_of: tuple[int, dict[int, list[Chunk]]]
    customs: list[Custom]

    def plane_between(self, src: int, dst: int) -> int:
        """Return the plane of messages from `src` to `dst`."""


def chunk_table(system: Recorded) -> dict[str, IntArray]:
    """Return one row per chunk, phase and member NPU (`rank`); `chunk` counts over all collectives."""
    parts: dict[str, list[IntArray]] = {name: [np.zeros(0, np.int64)] for name in COLUMNS}
    for number, chunk in enumerate(system.chunks):
        npus = np.array(chunk.comm.members, np.int64)
        for phase, (step, place) in enumerate(zip(chunk.steps, chunk.places, strict=True)):
            same = {
                "chunk": number,
                "phase": phase,
                "dimension": -1 if chunk.comm.over_all else chunk.comm.dims[step.axis],
                "queue": place.number,
                "bytes": step.program.entering,
            }
            for name, value in same.items():
                parts[name].append(np.full(len(npus), value, np.int64))
            parts["collective"].append(chunk.owner)
            parts["rank"].append(npus)
            for column, name in enumerate(_COUNTED):
                parts[name].append(chunk.rows[phase, :, column])
    for number, custom in enumerate(system.customs, len(system.chunks)):
        npus = np.array(custom.members, np.int64)
        for phase, rows in enumerate(custom.rows):
            same = {
                "chunk": number,
                "collective": custom.number,
                "phase": phase,
                "dimension": -1,
                "queue": 0,
                "bytes": custom.collective.size,
            }
            for name, value in same.items():
                parts[name].append(np.full(len(npus), value, np.int64))
            parts["rank"].append(npus)
            for column, name in enumerate(_COUNTED):
                parts[name].append(rows[:, column])
    return {name: np.concatenate(columns) for name, columns in parts.items()}


def traffic(system: Recorded, collective: int | None = None) -> IntArray:
    """Return the messages of everything issued, or of one collective: int64[K, 5], rows (source, destination, plane,
    bytes, count), sorted and unique in the first four columns."""
    alike: Counter[Hashable] = Counter()
    example: dict[Hashable, tuple[Chunk, int]] = {}
    for chunk in system.chunks if collective is None else _chunks_of(system, collective):
        for number, (step, place) in enumerate(zip(chunk.steps, chunk.places, strict=True)):
            key = (chunk.comm, step.axis, step.program, place)
            alike[key] += 1
            example[key] = chunk, number
    rows = [np.zeros((0, 5), np.int64)]
    for phase, times in alike.items():
        sent = _messages(*example[phase], boost=system.options.boost)
        sent[:, 4] *= times
        rows.append(sent)
        if system.options.rendezvous:  # a request in the other direction
            rows.append(np.column_stack([sent[:, [1, 0, 2]], np.full(len(sent), REQUEST_BYTES), sent[:, 4]]))
    rows += message_rows(system, system.messages if collective is None else ())
    for custom in system.customs:
        if collective in (None, custom.number):
            custom_rows = [(src, dst, system.plane_between(src, dst), *rest) for src, dst, *rest in custom.traffic()]
            rows.append(np.array(custom_rows, np.int64).reshape(-1, 5))
    all_rows = np.concatenate(rows)
    if collective is not None:
        all_rows = all_rows[np.isin(all_rows[:, 0], system.collectives[collective].communicator.members)]
    keys, inverse = np.unique(all_rows[:, :4], axis=0, return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, inverse.ravel(), all_rows[:, 4])
    return np.column_stack([keys, counts])


def message_rows(system: Recorded, messages: Iterable[PointToPoint]) -> list[IntArray]:
    """The rows of `traffic` for point-to-point messages, one array each."""
    planes = [(message, system.plane_between(message.src, message.dst)) for message in messages]
    return [np.array([[npu.src, npu.dst, plane, npu.size, 1]], np.int64) for npu, plane in planes]


def queue_times(system: Recorded, own: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
    """When chunks left their queues and how long their messages were expected, for rows of NPU 0 (or another)."""
    left = np.full(len(own["chunk"]), -1, np.int64)
    same = own["chunk"][1:] == own["chunk"][:-1]
    left[:-1][same] = own["ready"][1:][same]
    expected = own["network"].copy()
    places = zip(own["rank"].tolist(), own["chunk"].tolist(), own["phase"].tolist(), strict=True)
    for row, (npu, number, phase) in enumerate(places):
        if number >= len(system.chunks):  # a custom collective has no queue
            left[row] = own["end"][row]
            continue
        chunk = system.chunks[number]
        rank = chunk.comm.members.index(npu)
        expected[row] = chunk.rows[phase, rank, -1]
        if phase == len(chunk.steps) - 1:
            left[row] = chunk.left[rank]
    return left, expected


def _chunks_of(system: Recorded, collective: int) -> Sequence[Chunk]:
    """The chunks of a collective. Cached for all collectives, since callers ask for many."""
    if system.chunks_of[0] != len(system.chunks):
        chunks: dict[int, list[Chunk]] = {}
        for chunk in system.chunks:
            for owner in set(chunk.owner.tolist()):
                chunks.setdefault(owner, []).append(chunk)
        system.chunks_of = len(system.chunks), chunks
    return system.chunks_of[1].get(collective, ())


def _messages(chunk: Chunk, number: int, *, boost: bool) -> IntArray:
    """Rows (source, destination, plane, bytes, count) of a phase."""
    step, comm, place = chunk.steps[number], chunk.comm, chunk.places[number]
    program, stride = step.program, math.prod(comm.shape[: step.axis])
    members, ranks = np.array(comm.members), np.arange(len(comm.members))
    first = ranks[ranks // stride % program.n == 0]
    if boost:
        first = first[members[first] % stride == 0 if program.algorithm == TREE else members[first] == 0]
    src, dst, size, count = program.edges.T
    if place.direction < 0 and program.algorithm not in (TREE, HALVING):
        # The mirrored ring has the other direction.
        src, dst = program.n - 1 - src, program.n - 1 - dst
    ends = [members[(first[:, None] + stride * place).ravel()] for place in (src, dst)]
    rest = [np.full(len(ends[0]), place.plane), np.tile(size, len(first)), np.tile(count, len(first))]
    return np.column_stack([*ends, *rest])


def stuck(system: Recorded, waiting: Sequence[Waiting]) -> list[str]:
    """Return one line for each NPU and phase that waits, those that wait for messages first; empty if all has ended."""
    lines = [unfinished_message(message) for message in system.messages if message.end < 0]
    lines += not_entered(system.collectives)
    for custom in system.customs:
        lines += custom.stuck()
    for first in (True, False):
        lines += [_line(system, member) for member in waiting if bool(member[4]) == first]
    if not lines:
        lines = [f"the {collective.name} has not ended" for collective in system.collectives if collective.end < 0]
    more = len(lines) - MOST
    lines = [*lines[:MOST], f"... and {more} more"] if more > 0 else lines
    # Some chunks have a slot and no data, others have no slot. Not in version 1, where all proceed together.
    full = system.options.compat != ASTRA_SIM_1 and {bool(at_work) for *_, at_work, _ in waiting} == {True, False}
    return [*lines, FULL] if full else lines


def _line(system: Recorded, waiting: Waiting) -> str:
    stream, number, rank, at_work, slots = waiting
    chunk = system.chunks[stream]
    step, comm = chunk.steps[number], chunk.comm
    owner = int(chunk.owner[rank])
    name = system.collectives[owner].name
    if sum(collective.name == name for collective in system.collectives) > 1:
        name += f" (collective {owner})"
    index = sum(1 for other in system.chunks[:stream] if owner in other.owner)
    where = (
        f"NPU {comm.members[rank]} in queue {chunk.places[number].number} of dimension {comm.dims[step.axis]} "
        f"with chunk {index}, phase {number} ({step.kind}) of the {name}"
    )
    if not at_work:
        return f"{where} waits for its turn"
    if not slots:
        return f"{where} waits for others to finish the phase"
    stride = math.prod(comm.shape[: step.axis])
    place = rank // stride % step.program.n
    first = rank - place * stride
    npus = sorted(comm.members[first + other * stride] for other in _senders(chunk, number, place, slots))
    return f"{where} waits for messages from {_npus(npus)}"


def _senders(chunk: Chunk, number: int, place: int, slots: Iterable[int]) -> list[int]:
    """The places whose messages belong into these mail slots of a member."""
    program = chunk.steps[number].program
    if program.algorithm == DIRECT:
        return list(slots)
    if program.algorithm == HALVING:
        return [place ^ (1 << slot) for slot in slots]
    if program.algorithm == TREE:
        parent, left, right = program.table[3 * place : 3 * place + 3]
        return [(left, right, parent)[slot] for slot in slots]
    return [(place - chunk.places[number].direction) % program.n]


def _npus(npus: Sequence[int]) -> str:
    text = ", ".join(map(str, npus[:8])) + (", ..." if len(npus) > 8 else "")
    return f"NPU {text}" if len(npus) == 1 else f"NPUs {text}"
