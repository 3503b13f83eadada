"""Ways over links, and what is fair."""

from libc.stdint cimport int32_t, int64_t


cdef struct Use:
    int64_t first, last  # its places in `steps`
    double top           # bytes per cycle that a message has alone
    double level         # that each of its messages gets, as of the last filling
    int64_t messages
    int64_t seen         # the last filling that looked at it
    bint fixed           # its level is found


cdef struct Step:
    double share
    int32_t link
    int32_t way
    int32_t before, behind  # steps of other ways that use the link now


cdef struct Link:
    double capacity
    double left      # bytes per cycle that nobody has;
    double weight    # while levels rise: shares of those that do,
    int64_t rising   # and how many ways they are
    double level     # at which it is full, or less
    int64_t ways     # the first step of a way that uses it now
    int64_t seen


cdef class Filling:
    cdef readonly int64_t ways, links
    cdef Use *use
    cdef int64_t *found     # ways whose levels are looked for,
    cdef int64_t in_found
    cdef Step *steps
    cdef Link *link
    cdef int64_t *reached   # and their links, while levels rise a heap
    cdef int64_t in_reached, epoch, way_room, step_room, link_room, step_count

    cdef int _make_room(self, int64_t ways, int64_t steps) except -1
    cdef void join(self, int64_t number) noexcept nogil
    cdef void leave(self, int64_t number) noexcept nogil
    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil
    cdef void _reach(self, int64_t number) noexcept nogil
    cdef void _rise(self) noexcept nogil
    cdef void _fix(self, int64_t number, double level) noexcept nogil
    cdef void _sink(self, int64_t place) noexcept nogil


cdef void *room_for(void *old, int64_t count, size_t size) except NULL
