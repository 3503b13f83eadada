"""Traces of PyTorch, event by event as plain objects, as docs/collect.md tells it: slow, and easy to read."""

from __future__ import annotations

import gzip
import json
import math
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.workload.graph import MOST_CYCLES, Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.pytorch.messages import Message, of_gloo, of_nccl

MOST_NS = 1 << 62
_RECORD = "Record function id"
_TRACE = "a Chrome trace of torch.profiler"
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_RUNTIME = ("cuda_runtime", "cuda_driver")
_WAITS = re.compile(r"(cuda|hip)(Device|Stream|Event|Ctx)Synchronize|(cuda|hip)Memcpy$")


@dataclass(eq=False)
class Activity:
    """Something with a start and an end (ns) that follows what comes before it in its lane, a thread or a stream.

    Attributes
    ----------
    after
        The piece of the host that started it; None on the host, and if it is not known.
    message
        What it communicates; None for computation.
    waits
        What the host waits for here: "device", or "gloo" for its collectives.
    memory
        Whether it copies memory.
    """

    start: int
    end: int
    name: str
    lane: tuple[str, int, int]
    after: Activity | None = None
    message: Message | None = None
    waits: str = ""
    memory: bool = False


@dataclass(eq=False)
class Recording:
    """The trace of one rank; activities sorted by start. `groups`: the ranks of process groups, by name."""

    file: str
    rank: int
    ranks: int
    groups: dict[str, tuple[int, ...]]
    host: list[Activity] = field(default_factory=list)
    device: list[Activity] = field(default_factory=list)
    others: list[Activity] = field(default_factory=list)


@dataclass(frozen=True)
class _Event:
    """A complete event of the trace."""

    start: int
    end: int
    name: str
    kind: str
    process: str
    thread: str
    args: dict[str, Any]

    def number(self, key: str) -> int | None:
        value = self.args.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read(file: str, rank: int) -> Recording:
    """Read a trace without faults in its text; `rank`: that of its name."""
    raw = Path(file).read_bytes()
    root = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    events = root.get("traceEvents") if isinstance(root, dict) else None
    if not isinstance(events, list):
        raise InputError("has no list traceEvents", file=file, allowed=_TRACE)
    recording = _head(root, file, rank)
    complete = sorted(_complete(events, file), key=lambda event: (event.start, -event.end))
    if not any(event.kind == "cpu_op" or event.kind in _DEVICE for event in complete):
        raise InputError("has no operator", file=file, allowed="a profile with ProfilerActivity.CPU")
    _fill(recording, complete)
    return recording


def _head(root: dict[str, Any], file: str, rank: int) -> Recording:
    """The rank, the number of ranks and the process groups."""
    told = root.get("distributedInfo")
    told = told if isinstance(told, dict) else {}
    ranks, own = told.get("world_size", 1), told.get("rank", rank)
    if type(ranks) is not int or type(own) is not int or not 0 <= own < ranks <= 1 << 24:
        raise InputError(
            f"is of rank {own!r} of {ranks!r}", file=file, key="distributedInfo", allowed="0 <= rank < size"
        )
    if own != rank and "rank" in told:
        raise InputError(f"is of rank {own}", file=file, key="distributedInfo.rank", allowed=f"{rank}, as in its name")
    groups: dict[str, tuple[int, ...]] = {}
    listed = told.get("pg_config", [])
    for group in listed if isinstance(listed, list) else []:
        members = group.get("ranks") if isinstance(group, dict) else None
        if not isinstance(members, list) or not all(type(each) is int and 0 <= each < ranks for each in members):
            members = []
        groups[str(group.get("pg_name", "") if isinstance(group, dict) else "")] = tuple(members) or tuple(range(ranks))
    return Recording(file, own, ranks, groups or {"0": tuple(range(ranks))})


def _complete(events: list[Any], file: str) -> Iterator[_Event]:
    for place, event in enumerate(events):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        args, key = event.get("args", {}), f"traceEvents[{place}]"
        start, took = (_ns(event.get(name, 0), f"{key}.{name}", file) for name in ("ts", "dur"))
        yield _Event(
            start,
            start + took,
            str(event.get("name", "")),
            str(event.get("cat", "")),
            str(event.get("pid")),
            str(event.get("tid")),
            args if isinstance(args, dict) else {},
        )


def _is_gloo(event: _Event) -> bool:
    return event.kind == "user_annotation" and event.name.startswith("gloo:")


