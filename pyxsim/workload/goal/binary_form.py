"""The binary form of GOAL, which LogGOPSim's txt2bin writes. All numbers are little-endian and unaligned.

    u64 magic, u32 ranks, u8 highest CPU, u8 highest NIC, per rank u64 begin and u64 end of its block
    per rank: u32 operations, u32 those without dependencies, these as u32, the operations, the dependents as u32

Begins and ends count from after the magic. The dependents of an operation are a part of the last table: those that wait
for its end, and those that wait for its start. Source of the format: LogGOPSim, Parser.hpp (serialize_mmap).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.workload.goal.schedule import ANY, Op, Rank, Schedule, rank_of

MAGIC = (4223).to_bytes(8, "little")
USED_UP = (2342).to_bytes(8, "little")
"""The magic of a file that LogGOPSim has changed (--save-mem)."""

_OPERATION = np.dtype(
    {
        "names": ["waits", "kind", "peer", "size", "tag", "cpu", "nic", "enders", "end_at", "starters", "start_at"],
        "formats": ["<u4", "u1", "<u4", "<u8", "<u4", "u1", "u1", "<u4", "<u4", "<u4", "<u4"],
        "offsets": [0, 4, 5, 9, 17, 21, 22, 23, 27, 31, 35],
        "itemsize": 39,
    }
)
_JUMP = np.dtype("<u8")
_WORD = np.dtype("<u4")
_HEAD = 4 + 1 + 1


def read_binary(stream: BinaryIO, file: str) -> Schedule:
    """Return the schedule of a binary file, open after its magic. Raises InputError, also while its ranks are read."""
    length = os.fstat(stream.fileno()).st_size - len(MAGIC)
    head = stream.read(_HEAD)
    count = int.from_bytes(head[:4], "little")
    if len(head) < _HEAD or not 0 < count < ANY or _HEAD + 16 * count > length:
        problem = f"{count} ranks do not fit the file" if len(head) == _HEAD else "ends in its header"
        raise InputError(problem, file=file, allowed="a whole file of txt2bin")
    jumps = np.frombuffer(stream.read(16 * count), _JUMP).reshape(count, 2)

    def ranks() -> Iterator[Rank]:
        room = length  # blocks must not overlap: this bounds memory and time
        for number, (begin, end) in enumerate(jumps.tolist()):
            if not _HEAD + 16 * count <= begin < end <= length or end - begin > room:
                problem = f"the block of rank {number}, bytes {begin} to {end}, is not within the file"
                raise InputError(problem, file=file, allowed="a whole file of txt2bin")
            room -= end - begin
            stream.seek(len(MAGIC) + begin)
            yield _rank(number, count, stream.read(end - begin), file)

    return Schedule(count, ranks())


def _rank(number: int, count: int, block: bytes, file: str) -> Rank:
    """The rank of a block."""

    def fault(problem: str, allowed: str | None = None) -> InputError:
        return InputError(f"rank {number}: {problem}", file=file, allowed=allowed)

    total, free = int.from_bytes(block[:4], "little"), int.from_bytes(block[4:8], "little")
    rest = len(block) - 8 - 4 * free - _OPERATION.itemsize * total
    if rest < 0 or rest % 4:
        raise fault(f"{total} operations do not fit the {len(block)} bytes of the block")
    roots = np.frombuffer(block, _WORD, free, 8)
    rows = np.frombuffer(block, _OPERATION, total, 8 + 4 * free)
    table = np.frombuffer(block, _WORD, rest // 4, len(block) - rest)
    if (strange := ~np.isin(rows["kind"], list(Op))).any():
        kind = rows["kind"][strange.argmax()]
        raise fault(f"operation {strange.argmax()} is of kind {kind}", "1 (send), 2 (recv), 3 (calc)")
    message = rows["kind"] != Op.CALC
    wrong = message & (rows["peer"] >= count) & ~((rows["peer"] == ANY) & (rows["kind"] == Op.RECV))
    if wrong.any():
        peer = rows["peer"][wrong.argmax()]
        raise fault(f"operation {wrong.argmax()}: there is no rank {peer}", f"ranks 0 to {count - 1}")
    at_end = _dependents(rows["enders"], rows["end_at"], table, fault)
    at_start = _dependents(rows["starters"], rows["start_at"], table, fault)
    after = np.concatenate([at_end[0], at_start[0]])
    before = np.concatenate([at_end[1], at_start[1]])
    starts = np.repeat([False, True], [len(at_end[0]), len(at_start[0])])
    if len(after) and after.max() >= total:
        raise fault(f"operation {after.max()} is a dependent, but does not exist", f"operations 0 to {total - 1}")
    waits = np.bincount(after, minlength=total)
    if (wrong := waits != rows["waits"]).any():
        at = int(wrong.argmax())
        raise fault(f"operation {at} has {rows['waits'][at]} dependencies, but {waits[at]} operations name it")
    if not np.array_equal(np.sort(roots), np.flatnonzero(waits == 0)):
        raise fault("the list of operations without dependencies is wrong", f"{np.count_nonzero(waits == 0)} of them")
    peer = np.where(message, rows["peer"], 0).astype(np.uint32)
    tag = np.where(message, rows["tag"], 0).astype(np.uint32)
    nic = np.where(message, rows["nic"], 0).astype(np.uint8)
    columns = (rows["kind"].copy(), rows["size"].copy(), peer, tag, rows["cpu"].copy(), nic)
    return rank_of(number, columns, (after.astype(np.uint32), before.astype(np.uint32), starts))


def _dependents(
    many: NDArray[np.uint32], place: NDArray[np.uint32], table: NDArray[np.uint32], fault: object
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The dependents of all operations, and on which each depends."""
    assert callable(fault)
    many, place = many.astype(np.int64), place.astype(np.int64)
    beyond = (many > 0) & (place + many > len(table))
    if beyond.any() or many.sum() > len(table):
        at = int(beyond.argmax())
        raise fault(f"the dependents of operation {at} are not within the table of {len(table)}")
    before = np.repeat(np.arange(len(many)), many)
    begin = np.cumsum(many) - many
    return table[np.arange(len(before)) + np.repeat(place - begin, many)], before


