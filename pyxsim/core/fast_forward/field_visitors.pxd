"""What the state visitor does with one field: see visit_state.pyx for the kinds of fields."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport StateSnapshot
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Packet


cdef enum VisitMode:
    RECORD    # write a snapshot
    COMPARE   # compare the state with a snapshot
    ADVANCE   # advance the state by whole periods


cdef struct Visitor:
    VisitMode mode
    bint differs
    # COMPARE: messages other than those of the snapshot are accepted if they are interchangeable
    bint allow_similar
    StateSnapshot* snapshot
    int64_t position          # in snapshot.same
    int64_t counted           # in snapshot.counts, or deltas
    int64_t* deltas           # of the counters: computed by COMPARE, used by ADVANCE
    int64_t deltas_capacity
    int64_t periods, cycles   # ADVANCE
    int64_t max_periods       # COMPARE: periods for which every message can continue; -1: this was not one
    int32_t stuck             # COMPARE: a message has packets inside and opened none
    bint grows                # COMPARE: waits since the beginning of a run grow with every period
    int64_t latest_fixed      # COMPARE: the latest clock that stands still
    int64_t earliest_moving   # COMPARE: the earliest clock that moves, at the snapshot


cdef bint word_capacity(State* s, Visitor* w, int64_t words) noexcept nogil
cdef bint counter_capacity(State* s, Visitor* w) noexcept nogil
cdef void visit_equal_bytes(State* s, Visitor* w, void* begin, int64_t size) noexcept nogil


cdef inline int64_t pack(int64_t low, int64_t high) noexcept nogil:
    """Pack two 32-bit numbers into one."""
    return <int64_t> (<uint64_t> <uint32_t> low | (<uint64_t> <uint32_t> high << 32))


cdef inline void visit_equal(State* s, Visitor* w, int64_t value) noexcept nogil:
    if w.mode == ADVANCE or not word_capacity(s, w, 1):
        return
    if w.mode == RECORD:
        w.snapshot.same[w.position] = value
    elif w.snapshot.same[w.position] != value:
        w.differs = True
    w.position += 1


cdef inline void visit_deadline(State* s, Visitor* w, int64_t* field, int64_t unit) noexcept nogil:
    """A time in units of 1 / `unit` cycles that no longer matters once it is past."""
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
    """Visit a counter; return its new value."""
    if w.mode == ADVANCE:
        value += w.periods * w.deltas[w.counted] if w.periods else 0
    elif not counter_capacity(s, w):
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
    """COMPARE: growth of the counter visited last."""
    return w.deltas[w.counted - 1] if w.counted else 0


cdef inline void visit_clock(State* s, Visitor* w, int64_t* field) noexcept nogil:
    """A cycle that moves with time or stands still; all that move must be later than all that stand still."""
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
    """Visit the identity of a packet: its message, and its number relative to the next one opened."""
    cdef Packet* p = &s.pools.packets[packet]
    visit_equal(s, w, pack(s.detector.order[p.message], p.number - s.pools.messages[p.message].opened))
