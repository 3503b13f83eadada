"""A matching of maximum size, by shortest augmenting paths (Dally and Towles, section 19.2). It ignores ranks.

Inputs are tried from the wave pointer on, which goes up by one in every cycle with requests.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport clear_matches
from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport NONE, Request, RequestMatrix

from pyxsim.plugins import allocators


cdef enum:
    UNSEEN = -2


cdef inline int32_t next_request(State* s, RequestMatrix* m, int32_t i, int32_t previous) noexcept nogil:
    """The next request of input `i` in order of the outputs, after request `previous`; or NONE."""
    cdef int32_t best = NONE
    cdef int32_t k
    cdef Request* r
    for k in range(m.count):
        r = &s.matching.requests[k]
        if r.i == i and (previous == NONE or r.o > s.matching.requests[previous].o) and (
            best == NONE or r.o < s.matching.requests[best].o
        ):
            best = k
    return best


cdef int32_t next_input(State* s, RequestMatrix* m, int32_t previous) noexcept nogil:
    """The next unmatched input with a request behind input `previous`, in order from the wave pointer; or NONE."""
    cdef int32_t best = NONE
    cdef int32_t k, i
    for k in range(m.count):
        i = s.matching.requests[k].i
        if s.matching.match_in[i] != NONE:
            continue
        if previous != NONE and distance(i, m.wave[0], m.inputs) <= distance(previous, m.wave[0], m.inputs):
            continue
        if best == NONE or distance(i, m.wave[0], m.inputs) < distance(best, m.wave[0], m.inputs):
            best = i
    return best


cdef bint augment(State* s, RequestMatrix* m) noexcept nogil:
    """Search in breadth from all unmatched inputs; lengthen the matching by the first path found.

    `best_out`: the request by which a search reached an output. `turn` of request k: place k of the queue of inputs.
    """
    cdef int32_t head = 0
    cdef int32_t tail = 0
    cdef int32_t k, i, before
    for k in range(m.count):
        s.matching.best_out[s.matching.requests[k].o] = UNSEEN
    i = next_input(s, m, NONE)
    while i != NONE:
        s.matching.requests[tail].turn = i
        tail += 1
        i = next_input(s, m, i)
    while head < tail:
        i = s.matching.requests[head].turn
        head += 1
        k = next_request(s, m, i, NONE)
        while k != NONE:
            if s.matching.match_in[i] != k and s.matching.best_out[s.matching.requests[k].o] == UNSEEN:
                s.matching.best_out[s.matching.requests[k].o] = k
                if s.matching.match_out[s.matching.requests[k].o] == NONE:
                    while True:
                        i = s.matching.requests[k].i
                        before = s.matching.match_in[i]
                        s.matching.match_in[i] = k
                        s.matching.match_out[s.matching.requests[k].o] = k
                        if before == NONE:
                            return True
                        k = s.matching.best_out[s.matching.requests[before].o]
                s.matching.requests[tail].turn = s.matching.requests[s.matching.match_out[s.matching.requests[k].o]].i
                tail += 1
            k = next_request(s, m, i, k)
    return False


cdef int32_t match_max_size(State* s, RequestMatrix* m) noexcept nogil:
    cdef int32_t granted = 0
    cdef int32_t k
    clear_matches(s, m)
    while augment(s, m):
        pass
    for k in range(m.count):
        if s.matching.match_in[s.matching.requests[k].i] == k:
            s.matching.granted[granted] = k
            granted += 1
    if m.count:
        m.wave[0] = after(m.wave[0], m.inputs)
    return granted


allocators.register("max-size", module=__name__)(PyCapsule_New(<void*> match_max_size, NULL, NULL))
