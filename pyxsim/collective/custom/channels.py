"""Channels: the order in which formats without windows, and threads that execute steps in order, keep to a schedule.

A *channel* is a sequence of messages between two ranks, or of local steps of one rank, that are executed in order: each
of them also waits for what the earlier ones wait for. That changes nothing if a message waits for all of that anyway,
so a message joins a channel only if everything that the channel has waited for must have happened when the message may
leave. Messages of a channel arrive in order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pyxsim.collective.compiled import CompiledSchedule


def awaited(s: CompiledSchedule) -> list[tuple[int, ...]]:
    """Return the messages that each message waits for, with windows turned into such waits.

    A window makes a send wait for a number of messages, whichever. Here it waits for the last of that many in the order
    of the schedule: its rank still has no more unanswered messages than the window allows.
    """
    waits = [tuple(s.waits_for(m).tolist()) for m in range(len(s))]
    ptr, ids = s.receives
    for m in np.flatnonzero(s.need).tolist():
        rank = s.src[m]
        own_messages = ids[ptr[rank] : ptr[rank + 1]]
        last = int(own_messages[~s.local[own_messages]][s.need[m] - 1])
        if last not in waits[m]:
            waits[m] = (*waits[m], last)
    return waits


@dataclass
class _Channel:
    """One channel of a pair of ranks. Sets of messages are bit masks over the messages that others wait for.

    `waited`: the messages that must have arrived when its last one leaves; `over`: when that one arrives.
    """

    number: int
    waited: int = 0
    over: int = 0


def channels(s: CompiledSchedule, waits: list[tuple[int, ...]], limit: int) -> tuple[list[int], list[int]]:
    """Return the channel of each message, numbered per pair of ranks, and the messages that wait for too much.

    The latter exist only where a pair of ranks would need more channels than `most`.
    """
    chosen, late = list[int](), list[int]()
    pairs: defaultdict[tuple[int, int], list[_Channel]] = defaultdict(list)
    over: dict[int, int] = {}  # what has arrived for certain when a message has; for those that others wait for
    wanted = np.zeros(len(s), dtype=bool)
    wanted[[m for waiting in waits for m in waiting]] = True
    known: dict[tuple[int, ...], int] = {(): 0}
    for m, (src, dst) in enumerate(zip(s.src.tolist(), s.dst.tolist(), strict=True)):
        if waits[m] not in known:
            before = 0
            for each in waits[m]:
                before |= over[each]
            known[waits[m]] = before
        before, there = known[waits[m]], pairs[src, dst]
        fitting = [channel for channel in there if not channel.waited & ~before]
        if fitting:
            channel = max(fitting, key=lambda each: each.waited.bit_count())
        elif src == dst or len(there) < limit:
            channel = _Channel(len(there))
            there.append(channel)
        else:
            channel = min(there, key=lambda each: (each.waited & ~before).bit_count())
            late.append(m)
        channel.waited |= before
        if wanted[m]:
            channel.over |= channel.waited | 1 << len(over)
            over[m] = channel.over
        chosen.append(channel.number)
    return chosen, late
