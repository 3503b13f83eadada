"""What a walk through the state does with a field: see visit_state.pyx for the words."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport StateSnapshot
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Packet


cdef enum VisitMode:
    RECORD    # write a picture
    COMPARE   # is the state that of the picture?
    ADVANCE   # let so many periods pass


cdef struct Visitor:
    VisitMode mode
    bint differs
    bint allow_similar            # COMPARE: other messages than those of the picture will do, if they are like them
    StateSnapshot* snapshot
    int64_t position            # in picture.same
    int64_t counted          # in picture.counts, or deltas
    int64_t* deltas          # of the counters: found by COMPARE, used by ADVANCE
    int64_t deltas_room
    int64_t periods, cycles  # ADVANCE
    int64_t max_periods             # COMPARE: periods that every message can go on like this; -1: this was not one
    int32_t stuck            # COMPARE: a message has packets inside, and opened none
    bint grows               # COMPARE: what is waited for since a run began becomes more in every period
    int64_t latest_fixed              # COMPARE: the latest clock that stands
    int64_t earliest_moving            # COMPARE: the earliest one that goes, when the picture was taken


cdef bint word_room(State* s, Visitor* w, int64_t words) noexcept nogil
cdef bint counter_room(State* s, Visitor* w) noexcept nogil
cdef void visit_equal_bytes(State* s, Visitor* w, void* begin, int64_t size) noexcept nogil


cdef inline int64_t pack(int64_t low, int64_t high) noexcept nogil:
    """Two numbers of 32 bits as one."""
    return <int64_t> (<uint64_t> <uint32_t> low | (<uint64_t> <uint32_t> high << 32))


cdef inline void visit_equal(State* s, Visitor* w, int64_t value) noexcept nogil:
    if w.mode == ADVANCE or not word_room(s, w, 1):
        return
    if w.mode == RECORD:
        w.snapshot.same[w.position] = value
    elif w.snapshot.same[w.position] != value:
        w.differs = True
    w.position += 1


cdef inline void visit_deadline(State* s, Visitor* w, int64_t* field, int64_t unit) noexcept nogil:
    """A time in units of 1 / `unit_rate` cycles. That it is past is all that matters once it is."""
    if w.mode == ADVANCE:
        field[0] += w.cycles * unit
    else:
        visit_equal(s, w, max(field[0] - s.now * unit, 0))


cdef inline void visit_time(State* s, Visitor* w, int64_t* field, int64_t unit) noexcept nogil:
    if w.mode == ADVANCE:
        field[0] += w.cycles * unit
    else:
        visit_equal(s, w, field[0] - s.now * unit)


cdef inline int64_t visit_counter(State* s, Visitor* w, int64_t value) noexcept nogil:
    """The value of a counter, after it was told: what it becomes."""
    if w.mode == ADVANCE:
        value += w.periods * w.deltas[w.counted] if w.periods else 0
    elif not counter_room(s, w):
        return value
    elif w.mode == RECORD:
        w.snapshot.counts[w.counted] = value
    elif w.counted < w.snapshot.counts_count:
        w.deltas[w.counted] = value - w.snapshot.counts[w.counted]
    else:
        w.differs = True
        return value
    w.counted += 1
    return value


cdef inline void visit_count(State* s, Visitor* w, int64_t* field) noexcept nogil:
    field[0] = visit_counter(s, w, field[0])


cdef inline void visit_count32(State* s, Visitor* w, int32_t* field) noexcept nogil:
    field[0] = <int32_t> visit_counter(s, w, field[0])


cdef inline int64_t last_growth(Visitor* w) noexcept nogil:
    """COMPARE: what the counter that was met last has grown by."""
    return w.deltas[w.counted - 1] if w.counted else 0


cdef inline void visit_clock(State* s, Visitor* w, int64_t* field) noexcept nogil:
    """A cycle that goes with time or stands still: all that go must be later than all that stand."""
    cdef int64_t grown
    visit_count(s, w, field)
    if w.mode == COMPARE and not w.differs:
        grown = last_growth(w)
        if grown == 0:
            w.latest_fixed = max(w.latest_fixed, field[0])
        elif grown == s.now - w.snapshot.cycle:
            w.earliest_moving = min(w.earliest_moving, field[0] - grown)
        else:
            w.differs = True


cdef inline void visit_packet_identity(State* s, Visitor* w, int32_t packet) noexcept nogil:
    """Which packet stands here?"""
    cdef Packet* p = &s.pools.packets[packet]
    visit_equal(s, w, pack(s.detector.order[p.message], p.number - s.pools.messages[p.message].opened))
