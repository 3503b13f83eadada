"""One router in one cycle: heads to the front, VC allocation, switch allocation, and when to look again.

The order of the stages and every tie are told in docs/router.md. A router that did nothing, and in which nothing
can change by itself, goes to sleep: an arriving flit, a credit or a timer wakes it. Since nothing changes
meanwhile, what its flits waited for in the last cycle is what they wait for in all the cycles it sleeps (stats.pyx).
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.allocator cimport allocate_switch, allocate_vcs
from pyxsim.core.bits cimport clear_bit, set_bit
from pyxsim.core.buffer cimport vcs_of
from pyxsim.core.calendar cimport schedule
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport IDLE, WAKE
from pyxsim.core.stats cimport begin_look, end_look


cdef void arrive(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A flit enters an input VC."""
    cdef int32_t link = s.vc_link[vc]
    s.occupancy[vc] += 1
    if s.occupancy[vc] > s.occupancy_max[vc]:
        s.occupancy_max[vc] = s.occupancy[vc]
    set_bit(vcs_of(s.occupied, s, link), vc - s.link_base[link])
    if s.vc_state[vc] == IDLE:
        to_front(s, vc, t)
    set_bit(s.router_active, s.link_dst[link])


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil:
    cdef int64_t again, switch_again
    begin_look(s, router, t)
    again = allocate_vcs(s, router, t) if s.va and s.waiting[router] else INT64_MAX
    switch_again = allocate_switch(s, router, t)
    if switch_again < again:
        again = switch_again
    end_look(s, router)
    if again > t + 1:
        clear_bit(s.router_active, router)
        if again != INT64_MAX:
            schedule(s, again, router, WAKE)
