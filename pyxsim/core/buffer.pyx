"""A buffer needs no flits, only a count, and the packets they belong to.

Flits of a VC arrive in the order in which they were sent, and a packet holds its VC until its tail is sent. So the
buffer's content follows from the list of packets that were granted the VC (`fifo_head`), the number of flits in it
(`occupancy`) and how many of the front packet have not left (`left`). A packet joins the list when it is granted the
VC, before its head arrives.
"""

from libc.stdint cimport int32_t

from pyxsim.core.state cimport NONE, free_node, new_node


cdef void push_packet(State* s, int32_t vc, int32_t packet) noexcept nogil:
    cdef int32_t node = new_node(s)
    if s.failed:
        return
    s.nodes_pool[node].packet = packet
    if s.vc[vc].head == NONE:
        s.vc[vc].head = node
    else:
        s.nodes_pool[s.vc[vc].tail].next = node
    s.vc[vc].tail = node


cdef int32_t pop_packet(State* s, int32_t vc) noexcept nogil:
    cdef int32_t node = s.vc[vc].head
    cdef int32_t packet = s.nodes_pool[node].packet
    s.vc[vc].head = s.nodes_pool[node].next
    free_node(s, node)
    return packet
