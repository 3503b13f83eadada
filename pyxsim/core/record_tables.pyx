"""Records of the engine as numpy arrays: launches, what was noted of a packet, deliveries, waits."""

import numpy as np

from libc.stdint cimport int64_t

from pyxsim.core.latency.latency_records cimport MOST_TAGS, PARTS, StayRow, Waited
from pyxsim.core.state.sorting cimport sort_numbers
from pyxsim.core.state.network_state cimport Arrival, Launch, State

from pyxsim.core.options import EVENTS

ARRIVAL_COLUMNS = ("serial", "klass", "at", "first", "last", "hops", "packets", "flits")
WAIT_COLUMNS = ("link", "victim", "culprit", "cause", "cycles", "packets")


cdef object launches(State* s):
    """Rows (cycle, link, vc, message, packet, flit), in order of (cycle, link)."""
    cdef int64_t i
    cdef Launch* entry
    rows = np.empty((s.log_count, 6), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.log_count):
        entry = &s.log[i]
        view[i, 0], view[i, 1], view[i, 2] = entry.cycle, entry.link, entry.vc
        view[i, 3], view[i, 4], view[i, 5] = entry.message, entry.packet, entry.flit
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


cdef list notes(State* s):
    """Rows (cycle, event, link, vc, flit) of the watched packet, in order of the cycle."""
    cdef int64_t i
    rows = [(s.notes[i].cycle, EVENTS[s.notes[i].what], s.notes[i].link, s.notes[i].vc, s.notes[i].flit)
            for i in range(s.note_count)]
    return sorted(rows, key=lambda row: row[0])


cdef tuple take_delivered(State* s):
    """What was delivered since this was last asked for, in order of (cycle, message): its numbers and cycles, int64."""
    cdef int64_t i
    cdef int64_t begin = 0
    cdef int64_t count = 0 if s.recycling else s.delivered_count
    cdef bint in_time = True
    messages, cycles = np.empty(count, np.int64), np.empty(count, np.int64)
    cdef int64_t[::1] message = messages
    cdef int64_t[::1] cycle = cycles
    # They come cycle by cycle, but for those of parts, which come part by part.
    for i in range(1, count + 1):
        if i == count or s.delivered_at[i] != s.delivered_at[begin]:
            sort_numbers(&s.delivered[begin], i - begin)
            in_time &= i == count or s.delivered_at[i] > s.delivered_at[begin]
            begin = i
    for i in range(count):
        message[i], cycle[i] = s.delivered[i], s.delivered_at[i]
    s.delivered_count = 0
    if in_time:
        return messages, cycles
    order = np.lexsort((messages, cycles))
    return messages[order], cycles[order]


cdef dict arrivals(State* s):
    """Messages that have arrived since this was last asked for, in order of (last, serial)."""
    cdef int64_t i, part
    cdef Arrival* entry
    rows = np.empty((s.arrival_count, len(ARRIVAL_COLUMNS) + PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.arrival_count):
        entry = &s.arrivals[i]
        view[i, 0], view[i, 1], view[i, 2], view[i, 3] = entry.serial, entry.klass, entry.at, entry.first
        view[i, 4], view[i, 5], view[i, 6], view[i, 7] = entry.last, entry.hops, entry.packets, entry.flits
        for part in range(PARTS):
            view[i, 8 + part] = entry.parts[part]
    s.arrival_count = 0
    rows = rows[np.lexsort((rows[:, 0], rows[:, 4]))]
    columns = {name: rows[:, place].copy() for place, name in enumerate(ARRIVAL_COLUMNS)}
    if s.attribution:
        columns["parts"] = rows[:, len(ARRIVAL_COLUMNS) :].copy()
    return columns


cdef dict waits(State* s):
    """The table of waits, in order of link, victim, culprit and cause."""
    cdef int64_t i, part
    cdef int64_t count = 0
    cdef Waited* entry
    table = np.empty((s.books.table_count, 1 + 2 * PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = table
    for i in range(s.books.table_room):
        entry = &s.books.table[i]
        if entry.key:
            view[count, 0] = entry.key - 1
            for part in range(PARTS):
                view[count, 1 + part], view[count, 1 + PARTS + part] = entry.cycles[part], entry.packets[part]
            count += 1
    table = table[np.argsort(table[:, 0])]
    cycles, packets = table[:, 1 : 1 + PARTS], table[:, 1 + PARTS :]
    row, cause = np.nonzero(cycles)
    key, culprit = np.divmod(table[row, 0], MOST_TAGS + 1)
    link, victim = np.divmod(key, MOST_TAGS)
    columns = (link, victim, culprit - 1, cause, cycles[row, cause], packets[row, cause])
    return dict(zip(WAIT_COLUMNS, columns, strict=True))


cdef object splits(State* s):
    """The parts of the latency of each message, in order of their numbers; -1: not delivered."""
    cdef int64_t i, part
    rows = np.full((s.serials, PARTS), -1, dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.serials):
        if s.messages[i].last >= 0:
            for part in range(PARTS):
                view[i, part] = s.books.messages[i].parts[part]
    return rows


cdef object stays(State* s):
    """Rows (message, packet, link, parts) in order of message and packet, and of its way."""
    cdef int64_t i, part
    cdef StayRow* entry
    rows = np.empty((s.books.log_count, 3 + PARTS), dtype=np.int64)
    cdef int64_t[:, ::1] view = rows
    for i in range(s.books.log_count):
        entry = &s.books.log[i]
        view[i, 0], view[i, 1], view[i, 2] = entry.message, entry.packet, entry.link
        for part in range(PARTS):
            view[i, 3 + part] = entry.parts[part]
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]
