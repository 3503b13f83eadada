"""Reads one trace of the PyTorch profiler: what the threads of the host did, and what they started.

The format is the Chrome trace of Kineto (`profile.export_chrome_trace`), in which times are in microseconds. Operators
of a thread are nested; here they become pieces, which follow each other: a piece ends where it starts something on a
device or in another thread, so that what it starts can wait for it.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.chakra.stream import MAX_MESSAGE, opened
from pyxsim.errors import InputError
from pyxsim.workload.pytorch.events import NOT_TOLD, TRACE, Events, Kind, NotJson
from pyxsim.workload.pytorch.lanes import DEVICE, GLOO, HOST, NO_TIME, NOTHING, pieces
from pyxsim.workload.pytorch.messages import Message, of_gloo, of_nccl

MOST_BYTES = 1 << 31  # of a file, decompressed
MOST_PACKED = 256  # times its size
_PIECE = 1 << 18  # bytes read at a time
_RECORD = "Record function id"
_CALLS = re.compile("c10d::")
_WAITS = re.compile(r"(cuda|hip)(Device|Stream|Event|Ctx)Synchronize|(cuda|hip)Memcpy$")


@dataclass(frozen=True)
class Recording:
    """The trace of one rank as activities, one row each: those of the host, of gloo and of devices, each by start.

    Something with a start and an end (ns) that follows what comes before it in its lane, a thread or a stream.

    Attributes
    ----------
    groups
        The ranks of process groups, by name.
    kind
        HOST, DEVICE or GLOO.
    after
        The piece of the host that started it; -1 on the host, and if it is not known.
    waits
        Of which kind the host waits for activities here; NOTHING for none.
    copies
        Whether it copies memory.
    messages
        What activities communicate, by row; the others compute.
    """

    file: str
    rank: int
    ranks: int
    groups: dict[str, tuple[int, ...]]
    start: IntArray
    end: IntArray
    name: Int32Array
    kind: NDArray[np.uint8]
    lane: Int32Array
    after: IntArray
    waits: NDArray[np.uint8]
    copies: NDArray[np.bool_]
    messages: dict[int, Message]
    names: list[str]

    def label(self, row: int) -> str:
        """Return the name of an activity."""
        name: str = self.names[int(self.name[row])]
        return name


def read(file: str, rank: int) -> Recording:
    """Read a trace, also one packed with gzip, piece by piece. Raises InputError; `rank`: that of its name."""
    events = Events(file)
    with opened(file) as stream:
        try:
            _feed(stream, events, file)
        except (OSError, EOFError) as error:
            raise InputError(f"cannot be read: {error}", file=file, allowed=TRACE) from error
    if not events.listed:
        raise InputError("has no list traceEvents", file=file, allowed=TRACE)
    rank, ranks, groups = _head(events.head, file, rank)
    found = _Sorted(events, file)
    if not np.isin(found.kind, (Kind.OPERATOR, Kind.KERNEL, Kind.COPY)).any():
        raise InputError("has no operator", file=file, allowed="a profile with ProfilerActivity.CPU")
    return _recording(found, file, rank, ranks, groups)


def _feed(stream: BinaryIO, events: Events, file: str) -> None:
    most = min(MOST_BYTES, MOST_PACKED * Path(file).stat().st_size)
    decoder = codecs.getincrementaldecoder("utf-8")()
    held, read = b"", 0
    while True:
        piece = stream.read(max(_PIECE, len(held)))  # an event that is longer is scanned again: twice as much of it
        read += len(piece)
        if read > most:
            raise InputError("is too large", file=file, allowed=f"at most {most} bytes")
        try:
            if not piece.isascii() or decoder.getstate()[0] or not piece:
                decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise InputError("is not JSON: it is not UTF-8", file=file, allowed=TRACE) from None
        text = held + piece
        if read == len(piece):
            text = text.removeprefix(codecs.BOM_UTF8)
        try:
            held = text[events.feed(text, not piece) :]
        except NotJson as error:
            raise InputError(f"is not JSON: {_placed(error, file)}", file=file, allowed=TRACE) from None
        if not piece:
            return
        if len(held) > MAX_MESSAGE:
            raise InputError("has an event that is too large", file=file, allowed=f"at most {MAX_MESSAGE} bytes")


def _placed(error: NotJson, file: str) -> str:
    """The fault with its place, as Python's json names it. The file is read once more, up to there."""
    line, column, left = 1, 1, error.at
    with opened(file) as stream:
        while left > 0 and (piece := stream.read(min(left, _PIECE))):
            left -= len(piece)
            line += piece.count(b"\n")
            newline = piece.rfind(b"\n")
            column = column + len(piece) if newline < 0 else len(piece) - newline
    return f"{error}: line {line} column {column} (char {error.at})"