def _ns(micros: Any, key: str, file: str) -> int:
    good = isinstance(micros, int | float) and not isinstance(micros, bool) and math.isfinite(micros)
    if not good or not 0 <= micros * 1000 <= MOST_NS:
        raise InputError(f"is {micros!r:.40}", file=file, key=key, allowed="microseconds, from 0")
    return round(float(micros) * 1000)


def _fill(recording: Recording, events: list[_Event]) -> None:
    """Make activities of events, which are sorted by start, the longest first."""
    causes = _causes(events)
    began = {id(causes[id(event)]): event.start for event in reversed(events) if id(event) in causes}
    ends = sorted(event.end for event in events if _is_gloo(event))
    threads: dict[tuple[str, str], list[_Event]] = {}
    for event in events:
        if event.kind == "cpu_op" or event.kind in _RUNTIME:
            threads.setdefault((event.process, event.thread), []).append(event)
    piece_of: dict[int, Activity] = {}
    for number, own in enumerate(threads.values()):
        for piece, cause in _pieces(own, ("host", 0, number), began, ends):
            recording.host.append(piece)
            if cause is not None:
                piece_of[id(cause)] = piece
    recording.host.sort(key=lambda piece: (piece.start, piece.end))
    lanes: dict[tuple[str, str], int] = {}
    for event in events:
        cause = causes.get(id(event))
        starter = None if cause is None else piece_of.get(id(cause))
        if event.kind in _DEVICE:
            lane = "device", event.number("device") or 0, event.number("stream") or 0
            memory = event.kind != "kernel"
            message = None if memory else of_nccl(event.name, event.args)
            activity = Activity(event.start, event.end, event.name, lane, starter, message, memory=memory)
            recording.device.append(activity)
        elif _is_gloo(event):
            caller, call = ("", {}) if cause is None else (cause.name, cause.args)
            lane = "gloo", 0, lanes.setdefault((event.process, event.thread), len(lanes))
            message = of_gloo(event.name, event.args, caller, call)
            recording.others.append(Activity(event.start, event.end, event.name, lane, starter, message))


def _causes(events: list[_Event]) -> dict[int, _Event]:
    """Return what started each kernel and each collective of gloo, by its identity.

    A kernel and the call that launches it have the same correlation. Records of gloo are numbered after those of the
    operators of c10d that make them, if an ExecutionTraceObserver numbers them; otherwise, the first operator that is
    left with a tensor of the same shape is taken.
    """
    launches = {event.number("correlation"): event for event in events if event.kind in _RUNTIME}
    launches.pop(None, None)
    causes = {
        id(event): launches[event.number("correlation")]
        for event in events
        if event.kind in _DEVICE and event.number("correlation") in launches
    }
    calls = [event for event in events if event.kind == "cpu_op" and event.name.startswith("c10d::")]
    numbered = sorted((event for event in calls if _record(event)), key=_record)
    numbers = [_record(event) for event in numbered]
    left: dict[str, deque[_Event]] = {}
    for event in calls:
        if not _record(event):
            left.setdefault(_shape(event), deque()).append(event)
    for event in events:
        if not _is_gloo(event):
            continue
        if place := bisect_right(numbers, _record(event)):
            causes[id(event)] = numbered[place - 1]
        elif (queue := left.get(_shape(event))) and queue[0].start <= event.start:
            causes[id(event)] = queue.popleft()
    return causes


def _shape(event: _Event) -> str:
    """The shape of the first tensor, also of a list of tensors."""
    dims = event.args.get("Input Dims")
    while isinstance(dims, list) and dims and isinstance(dims[0], list):
        dims = dims[0]
    return str(dims)


def _record(event: _Event) -> int:
    return event.number(_RECORD) or 0


