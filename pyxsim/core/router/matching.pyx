"""The matrix allocators: which requests are granted (Dally and Towles, chapter 19; iSLIP: McKeown 1999).

A request matrix is a list of `Request`s with at most one per pair of input and output. Pointers move for matched pairs
only. docs/router.md defines every tie.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.records cimport INPUT_FIRST, ISLIP, NONE, WAVEFRONT, Request


cdef inline bint better(int64_t rank, int32_t gap, int64_t other_rank, int32_t other_gap) noexcept nogil:
    return rank < other_rank or (rank == other_rank and gap < other_gap)


cdef int32_t match_requests(
    State* s, int32_t count, int32_t kind, int32_t iterations, int32_t inputs, int32_t outputs,
    int32_t* grant, int32_t* accept, int32_t* wave,
) noexcept nogil:
    """Fill `State.matching.granted` with the numbers of the granted requests; return their count.

    `grant`, `accept`: the pointers, at `out_id` and `in_id` of a request. `wave`: the wavefront pointer.
    """
    cdef int32_t i, round_number, granted, before
    for i in range(count):
        s.matching.match_in[s.matching.requests[i].i] = NONE
        s.matching.match_out[s.matching.requests[i].o] = NONE
    if kind == INPUT_FIRST:
        return match_inputs_first(s, count, inputs, outputs, grant, accept)
    if kind == ISLIP:
        granted = 0
        for round_number in range(iterations):
            before = granted
            granted = match_outputs_first(s, count, granted, round_number == 0, inputs, outputs, grant, accept)
            if granted == before:
                break
        return granted
    granted = match_in_order(s, count, kind, inputs if inputs > outputs else outputs, wave[0])
    if count:
        wave[0] = after(wave[0], inputs if inputs > outputs else outputs)
    return granted


cdef void accept_match(
    State* s, int32_t number, int32_t place, bint move, int32_t inputs, int32_t outputs, int32_t* grant, int32_t* accept
) noexcept nogil:
    """Grant request `number` as entry `place` of the list."""
    cdef Request* r = &s.matching.requests[number]
    s.matching.granted[place] = number
    s.matching.match_in[r.i] = number
    s.matching.match_out[r.o] = number
    if move and not r.empty:
        grant[r.out_id] = after(r.i, inputs)
        accept[r.in_id] = after(r.o, outputs)


cdef int32_t match_inputs_first(
    State* s, int32_t count, int32_t inputs, int32_t outputs, int32_t* grant, int32_t* accept
) noexcept nogil:
    cdef int32_t i, best
    cdef int32_t granted = 0
    cdef Request* r
    cdef Request* b
    for i in range(count):
        s.matching.best_in[s.matching.requests[i].i] = NONE
        s.matching.best_out[s.matching.requests[i].o] = NONE
    for i in range(count):
        r = &s.matching.requests[i]
        best = s.matching.best_in[r.i]
        b = &s.matching.requests[best]
        if best == NONE or better(
            r.rank, distance(r.o, accept[r.in_id], outputs), b.rank, distance(b.o, accept[b.in_id], outputs)
        ):
            s.matching.best_in[r.i] = i
    for i in range(count):
        r = &s.matching.requests[i]
        if s.matching.best_in[r.i] != i:
            continue
        best = s.matching.best_out[r.o]
        b = &s.matching.requests[best]
        if best == NONE or better(
            r.rank, distance(r.i, grant[r.out_id], inputs), b.rank, distance(b.i, grant[b.out_id], inputs)
        ):
            s.matching.best_out[r.o] = i
    for i in range(count):
        if s.matching.best_out[s.matching.requests[i].o] == i:
            accept_match(s, i, granted, True, inputs, outputs, grant, accept)
            granted += 1
    return granted


cdef int32_t match_outputs_first(
    State* s, int32_t count, int32_t granted, bint move, int32_t inputs, int32_t outputs, int32_t* grant,
    int32_t* accept,
) noexcept nogil:
    """One iteration of iSLIP among unmatched inputs and outputs."""
    cdef int32_t i, best
    cdef Request* r
    cdef Request* b
    for i in range(count):
        s.matching.best_in[s.matching.requests[i].i] = NONE
        s.matching.best_out[s.matching.requests[i].o] = NONE
    for i in range(count):
        r = &s.matching.requests[i]
        if s.matching.match_in[r.i] != NONE or s.matching.match_out[r.o] != NONE:
            continue
        best = s.matching.best_out[r.o]
        b = &s.matching.requests[best]
        if best == NONE or better(
            r.rank, distance(r.i, grant[r.out_id], inputs), b.rank, distance(b.i, grant[b.out_id], inputs)
        ):
            s.matching.best_out[r.o] = i
    for i in range(count):
        r = &s.matching.requests[i]
        if s.matching.best_out[r.o] != i:
            continue
        best = s.matching.best_in[r.i]
        b = &s.matching.requests[best]
        if best == NONE or better(
            r.rank, distance(r.o, accept[r.in_id], outputs), b.rank, distance(b.o, accept[b.in_id], outputs)
        ):
            s.matching.best_in[r.i] = i
    for i in range(count):
        if s.matching.best_in[s.matching.requests[i].i] == i:
            accept_match(s, i, granted, move, inputs, outputs, grant, accept)
            granted += 1
    return granted


cdef int compare_requests(const void* a, const void* b) noexcept nogil:
    cdef Request* x = <Request*> a
    cdef Request* y = <Request*> b
    if x.rank != y.rank:
        return -1 if x.rank < y.rank else 1
    if x.turn != y.turn:
        return x.turn - y.turn
    if x.i != y.i:
        return x.i - y.i
    return x.o - y.o


cdef int32_t match_in_order(State* s, int32_t count, int32_t kind, int32_t size, int32_t wave) noexcept nogil:
    """Grant requests in order while their input and output are free: along diagonals (wavefront), or by rank (age)."""
    cdef int32_t i
    cdef int32_t granted = 0
    cdef Request* r
    for i in range(count):
        r = &s.matching.requests[i]
        r.turn = (r.i + r.o + size - wave) % size if kind == WAVEFRONT else 0
    qsort(s.matching.requests, count, sizeof(Request), compare_requests)
    for i in range(count):
        r = &s.matching.requests[i]
        if s.matching.match_in[r.i] == NONE and s.matching.match_out[r.o] == NONE:
            s.matching.granted[granted] = i
            s.matching.match_in[r.i] = i
            s.matching.match_out[r.o] = i
            granted += 1
    return granted
