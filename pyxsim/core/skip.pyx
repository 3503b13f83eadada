"""Fast-forward as Python asks for it: where it is looked for, and what there is to be done with a period."""

import numpy as np

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from pyxsim.core.cycle cimport run_cycles
from pyxsim.core.repeat cimport (
    jump,
    make_orbit,
    note_totals,
    pass_period,
    periods_until,
    sample_at,
    stop_sampling,
)

from pyxsim.core.records import COUNTERS, SAME


cdef int look_for_periods(State* s, dict arrays, int64_t until, int64_t window) except -1:
    """In the cycles before `until`, if that is to come; not where every step is told. `window`: as in run."""
    cdef int32_t i
    cdef uint8_t[::1] view
    if s.tracing or s.watch_serial >= 0 or s.attribution > 1:
        until = 0
    if s.orbit == NULL and until > s.now:
        make_orbit(s, len(SAME))
        for i, name in enumerate(SAME):
            view = arrays[name].view(np.uint8)
            s.orbit.blocks[i].begin = &view[0]
            s.orbit.blocks[i].size = view.shape[0]
    if s.orbit != NULL:
        s.orbit.until, s.orbit.window = until, window
        if until <= s.now:
            stop_sampling(s)
    return 0


cdef tuple periods_of(State* s):
    if s.orbit == NULL:
        return 0, 0
    return s.orbit.period, periods_until(s, s.orbit.until)


cdef object sampled(State* s, object cycles, int links):
    """The totals at the beginning of some cycles of the proved period that comes, and at its end.

    They are those of the period before it and what that added, where they were noted then. Else it is simulated.
    """
    cdef int64_t[::1] cuts = np.append(np.asarray(cycles, dtype=np.int64), s.now + s.orbit.period)
    found = np.zeros((cuts.shape[0], len(COUNTERS), s.network_links), np.int64)
    cdef int64_t[:, :, ::1] view = found
    cdef int64_t i
    cdef int64_t size = found[0].nbytes
    cdef int64_t until = s.orbit.until
    cdef int64_t* row
    for i in range(cuts.shape[0] - 1):
        row = sample_at(s, cuts[i] - s.now)
        if row == NULL:
            break
        if links:
            memcpy(&view[i, 0, 0], row, size)
    else:
        begun = np.zeros((1, *found.shape[1:]), np.int64)
        if links:
            i = cuts.shape[0] - 1
            note_totals(s, &view[i, 0, 0])
            view = begun
            memcpy(&view[0, 0, 0], sample_at(s, 0), size)
        return (found + (found[cuts.shape[0] - 1] - begun))[:, :, :links]
    s.orbit.until = 0
    for i in range(cuts.shape[0]):
        if cuts[i] > s.now:
            s.changed = 1   # so that it stops there, whatever happened
            with nogil:
                run_cycles(s, INT64_MAX - 1, 0, cuts[i])
        if s.failed:
            raise MemoryError("the network's state does not fit into memory")
        if links:
            note_totals(s, &view[i, 0, 0])
    s.orbit.until = until
    pass_period(s)
    return found[:, :, :links]


cdef int skip_periods(State* s, int64_t periods) except -1:
    if not 0 <= periods <= periods_of(s)[1]:
        raise ValueError(f"{periods} periods cannot be skipped now")
    if periods:
        jump(s, periods)
    if s.failed:
        raise MemoryError("the network's state does not fit into memory")
    return 0


cdef int64_t skipped_cycles(State* s) noexcept:
    return s.orbit.skipped if s.orbit != NULL else 0