def write_binary(schedule: Schedule, stream: BinaryIO) -> int:
    """Write a schedule as txt2bin does; return the number of operations. `stream` must allow to seek."""
    count, start = schedule.count, stream.tell()
    stream.write(MAGIC + bytes(_HEAD + 16 * count))
    jumps = np.zeros((count, 2), _JUMP)
    cpu = nic = operations = 0
    place = _HEAD + 16 * count
    for rank in schedule.ranks:
        block = _block(rank)
        stream.write(block)
        jumps[rank.number] = place, place + len(block)
        place += len(block)
        cpu, nic = (int(column.max(initial=most)) for column, most in ((rank.cpu, cpu), (rank.nic, nic)))
        operations += len(rank)
    stream.seek(start + len(MAGIC))
    stream.write(count.to_bytes(4, "little") + bytes((cpu, nic)) + jumps.tobytes())
    return operations


def _block(rank: Rank) -> bytes:
    rows = np.zeros(len(rank), _OPERATION)
    for name in ("kind", "peer", "size", "tag", "cpu", "nic"):
        rows[name] = getattr(rank, name)
    rows["waits"] = np.bincount(rank.after, minlength=len(rank))
    rows["enders"] = np.bincount(rank.before[~rank.at_start], minlength=len(rank))
    rows["starters"] = np.bincount(rank.before[rank.at_start], minlength=len(rank))
    many = np.stack([rows["enders"], rows["starters"]], axis=1).ravel().astype(np.int64)
    begin = (np.cumsum(many) - many).reshape(-1, 2)
    rows["end_at"], rows["start_at"] = begin[:, 0], begin[:, 1]
    roots = np.flatnonzero(rows["waits"] == 0).astype(_WORD)
    head = np.array([len(rank), len(roots)], _WORD)
    return b"".join(each.tobytes() for each in (head, roots, rows, rank.after.astype(_WORD)))
