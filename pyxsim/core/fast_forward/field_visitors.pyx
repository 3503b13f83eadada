"""Where the words of a picture are kept: see field_visitors.pxd."""

from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from pyxsim.core.state.network_state cimport grown


cdef bint has_room(State* s, Walk* w, int64_t words) noexcept nogil:
    """RECORD: room for so many more words. COMPARE: are there so many?"""
    cdef Picture* p = w.picture
    cdef int64_t room
    if w.mode == COMPARE:
        if w.place + words > p.same_count:
            w.differs = True
        return not w.differs
    if w.place + words > p.same_room:
        room = 2 * (w.place + words) + 1024
        p.same = <int64_t*> grown(s, p.same, room, sizeof(int64_t))
        if s.failed:
            return False
        p.same_room = room
    return True


cdef bint counters_fit(State* s, Walk* w) noexcept nogil:
    cdef Picture* p = w.picture
    cdef int64_t room = 2 * w.counted + 1024
    if w.mode == RECORD and w.counted == p.counts_room:
        p.counts = <int64_t*> grown(s, p.counts, room, sizeof(int64_t))
        if not s.failed:
            p.counts_room = room
    elif w.mode == COMPARE and w.counted == w.deltas_room:
        w.deltas = <int64_t*> grown(s, w.deltas, room, sizeof(int64_t))
        if not s.failed:
            w.deltas_room = room
    return not s.failed


cdef void same_bytes(State* s, Walk* w, void* begin, int64_t size) noexcept nogil:
    cdef int64_t words = (size + 7) >> 3
    if w.mode == ADVANCE or not has_room(s, w, words):
        return
    if w.mode == RECORD:
        memcpy(&w.picture.same[w.place], begin, size)
    elif memcmp(&w.picture.same[w.place], begin, size):
        w.differs = True
    w.place += words
