"""What every message of a schedule must wait for, derived from the order in which the messages are written.

A *cell* is one block at one rank. A send reads its cells when it leaves, a message writes its cells when it arrives.
A read waits for the earlier writes of the same cell, back to the last one that stores (and does not add). The messages
of one step are independent. A local step also waits for earlier writes into its target cells.

Sorted keys replace a table of cells: an all-to-all on 256 ranks has 16 million of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.collective.arrays import I32, I64, Bools, pointers, ranges


@dataclass(frozen=True)
class Gates:
    """What messages wait for. A gate is a set of messages that must have arrived; several messages may share it.

    `of`: int32[M], the gate of each message, -1 for none; `ptr`, `ids`: the messages of each gate (CSR).
    """

    of: I32
    ptr: I64
    ids: I32


def slots(step: I32) -> tuple[I64, I64]:
    """Return the positions of all reads and all writes in one order, 0 .. 2M-1, int64[M] each.

    In each step, all reads come before all writes. `step` (int32[M]) must not decrease.
    """
    message = np.arange(len(step), dtype=np.int64)
    ends = np.flatnonzero(np.diff(step, append=step[-1:] + 1)) + 1
    lengths = np.diff(ends, prepend=0)
    return message + np.repeat(ends - lengths, lengths), message + np.repeat(ends, lengths)


def gates(
    src: I32, dst: I32, reduce: Bools, step: I32, block_ptr: I64, block_ids: I32, put_ids: I32, cells: int
) -> Gates:
    """Return the gate of every message. Sends that wait for the same arrivals at the same cell share one."""
    count = len(src)
    carried = np.diff(block_ptr)
    message = np.repeat(np.arange(count, dtype=np.int32), carried)
    local = src == dst
    itself = local[message]
    read_slot, write_slot = slots(step)
    bits = (2 * count).bit_length()
    keys = np.concatenate([src[message], dst[message], src[message[itself]]]).astype(np.int64) * cells
    keys += np.concatenate([block_ids, put_ids, put_ids[itself]])
    keys <<= bits
    keys |= np.concatenate([read_slot[message], write_slot[message], read_slot[message[itself]]])
    keys.sort()
    at_slot = np.empty(2 * count, dtype=np.int32)
    at_slot[read_slot] = np.arange(count)
    at_slot[write_slot] = np.arange(count)
    writes_at = np.zeros(2 * count, dtype=bool)
    writes_at[write_slot] = True
    slot = keys & ((1 << bits) - 1)
    cell = keys >> bits
    event, writes = at_slot[slot], writes_at[slot]
    writers = event[writes]
    # `last`: number of writes before a position. `first`: the first write that counts.
    last = np.cumsum(writes, dtype=np.int32) - writes
    begins = np.empty(len(cell), dtype=bool)
    begins[:1] = True
    begins[1:] = cell[1:] != cell[:-1]
    begins |= writes & ~reduce[event]
    first = np.maximum.accumulate(np.where(begins, last, 0))
    waits = ~writes & (last > first)
    return _shared(event[waits], first[waits], last[waits], writers, carried + local)


def _shared(reader: I32, first: I64, last: I64, writers: I32, carried: I64) -> Gates:
    """Gates from reads: message reader[i] waits for writers[first[i]:last[i]]; carried: blocks per message."""
    count = len(carried)
    of = np.full(count, -1, dtype=np.int32)
    # One block: consecutive reads of a cell that see the same writes share a gate.
    single = carried[reader] == 1
    readers, low, high = reader[single], first[single], last[single]
    new = np.ones(len(readers), dtype=bool)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    of[readers] = np.cumsum(new) - 1
    low, lengths = low[new], (high - low)[new]
    # Several blocks: a gate of its own, the union over the blocks.
    readers, lengths_many = reader[~single], (last - first)[~single]
    pairs = np.repeat(readers.astype(np.int64), lengths_many) * count + writers[ranges(first[~single], lengths_many)]
    pairs = np.unique(pairs)
    many, waits_for = np.divmod(pairs, max(count, 1))
    readers, sizes = np.unique(many, return_counts=True)
    of[readers] = len(low) + np.arange(len(readers))
    ids = np.concatenate([writers[ranges(low, lengths)], waits_for])
    return Gates(of, pointers(np.concatenate([lengths, sizes])), ids.astype(np.int32))


def explicit_gates(src: Sequence[int], waits: Sequence[Collection[int]]) -> Gates:
    """Return gates for waits given per message; equal waits of a rank share one."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    of = [
        numbers.setdefault((rank, tuple(sorted(set(awaited)))), len(numbers)) if awaited else -1
        for rank, awaited in zip(src, waits, strict=True)
    ]
    lists = [awaited for _, awaited in numbers]
    flat = np.array([m for awaited in lists for m in awaited], dtype=np.int32)
    return Gates(np.array(of, dtype=np.int32), pointers(np.array([len(a) for a in lists], dtype=np.int64)), flat)


def window_needs(src: I32, dst: I32, step: I32, n: int, window: int, kept: Bools) -> I32:
    """Return how many messages a rank must have received before each of its sends: int32[M].

    The k-th send waits for k - window + 1 receptions, but never for more than precede it in the schedule: so sending in
    that order is always possible, and no window can deadlock a schedule. Of the receptions that a send would wait for,
    only the `kept` messages count; the others have no bytes.
    """
    count = len(src)
    read_slot, write_slot = slots(step)
    # Per rank, all its sends and receptions in order, as sorted keys: rank, slot, whether it is a reception.
    bits = (2 * count).bit_length()
    rank = np.concatenate([src, dst]).astype(np.int64)
    keys = rank << (bits + 1) | np.concatenate([read_slot << 1, write_slot << 1 | 1])
    keys.sort()
    is_send = (keys & 1) == 0
    rank, slot = keys >> (bits + 1), keys >> 1 & ((1 << bits) - 1)
    begin = np.searchsorted(rank, np.arange(n))[rank]
    arrived = np.cumsum(~is_send) - ~is_send  # earlier receptions of all ranks: keys are sorted by rank
    received = arrived - arrived[begin]
    sent = np.arange(len(keys)) - begin - received
    needed = np.clip(np.minimum(sent - window + 1, received), 0, None)[is_send]
    message = np.empty(2 * count, dtype=np.int32)
    message[read_slot] = message[write_slot] = np.arange(count)
    real = np.concatenate([[0], np.cumsum(kept[message[slot[~is_send]]])])  # prefix sums of the kept ones
    base = arrived[begin][is_send]
    need = np.empty(count, dtype=np.int32)
    need[message[slot[is_send]]] = real[base + needed] - real[base]
    return need
