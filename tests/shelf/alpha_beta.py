"""A network where only the ends are shared, slow and readable: a message of m bytes takes alpha + beta*m.

A rank sends one message at a time and receives one at a time, through a port of its own for every `lane`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable
from itertools import count

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.compiled import CompiledSchedule

START, COME, DONE, SEND = range(4)  # in this order at one time: what has come is known before anything is sent


def simulated(
    s: CompiledSchedule,
    sizes: I64,
    *,
    alpha: int,
    beta: int,
    endpoint: int = 0,
    reduction: int = 0,
    lanes: list[Hashable] | None = None,
) -> int:
    """When the last message has been dealt with. `lanes`: for every message which port of its ends it goes through."""
    nbytes = s.message_bytes(sizes).tolist()
    src, dst, gate, need, join = (a.tolist() for a in (s.src, s.dst, s.gate, s.need, s.join))
    lane = lanes or [None] * len(s)
    left = np.diff(s.gate_ptr).tolist()
    opens_ptr, opens = s.opens
    received = [0] * s.n
    joined: dict[int, list[int]] = defaultdict(list)
    at_join = np.bincount(s.join[s.join >= 0], minlength=1).tolist()
    free_out: dict[Hashable, int] = defaultdict(int)
    free_in: dict[Hashable, int] = defaultdict(int)
    behind_ptr, behind = s.behind
    # Messages that wait for a number of receptions, per rank.
    patient: list[list[tuple[int, int]]] = [[] for _ in range(s.n)]
    queues: dict[Hashable, list[int]] = defaultdict(list)
    number, end, through = count(), 0, 0
    events: list[tuple[int, int, int, Hashable]] = []

    def put(time: int, what: int, about: Hashable) -> None:
        heapq.heappush(events, (time, what, next(number), about))

    def release(m: int, time: int) -> None:
        """The data of a message are there."""
        if received[src[m]] < need[m]:
            heapq.heappush(patient[src[m]], (need[m], m))
        elif src[m] == dst[m]:
            put(time + (reduction if s.reduce[m] else 0), DONE, m)
        else:
            port = (src[m], lane[m])
            heapq.heappush(queues[port], m)
            put(max(time, free_out[port]), SEND, port)

    for m in range(len(s)):
        if gate[m] < 0:
            release(m, endpoint)
    while events:
        time, what, _, about = heapq.heappop(events)
        if what == SEND:
            if free_out[about] <= time and queues[about]:
                m = heapq.heappop(queues[about])
                free_out[about] = time + beta * nbytes[m]
                put(free_out[about], SEND, about)
                put(time + alpha, START, m)
            continue
        assert isinstance(about, int)
        m = about
        if what == START:
            port = (dst[m], lane[m])
            free_in[port] = max(time, free_in[port]) + beta * nbytes[m]
            put(free_in[port], COME, m)
        elif what == COME:
            together = [m]
            if join[m] >= 0:
                joined[join[m]].append(m)
                together = joined[join[m]] if len(joined[join[m]]) == at_join[join[m]] else []
            for each in together:
                put(time + endpoint + (reduction if s.reduce[each] else 0), DONE, each)
        else:
            end, rank, through = time, dst[m], through + 1
            received[rank] += src[m] != rank
            while patient[rank] and patient[rank][0][0] <= received[rank]:
                release(heapq.heappop(patient[rank])[1], time)
            for g in opens[opens_ptr[m] : opens_ptr[m + 1]].tolist():
                left[g] -= 1
                if not left[g]:
                    for each in behind[behind_ptr[g] : behind_ptr[g + 1]].tolist():
                        release(each, time)
    assert through == len(s)
    return end
