"""LOA, lonely output allocator: each input picks its output with the fewest requests (Dally and Towles, chapter 19).

It ignores ranks. Pointers of a matched pair advance by one, from where they are.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport clear_matches, place_match, turn_of
from pyxsim.core.router.arbiter cimport after
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport NONE, Request, RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_loa(State* s, RequestMatrix* m) noexcept nogil:
    cdef int32_t granted = 0
    cdef int32_t i, best, mine, other
    cdef Request* r
    cdef Request* b
    clear_matches(s, m)
    for i in range(m.count):
        r = &s.matching.requests[i]
        s.matching.best_in[r.i] = s.matching.best_out[r.o] = NONE
        r.turn = 0
    # `match_out` counts the requests of each output until outputs grant.
    for i in range(m.count):
        s.matching.match_out[s.matching.requests[i].o] += 1
    for i in range(m.count):
        r = &s.matching.requests[i]
        best = s.matching.best_in[r.i]
        if best != NONE:
            b = &s.matching.requests[best]
            mine, other = s.matching.match_out[r.o], s.matching.match_out[b.o]
            if mine > other or (mine == other and turn_of(m, r, True) >= turn_of(m, b, True)):
                continue
        s.matching.best_in[r.i] = i
    for i in range(m.count):
        r = &s.matching.requests[i]
        if s.matching.best_in[r.i] != i:
            continue
        best = s.matching.best_out[r.o]
        if best == NONE or turn_of(m, r, False) < turn_of(m, &s.matching.requests[best], False):
            s.matching.best_out[r.o] = i
    for i in range(m.count):
        r = &s.matching.requests[i]
        if s.matching.best_out[r.o] != i:
            continue
        granted = place_match(s, i, granted)
        m.grant[r.out_id] = after(m.grant[r.out_id], m.inputs)
        m.accept[r.in_id] = after(m.accept[r.in_id], m.outputs)
    return granted


allocators.register("loa", module=__name__)(PyCapsule_New(<void*> match_loa, NULL, NULL))
