"""Records of the engine as numpy arrays: launches, notes, deliveries, waits."""

import numpy as np

from libc.stdint cimport int64_t

from pyxsim.core.latency.latency_records cimport BY_FAULT, MOST_TAGS, PARTS, StayRow, WaitEntry
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Arrival, Launch
from pyxsim.core.state.sorting cimport sort_numbers

from pyxsim.core.engine_options import EVENTS

ARRIVAL_COLUMNS = ("serial", "klass", "at", "first", "last", "hops", "packets", "flits")
WAIT_COLUMNS = ("link", "victim", "culprit", "cause", "cycles", "packets")


cdef object launches(State* s):
    """Rows (cycle, link, vc, message, packet, flit), sorted by (cycle, link)."""
    cdef int64_t i
    cdef Launch* entry
    rows = np.empty((s.trace.launch_count, 6), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.trace.launch_count):
        entry = &s.trace.launches[i]
        view[i, 0], view[i, 1], view[i, 2] = entry.cycle, entry.link, entry.vc
        view[i, 3], view[i, 4], view[i, 5] = entry.message, entry.packet, entry.flit
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


cdef list notes(State* s):
    """Rows (cycle, event, link, vc, flit) of the watched packet, sorted by cycle."""
    cdef int64_t i
    rows = [(s.trace.notes[i].cycle, EVENTS[s.trace.notes[i].what], s.trace.notes[i].link, s.trace.notes[i].vc,
            s.trace.notes[i].flit)
            for i in range(s.trace.note_count)]
    return sorted(rows, key=lambda row: row[0])


cdef tuple take_delivered(State* s):
    """Messages delivered since the last call, sorted by (cycle, message): their numbers and cycles, int64."""
    cdef int64_t i
    cdef int64_t begin = 0
    cdef int64_t count = 0 if s.config.recycling else s.arrivals.delivered_count
    cdef bint in_time = True
    messages, cycles = np.empty(count, np.int64), np.empty(count, np.int64)
    cdef int64_t[::1] message = messages
    cdef int64_t[::1] cycle = cycles
    # They are in order of the cycle, except that those of partitions come partition by partition.
    for i in range(1, count + 1):
        if i == count or s.arrivals.delivered_at[i] != s.arrivals.delivered_at[begin]:
            sort_numbers(&s.arrivals.delivered[begin], i - begin)
            in_time &= i == count or s.arrivals.delivered_at[i] > s.arrivals.delivered_at[begin]
            begin = i
    for i in range(count):
        message[i], cycle[i] = s.arrivals.delivered[i], s.arrivals.delivered_at[i]
    s.arrivals.delivered_count = 0
    if in_time:
        return messages, cycles
    order = np.lexsort((messages, cycles))
    return messages[order], cycles[order]


cdef dict arrivals(State* s):
    """Messages that arrived since the last call, sorted by (last, serial)."""
    cdef int64_t i, part
    cdef Arrival* entry
    rows = np.empty((s.arrivals.record_count, len(ARRIVAL_COLUMNS) + PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.arrivals.record_count):
        entry = &s.arrivals.records[i]
        view[i, 0], view[i, 1], view[i, 2], view[i, 3] = entry.serial, entry.klass, entry.at, entry.first
        view[i, 4], view[i, 5], view[i, 6], view[i, 7] = entry.last, entry.hops, entry.packets, entry.flits
        for part in range(PARTS):
            view[i, 8 + part] = entry.parts[part]
    s.arrivals.record_count = 0
    rows = rows[np.lexsort((rows[:, 0], rows[:, 4]))]
    columns = {name: rows[:, place].copy() for place, name in enumerate(ARRIVAL_COLUMNS)}
    if s.config.attribution:
        columns["parts"] = rows[:, len(ARRIVAL_COLUMNS) :].copy()
    return columns


cdef dict waits(State* s):
    """The table of waits, sorted by link, victim, culprit and cause."""
    cdef int64_t i, part
    cdef int64_t count = 0
    cdef WaitEntry* entry
    table = np.empty((s.latency.table_count, 1 + 2 * PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = table
    for i in range(s.latency.table_capacity):
        entry = &s.latency.table[i]
        if entry.key:
            view[count, 0] = entry.key - 1
            for part in range(PARTS):
                view[count, 1 + part], view[count, 1 + PARTS + part] = entry.cycles[part], entry.packets[part]
            count += 1
    table = table[np.argsort(table[:, 0])]
    cycles, packets = table[:, 1 : 1 + PARTS], table[:, 1 + PARTS :]
    row, cause = np.nonzero(cycles)
    key, culprit = np.divmod(table[row, 0], MOST_TAGS + 2)
    link, victim = np.divmod(key, MOST_TAGS)
    columns = (link, victim, culprit + BY_FAULT, cause, cycles[row, cause], packets[row, cause])
    return dict(zip(WAIT_COLUMNS, columns, strict=True))


cdef object splits(State* s):
    """The parts of the latency of each message, by message number; -1 where it is not delivered."""
    cdef int64_t i, part
    rows = np.full((s.stats.messages_sent, PARTS), -1, dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.stats.messages_sent):
        if s.pools.messages[i].last >= 0:
            for part in range(PARTS):
                view[i, part] = s.latency.messages[i].parts[part]
    return rows


cdef object stays(State* s):
    """Rows (message, packet, link, parts), sorted by message and packet, then along the route."""
    cdef int64_t i, part
    cdef StayRow* entry
    rows = np.empty((s.latency.log_count, 3 + PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.latency.log_count):
        entry = &s.latency.log[i]
        view[i, 0], view[i, 1], view[i, 2] = entry.message, entry.packet, entry.link
        for part in range(PARTS):
            view[i, 3 + part] = entry.parts[part]
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]
