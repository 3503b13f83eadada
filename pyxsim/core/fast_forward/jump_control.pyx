"""Fast-forward as the engine calls it: enable the search, report a possible jump, perform it."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.core.fast_forward.counter_log cimport stop_log, totals_at_cycles
from pyxsim.core.fast_forward.period_detector cimport create_detector, perform_jump

from pyxsim.core.state.record_dtypes import COPIED, COUNTERS, COMPARED_ARRAYS


cdef int look_for_periods(State* s, dict arrays, dict records, int64_t until, int64_t window) except -1:
    """Search for periods before cycle `until`; not where every event is recorded. `window`: as in `Engine.run`."""
    cdef int32_t i
    cdef uint8_t[::1] view
    if s.config.tracing or s.trace.watch_serial >= 0 or s.config.attribution > 1 or s.config.unusual:
        until = 0
    if s.config.attribution and s.latency.faulty:
        until = 0
    if s.detector == NULL and until > s.now:
        blocks = [arrays[name] for name in COMPARED_ARRAYS]
        blocks += [records[name] if name in records else arrays[name] for name in COPIED]
        blocks = [block for block in blocks if block.size]
        create_detector(s, len([name for name in COMPARED_ARRAYS if arrays[name].size]), len(blocks))
        for i, block in enumerate(blocks):
            view = block.view(np.uint8)
            s.detector.blocks[i].begin = &view[0]
            s.detector.blocks[i].size = view.shape[0]
    if s.detector != NULL:
        if until <= s.now:
            stop_log(s)
        s.detector.until, s.detector.window = until, window
        s.detector.plan.end = 0
    return 0


cdef int64_t end_of_jump(State* s) noexcept:
    return s.detector.plan.end if s.detector != NULL and s.detector.plan.end else s.now


cdef object totals_ahead(State* s, object cycles, int links):
    """The totals at the beginning of some cycles up to the end of the jump."""
    requested = np.asarray(cycles, dtype=np.int64)
    totals = np.zeros((len(requested), len(COUNTERS), s.links.logged), np.int64)
    if not len(requested) or not links:
        return totals[:, :, :links]
    if not s.now <= requested.min() <= requested.max() <= end_of_jump(s) or s.detector.plan.bits == NULL:
        raise ValueError("no jump covers these cycles, or the run had no window")
    cdef int64_t[::1] when = np.ascontiguousarray(requested)
    offsets = (s.detector.plan.offset + requested - s.now) % s.detector.plan.period
    cdef int64_t[::1] order = np.argsort(offsets).astype(np.int64)
    cdef int64_t[:, :, ::1] rows = totals
    totals_at_cycles(s, &s.detector.plan, &when[0], &order[0], when.shape[0], &rows[0, 0, 0])
    if s.failed:
        raise MemoryError("the network's state does not fit into memory")
    return totals[:, :, :links]


cdef int skip_ahead(State* s) except -1:
    if end_of_jump(s) == s.now:
        raise ValueError("no cycles can be skipped now")
    perform_jump(s)
    if s.failed:
        raise MemoryError("the network's state does not fit into memory")
    return 0


cdef int64_t skipped_cycles(State* s) noexcept:
    return s.detector.skipped if s.detector != NULL else 0
