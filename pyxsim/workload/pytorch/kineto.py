"""Reads one trace of the PyTorch profiler: what the threads of the host did, and what they started.

The format is the Chrome trace of Kineto (`profile.export_chrome_trace`), in which times are in microseconds. Operators
of a thread are nested; here they become pieces, which follow each other: a piece ends where it starts something on a
device or in another thread, so that what it starts can wait for it.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyxsim.chakra.stream import opened
from pyxsim.errors import InputError
from pyxsim.workload.pytorch.messages import Message, of_gloo, of_nccl

MOST_BYTES = 1 << 31  # of a file, decompressed
MOST_PACKED = 256  # times its size
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
    """Read a trace, also one packed with gzip. Raises InputError; `rank`: that of its name."""
    with opened(file) as stream:
        try:
            most = min(MOST_BYTES, MOST_PACKED * Path(file).stat().st_size)
            raw = stream.read(most + 1)
        except (OSError, EOFError) as error:
            raise InputError(f"cannot be read: {error}", file=file, allowed=_TRACE) from error
    if len(raw) > most:
        raise InputError("is too large", file=file, allowed=f"at most {most} bytes")
    try:
        root = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", file=file, allowed=_TRACE) from None
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
