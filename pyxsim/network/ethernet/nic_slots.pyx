"""The places of flows at the ports of their NIC."""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyxsim.network.ethernet.records cimport CLASSES, NONE, Fabric, Flow, NicClasses, Port


cdef void _close_gaps(Fabric *fabric, Port *port) noexcept nogil:
    """Remove the slots of flows that have ended; the others keep their order, and so their turns."""
    cdef int32_t i, kept = 0, last = 0, cls
    cdef Flow *flow
    cdef NicClasses *nic = &fabric.nic[port - fabric.port] if fabric.nic != NULL else NULL
    memset(port.ready, 0, <size_t> ((port.slot_capacity + 63) >> 6) * sizeof(uint64_t))
    for i in range(port.slots):
        if port.slot[i] != NONE:
            flow = &fabric.flow[port.slot[i]]
            flow.slot = kept
            port.slot[kept] = port.slot[i]
            if flow.ready:
                port.ready[kept >> 6] |= <uint64_t> 1 << (kept & 63)
            kept += 1
        if i == port.last_slot:
            last = kept - 1
        if nic != NULL:
            for cls in range(CLASSES):
                if nic.last_slot[cls] == i:
                    nic.last_slot[cls] = kept - 1  # not above i, so no later slot
    port.slots, port.last_slot = kept, last


cdef int enter_nic(Fabric *fabric, int32_t number) noexcept nogil:
    """Give a flow a slot of its NIC port. Returns -1 without memory."""
    cdef Flow *flow = &fabric.flow[number]
    cdef Port *port = &fabric.port[flow.port]
    cdef int32_t *slots
    cdef uint64_t *ready
    cdef int32_t capacity
    if port.slots == port.slot_capacity and 2 * port.live <= port.slots and not fabric.rules.port_timer:
        _close_gaps(fabric, port)
    if port.slots == port.slot_capacity:
        capacity = 2 * port.slot_capacity + 64
        slots = <int32_t*> realloc(port.slot, <size_t> capacity * sizeof(int32_t))
        if slots == NULL:
            return -1
        port.slot = slots
        ready = <uint64_t*> realloc(port.ready, <size_t> ((capacity + 63) >> 6) * sizeof(uint64_t))
        if ready == NULL:
            return -1
        memset(&ready[(port.slot_capacity + 63) >> 6], 0,
               <size_t> (((capacity + 63) >> 6) - ((port.slot_capacity + 63) >> 6)) * sizeof(uint64_t))
        port.ready, port.slot_capacity = ready, capacity
    flow.slot = port.slots
    port.slot[flow.slot] = number
    port.slots += 1
    port.live += 1
    return 0


cdef void leave_nic(Fabric *fabric, Flow *flow) noexcept nogil:
    cdef Port *port = &fabric.port[flow.port]
    if flow.slot == NONE:
        return
    set_ready(fabric, flow, False)
    port.slot[flow.slot] = NONE
    port.live -= 1
    flow.slot = NONE


cdef int32_t close_gaps_from(Fabric *fabric, Port *port, int32_t gap, int32_t chosen) noexcept nogil:
    """Remove the slots of flows that have ended, from `gap` on. Returns the new slot of `chosen`."""
    cdef int32_t i
    for i in range(gap, port.slots):
        if port.slot[i] != NONE:
            if i == chosen:
                chosen = gap
            port.slot[gap] = port.slot[i]
            fabric.flow[port.slot[gap]].slot = gap
            gap += 1
    port.slots = gap
    return chosen
