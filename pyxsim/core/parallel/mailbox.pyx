"""Mailboxes: flits, credits and granted packets that cross a cut between two partitions.

An entry takes effect so late that the receiver cannot have reached that cycle: the partitions synchronise before. A VC
has one sender, so its packets arrive in the order of their grants.
"""

from libc.stdint cimport INT64_MAX

from pyxsim.core.router.buffer cimport push_packet
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.state.network_state cimport grow_list
from pyxsim.core.state.records cimport NONE, Parcel


cdef void post(State* s, int32_t to, int64_t cycle, int32_t vc, int32_t packet, Event kind) noexcept nogil:
    """Post an entry for partition `to`. `packet`: one that was granted the VC, or NONE for a calendar entry."""
    cdef Outbox* box = &s.part.outboxes[to]
    cdef Parcel* parcel
    if box.count == box.room:
        box.room = <int32_t> grow_list(s, <void**> &box.parcels, box.room, 64, sizeof(Parcel))
        if s.failed:
            return
    parcel = &box.parcels[box.count]
    box.count += 1
    parcel.cycle, parcel.vc, parcel.packet, parcel.kind = cycle, vc, packet, kind
    if packet == NONE:
        box.soonest = min(box.soonest, cycle)
        box.latest = max(box.latest, cycle)


cdef void receive_parcels(State* s, Outbox* box) noexcept nogil:
    cdef int32_t i
    cdef Parcel* parcel
    for i in range(box.count):
        parcel = &box.parcels[i]
        if parcel.packet == NONE:
            schedule(s, parcel.cycle, parcel.vc, <Event> parcel.kind)
        else:
            push_packet(s, parcel.vc, parcel.packet)
    box.count = 0
    box.soonest, box.latest = INT64_MAX, 0
