"""One router in one cycle: RC, VC allocation, switch allocation, and when to visit it again. Read this first.

docs/router.md defines the order of the stages and every tie. A router that did nothing, and in which nothing can change
by itself, sleeps: an arriving flit, a credit or a timer wakes it. As nothing changes meanwhile, its flits stall for the
same causes in all the cycles that it sleeps (stall_counters.pyx).

This router implements every option; fast_path/ has faster ones for the usual options.
"""

from libc.stdint cimport INT64_MAX, int32_t

from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.link cimport share_slots
from pyxsim.core.router.route_computation cimport compute_pending_routes
from pyxsim.core.router.stall_counters cimport begin_visit, end_visit, next_tick
from pyxsim.core.router.switch_allocator cimport allocate_switch
from pyxsim.core.router.vc_allocator cimport allocate_vcs
from pyxsim.core.state.bits cimport clear_bit
from pyxsim.core.state.network_state cimport cycle_of, first_tick
from pyxsim.core.state.records cimport WAKE


cdef int64_t evaluate_tick(State* s, int32_t router, int64_t t, int64_t u) noexcept nogil:
    """One tick. Return the next tick with possible work; INT64_MAX: none by itself."""
    cdef int64_t again = INT64_MAX
    cdef int64_t switch_again
    cdef int32_t i
    if s.config.shared_limit < 0:
        for i in range(s.routers.router[router].out_start, s.routers.router[router].out_end):
            share_slots(s, s.ports.out_links[i])
    if s.routers.router[router].unrouted:
        compute_pending_routes(s, router, u)
    if s.config.va:
        again = allocate_vcs(s, router, u)
    switch_again = allocate_switch(s, router, t, u)
    return switch_again if switch_again < again else again


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil:
    cdef int64_t u = first_tick(s, t)
    cdef int64_t end = u + 1 if s.config.ticks == 1 else first_tick(s, t + 1)
    cdef int64_t again
    begin_visit(s, router, t)
    while True:   # one call, so that the compiler inlines it
        again = evaluate_tick(s, router, t, u)
        u += 1
        if u >= end:
            break
        next_tick(s, router)
    end_visit(s, router)
    if s.config.ticks > 1 and again != INT64_MAX:
        again = cycle_of(s, again)
    if again > t + 1:
        clear_bit(s.routers.active, router)
        if again != INT64_MAX:
            schedule(s, again, router, WAKE)
