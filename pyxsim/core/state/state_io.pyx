"""All that the arrays of a network do not hold, for a checkpoint: numbers, pools, the calendar (docs/checkpoint.md).

Arrays and records are kept by whoever owns them (`Engine.snapshot`), as a list, so that a new one is not forgotten. Of
what is here a test reads network_state.pxd and misses what is not named. Not kept, as it is made anew when it is wanted: what
fast-forward remembers (`orbit`), scratch, and how the network was divided among threads.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from pyxsim.core.latency.latency_records cimport MessageBook, PacketBook, Rider, Stay, StayRow, Waited
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport KINDS, Arrival, Event, Launch, Message, Node, Note, Packet, Queued, grown
from pyxsim.raw cimport loaded, saved


cdef dict taken(State* s):
    return {
        "time": (s.now, s.arrived, s.reported, s.flush, s.changed, s.won_count),
        "counts": (s.in_flight, s.draws, s.serials, s.joined, s.router_visits, s.packets_delivered,
                   s.messages_delivered, s.flits_delivered, s.latency_sum, s.network_latency_sum, s.hops_sum),
        "lists": (s.packet_free, s.packet_spare, s.message_free, s.next_message, s.last_message),
        "watched": (s.watch_serial, s.watch_packet),
        "nodes": saved(s.nodes_pool, s.node_room, sizeof(Node)),
        "queued": saved(s.queued_pool, s.node_room if s.queues else 0, sizeof(Queued)),
        "free_nodes": saved(s.free_nodes, s.node_spare, sizeof(int32_t)),
        "packets": saved(s.packets, s.packet_room, sizeof(Packet)),
        "messages": saved(s.messages, s.message_room, sizeof(Message)),
        "pending": saved(s.pending, s.pending_count, sizeof(int32_t)),
        "delivered": saved(s.delivered, s.delivered_count, sizeof(int32_t)),
        "delivered_at": saved(s.delivered_at, s.delivered_count, sizeof(int64_t)),
        "arrivals": saved(s.arrivals, s.arrival_count, sizeof(Arrival)),
        "log": saved(s.log, s.log_count, sizeof(Launch)),
        "notes": saved(s.notes, s.note_count, sizeof(Note)),
        "calendar": calendar_of(s),
        "books": books_of(s),
    }


cdef int put_back(State* s, dict kept) except -1:
    """Into the state of a network that has just been made, and is alike."""
    s.now, s.arrived, s.reported, s.flush, s.changed, s.won_count = kept["time"]
    (s.in_flight, s.draws, s.serials, s.joined, s.router_visits, s.packets_delivered, s.messages_delivered,
     s.flits_delivered, s.latency_sum, s.network_latency_sum, s.hops_sum) = kept["counts"]
    (s.packet_free, s.packet_spare, s.message_free, s.next_message, s.last_message) = kept["lists"]
    s.watch_serial, s.watch_packet = kept["watched"]
    s.node_room = <int32_t> pool(<void**> &s.nodes_pool, kept["nodes"], sizeof(Node))
    pool(<void**> &s.queued_pool, kept["queued"], sizeof(Queued))
    s.node_spare = <int32_t> pool(<void**> &s.free_nodes, kept["free_nodes"], sizeof(int32_t))
    if s.node_room:   # all may be free at once
        s.free_nodes = <int32_t*> grown(s, s.free_nodes, s.node_room, sizeof(int32_t))
    s.packet_room = <int32_t> pool(<void**> &s.packets, kept["packets"], sizeof(Packet))
    s.message_room = <int32_t> pool(<void**> &s.messages, kept["messages"], sizeof(Message))
    s.pending_room = s.pending_count = <int32_t> pool(<void**> &s.pending, kept["pending"], sizeof(int32_t))
    pool(<void**> &s.delivered_at, kept["delivered_at"], sizeof(int64_t))
    s.delivered_room = s.delivered_count = <int32_t> pool(<void**> &s.delivered, kept["delivered"], sizeof(int32_t))
    s.arrival_room = s.arrival_count = pool(<void**> &s.arrivals, kept["arrivals"], sizeof(Arrival))
    s.log_room = s.log_count = pool(<void**> &s.log, kept["log"], sizeof(Launch))
    s.note_room = s.note_count = pool(<void**> &s.notes, kept["notes"], sizeof(Note))
    fill_calendar(s, kept["calendar"])
    open_again(s, kept["books"])
    return 0


cdef int64_t pool(void** place, bytes data, size_t each) except -1:
    """The memory of a pool; how many records it has."""
    free(place[0])
    place[0] = loaded(data)
    return len(data) // <int64_t> each


# --- the calendar ---------------------------------------------------------------------------------------------------

cdef tuple calendar_of(State* s):
    """How many entries each place of the wheel has of each kind, and the entries."""
    cdef int64_t place, at = 0
    cdef int32_t kind, i
    counts = np.empty((s.slot_mask + 1, KINDS), np.int32)
    cdef int32_t[:, ::1] count = counts
    for place in range(s.slot_mask + 1):
        for kind in range(KINDS):
            count[place, kind] = s.slots[place].count[kind]
    entries = np.empty(int(counts.sum()), np.int32)
    cdef int32_t[::1] entry = entries
    for place in range(s.slot_mask + 1):
        for kind in range(KINDS):
            for i in range(count[place, kind]):
                entry[at] = s.slots[place].events[kind][i]
                at += 1
    return counts, entries


cdef int fill_calendar(State* s, tuple calendar) except -1:
    cdef const int32_t[:, ::1] count = calendar[0]
    cdef const int32_t[::1] entry = calendar[1]
    cdef int64_t place, at = 0
    cdef int32_t kind, _entry
    for place in range(s.slot_mask + 1):
        for kind in range(KINDS):
            for _entry in range(count[place, kind]):
                schedule(s, place, entry[at], <Event> kind)
                at += 1
    if s.failed:
        raise MemoryError
    return 0


# --- attribution ----------------------------------------------------------------------------------------------------

cdef dict books_of(State* s):
    return {
        "counts": (s.books.rival_count, s.books.winner_count, s.books.stay_free, s.books.rider_free,
                   s.books.table_count, s.books.unexplained, s.books.uneven),
        "packets": saved(s.books.packets, s.books.packet_room, sizeof(PacketBook)),
        "messages": saved(s.books.messages, s.books.message_room, sizeof(MessageBook)),
        "stays": saved(s.books.stays, s.books.stay_room, sizeof(Stay)),
        "riders": saved(s.books.riders, s.books.rider_room, sizeof(Rider)),
        "table": saved(s.books.table, s.books.table_room, sizeof(Waited)),
        "log": saved(s.books.log, s.books.log_count, sizeof(StayRow)),
    }


cdef int open_again(State* s, dict kept) except -1:
    (s.books.rival_count, s.books.winner_count, s.books.stay_free, s.books.rider_free, s.books.table_count,
     s.books.unexplained, s.books.uneven) = kept["counts"]
    s.books.packet_room = <int32_t> pool(<void**> &s.books.packets, kept["packets"], sizeof(PacketBook))
    s.books.message_room = <int32_t> pool(<void**> &s.books.messages, kept["messages"], sizeof(MessageBook))
    s.books.stay_room = <int32_t> pool(<void**> &s.books.stays, kept["stays"], sizeof(Stay))
    s.books.rider_room = <int32_t> pool(<void**> &s.books.riders, kept["riders"], sizeof(Rider))
    s.books.table_room = pool(<void**> &s.books.table, kept["table"], sizeof(Waited))
    s.books.log_room = s.books.log_count = pool(<void**> &s.books.log, kept["log"], sizeof(StayRow))
    return 0
