"""In which order formats that know no windows, and threads that execute one step after the other, keep to a schedule.

A *channel* is a sequence of messages from one rank to another, or of local steps of one rank, that are executed in
their order: each of them waits for whatever those before it wait for. That changes nothing where a message waits for
all of that anyway. So a message joins a channel only if everything that the channel has waited for is known to have
happened when the message may leave. Two messages of a channel arrive in their order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pyxsim.collective.compiled import CompiledSchedule


def awaited(s: CompiledSchedule) -> list[tuple[int, ...]]:
    """The messages that each message waits for. A window becomes one of them.

    A window has a send wait until so many messages have come, whichever they are. Here it is the last of so many in the
    order of the schedule: its rank still has no more messages on their way unanswered than the window allows.
    """
    found = [tuple(s.waits_for(m).tolist()) for m in range(len(s))]
    ptr, ids = s.receives
    for m in np.flatnonzero(s.need).tolist():
        rank = s.src[m]
        taken = ids[ptr[rank] : ptr[rank + 1]]
        last = int(taken[~s.local[taken]][s.need[m] - 1])
        if last not in found[m]:
            found[m] = (*found[m], last)
    return found


@dataclass
class _Channel:
    """The channel of a pair of ranks with this number. Sets of messages are bits, for those that others wait for.

    `waited`: the messages that have arrived for certain when its last one leaves; `over`: when that one arrives.
    """

    number: int
    waited: int = 0
    over: int = 0


def channels(s: CompiledSchedule, waits: list[tuple[int, ...]], most: int) -> tuple[list[int], list[int]]:
    """The channel of each message, counted for each pair of ranks, and the messages that wait for too much.

    There are none of these, unless a pair of ranks would need more channels than `most`.
    """
    chosen, late = list[int](), list[int]()
    pairs: defaultdict[tuple[int, int], list[_Channel]] = defaultdict(list)
    over: dict[int, int] = {}  # what has arrived for certain when a message has; for those that others wait for
    wanted = np.zeros(len(s), dtype=bool)
    wanted[[each for waiting in waits for each in waiting]] = True
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
        elif src == dst or len(there) < most:
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
