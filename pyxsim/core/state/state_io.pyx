"""Save and load what the arrays of a network do not hold: numbers, pools, the calendar (docs/checkpoint.md).

`Engine.snapshot` saves arrays and records from their list. A test reads network_state.pxd and finds fields that are not
saved here. Not saved, as it is rebuilt on demand: what fast-forward remembers, scratch, and the partitions of threads.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from pyxsim.core.latency.latency_records cimport MessageWait, PacketWait, QueuedMessage, Stay, StayRow, WaitEntry
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport grow_array
from pyxsim.core.state.records cimport KINDS, Arrival, Event, FifoNode, Launch, Message, Packet, PacketNote, QueuedFlit
from pyxsim.raw cimport loaded, saved


cdef dict save_state(State* s):
    return {
        "time": (s.now, s.arrived, s.paused, s.stats.window_reported, s.stats.flush_due, s.stats.changed,
                 s.scratch.winner_count, s.scratch.credit_link_count),
        "counts": (s.in_flight, s.routes.draws, s.stats.messages_sent, s.stats.messages_joined, s.stats.router_visits,
                   s.stats.packets_delivered,
                   s.stats.messages_delivered, s.stats.flits_delivered, s.stats.latency_sum,
                   s.stats.network_latency_sum, s.stats.hops_sum, s.stats.packets_lost, s.stats.flits_lost),
        "lists": (s.pools.packet_free, s.pools.packet_spare, s.pools.message_free, s.waiting.first, s.waiting.last),
        "watched": (s.trace.watch_serial, s.trace.watch_packet),
        "nodes": saved(s.pools.nodes, s.pools.node_capacity, sizeof(FifoNode)),
        "queued": saved(s.pools.queued, s.pools.node_capacity if s.links.any_queued else 0, sizeof(QueuedFlit)),
        "free_nodes": saved(s.pools.free_nodes, s.pools.node_spare, sizeof(int32_t)),
        "packets": saved(s.pools.packets, s.pools.packet_capacity, sizeof(Packet)),
        "messages": saved(s.pools.messages, s.pools.message_capacity, sizeof(Message)),
        "pending": saved(s.waiting.heap, s.waiting.heap_count, sizeof(int32_t)),
        "delivered": saved(s.arrivals.delivered, s.arrivals.delivered_count, sizeof(int32_t)),
        "delivered_at": saved(s.arrivals.delivered_at, s.arrivals.delivered_count, sizeof(int64_t)),
        "arrivals": saved(s.arrivals.records, s.arrivals.record_count, sizeof(Arrival)),
        "log": saved(s.trace.launches, s.trace.launch_count, sizeof(Launch)),
        "notes": saved(s.trace.notes, s.trace.note_count, sizeof(PacketNote)),
        "calendar": calendar_to_arrays(s),
        "books": latency_to_dict(s),
    }


cdef int load_state(State* s, dict kept) except -1:
    """Load into the state of a network that has just been made from the same arguments."""
    (s.now, s.arrived, s.paused, s.stats.window_reported, s.stats.flush_due, s.stats.changed,
        s.scratch.winner_count, s.scratch.credit_link_count) = kept["time"]
    (s.in_flight, s.routes.draws, s.stats.messages_sent, s.stats.messages_joined, s.stats.router_visits,
        s.stats.packets_delivered, s.stats.messages_delivered,
     s.stats.flits_delivered, s.stats.latency_sum, s.stats.network_latency_sum, s.stats.hops_sum,
     s.stats.packets_lost, s.stats.flits_lost) = kept["counts"]
    (s.pools.packet_free, s.pools.packet_spare, s.pools.message_free, s.waiting.first, s.waiting.last) = kept["lists"]
    s.trace.watch_serial, s.trace.watch_packet = kept["watched"]
    s.pools.node_capacity = <int32_t> load_pool(<void**> &s.pools.nodes, kept["nodes"], sizeof(FifoNode))
    load_pool(<void**> &s.pools.queued, kept["queued"], sizeof(QueuedFlit))
    s.pools.node_spare = <int32_t> load_pool(<void**> &s.pools.free_nodes, kept["free_nodes"], sizeof(int32_t))
    if s.pools.node_capacity:   # all may be free at once
        s.pools.free_nodes = <int32_t*> grow_array(s, s.pools.free_nodes, s.pools.node_capacity, sizeof(int32_t))
    s.pools.packet_capacity = <int32_t> load_pool(<void**> &s.pools.packets, kept["packets"], sizeof(Packet))
    s.pools.message_capacity = <int32_t> load_pool(<void**> &s.pools.messages, kept["messages"], sizeof(Message))
    s.waiting.heap_capacity = s.waiting.heap_count = <int32_t> load_pool(<void**> &s.waiting.heap, kept["pending"],
                                                                         sizeof(int32_t))
    load_pool(<void**> &s.arrivals.delivered_at, kept["delivered_at"], sizeof(int64_t))
    s.arrivals.delivered_capacity = s.arrivals.delivered_count = <int32_t> load_pool(<void**> &s.arrivals.delivered,
                                                                                     kept["delivered"], sizeof(int32_t))
    s.arrivals.record_capacity = s.arrivals.record_count = load_pool(<void**> &s.arrivals.records, kept["arrivals"],
                                                                     sizeof(Arrival))
    s.trace.launch_capacity = s.trace.launch_count = load_pool(<void**> &s.trace.launches, kept["log"], sizeof(Launch))
    s.trace.note_capacity = s.trace.note_count = load_pool(<void**> &s.trace.notes, kept["notes"], sizeof(PacketNote))
    calendar_from_arrays(s, kept["calendar"])
    latency_from_dict(s, kept["books"])
    return 0


cdef int64_t load_pool(void** place, bytes data, size_t size) except -1:
    """Replace the memory of a pool; return its number of records."""
    free(place[0])
    place[0] = loaded(data)
    return len(data) // <int64_t> size


# --- the calendar ---------------------------------------------------------------------------------------------------

cdef tuple calendar_to_arrays(State* s):
    """The number of entries per slot and kind, and the entries."""
    cdef int64_t place, at = 0
    cdef int32_t kind, i
    counts = np.empty((s.calendar.slot_mask + 1, KINDS), np.int32)
    cdef int32_t[:, ::1] count = counts
    for place in range(s.calendar.slot_mask + 1):
        for kind in range(KINDS):
            count[place, kind] = s.calendar.slots[place].count[kind]
    entries = np.empty(int(counts.sum()), np.int32)
    cdef int32_t[::1] entry = entries
    for place in range(s.calendar.slot_mask + 1):
        for kind in range(KINDS):
            for i in range(count[place, kind]):
                entry[at] = s.calendar.slots[place].events[kind][i]
                at += 1
    return counts, entries


cdef int calendar_from_arrays(State* s, tuple calendar) except -1:
    cdef const int32_t[:, ::1] count = calendar[0]
    cdef const int32_t[::1] entry = calendar[1]
    cdef int64_t place, at = 0
    cdef int32_t kind, _entry
    for place in range(s.calendar.slot_mask + 1):
        for kind in range(KINDS):
            for _entry in range(count[place, kind]):
                schedule(s, place, entry[at], <Event> kind)
                at += 1
    if s.failed:
        raise MemoryError
    return 0


# --- attribution ----------------------------------------------------------------------------------------------------

cdef dict latency_to_dict(State* s):
    return {
        "counts": (s.latency.rival_count, s.latency.winner_count, s.latency.stay_free, s.latency.rider_free,
                   s.latency.table_count, s.latency.unexplained, s.latency.uneven, s.latency.faulty),
        "packets": saved(s.latency.packets, s.latency.packet_capacity, sizeof(PacketWait)),
        "messages": saved(s.latency.messages, s.latency.message_capacity, sizeof(MessageWait)),
        "stays": saved(s.latency.stays, s.latency.stay_capacity, sizeof(Stay)),
        "riders": saved(s.latency.riders, s.latency.rider_capacity, sizeof(QueuedMessage)),
        "table": saved(s.latency.table, s.latency.table_capacity, sizeof(WaitEntry)),
        "log": saved(s.latency.log, s.latency.log_count, sizeof(StayRow)),
    }


cdef int latency_from_dict(State* s, dict kept) except -1:
    (s.latency.rival_count, s.latency.winner_count, s.latency.stay_free, s.latency.rider_free, s.latency.table_count,
     s.latency.unexplained, s.latency.uneven, s.latency.faulty) = kept["counts"]
    s.latency.packet_capacity = <int32_t> load_pool(<void**> &s.latency.packets, kept["packets"], sizeof(PacketWait))
    s.latency.message_capacity = <int32_t> load_pool(
        <void**> &s.latency.messages, kept["messages"], sizeof(MessageWait))
    s.latency.stay_capacity = <int32_t> load_pool(<void**> &s.latency.stays, kept["stays"], sizeof(Stay))
    s.latency.rider_capacity = <int32_t> load_pool(<void**> &s.latency.riders, kept["riders"], sizeof(QueuedMessage))
    s.latency.table_capacity = load_pool(<void**> &s.latency.table, kept["table"], sizeof(WaitEntry))
    s.latency.log_capacity = s.latency.log_count = load_pool(<void**> &s.latency.log, kept["log"], sizeof(StayRow))
    return 0
