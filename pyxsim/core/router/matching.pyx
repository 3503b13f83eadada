"""The matrix allocators (Dally and Towles, chapter 19; McKeown 1999 for iSLIP): which requests are granted.

A request matrix is a list of `Request`s with at most one for each pair of input and output. The pointers of inputs
and outputs move for matched pairs only. docs/router.md tells every tie.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.network_state cimport INPUT_FIRST, ISLIP, NONE, WAVEFRONT, Request


cdef inline bint beats(int64_t rank, int32_t far, int64_t other_rank, int32_t other_far) noexcept nogil:
    return rank < other_rank or (rank == other_rank and far < other_far)


cdef int32_t match(
    State* s, int32_t count, int32_t kind, int32_t iterations, int32_t inputs, int32_t outputs,
    int32_t* grant, int32_t* accept, int32_t* wave,
) noexcept nogil:
    """Fills `s.matched` with the numbers of the granted requests; returns how many there are.

    `grant`, `accept`: the pointers, at `out_id` and `in_id` of a request. `wave`: the wave pointer.
    """
    cdef int32_t i, round_number, found, before
    for i in range(count):
        s.match_in[s.requests[i].i] = NONE
        s.match_out[s.requests[i].o] = NONE
    if kind == INPUT_FIRST:
        return inputs_first(s, count, inputs, outputs, grant, accept)
    if kind == ISLIP:
        found = 0
        for round_number in range(iterations):
            before = found
            found = outputs_first(s, count, found, round_number == 0, inputs, outputs, grant, accept)
            if found == before:
                break
        return found
    found = in_order(s, count, kind, inputs if inputs > outputs else outputs, wave[0])
    if count:
        wave[0] = after(wave[0], inputs if inputs > outputs else outputs)
    return found


cdef void take(
    State* s, int32_t number, int32_t place, bint move, int32_t inputs, int32_t outputs, int32_t* grant, int32_t* accept
) noexcept nogil:
    """Request `number` is the `place`-th one granted."""
    cdef Request* r = &s.requests[number]
    s.matched[place] = number
    s.match_in[r.i] = number
    s.match_out[r.o] = number
    if move and not r.empty:
        grant[r.out_id] = after(r.i, inputs)
        accept[r.in_id] = after(r.o, outputs)


cdef int32_t inputs_first(
    State* s, int32_t count, int32_t inputs, int32_t outputs, int32_t* grant, int32_t* accept
) noexcept nogil:
    cdef int32_t i, best
    cdef int32_t found = 0
    cdef Request* r
    cdef Request* b
    for i in range(count):
        s.best_in[s.requests[i].i] = NONE
        s.best_out[s.requests[i].o] = NONE
    for i in range(count):
        r = &s.requests[i]
        best = s.best_in[r.i]
        b = &s.requests[best]
        if best == NONE or beats(
            r.rank, distance(r.o, accept[r.in_id], outputs), b.rank, distance(b.o, accept[b.in_id], outputs)
        ):
            s.best_in[r.i] = i
    for i in range(count):
        r = &s.requests[i]
        if s.best_in[r.i] != i:
            continue
        best = s.best_out[r.o]
        b = &s.requests[best]
        if best == NONE or beats(
            r.rank, distance(r.i, grant[r.out_id], inputs), b.rank, distance(b.i, grant[b.out_id], inputs)
        ):
            s.best_out[r.o] = i
    for i in range(count):
        if s.best_out[s.requests[i].o] == i:
            take(s, i, found, True, inputs, outputs, grant, accept)
            found += 1
    return found


cdef int32_t outputs_first(
    State* s, int32_t count, int32_t found, bint move, int32_t inputs, int32_t outputs, int32_t* grant, int32_t* accept
) noexcept nogil:
    """One iteration of iSLIP among the inputs and outputs that are unmatched."""
    cdef int32_t i, best
    cdef Request* r
    cdef Request* b
    for i in range(count):
        s.best_in[s.requests[i].i] = NONE
        s.best_out[s.requests[i].o] = NONE
    for i in range(count):
        r = &s.requests[i]
        if s.match_in[r.i] != NONE or s.match_out[r.o] != NONE:
            continue
        best = s.best_out[r.o]
        b = &s.requests[best]
        if best == NONE or beats(
            r.rank, distance(r.i, grant[r.out_id], inputs), b.rank, distance(b.i, grant[b.out_id], inputs)
        ):
            s.best_out[r.o] = i
    for i in range(count):
        r = &s.requests[i]
        if s.best_out[r.o] != i:
            continue
        best = s.best_in[r.i]
        b = &s.requests[best]
        if best == NONE or beats(
            r.rank, distance(r.o, accept[r.in_id], outputs), b.rank, distance(b.o, accept[b.in_id], outputs)
        ):
            s.best_in[r.i] = i
    for i in range(count):
        if s.best_in[s.requests[i].i] == i:
            take(s, i, found, move, inputs, outputs, grant, accept)
            found += 1
    return found


cdef int compare(const void* a, const void* b) noexcept nogil:
    cdef Request* x = <Request*> a
    cdef Request* y = <Request*> b
    if x.rank != y.rank:
        return -1 if x.rank < y.rank else 1
    if x.turn != y.turn:
        return x.turn - y.turn
    if x.i != y.i:
        return x.i - y.i
    return x.o - y.o


cdef int32_t in_order(State* s, int32_t count, int32_t kind, int32_t size, int32_t wave) noexcept nogil:
    """One request after the other, as long as its input and output are free: along diagonals, or by rank alone."""
    cdef int32_t i
    cdef int32_t found = 0
    cdef Request* r
    for i in range(count):
        r = &s.requests[i]
        r.turn = (r.i + r.o + size - wave) % size if kind == WAVEFRONT else 0
    qsort(s.requests, count, sizeof(Request), compare)
    for i in range(count):
        r = &s.requests[i]
        if s.match_in[r.i] == NONE and s.match_out[r.o] == NONE:
            s.matched[found] = i
            s.match_in[r.i] = i
            s.match_out[r.o] = i
            found += 1
    return found
