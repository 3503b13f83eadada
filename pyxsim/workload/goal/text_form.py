"""The text form of GOAL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.workload.goal.scanner import Scanner
from pyxsim.workload.goal.schedule import ANY, Op, Rank, Schedule, rank_of

CHUNK = 1 << 20  # bytes read at a time


def read_text(stream: BinaryIO, file: str) -> Schedule:
    """Return the schedule of a text. Raises InputError with the line, also while its ranks are read."""
    scanner = Scanner(file)
    found: list[tuple[int, tuple[NDArray[np.generic], ...]]] = []
    ends = False
    while scanner.count < 0 and not ends:
        chunk = stream.read(CHUNK)
        ends = not chunk
        found += scanner.feed(chunk)
    if scanner.count < 0:
        raise InputError("has no ranks", file=file, allowed="'num_ranks N', then 'rank N { ... }' for each rank")

    def ranks() -> Iterator[Rank]:
        seen: set[int] = set()
        done, last = found, ends
        while True:
            for number, columns in done:
                if number in seen:
                    raise InputError(f"rank {number} occurs twice", file=file, allowed="each rank once")
                seen.add(number)
                kind, size, peer, tag, cpu, nic, after, before, at_start = columns
                of = rank_of(number, (kind, size, peer, tag, cpu, nic), (after, before, at_start.astype(np.bool_)))  # type: ignore[arg-type]
                yield of
            if last:
                break
            chunk = stream.read(CHUNK)
            done, last = scanner.feed(chunk), not chunk
        if len(seen) < scanner.count:
            missing = next(number for number in range(scanner.count) if number not in seen)
            problem = f"{scanner.count} ranks are declared, but rank {missing} is missing"
            raise InputError(problem, file=file, allowed="'rank N { ... }' for each rank, also an empty one")

    return Schedule(scanner.count, ranks())


def write_text(schedule: Schedule, stream: BinaryIO) -> int:
    """Write a schedule as text, with labels l1, l2, ... in each rank; return the number of operations."""
    stream.write(f"num_ranks {schedule.count}\n".encode())
    operations = 0
    for rank in schedule.ranks:
        operations += len(rank)
        stream.write(f"\nrank {rank.number} {{\n".encode())
        for lines in _lines(rank):
            stream.write(lines.encode())
        stream.write(b"}\n")
    return operations


_BLOCK = 1 << 14  # operations written at a time


def _lines(rank: Rank) -> Iterator[str]:
    order = np.lexsort((rank.at_start, rank.before, rank.after))
    after, before, at_start = rank.after[order], rank.before[order], rank.at_start[order]
    # A dependency stands below both of its operations.
    below = np.maximum(after, before)
    order = np.argsort(below, kind="stable")
    after, before, at_start, below = after[order], before[order], at_start[order], below[order]
    for first in range(0, len(rank), _BLOCK):
        last = min(first + _BLOCK, len(rank))
        part = slice(first, last)
        begin, end = np.searchsorted(below, (first, last))
        columns = (rank.kind, rank.size, rank.peer, rank.tag, rank.cpu, rank.nic)
        lines = [
            _operation(number, *row)
            for number, row in enumerate(zip(*(each[part].tolist() for each in columns), strict=True), first + 1)
        ]
        rows = zip(*(each[begin:end].tolist() for each in (below, after, before, at_start)), strict=True)
        for place, waits, earlier, start in rows:
            lines[place - first] += f"l{waits + 1} {'irequires' if start else 'requires'} l{earlier + 1}\n"
        yield "".join(lines)


def _operation(label: int, kind: int, size: int, peer: int, tag: int, cpu: int, nic: int) -> str:
    at = f" cpu {cpu}" if cpu else ""
    if kind == Op.CALC:
        return f"l{label}: calc {size}{at}\n"
    word = "send" if kind == Op.SEND else "recv"
    to = "to" if kind == Op.SEND else "from"
    at += f" nic {nic}" if nic else ""
    return f"l{label}: {word} {size}b {to} {_number(peer)} tag {_number(tag)}{at}\n"


def _number(value: int) -> int:
    return -1 if value == ANY else value
