"""What is still to be done, and when: see agenda.pyx."""

from libc.stdint cimport int32_t, int64_t


cdef struct Entry:
    int32_t next
    int32_t what
    int64_t who
    int64_t size


cdef struct Bucket:
    int64_t time
    int64_t turn          # among the things of one time: the order in which they were asked for
    int32_t npu           # -1: not a bucket of an NPU
    int32_t older         # the NPU's bucket of the next smaller time, or the next free bucket
    int32_t first         # entries, or -1
    int32_t last


cdef struct Agenda:
    Entry* entries
    Bucket* buckets
    int32_t* heap         # buckets; the first in time and turn on top
    int32_t* newest       # per NPU: its bucket of the largest time, or -1
    int32_t entry_free
    int32_t bucket_free
    int64_t entry_room
    int64_t bucket_room
    int64_t heap_count
    int64_t turn          # the last one that was given


cdef void* grown(void* old, int64_t count, int64_t size) except NULL
cdef int open_agenda(Agenda* a, int64_t npus) except -1
cdef void close_agenda(Agenda* a) noexcept
cdef tuple agenda_saved(Agenda* a, int64_t npus)
cdef int load_agenda(Agenda* a, tuple kept) except -1
cdef int add(Agenda* a, int32_t npu, int64_t time, int32_t what, int64_t who, int64_t size) except -1
cdef Entry take(Agenda* a) noexcept