def _pieces(
    events: list[_Event], lane: tuple[str, int, int], began: Mapping[int, int], ends: Sequence[int]
) -> Iterator[tuple[Activity, _Event | None]]:
    """Yield the pieces of a thread, each with the event that starts something at its end.

    Outermost events follow each other; events inside them are where they are cut. Where an operator calls no other one
    for a while, and a collective of gloo ends, it waits for it.

    Parameters
    ----------
    began
        When what an event started began, by the identity of the event.
    ends
        When collectives of gloo ended, in order.
    """
    place = 0
    while place < len(events):
        outer, inner = events[place], [events[place]]
        covered, end = outer.start, max(outer.end, outer.start + 1)
        quiet: list[tuple[int, int]] = []
        place += 1
        while place < len(events) and events[place].start < end:
            event = events[place]
            if len(inner) > 1:
                quiet.append((covered, event.start))
            covered, end = max(covered, event.end), max(end, event.end)
            inner.append(event)
            place += 1
        if len(inner) > 1:
            quiet.append((covered, outer.end))
        cuts: list[tuple[int, int, str, _Event | None]] = []
        for event in inner:
            if _WAITS.match(event.name):
                cuts.append((event.start, event.end, "device", None))
            elif id(event) in began:
                until = min(event.end, max(event.start, began[id(event)]))
                cuts.append((event.start, until, "", event))
                if event.name.startswith("c10d::"):
                    quiet.append((until, event.end))
        cuts += [(*hole, "gloo", None) for hole in quiet if bisect_right(ends, hole[0]) < bisect_right(ends, hole[1])]
        at = outer.start
        for begin, until, waits, cause in sorted(cuts, key=lambda cut: cut[:2]):
            begin, until = max(at, begin), max(at, until)
            if not waits:
                yield Activity(at, until, outer.name, lane), cause
            else:
                if begin > at:
                    yield Activity(at, begin, outer.name, lane), None
                yield Activity(begin, until, f"wait in {outer.name}", lane, waits=waits), None
            at = until
        if end > at and (max(outer.end, covered) > at or not cuts):
            yield Activity(at, max(outer.end, covered), outer.name, lane), None


_PER_SECOND = 10**9
_PAUSE = "pause"
_POINT_TO_POINT = ("send", "recv")


