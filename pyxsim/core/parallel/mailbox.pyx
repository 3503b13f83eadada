"""Mailboxes: flits, credits and granted packets that cross a cut between two partitions.

An entry takes effect so late that the receiver cannot have reached that cycle: the partitions synchronise before. A VC
has one sender, so its packets arrive in the order of their grants.
"""

from libc.stdint cimport INT64_MAX

from pyxsim.core.router.buffer cimport push_packet
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport grow_list
from pyxsim.core.state.records cimport NONE, MailboxEntry


cdef void post(State* s, int32_t to, int64_t cycle, int32_t vc, int32_t packet, Event kind) noexcept nogil:
    """Post an entry for partition `to`. `packet`: one that was granted the VC, or NONE for a calendar entry."""
    cdef Outbox* box = &s.part.outboxes[to]
    cdef MailboxEntry* entry
    if box.count == box.capacity:
        box.capacity = <int32_t> grow_list(s, <void**> &box.entries, box.capacity, 64, sizeof(MailboxEntry))
        if s.failed:
            return
    entry = &box.entries[box.count]
    box.count += 1
    entry.cycle, entry.vc, entry.packet, entry.kind = cycle, vc, packet, kind
    if packet == NONE:
        box.soonest = min(box.soonest, cycle)
        box.latest = max(box.latest, cycle)


cdef void receive_entries(State* s, Outbox* box) noexcept nogil:
    cdef int32_t i
    cdef MailboxEntry* entry
    for i in range(box.count):
        entry = &box.entries[i]
        if entry.packet == NONE:
            schedule(s, entry.cycle, entry.vc, <Event> entry.kind)
        else:
            push_packet(s, entry.vc, entry.packet)
    box.count = 0
    box.soonest, box.latest = INT64_MAX, 0
