"""The places of flows at the ports of their NIC, and which of them may send."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.network.ethernet.records cimport Fabric, Flow, Port

cdef int enter_nic(Fabric *fabric, int32_t number) noexcept nogil
cdef void leave_nic(Fabric *fabric, Flow *flow) noexcept nogil
cdef int32_t close_gaps_from(Fabric *fabric, Port *port, int32_t gap, int32_t chosen) noexcept nogil


cdef inline void set_ready(Fabric *fabric, Flow *flow, bint ready) noexcept nogil:
    cdef Port *port = &fabric.port[flow.port]
    if flow.ready == ready:
        return
    flow.ready = ready
    if fabric.nic != NULL:
        fabric.nic[flow.port].ready[flow.cls] += 1 if ready else -1
    if ready:
        port.ready[flow.slot >> 6] |= <uint64_t> 1 << (flow.slot & 63)
        port.ready_count += 1
    else:
        port.ready[flow.slot >> 6] &= ~(<uint64_t> 1 << (flow.slot & 63))
        port.ready_count -= 1
