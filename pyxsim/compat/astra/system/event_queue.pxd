"""ASTRA-sim's event queue: see event_queue.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.heap cimport Heap


cdef struct Event:
    int32_t next
    int32_t kind
    int64_t item
    int64_t size


cdef struct Bucket:
    int64_t time
    int32_t npu           # -1: belongs to no NPU
    int32_t older         # the NPU's bucket of the next smaller time, or the next free bucket
    int32_t first         # events, or -1
    int32_t last


cdef struct EventQueue:
    Event* events
    Bucket* buckets
    Heap heap             # buckets by (time, order)
    int32_t* newest       # per NPU: its bucket of the largest time, or -1
    int32_t free_event
    int32_t free_bucket
    int64_t event_capacity
    int64_t bucket_capacity
    int64_t order         # last number in the order of scheduling


cdef int open_queue(EventQueue* q, int64_t npus) except -1
cdef void close_queue(EventQueue* q) noexcept
cdef tuple queue_saved(EventQueue* q, int64_t npus)
cdef int load_queue(EventQueue* q, tuple kept) except -1
cdef int schedule(EventQueue* q, int32_t npu, int64_t time, int32_t kind, int64_t item, int64_t size) except -1
cdef Event take(EventQueue* q) noexcept


cdef inline Bucket* top_bucket(EventQueue* q) noexcept:
    return &q.buckets[q.heap.items[0].item]
