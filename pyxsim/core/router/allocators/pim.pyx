"""PIM, parallel iterative matching (Anderson, Owicki, Saxe and Thacker 1993): arbiters begin at drawn places.

It ignores ranks.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.router.allocators.matching cimport clear_matches, place_match
from pyxsim.core.router.arbiter cimport distance
from pyxsim.core.router.random_draws cimport DRAW_OTHER, DRAW_SELECT, Purpose, draw, packet_key
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport NONE, Request, RequestMatrix

from pyxsim.plugins import allocators


cdef inline void arbitrate_at_random(
    State* s, RequestMatrix* m, uint64_t key, int32_t iteration, bint accept
) noexcept nogil:
    """Outputs grant among unmatched inputs, or (`accept`) inputs accept among their grants."""
    cdef int32_t* picks = s.matching.best_in if accept else s.matching.best_out
    cdef int32_t side = m.inputs if accept else m.outputs
    cdef int32_t others = m.outputs if accept else m.inputs
    cdef Purpose purpose = DRAW_OTHER if accept else DRAW_SELECT
    cdef int32_t i, place, best, pointer
    cdef Request* r
    cdef Request* b
    for i in range(m.count):
        r = &s.matching.requests[i]
        if accept:
            if s.matching.best_out[r.o] != i:
                continue
        elif s.matching.match_in[r.i] != NONE or s.matching.match_out[r.o] != NONE:
            continue
        place = r.i if accept else r.o
        best = picks[place]
        if best == NONE:
            picks[place] = i
            continue
        b = &s.matching.requests[best]
        pointer = draw(key, iteration * side + place, purpose, others)
        if accept and distance(r.o, pointer, others) < distance(b.o, pointer, others):
            picks[place] = i
        elif not accept and distance(r.i, pointer, others) < distance(b.i, pointer, others):
            picks[place] = i


cdef int32_t match_pim(State* s, RequestMatrix* m) noexcept nogil:
    cdef uint64_t key = packet_key(s.config.seed, m.wave[0], m.router * 2 + m.in_va)
    cdef int32_t granted = 0
    cdef int32_t iteration, before, i
    m.wave[0] += 1
    clear_matches(s, m)
    for iteration in range(m.iterations):
        before = granted
        for i in range(m.count):
            s.matching.best_in[s.matching.requests[i].i] = NONE
            s.matching.best_out[s.matching.requests[i].o] = NONE
        arbitrate_at_random(s, m, key, iteration, False)
        arbitrate_at_random(s, m, key, iteration, True)
        for i in range(m.count):
            if s.matching.best_in[s.matching.requests[i].i] == i:
                granted = place_match(s, i, granted)
        if granted == before:
            break
    return granted


allocators.register("pim", iterations=64, module=__name__)(PyCapsule_New(<void*> match_pim, NULL, NULL))
