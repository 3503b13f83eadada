"""Storage of a state snapshot: see field_visitors.pxd."""

from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from pyxsim.core.state.network_state cimport grow_array


cdef bint word_capacity(State* s, Visitor* w, int64_t words) noexcept nogil:
    """RECORD: make room for more words. COMPARE: check that the snapshot has as many."""
    cdef StateSnapshot* p = w.snapshot
    cdef int64_t capacity
    if w.mode == COMPARE:
        if w.position + words > p.same_count:
            w.differs = True
        return not w.differs
    if w.position + words > p.same_capacity:
        capacity = 2 * (w.position + words) + 1024
        p.same = <int64_t*> grow_array(s, p.same, capacity, sizeof(int64_t))
        if s.failed:
            return False
        p.same_capacity = capacity
    return True


cdef bint counter_capacity(State* s, Visitor* w) noexcept nogil:
    cdef StateSnapshot* p = w.snapshot
    cdef int64_t capacity = 2 * w.counted + 1024
    if w.mode == RECORD and w.counted == p.counts_capacity:
        p.counts = <int64_t*> grow_array(s, p.counts, capacity, sizeof(int64_t))
        if not s.failed:
            p.counts_capacity = capacity
    elif w.mode == COMPARE and w.counted == w.deltas_capacity:
        w.deltas = <int64_t*> grow_array(s, w.deltas, capacity, sizeof(int64_t))
        if not s.failed:
            w.deltas_capacity = capacity
    return not s.failed


cdef void visit_equal_bytes(State* s, Visitor* w, void* begin, int64_t size) noexcept nogil:
    cdef int64_t words = (size + 7) >> 3
    if w.mode == ADVANCE or not word_capacity(s, w, words):
        return
    if w.mode == RECORD:
        memcpy(&w.snapshot.same[w.position], begin, size)
    elif memcmp(&w.snapshot.same[w.position], begin, size):
        w.differs = True
    w.position += words