def slow_graph_of(
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
    build = GraphBuilder(npus, ())
    calls = _calls(build, recordings, comm_scale)
    for recording in recordings:
        _add(build, recording, calls, clock, compute_scale, comm_scale)
    return build.graph()


def _add(
    build: GraphBuilder,
    recording: Recording,
    calls: dict[int, int],
    clock: Fraction,
    compute_scale: Fraction,
    comm_scale: Fraction,
) -> None:
    """Add the tasks of a rank."""
    of_host, of_device = [*recording.host, *recording.others], recording.device
    activities = sorted((*of_host, *of_device), key=_order)
    ended = {"host": _by_end(of_host), "device": _by_end(of_device), "gloo": _by_end(recording.others)}
    task: dict[int, int] = {}
    newest: dict[tuple[str, int, int], Activity] = {}
    begin = min(activity.start for activity in activities)
    for activity in activities:
        before = [each for each in (newest.get(activity.lane), activity.after) if each is not None]
        newest[activity.lane] = activity
        known = max((each.end for each in before), default=begin)
        others = [each for each in _during(ended[activity.lane[0]], known, activity.start) if id(each) in task]
        before += [each for each in others if each.lane[0] == "gloo"] + others[-1:]
        known = max((each.end for each in before), default=known)
        waits = list(dict.fromkeys(task[id(each)] for each in before if id(each) in task))
        if activity.start > known:
            pause = _cycles(activity.start - known, clock)
            waits = [build.task(recording.rank, Kind.MARK, _PAUSE, ticks=pause, before=waits)]
        begun = activity.start
        if activity.waits:
            others = [each for each in _during(ended[activity.waits], begun, activity.end) if id(each) in task]
            waits += [task[id(each)] for each in (others if activity.waits == "gloo" else others[-1:])]
            begun = max((each.end for each in others), default=begun)
        took = activity.end - begun
        task[id(activity)] = _task(
            build, recording, activity, calls, waits, _cycles(took, clock), compute_scale, comm_scale
        )


def _task(
    build: GraphBuilder,
    recording: Recording,
    activity: Activity,
    calls: dict[int, int],
    before: Sequence[int],
    ticks: int,
    compute_scale: Fraction,
    comm_scale: Fraction,
) -> int:
    """Add the task of an activity."""
    rank, name, message = recording.rank, activity.name, activity.message
    if id(activity) in calls:
        return build.task(rank, Kind.COLLECTIVE, name, call=calls[id(activity)], before=before)
    if message is not None and message.kind in _POINT_TO_POINT:
        kind = Kind.SEND if message.kind == "send" else Kind.RECEIVE
        size = max(1, int(message.size * comm_scale))
        return build.task(rank, kind, name, size=size, peer=message.peer, match=message.tag, before=before)
    if activity.waits or activity.lane[0] == "gloo" or name.startswith("nccl"):
        return build.task(rank, Kind.MARK, name, ticks=ticks, before=before)
    if activity.memory:
        return build.task(rank, Kind.MEMORY, name, ticks=ticks, before=before)
    return build.task(rank, Kind.COMPUTE, name, ticks=int(-(-ticks * compute_scale // 1)), before=before)


def _order(activity: Activity) -> tuple[int, bool, int]:
    """Causes come before effects: where the host waits counts by its end."""
    return (activity.end, False, activity.end) if activity.waits else (activity.start, True, activity.end)


def _during(by_end: tuple[list[int], list[Activity]], after: int, until: int) -> list[Activity]:
    """The activities that ended after a time, and not after another one."""
    ends, activities = by_end
    return activities[bisect_right(ends, after) : bisect_right(ends, until)]


def _by_end(activities: Sequence[Activity]) -> tuple[list[int], list[Activity]]:
    """The activities by their ends, with these; of equal ends the latest start is last."""
    ordered = sorted(activities, key=lambda activity: (activity.end, activity.start))
    return [activity.end for activity in ordered], ordered


def _cycles(ns: int, clock: Fraction) -> int:
    """A time as cycles, rounded up. Raises InputError for one that is too long."""
    cycles = -(-ns * clock.numerator // (clock.denominator * _PER_SECOND))
    if cycles > MOST_CYCLES:
        raise InputError(f"an activity of {ns} ns takes too many cycles", allowed=f"up to {MOST_CYCLES}")
    return cycles


def _calls(build: GraphBuilder, recordings: Sequence[Recording], comm_scale: Fraction) -> dict[int, int]:
    """Add the collectives; return the call of each activity, by its identity.

    The k-th of a kind and group on each of its ranks are one. Raises InputError if the ranks differ.
    """
    of_rank = {recording.rank: recording for recording in recordings}
    turns: dict[tuple[tuple[int, ...], str], dict[int, list[Activity]]] = {}
    for recording in recordings:
        launched = sorted((*recording.device, *recording.others), key=_launch)
        for activity in launched:
            message = activity.message
            if message is None:
                continue
            if message.kind in _POINT_TO_POINT:
                if not 0 <= message.peer < recording.ranks or message.peer == recording.rank:
                    problem = f"{activity.name} has the peer {message.peer}"
                    raise InputError(problem, file=recording.file, allowed=f"another rank of {recording.ranks}")
                continue
            members = message.members or recording.groups.get(message.group)
            if members is None and len(recording.groups) == 1:
                members = next(iter(recording.groups.values()))
            if members is None or recording.rank not in members or len(set(members)) < len(members):
                continue  # of a group that the trace does not tell: it takes its recorded time
            turns.setdefault((tuple(members), message.kind), {}).setdefault(recording.rank, []).append(activity)
    calls: dict[int, int] = {}
    for (members, kind), of in turns.items():
        many = Counter({rank: len(of.get(rank, ())) for rank in members})
        (most, highest), (fewest, lowest) = many.most_common(1)[0], many.most_common()[-1]
        if highest != lowest:
            problem = f"rank {most} has {highest} calls of {kind} in a group of {len(members)}, rank {fewest} {lowest}"
            raise InputError(
                problem, file=of_rank[most].file if most in of_rank else "", allowed="traces of the same steps"
            )
        for together in zip(*(of[rank] for rank in members), strict=True):
            first = together[0].message
            assert first is not None
            for rank, activity in zip(members, together, strict=True):
                if activity.message is None or activity.message.size != first.size:
                    size = 0 if activity.message is None else activity.message.size
                    problem = f"{activity.name} of rank {rank} has {size} bytes, but rank {members[0]} {first.size}"
                    raise InputError(problem, file=of_rank[rank].file, allowed="the same on all ranks of a group")
            size = max(1, int(first.size * comm_scale)) if first.size else 0
            root = members[first.root] if 0 <= first.root < len(members) else None
            if len(members) > 1:
                call = build.call(Call(kind, size, members=members, root=root, name=together[0].name))
                calls |= {id(activity): call for activity in together}
    return calls


def _launch(activity: Activity) -> tuple[int, int]:
    """When the host started it; what it did not start, as it began."""
    return (activity.start if activity.after is None else activity.after.end), activity.start
