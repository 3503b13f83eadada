"""Links, the paths over them, and their max-min fair rates."""

from libc.stdint cimport int32_t, int64_t


cdef struct Use:
    double held          # number of its messages in the last filling: `left` of its links counts these
    double water         # rate of each of its messages as of the last filling, before it is rounded to `top`
    int64_t seen         # the last filling that released or fixed it
    int32_t bottleneck   # the link that limits it; NONE while its level rises
    bint fixed           # in the filling `seen`: whether its level is final
    int32_t first, last  # range of its steps in `steps`
    int64_t messages
    double top           # rate of a message that is alone, bytes per cycle
    double level         # `water`, rounded


cdef struct Step:
    double share
    int32_t link
    int32_t position  # in `crossings` of the link


cdef struct Crossing:
    double share
    int32_t path, step


cdef struct Link:
    # During a filling:
    int64_t seen
    int64_t rising        # number of its paths whose level rises,
    double rising_weight  # sum of the shares of their messages,
    double base           # and what they had before they rose
    int32_t position      # in the heap; NONE: not there
    bint fresh            # whether nothing has changed on it since `full` was computed
    double full           # level at which it is full; valid if `fresh`
    # At all times:
    double left           # free bytes per cycle
    int64_t limited       # number of the paths that it limits,
    double level          # their level,
    double weight         # and the sum of the shares of their messages
    int64_t changes       # number of changes of `left` since it was summed up
    double capacity
    Crossing *crossings   # paths with messages that use it
    int64_t paths, room   # their number, and for how many there is memory
    int64_t crossing      # number of all paths over it


cdef struct Waiting:
    double key            # lower bound of the level at which the link needs attention
    int64_t link


cdef class Filling:
    cdef readonly int64_t paths, links
    cdef Use *use
    cdef int64_t *affected  # paths whose level has changed in this filling, or their messages
    cdef int64_t affected_count
    cdef Step *steps
    cdef Link *link
    cdef Waiting *heap       # links by `key`
    cdef int64_t heap_count, epoch, path_capacity, step_capacity, link_capacity, step_count
    cdef int64_t rising     # number of paths whose level rises
    cdef double water       # level of the link fixed last
    cdef double key         # that of the link removed from the heap last

    cdef int _reserve(self, int64_t paths, int64_t steps) except -1
    cdef void join(self, int64_t number) noexcept nogil
    cdef void leave(self, int64_t number) noexcept nogil
    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil
    cdef void _change(self, int64_t number) noexcept nogil
    cdef bint _fill_alone(self, int64_t number) noexcept nogil
    cdef inline Link *_reach(self, int64_t number) noexcept nogil
    cdef void _release(self, int64_t number) noexcept nogil
    cdef void _attend(self, int64_t number) noexcept nogil
    cdef inline double _bound(self, Link *link) noexcept nogil
    cdef inline double _lowest(self, Link *link) noexcept nogil
    cdef void _measure(self, int64_t number) noexcept nogil
    cdef void _drop_slack(self) noexcept nogil
    cdef void _fix_paths(self, int64_t number, double level) noexcept nogil
    cdef void _fix(self, int64_t path, int64_t number, double level) noexcept nogil
    cdef void _sum_up(self, Use *use) noexcept nogil
    cdef void _push(self, int64_t number, double key) noexcept nogil
    cdef int64_t _pop(self) noexcept nogil


cdef void *room_for(void *old, int64_t count, size_t size) except NULL
