"""Moments between two cycles."""

from libc.math cimport floor
from libc.stdint cimport int64_t


cdef struct Moment:
    int64_t cycle
    double part  # fraction of a cycle, in [0, 1)


cdef inline int64_t never() noexcept nogil:
    return (<int64_t> 1 << 62) + 1


cdef inline bint earlier(Moment a, Moment b) noexcept nogil:
    return a.cycle < b.cycle or (a.cycle == b.cycle and a.part < b.part)


cdef inline Moment later(Moment from_, double cycles) noexcept nogil:
    """The moment `cycles` later; `never()` on overflow."""
    cdef Moment result
    cdef double sum = from_.part + max(cycles, 0), whole = floor(sum)
    if not whole <= <double> (<int64_t> 1 << 60):
        result.cycle, result.part = never(), 0
        return result
    result.cycle, result.part = from_.cycle + <int64_t> whole, sum - whole
    return result


cdef inline double between(Moment a, Moment b) noexcept nogil:
    """Cycles from a to b."""
    return <double> (b.cycle - a.cycle) + (b.part - a.part)


cdef inline int64_t up(Moment moment) noexcept nogil:
    """The first whole cycle at or after a moment."""
    return moment.cycle + (1 if moment.part > 0 else 0)
