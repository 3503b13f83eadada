"""What a walk through the state does with a field: see visit_state.pyx for the words."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport Picture
from pyxsim.core.state.network_state cimport Packet, State


cdef enum Mode:
    RECORD    # write a picture
    COMPARE   # is the state that of the picture?
    ADVANCE   # let so many periods pass


cdef struct Walk:
    Mode mode
    bint differs
    bint any_like            # COMPARE: other messages than those of the picture will do, if they are like them
    Picture* picture
    int64_t place            # in picture.same
    int64_t counted          # in picture.counts, or deltas
    int64_t* deltas          # of the counters: found by COMPARE, used by ADVANCE
    int64_t deltas_room
    int64_t periods, cycles  # ADVANCE
    int64_t most             # COMPARE: periods that every message can go on like this; -1: this was not one
    int32_t stuck            # COMPARE: a message has packets inside, and opened none
    bint grows               # COMPARE: what is waited for since a run began becomes more in every period
    int64_t old              # COMPARE: the latest clock that stands
    int64_t young            # COMPARE: the earliest one that goes, when the picture was taken


cdef bint has_room(State* s, Walk* w, int64_t words) noexcept nogil
cdef bint counters_fit(State* s, Walk* w) noexcept nogil
cdef void same_bytes(State* s, Walk* w, void* begin, int64_t size) noexcept nogil


cdef inline int64_t both(int64_t low, int64_t high) noexcept nogil:
    """Two numbers of 32 bits as one."""
    return <int64_t> (<uint64_t> <uint32_t> low | (<uint64_t> <uint32_t> high << 32))


cdef inline void same(State* s, Walk* w, int64_t value) noexcept nogil:
    if w.mode == ADVANCE or not has_room(s, w, 1):
        return
    if w.mode == RECORD:
        w.picture.same[w.place] = value
    elif w.picture.same[w.place] != value:
        w.differs = True
    w.place += 1


cdef inline void moves(State* s, Walk* w, int64_t* field, int64_t unit) noexcept nogil:
    """A time in units of 1 / `unit` cycles. That it is past is all that matters once it is."""
    if w.mode == ADVANCE:
        field[0] += w.cycles * unit
    else:
        same(s, w, max(field[0] - s.now * unit, 0))


cdef inline void shifts(State* s, Walk* w, int64_t* field, int64_t unit) noexcept nogil:
    if w.mode == ADVANCE:
        field[0] += w.cycles * unit
    else:
        same(s, w, field[0] - s.now * unit)


cdef inline int64_t counted(State* s, Walk* w, int64_t value) noexcept nogil:
    """The value of a counter, after it was told: what it becomes."""
    if w.mode == ADVANCE:
        value += w.periods * w.deltas[w.counted] if w.periods else 0
    elif not counters_fit(s, w):
        return value
    elif w.mode == RECORD:
        w.picture.counts[w.counted] = value
    elif w.counted < w.picture.counts_count:
        w.deltas[w.counted] = value - w.picture.counts[w.counted]
    else:
        w.differs = True
        return value
    w.counted += 1
    return value


cdef inline void counts(State* s, Walk* w, int64_t* field) noexcept nogil:
    field[0] = counted(s, w, field[0])


cdef inline void counts_int(State* s, Walk* w, int32_t* field) noexcept nogil:
    field[0] = <int32_t> counted(s, w, field[0])


cdef inline int64_t grown_by(Walk* w) noexcept nogil:
    """COMPARE: what the counter that was met last has grown by."""
    return w.deltas[w.counted - 1] if w.counted else 0


cdef inline void clocks(State* s, Walk* w, int64_t* field) noexcept nogil:
    """A cycle that goes with time or stands still: all that go must be later than all that stand."""
    cdef int64_t grown
    counts(s, w, field)
    if w.mode == COMPARE and not w.differs:
        grown = grown_by(w)
        if grown == 0:
            w.old = max(w.old, field[0])
        elif grown == s.now - w.picture.cycle:
            w.young = min(w.young, field[0] - grown)
        else:
            w.differs = True


cdef inline void name(State* s, Walk* w, int32_t packet) noexcept nogil:
    """Which packet stands here?"""
    cdef Packet* p = &s.packets[packet]
    same(s, w, both(s.orbit.order[p.message], p.number - s.messages[p.message].opened))
