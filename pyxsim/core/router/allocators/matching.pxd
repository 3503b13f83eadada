"""What the matrix allocators share: round-robin arbiters at inputs and outputs, and matching in a given order.

A request matrix is a list of `Request`s with at most one per pair of input and output. docs/router.md defines ties.
An allocator lists the granted requests in `State.matching.granted`, and in `match_in` and `match_out` by port.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport NONE, Request, RequestMatrix


cdef inline void clear_matches(State* s, RequestMatrix* m) noexcept nogil:
    cdef int32_t i
    for i in range(m.count):
        s.matching.match_in[s.matching.requests[i].i] = NONE
        s.matching.match_out[s.matching.requests[i].o] = NONE


cdef inline int32_t place_match(State* s, int32_t number, int32_t granted) noexcept nogil:
    """Grant request `number`; return the new count of granted requests."""
    cdef Request* r = &s.matching.requests[number]
    s.matching.granted[granted] = number
    s.matching.match_in[r.i] = number
    s.matching.match_out[r.o] = number
    return granted + 1


cdef inline int32_t turn_of(RequestMatrix* m, Request* r, bint at_inputs) noexcept nogil:
    """How far the request is behind the pointer of its input or output."""
    return distance(r.o, m.accept[r.in_id], m.outputs) if at_inputs else distance(r.i, m.grant[r.out_id], m.inputs)


cdef inline void arbitrate(State* s, RequestMatrix* m, bint at_inputs, bint second) noexcept nogil:
    """Each input, or each output, picks a request: best rank, then the first at or after its pointer.

    The first step chooses among unmatched inputs and outputs, the second among the picks of the other side.
    """
    cdef int32_t* picks = s.matching.best_in if at_inputs else s.matching.best_out
    cdef int32_t* others = s.matching.best_out if at_inputs else s.matching.best_in
    cdef int32_t i, best
    cdef Request* r
    cdef Request* b
    for i in range(m.count):
        r = &s.matching.requests[i]
        if second:
            if others[r.o if at_inputs else r.i] != i:
                continue
        elif s.matching.match_in[r.i] != NONE or s.matching.match_out[r.o] != NONE:
            continue
        best = picks[r.i if at_inputs else r.o]
        b = &s.matching.requests[best]
        if best == NONE or r.rank < b.rank or (
            r.rank == b.rank and turn_of(m, r, at_inputs) < turn_of(m, b, at_inputs)
        ):
            picks[r.i if at_inputs else r.o] = i


cdef inline int32_t match_separably(
    State* s, RequestMatrix* m, int32_t granted, bint inputs_first, bint move
) noexcept nogil:
    """One iteration of a separable allocator among unmatched inputs and outputs.

    `move`: the pointers move past matched pairs. Return the new count of granted requests.
    """
    cdef int32_t i
    cdef Request* r
    for i in range(m.count):
        s.matching.best_in[s.matching.requests[i].i] = NONE
        s.matching.best_out[s.matching.requests[i].o] = NONE
    arbitrate(s, m, inputs_first, False)
    arbitrate(s, m, not inputs_first, True)
    for i in range(m.count):
        r = &s.matching.requests[i]
        if (s.matching.best_out[r.o] if inputs_first else s.matching.best_in[r.i]) != i:
            continue
        granted = place_match(s, i, granted)
        if move and not r.empty:
            m.grant[r.out_id] = after(r.i, m.inputs)
            m.accept[r.in_id] = after(r.o, m.outputs)
    return granted


cdef inline int compare_requests(const void* a, const void* b) noexcept nogil:
    """Order by rank, then diagonal, then input, then output."""
    cdef Request* x = <Request*> a
    cdef Request* y = <Request*> b
    if x.rank != y.rank:
        return -1 if x.rank < y.rank else 1
    if x.turn != y.turn:
        return x.turn - y.turn
    if x.i != y.i:
        return x.i - y.i
    return x.o - y.o


cdef inline int32_t match_in_order(State* s, RequestMatrix* m, bint by_diagonal) noexcept nogil:
    """Grant requests in order of rank, then (`by_diagonal`) of diagonals, while their input and output are free."""
    cdef int32_t size = m.inputs if m.inputs > m.outputs else m.outputs
    cdef int32_t granted = 0
    cdef int32_t i
    cdef Request* r
    clear_matches(s, m)
    for i in range(m.count):
        r = &s.matching.requests[i]
        r.turn = (r.i + r.o + size - m.wave[0]) % size if by_diagonal else 0
    qsort(s.matching.requests, m.count, sizeof(Request), compare_requests)
    for i in range(m.count):
        r = &s.matching.requests[i]
        if s.matching.match_in[r.i] == NONE and s.matching.match_out[r.o] == NONE:
            granted = place_match(s, i, granted)
    if m.count:
        m.wave[0] = after(m.wave[0], size)
    return granted
