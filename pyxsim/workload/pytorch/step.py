"""Traces of all ranks as a graph of tasks: what each rank did, in its order, with the pauses of the trace.

An activity starts after the one before it in its thread or stream, and after what started it. What else it waited for,
the trace does not tell. If it started later, it is taken to have waited for the activity of its rank that ended last
before it: on the host one of another thread, and every collective of gloo that has ended; on a device one of another
stream; and where the host waits for a device, one of the device. What is left is a pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.workload.durations import cycles, scaled_up
from pyxsim.workload.graph import Call, Kind, TaskGraph, beyond_64_bits, numbered
from pyxsim.workload.pytorch.kineto import Recording, read
from pyxsim.workload.pytorch.lanes import DEVICE, GLOO, NOTHING, replay

_PER_SECOND = 10**9
_PAUSE = "pause"
_POINT_TO_POINT = ("send", "recv")


@dataclass(frozen=True)
class Scales:
    """Cycles per second, and factors for compute times and for communicated bytes."""

    clock: Fraction
    compute: Fraction
    comm: Fraction


def graph_of(
    name: str,
    npus: int,
    clock: Fraction = Fraction(_PER_SECOND),
    compute_scale: Fraction = Fraction(1),
    comm_scale: Fraction = Fraction(1),
) -> TaskGraph:
    """Return the tasks of `PREFIX.*.kineto.json` for a network of `npus`. Raises InputError.

    NPU r is rank r.
    """
    files = find(name)
    recordings = [read(str(path), rank) for rank, path in sorted(files.items())]
    ranks = recordings[0].ranks
    for recording in recordings:
        if recording.ranks != ranks:
            problem = f"is of {recording.ranks} ranks, but {recordings[0].file} of {ranks}"
            raise InputError(problem, file=recording.file, key="distributedInfo.world_size")
    if lost := sorted(set(range(ranks)) - {recording.rank for recording in recordings}):
        problem = f"has no trace of rank {lost[0]}" + (f" and {len(lost) - 1} more" if len(lost) > 1 else "")
        raise InputError(problem, file=name, allowed=f"a trace of each of the {ranks} ranks")
    if ranks > npus:
        raise InputError(f"has {ranks} ranks", file=name, allowed=f"up to {npus}, the NPUs of the network")
    return _graph_of(recordings, npus, Scales(clock, compute_scale, comm_scale))


def rank_graph_of(file: str, rank: int, clock: Fraction = Fraction(_PER_SECOND)) -> tuple[TaskGraph, int]:
    """Return the tasks of one rank, which lack those of other ranks, and its number. Raises InputError.

    `rank`: that of the name of the file. The graph has an NPU for each rank of the job.
    """
    recording = read(file, rank)
    return _graph_of([recording], recording.ranks, Scales(clock, Fraction(1), Fraction(1))), recording.rank


def _graph_of(recordings: Sequence[Recording], npus: int, scales: Scales) -> TaskGraph:
    """The tasks of these ranks."""
    calls, of_rank = _calls(recordings, scales.comm)
    return _graph(npus, calls, [_Tasks(recording, of_rank[recording.rank], scales) for recording in recordings])


class _Tasks:
    """The tasks of a rank, as columns of a graph, and what they wait for."""

    def __init__(self, recording: Recording, calls: dict[int, int], scales: Scales) -> None:
        waits, kind = recording.waits, recording.kind
        # Causes come before effects: where the host waits counts by its end.
        waiting = waits != NOTHING
        key = np.where(waiting, recording.end, recording.start)
        order = np.lexsort((recording.end, ~waiting, key))
        by_end = np.lexsort((recording.start, recording.end))
        ended = by_end[kind[by_end] != DEVICE], by_end[kind[by_end] == DEVICE], by_end[kind[by_end] == GLOO]
        arguments = (recording.start, recording.end, kind, recording.lane, recording.after, waits, ended)
        self.activity, ns, self.before_start, self.before = replay(order, *arguments)
        pause, count = self.activity < 0, len(self.activity)
        self.npu = np.full(count, recording.rank, np.int32)
        of_nccl = np.array([name.startswith("nccl") for name in recording.names], np.bool_)[recording.name]
        kinds = np.full(len(kind), Kind.COMPUTE, np.int8)
        kinds[recording.copies] = Kind.MEMORY
        kinds[waiting | (kind == GLOO) | of_nccl] = Kind.MARK
        self.size, self.match = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.peer, self.call = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        for row, message in recording.messages.items():
            if row in calls:
                kinds[row] = Kind.COLLECTIVE
            elif message.kind in _POINT_TO_POINT:
                kinds[row] = Kind.SEND if message.kind == "send" else Kind.RECEIVE
        self.kind = np.where(pause, Kind.MARK, kinds[self.activity]).astype(np.int8)
        self.ticks = cycles(ns, scales.clock)
        computes = self.kind == Kind.COMPUTE
        try:
            self.ticks[computes] = scaled_up(self.ticks[computes], scales.compute)
            for task in np.flatnonzero(np.isin(self.kind, (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE))).tolist():
                row = int(self.activity[task])
                self.ticks[task] = 0
                if row in calls:
                    self.call[task] = calls[row]
                else:
                    message = recording.messages[row]
                    self.size[task] = max(1, int(message.size * scales.comm))
                    self.peer[task], self.match[task] = message.peer, message.tag
        except OverflowError:
            raise beyond_64_bits() from None
        self.name = np.where(pause, 0, recording.name[self.activity].astype(np.int64) + 1)
        self.names = recording.names


def _graph(npus: int, calls: list[Call], parts: Sequence[_Tasks]) -> TaskGraph:
    """The tasks of all ranks, one rank after the other."""
    first = np.cumsum([0, *(len(part.npu) for part in parts)])
    count = int(first[-1])
    many = np.concatenate([np.diff(part.before_start) for part in parts])
    before_start = np.zeros(count + 1, np.int64)
    np.cumsum(many, out=before_start[1:])
    numbers: dict[str, int] = {}
    name = [numbered([_PAUSE, *part.names], part.name, part.kind, numbers) for part in parts]

    def joined(column: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, column) for part in parts])

    return TaskGraph(
        npus=npus,
        npu=joined("npu"),
        kind=joined("kind"),
        ticks=joined("ticks"),
        size=joined("size"),
        peer=joined("peer"),
        match=joined("match"),
        call=joined("call"),
        resource=np.full(count, -1, np.int8),
        layer=np.full(count, -1, np.int32),
        name=np.concatenate(name).astype(np.int32),
        part=np.zeros(count, np.int8),
        before_start=before_start,
        before=np.concatenate([part.before + begin for part, begin in zip(parts, first.tolist(), strict=False)]),
        calls=calls,
        names=list(numbers),
        resources=(),
    )


def _calls(recordings: Sequence[Recording], comm_scale: Fraction) -> tuple[list[Call], dict[int, dict[int, int]]]:
    """Return the collectives; and by rank, the number of the one that an activity takes part in.

    The k-th of a kind and group on each of its ranks are one. Raises InputError if the recorded ranks differ.
    """
    recording_of = {recording.rank: recording for recording in recordings}
    turns: dict[tuple[tuple[int, ...], str], dict[int, list[int]]] = {}
    for recording in recordings:
        for row in sorted(recording.messages, key=lambda row: _launch(recording, row)):
            message = recording.messages[row]
            if message.kind in _POINT_TO_POINT:
                if not 0 <= message.peer < recording.ranks or message.peer == recording.rank:
                    problem = f"{recording.label(row)} has the peer {message.peer}"
                    raise InputError(problem, file=recording.file, allowed=f"another rank of {recording.ranks}")
                continue
            members = message.members or recording.groups.get(message.group)
            if members is None and len(recording.groups) == 1:
                members = next(iter(recording.groups.values()))
            if members is None or recording.rank not in members or len(set(members)) < len(members):
                continue  # of a group that the trace does not tell: it takes its recorded time
            turns.setdefault((tuple(members), message.kind), {}).setdefault(recording.rank, []).append(row)
    complete = len(recordings) == recordings[0].ranks  # else those of single ranks, for others that do the same
    calls: list[Call] = []
    call_of: dict[int, dict[int, int]] = {recording.rank: {} for recording in recordings}
    for (members, kind), of in turns.items():
        there = members if complete else [rank for rank in members if rank in recording_of]
        many = Counter({rank: len(of.get(rank, ())) for rank in there})
        (most, highest), (fewest, lowest) = many.most_common(1)[0], many.most_common()[-1]
        if highest != lowest:
            problem = f"rank {most} has {highest} calls of {kind} in a group of {len(members)}, rank {fewest} {lowest}"
            file = recording_of[most].file if most in recording_of else ""
            raise InputError(problem, file=file, allowed="traces of the same steps")
        for together in zip(*(of[rank] for rank in there), strict=True):
            first = recording_of[there[0]].messages[together[0]]
            for rank, row in zip(there, together, strict=True):
                recording = recording_of[rank]
                if (size := recording.messages[row].size) != first.size:
                    problem = (
                        f"{recording.label(row)} of rank {rank} has {size} bytes, but rank {there[0]} {first.size}"
                    )
                    raise InputError(problem, file=recording.file, allowed="the same on all ranks of a group")
            size = max(1, int(first.size * comm_scale)) if first.size else 0
            root = members[first.root] if 0 <= first.root < len(members) else None
            if len(members) > 1:
                name = recording_of[there[0]].label(together[0])
                for rank, row in zip(there, together, strict=True):
                    call_of[rank][row] = len(calls)
                calls.append(Call(kind, size, members=members, root=root, name=name))
    return calls, call_of


def _launch(recording: Recording, row: int) -> tuple[int, int, int]:
    """When the host started it; what it did not start, as it began. What devices do comes first."""
    start, after = int(recording.start[row]), int(recording.after[row])
    begun = start if after < 0 else int(recording.end[after])
    return begun, start, int(recording.kind[row] != DEVICE)
