"""Links, the paths over them, and their max-min fair rates."""

from libc.stdint cimport int32_t, int64_t


cdef struct Use:
    int64_t first, last  # range of its steps in `steps`
    double top           # rate of a message that is alone, bytes per cycle
    double level         # rate of each of its messages, as of the last filling
    int64_t messages
    int64_t seen         # the last filling that reached it
    bint fixed           # whether its level is final


cdef struct Step:
    double share
    int32_t link
    int32_t path
    int32_t previous, next  # steps of other paths that use the link now


cdef struct Link:
    double capacity
    double left         # free bytes per cycle
    double weight       # sum of the shares of the paths whose level still rises
    int64_t rising      # number of these paths
    double level        # lower bound of the level at which it is full
    int64_t first_step  # the first step of a path that uses it now
    int64_t seen


cdef class Filling:
    cdef readonly int64_t paths, links
    cdef Use *use
    cdef int64_t *affected  # paths whose levels this filling computes
    cdef int64_t affected_count
    cdef Step *steps
    cdef Link *link
    cdef int64_t *reached   # their links; a heap while levels rise
    cdef int64_t reached_count, epoch, path_capacity, step_capacity, link_capacity, step_count

    cdef int _reserve(self, int64_t paths, int64_t steps) except -1
    cdef void join(self, int64_t number) noexcept nogil
    cdef void leave(self, int64_t number) noexcept nogil
    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil
    cdef void _reach(self, int64_t number) noexcept nogil
    cdef void _rise(self) noexcept nogil
    cdef void _fix(self, int64_t number, double level) noexcept nogil
    cdef void _sink(self, int64_t position) noexcept nogil


cdef void *room_for(void *old, int64_t count, size_t size) except NULL
