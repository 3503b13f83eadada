"""Reads one trace of the PyTorch profiler: what the threads of the host did, and what they started.

The format is the Chrome trace of Kineto (`profile.export_chrome_trace`), in which times are in microseconds. Operators
of a thread are nested; here they become pieces, which follow each other: a piece ends where it starts something on a
device or in another thread, so that what it starts can wait for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyxsim.chakra.stream import opened
from pyxsim.errors import InputError
from pyxsim.workload.pytorch.messages import Message, of_gloo, of_nccl

MOST_BYTES = 1 << 31  # of a file, decompressed
MOST_PACKED = 256  # times its size
MOST_NS = 1 << 60
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
        Whether the host waits here for a device.
    memory
        Whether it copies memory.
    """

    start: int
    end: int
    name: str
    lane: tuple[str, int, int]
    after: Activity | None = None
    message: Message | None = None
    waits: bool = False
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


def _ns(micros: Any, key: str, file: str) -> int:
    good = isinstance(micros, int | float) and not isinstance(micros, bool) and math.isfinite(micros)
    if not good or not 0 <= micros * 1000 <= MOST_NS:
        raise InputError(f"is {micros!r:.40}", file=file, key=key, allowed="microseconds, from 0")
    return int(round(micros * 1000))


def _fill(recording: Recording, events: list[_Event]) -> None:
    """Make activities of events, which are sorted by start, the longest first."""
    started_by: dict[int, Activity] = {}  # correlation of a kernel -> the piece that launches it
    callers: list[tuple[int, Activity, _Event]] = []  # Record function id of an operator of c10d
    correlations = {event.number("correlation") for event in events if event.kind in _DEVICE}
    threads: dict[tuple[str, str], list[_Event]] = {}
    for event in events:
        if event.kind == "cpu_op" or event.kind in _RUNTIME:
            threads.setdefault((event.process, event.thread), []).append(event)
    for number, own in enumerate(threads.values()):
        for piece, cause in _pieces(own, ("host", 0, number), correlations):
            recording.host.append(piece)
            if cause is not None and cause.kind == "cpu_op":
                callers.append((cause.number("Record function id") or 0, piece, cause))
            elif cause is not None:
                started_by[cause.number("correlation") or 0] = piece
    recording.host.sort(key=lambda piece: (piece.start, piece.end))
    callers.sort(key=lambda caller: caller[0])
    lanes: dict[tuple[str, str], int] = {}
    for event in events:
        if event.kind in _DEVICE:
            place = event.number("device") or 0, event.number("stream") or 0
            launched = started_by.get(event.number("correlation") or -1)
            memory = event.kind != "kernel"
            message = None if memory else of_nccl(event.name, event.args)
            recording.device.append(
                Activity(event.start, event.end, event.name, ("device", *place), launched, message, memory=memory)
            )
        elif event.kind == "user_annotation" and event.name.startswith("gloo:"):
            before = [caller for caller in callers if caller[0] < (event.number("Record function id") or 0)]
            piece = before[-1][1] if before else None
            caller, call = (before[-1][2].name, before[-1][2].args) if before else ("", {})
            message = of_gloo(event.name, event.args, caller, call)
            lane = ("gloo", 0, lanes.setdefault((event.process, event.thread), len(lanes)))
            recording.others.append(Activity(event.start, event.end, event.name, lane, piece, message))


def _pieces(
    events: list[_Event], lane: tuple[str, int, int], correlations: set[int | None]
) -> Iterator[tuple[Activity, _Event | None]]:
    """Yield the pieces of a thread, each with the event that starts something at its end.

    Outermost events are what follows each other; those inside them are where they are cut.
    """
    place = 0
    while place < len(events):
        outer, cuts = events[place], []
        end = outer.end
        while place < len(events) and events[place].start < max(end, outer.start + 1):
            event = events[place]
            starts = event.name.startswith("c10d::") if event.kind == "cpu_op" else False
            starts |= event.kind in _RUNTIME and event.number("correlation") in correlations
            if starts or _WAITS.match(event.name):
                cuts.append(event)
            end = max(end, event.end)
            place += 1
        at = outer.start
        for cut in cuts:
            if _WAITS.match(cut.name):
                if cut.start > at:
                    yield Activity(at, cut.start, outer.name, lane), None
                begin = max(at, cut.start)
                yield Activity(begin, max(begin, cut.end), cut.name, lane, waits=True), None
                at = max(begin, cut.end)
            else:
                until = max(at, cut.end)
                yield Activity(at, until, outer.name, lane), cut
                at = until
        if end > at or not cuts:
            yield Activity(at, end, outer.name, lane), None