def _head(told: Any, file: str, rank: int) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    """The rank, the number of ranks and the process groups."""
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
    return own, ranks, groups or {"0": tuple(range(ranks))}


class _Sorted:
    """The events, the earliest first and of these the longest."""

    def __init__(self, events: Events, file: str) -> None:
        self._file = file
        columns = events.columns()
        order = np.lexsort((-columns[1], columns[0]))
        start, end, correlation, name, lane, kind = columns
        self.start, self.end, self.correlation = start[order], end[order], correlation[order]
        self.name, self.lane, self.kind = name[order], lane[order], kind[order]
        self.names = events.names
        kept = np.array(list(events.args), np.int64)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        self._args = dict(zip(places[kept].tolist(), events.args.values(), strict=True))
        self.told = np.sort(places[kept])  # rows of events that may communicate
        self.gloo = np.flatnonzero(self.kind == Kind.GLOO)

    def of_kind(self, *kinds: Kind) -> IntArray:
        """Rows of these kinds, in order."""
        return np.flatnonzero(np.isin(self.kind, kinds))

    def args(self, row: int) -> dict[str, Any]:
        """The arguments of an event that may communicate."""
        try:
            told = json.loads(self._args.get(row) or b"{}")
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not JSON: {error}", file=self._file, allowed=TRACE) from None
        return told if isinstance(told, dict) else {}

    def named(self, test: re.Pattern[str], rows: IntArray) -> NDArray[np.bool_]:
        """Whether the names of events begin as `test` says."""
        of_name = np.array([test.match(name) is not None for name in self.names], np.bool_)
        return of_name[self.name[rows]]

    @cached_property
    def causes(self) -> IntArray:
        """What started each kernel and each collective of gloo; -1 for what nothing is known to have started.

        A kernel and the call that launches it have the same correlation. Records of gloo are numbered after those of
        the operators of c10d that make them, if an ExecutionTraceObserver numbers them; otherwise, the first operator
        that is left with a tensor of the same shape is taken.
        """
        causes = np.full(len(self.kind), -1, np.int64)
        of_device, launches = self.of_kind(Kind.KERNEL, Kind.COPY), self.of_kind(Kind.RUNTIME)
        launches = launches[self.correlation[launches] != NOT_TOLD]
        by_number = launches[np.argsort(self.correlation[launches], kind="stable")]
        numbers, wanted = self.correlation[by_number], self.correlation[of_device]
        place = np.searchsorted(numbers, wanted, side="right") - 1  # of several launches, the last one
        known = (place >= 0) & (numbers[place] == wanted) if len(numbers) else np.zeros(len(place), np.bool_)
        causes[of_device[known]] = by_number[place[known]]
        if not len(self.gloo):
            return causes
        calls = self.told[self.kind[self.told] == Kind.OPERATOR]
        args = {row: self.args(row) for row in calls.tolist()}
        numbered = sorted((row for row in args if _record(args[row])), key=lambda row: _record(args[row]))
        records = [_record(args[row]) for row in numbered]
        left: dict[str, deque[int]] = {}
        for row in args:
            if not _record(args[row]):
                left.setdefault(_shape(args[row]), deque()).append(row)
        for row in self.gloo.tolist():
            own = self.args(row)
            if found := bisect_right(records, _record(own)):
                causes[row] = numbered[found - 1]
            elif (queue := left.get(_shape(own))) and self.start[queue[0]] <= self.start[row]:
                causes[row] = queue.popleft()
        return causes


