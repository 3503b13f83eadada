"""One walk through the state of a network: see repeat_walk.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.orbit cimport Picture
from pyxsim.core.state cimport State


cdef enum Mode:
    RECORD    # write a picture
    COMPARE   # is the state that of the picture?
    ADVANCE   # let so many periods pass


cdef struct Walk:
    Mode mode
    bint differs
    Picture* picture
    int64_t place            # in picture.same
    int64_t counted          # in picture.counts, or deltas
    int64_t* deltas          # of the counters: found by COMPARE, used by ADVANCE
    int64_t deltas_room
    int64_t periods, cycles  # ADVANCE
    int64_t most             # COMPARE: periods that every message can go on like this
    int32_t stuck            # COMPARE: a message has packets inside, and opened none


cdef void walk(State* s, Walk* w) noexcept nogil
