"""Storage of a state snapshot: see field_visitors.pxd."""

from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from pyxsim.core.state.network_state cimport grow_array


cdef bint word_room(State* s, Visitor* w, int64_t words) noexcept nogil:
    """RECORD: make room for more words. COMPARE: check that the snapshot has as many."""
    cdef StateSnapshot* p = w.snapshot
    cdef int64_t room
    if w.mode == COMPARE:
        if w.position + words > p.same_count:
            w.differs = True
        return not w.differs
    if w.position + words > p.same_room:
        room = 2 * (w.position + words) + 1024
        p.same = <int64_t*> grow_array(s, p.same, room, sizeof(int64_t))
        if s.failed:
            return False
        p.same_room = room
    return True


cdef bint counter_room(State* s, Visitor* w) noexcept nogil:
    cdef StateSnapshot* p = w.snapshot
    cdef int64_t room = 2 * w.counted + 1024
    if w.mode == RECORD and w.counted == p.counts_room:
        p.counts = <int64_t*> grow_array(s, p.counts, room, sizeof(int64_t))
        if not s.failed:
            p.counts_room = room
    elif w.mode == COMPARE and w.counted == w.deltas_room:
        w.deltas = <int64_t*> grow_array(s, w.deltas, room, sizeof(int64_t))
        if not s.failed:
            w.deltas_room = room
    return not s.failed


cdef void visit_equal_bytes(State* s, Visitor* w, void* begin, int64_t size) noexcept nogil:
    cdef int64_t words = (size + 7) >> 3
    if w.mode == ADVANCE or not word_room(s, w, words):
        return
    if w.mode == RECORD:
        memcpy(&w.snapshot.same[w.position], begin, size)
    elif memcmp(&w.snapshot.same[w.position], begin, size):
        w.differs = True
    w.position += words