def _recording(found: _Sorted, file: str, rank: int, ranks: int, groups: dict[str, tuple[int, ...]]) -> Recording:
    """Make activities of events."""
    causes, events = found.causes, len(found.kind)
    began = np.full(events, NO_TIME, np.int64)
    caused = np.flatnonzero(causes >= 0)[::-1]
    began[causes[caused]] = found.start[caused]  # of several, the first one is written last
    rows = found.of_kind(Kind.OPERATOR, Kind.RUNTIME)
    lanes = int(found.lane.max()) + 1
    first = np.full(lanes, len(rows), np.int64)
    first[found.lane[rows[::-1]]] = np.arange(len(rows))[::-1]
    turn = np.empty(lanes, np.int32)
    turn[np.argsort(first, kind="stable")] = np.arange(lanes)  # threads in the order in which they began
    thread = turn[found.lane[rows]]
    by_thread = np.argsort(thread, kind="stable")
    rows, thread = rows[by_thread], thread[by_thread]
    start, end, outer, waits, cause = pieces(
        thread,
        found.start[rows],
        found.end[rows],
        found.named(_WAITS, rows).astype(np.uint8),
        found.named(_CALLS, rows).astype(np.uint8),
        began[rows],
        np.sort(found.end[found.gloo]),
    )
    order = np.lexsort((end, start))
    start, end, outer, waits, cause = (each[order] for each in (start, end, outer, waits, cause))
    piece_of = np.full(events, -1, np.int64)
    piece_of[rows[cause[cause >= 0]]] = np.flatnonzero(cause >= 0)
    # After the pieces of the host come the collectives of gloo, then what the devices did.
    others, devices = found.gloo, found.of_kind(Kind.KERNEL, Kind.COPY)
    more = np.concatenate([others, devices])
    host, count = len(start), len(start) + len(more)
    kind = np.repeat(np.array([HOST, GLOO, DEVICE], np.uint8), [host, len(others), len(devices)])
    lane = np.concatenate([thread[outer], lanes + found.lane[others], 2 * lanes + found.lane[devices]])
    after = np.full(count, -1, np.int64)
    after[host:] = np.where(causes[more] >= 0, piece_of[causes[more]], -1)
    names, name = list(found.names), np.concatenate([found.name[rows[outer]], found.name[more]])
    waiting = np.flatnonzero(waits != NOTHING)
    numbers, which = np.unique(name[waiting], return_inverse=True)
    name[waiting] = len(names) + which.ravel()
    names += [f"wait in {names[number]}" for number in numbers.tolist()]
    messages = {}
    for row in np.flatnonzero(np.isin(more, found.told)).tolist():
        if (message := _message(found, int(more[row]), int(causes[more[row]]))) is not None:
            messages[host + row] = message
    copies = np.zeros(count, np.bool_)
    copies[host:] = found.kind[more] == Kind.COPY
    return Recording(
        file,
        rank,
        ranks,
        groups,
        np.concatenate([start, found.start[more]]),
        np.concatenate([end, found.end[more]]),
        name,
        kind,
        lane.astype(np.int32),
        after,
        np.concatenate([waits, np.full(len(more), NOTHING, np.uint8)]),
        copies,
        messages,
        names,
    )


def _message(found: _Sorted, row: int, cause: int) -> Message | None:
    """What a kernel of NCCL or a record of gloo communicates."""
    name, args = found.names[found.name[row]], found.args(row)
    if found.kind[row] == Kind.KERNEL:
        return of_nccl(name, args)
    if cause < 0:
        return of_gloo(name, args, "", {})
    return of_gloo(name, args, found.names[found.name[cause]], found.args(cause))


def _shape(args: dict[str, Any]) -> str:
    """The shape of the first tensor, also of a list of tensors."""
    dims = args.get("Input Dims")
    while isinstance(dims, list) and dims and isinstance(dims[0], list):
        dims = dims[0]
    return str(dims)


def _record(args: dict[str, Any]) -> int:
    number = args.get(_RECORD)
    return number if isinstance(number, int) and not isinstance(number, bool) else 0
