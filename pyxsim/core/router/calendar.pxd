"""The calendar: delay lines of links and credits, and timers, as one ring of cycles.

A flit on the wire is one integer in the slot of its arrival cycle; so is a credit, and so is a timer. Each kind has its
own list, so handling an entry needs no branch on its kind.

Every entry is due at least one cycle later and within the length of the ring (longer than the longest delay), so a slot
never holds two cycles. Entries of one cycle touch different VCs or commute, so their order does not matter.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport CalendarSlot, Event


cdef inline void schedule(State* s, int64_t cycle, int32_t number, Event kind) noexcept nogil:
    cdef int64_t place = cycle & s.calendar.slot_mask
    cdef CalendarSlot* slot = &s.calendar.slots[place]
    cdef int32_t count = slot.count[<int32_t> kind]
    if count == slot.capacity[<int32_t> kind]:
        enlarge_slot(s, slot, kind)
        if s.failed:
            return
    slot.events[<int32_t> kind][count] = number
    slot.count[<int32_t> kind] = count + 1
    if count == 0:
        s.calendar.used[place >> 6] |= (<uint64_t> 1) << (place & 63)


cdef void enlarge_slot(State* s, CalendarSlot* slot, Event kind) noexcept nogil
cdef int64_t next_scheduled(State* s) noexcept nogil
cdef int64_t last_scheduled(State* s) noexcept nogil
cdef int64_t count_entries(State* s, int32_t first, int32_t last, int32_t number) noexcept nogil
cdef int64_t remove_entries(State* s, int32_t kind, int32_t begin, int32_t end) noexcept nogil
