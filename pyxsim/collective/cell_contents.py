"""Check that messages are possible, and find the blocks whose data they carry.

A rank has cells 0 to blocks-1, where cell b is the place of block b, followed by scratch cells. Usually messages carry
block b from cell b to cell b. Otherwise the content of every cell is followed in the order of the schedule, because a
message has the bytes of the blocks whose data it carries.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I32, Bools
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.schedule import ScheduleError


def check_messages(s: CompiledSchedule, may_be_local: Bools, *, signals: bool = False) -> None:
    """Raise ScheduleError for the first message that n ranks cannot exchange.

    `signals`: messages between ranks may carry nothing.
    """
    lengths = np.diff(s.block_ptr)
    ranks = f"ranks 0 to {s.n - 1}"
    cells = f"blocks 0 to {s.blocks - 1}" if s.cells == s.blocks else f"cells 0 to {s.cells - 1}"
    may_be_empty = s.explicit_waits & (s.local | signals)
    nothing = (lengths == 0) & ~may_be_empty if s.given_bytes is None else s.given_bytes < 0
    for wrong, problem, allowed in (
        ((s.src < 0) | (s.src >= s.n) | (s.dst < 0) | (s.dst >= s.n), "there is no such rank", ranks),
        ((s.src == s.dst) & ~may_be_local, "a rank sends a message to itself", "another rank"),
        (nothing, "the message carries no block", "at least one block"),
        (_beyond(s, s.block_ids) | _beyond(s, s.put_ids), "there is no such block", cells),
        (_twice(s, s.block_ids), "the message carries a block twice", "each block once"),
        (_twice(s, s.put_ids), "the message writes a cell twice", "each cell once"),
        (_apart(s), "the join of the message is not contiguous", "consecutive messages with the same number of blocks"),
    ):
        if wrong.any():
            m = int(np.argmax(wrong))
            place = f"message {m}, {s.src[m]} -> {s.dst[m]} with blocks {_some(s.blocks_of(m))}"
            raise ScheduleError(f"{s}: {place}: {problem}", allowed=allowed, rank=int(s.src[m]))


def _beyond(s: CompiledSchedule, ids: I32) -> Bools:
    wrong = np.zeros(len(s), dtype=bool)
    unknown = np.flatnonzero((ids < 0) | (ids >= s.cells))
    wrong[np.searchsorted(s.block_ptr, unknown, "right") - 1] = True
    return wrong


def _twice(s: CompiledSchedule, ids: I32) -> Bools:
    wrong = np.zeros(len(s), dtype=bool)
    lengths = np.diff(s.block_ptr)
    candidates = lengths > 1
    message = np.repeat(np.flatnonzero(candidates), lengths[candidates])
    keys = np.sort(message * s.cells + ids[np.repeat(candidates, lengths)])
    wrong[keys[1:][keys[1:] == keys[:-1]] // s.cells] = True
    return wrong


def _apart(s: CompiledSchedule) -> Bools:
    """Messages of a join that are not next to its others, or not as long as the previous one."""
    wrong = np.zeros(len(s), dtype=bool)
    joined = np.flatnonzero(s.join >= 0)
    if not len(joined):
        return wrong
    joined = joined[np.argsort(s.join[joined], kind="stable")]
    same = s.join[joined][1:] == s.join[joined][:-1]
    lengths = np.diff(s.block_ptr)[joined]
    apart = (np.diff(joined) != 1) | (np.diff(s.step[joined]) != 0) | (np.diff(lengths) != 0)
    wrong[joined[1:][same & apart]] = True
    return wrong


def contents(s: CompiledSchedule) -> I32:
    """Return the block whose data each carried cell holds, int32, in the order of `block_ids`. Raises ScheduleError."""
    if s.simple:
        _check_joins(s, s.block_ids)
        return s.block_ids
    held: dict[tuple[int, int], int] = {}  # (rank, cell) -> block, where it is not the one of that number
    content = np.empty_like(s.block_ids)
    ptr, src, dst, step = s.block_ptr.tolist(), s.src.tolist(), s.dst.tolist(), s.step.tolist()
    cells, puts, reduce = s.block_ids.tolist(), s.put_ids.tolist(), s.reduce.tolist()
    begin = 0
    while begin < len(s):
        end = begin
        while end < len(s) and step[end] == step[begin]:
            for place in range(ptr[end], ptr[end + 1]):
                content[place] = held.get((src[end], cells[place]), cells[place])
                if content[place] >= s.blocks:
                    _refuse(s, end, f"sends cell {cells[place]}, which is empty", src[end])
            end += 1
        for m in range(begin, end):
            for place in range(ptr[m], ptr[m + 1]):
                block, cell = int(content[place]), (dst[m], puts[place])
                old = held.get(cell, puts[place])
                if reduce[m] and old != block:
                    there = f"block {old}" if old < s.blocks else "nothing"
                    _refuse(s, m, f"adds block {block} to cell {puts[place]}, which holds {there}", dst[m])
                held[cell] = block
        begin = end
    _check_joins(s, content)
    return content


def _check_joins(s: CompiledSchedule, content: I32) -> None:
    """All senders of a join must contribute the same blocks."""
    for m in np.flatnonzero((s.join[1:] >= 0) & (s.join[1:] == s.join[:-1])).tolist():
        one, other = (content[s.block_ptr[i] : s.block_ptr[i + 1]] for i in (m, m + 1))
        if not np.array_equal(one, other):
            problem = f"joins blocks {_some(other)} with blocks {_some(one)} of rank {s.src[m]}"
            _refuse(s, m + 1, problem, int(s.src[m + 1]))


def _refuse(s: CompiledSchedule, m: int, problem: str, rank: int) -> None:
    raise ScheduleError(
        f"{s}: step {s.order[m]} of rank {s.src[m]} (-> {s.dst[m]}) {problem}", rank=rank, step=int(s.order[m])
    )


def _some(numbers: npt.NDArray[np.integer]) -> str:
    text = ", ".join(str(number) for number in numbers[:8])
    return f"{text}, ..." if len(numbers) > 8 else text or "none"
