"""Route computation by digit tables.

A destination is a row of digits (its coordinates); a router has its own digit in each dimension. The first dimension
that decides gives the entry of the table. pyxsim/routing/relation.py builds the tables and says why they look so.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport NONE, WAITING, Packet

cdef enum:
    DECIDES = -1   # a switch: this dimension always decides here
    SKIPPED = -2   # this dimension never decides here


cdef int32_t class_of(State* s, int32_t link, int32_t number) noexcept nogil:
    """The class of VC `number` of a link: the c with c*V/C <= number < (c+1)*V/C."""
    cdef int32_t vc_class = 0
    while (vc_class + 1) * s.link_vcs[link] // s.link_classes[link] <= number:
        vc_class += 1
    return vc_class


cdef void compute_route(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """Fill `want`, `range_low` and `range_high` of the input VC whose front packet this is."""
    cdef Packet* p = &s.packets[packet]
    cdef int32_t incoming = s.vc_link[vc]
    cdef int32_t router = s.link_dst[incoming]
    cdef int32_t link, vc_class, count, dim, own, digit
    cdef int64_t row
    if s.link_src[p.eject] == router:
        s.want[vc] = p.eject
        s.range_low[vc] = 0
        s.range_high[vc] = s.link_vcs[p.eject]
        return
    row = (<int64_t> p.plane * s.routers + router) * s.dims
    link = NONE
    vc_class = 0
    for dim in range(s.dims):
        own = s.own[row + dim]
        if own == SKIPPED:
            continue
        digit = s.digits[<int64_t> p.dst * s.dims + dim]
        if own != DECIDES and own == digit:
            continue
        link = s.table_link[s.offset[row + dim] + digit]
        vc_class = s.table_class[s.offset[row + dim] + digit]
        break
    s.want[vc] = link
    if link == NONE:   # no way from here: the head waits for ever, and the run ends as a deadlock that names it
        s.range_low[vc] = 0
        s.range_high[vc] = 0
        return
    if s.link_group[link] >= 0 and s.link_group[incoming] == s.link_group[link]:
        # Still in the same ring: keep the class that was chosen when it was entered (static dateline).
        vc_class = class_of(s, incoming, vc - s.link_base[incoming])
    count = s.link_classes[link]
    s.range_low[vc] = vc_class * s.link_vcs[link] // count
    s.range_high[vc] = (vc_class + 1) * s.link_vcs[link] // count


cdef void to_front(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The head of the next packet is at the front of its input VC from cycle `t` on."""
    cdef int32_t packet = s.nodes_pool[s.fifo_head[vc]].packet
    s.left[vc] = s.packets[packet].flits
    compute_route(s, vc, packet)
    s.vc_state[vc] = WAITING
    s.front[vc] = t
    s.ready[vc] = t + s.rc + (s.va - 1 if s.va else 0)
    s.waiting[s.link_dst[s.vc_link[vc]]] += 1
