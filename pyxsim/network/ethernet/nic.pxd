"""How a port of a NIC chooses the next packet of its flows."""

from libc.stdint cimport int32_t

from pyxsim.network.ethernet.records cimport Fabric, Flow

cdef int32_t next_of_flows(Fabric *fabric, int32_t number) noexcept nogil
cdef int32_t next_by_timer(Fabric *fabric, int32_t number) noexcept nogil
cdef void advance_timer(Fabric *fabric, Flow *flow) noexcept nogil


cdef inline bint unsent(const Flow *flow) noexcept nogil:
    """Whether a packet is to be sent, or sent again."""
    return flow.lost or flow.next < flow.packets


cdef inline bint may_send(Fabric *fabric, Flow *flow) noexcept nogil:
    """Whether the window, or the credit, and the packets left permit another packet; pacing apart."""
    if not unsent(flow):
        return False
    if fabric.rules.pulls:
        return flow.credit > 0 or flow.solicits > 0
    return flow.window <= 0 or <double> flow.flight < flow.window
