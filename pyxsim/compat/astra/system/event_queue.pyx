"""The event queue of all NPUs, in ASTRA-sim's order.

The events of an NPU at one time share a *bucket*, whose position among those of that time is that of its first event:
the callbacks of an NPU run together, in the order in which they were scheduled, including those that are added
meanwhile. Different NPUs, and events that belong to none, run in the order of scheduling.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from pyxsim.heap cimport Entry, heap_saved, load_heap, pop, push, resized
from pyxsim.raw cimport loaded, saved

cdef int32_t NONE = -1


cdef int open_queue(EventQueue* q, int64_t npus) except -1:
    cdef int64_t i
    q.events = NULL
    q.buckets = NULL
    q.heap.items = NULL
    q.heap.count = q.heap.capacity = 0
    q.free_event = q.free_bucket = NONE
    q.event_capacity = q.bucket_capacity = q.order = 0
    q.newest = <int32_t*> resized(NULL, npus, sizeof(int32_t))
    for i in range(npus):
        q.newest[i] = NONE
    return 0


cdef void close_queue(EventQueue* q) noexcept:
    free(q.events)
    free(q.buckets)
    free(q.heap.items)
    free(q.newest)


cdef tuple queue_saved(EventQueue* q, int64_t npus):
    return (
        saved(q.events, q.event_capacity, sizeof(Event)),
        saved(q.buckets, q.bucket_capacity, sizeof(Bucket)),
        heap_saved(&q.heap),
        saved(q.newest, npus, sizeof(int32_t)),
        (q.free_event, q.free_bucket, q.order),
    )


cdef int load_queue(EventQueue* q, tuple kept) except -1:
    """Fill a queue that was never opened."""
    events, buckets, heap, newest, numbers = kept
    q.free_event, q.free_bucket, q.order = numbers
    q.event_capacity = len(events) // <int64_t> sizeof(Event)
    q.bucket_capacity = len(buckets) // <int64_t> sizeof(Bucket)
    q.events, q.buckets = <Event*> loaded(events), <Bucket*> loaded(buckets)
    q.newest = <int32_t*> loaded(newest)
    return load_heap(&q.heap, heap)


cdef int32_t _new_event(EventQueue* q) except -1:
    cdef int64_t i, capacity
    cdef int32_t event
    if q.free_event == NONE:
        capacity = q.event_capacity * 2 if q.event_capacity else 64
        q.events = <Event*> resized(q.events, capacity, sizeof(Event))
        for i in range(q.event_capacity, capacity):
            q.events[i].next = <int32_t> (i + 1) if i + 1 < capacity else NONE
        q.free_event = <int32_t> q.event_capacity
        q.event_capacity = capacity
    event = q.free_event
    q.free_event = q.events[event].next
    return event


cdef int32_t _new_bucket(EventQueue* q) except -1:
    cdef int64_t i, capacity
    cdef int32_t bucket
    if q.free_bucket == NONE:
        capacity = q.bucket_capacity * 2 if q.bucket_capacity else 64
        q.buckets = <Bucket*> resized(q.buckets, capacity, sizeof(Bucket))
        for i in range(q.bucket_capacity, capacity):
            q.buckets[i].older = <int32_t> (i + 1) if i + 1 < capacity else NONE
        q.free_bucket = <int32_t> q.bucket_capacity
        q.bucket_capacity = capacity
    bucket = q.free_bucket
    q.free_bucket = q.buckets[bucket].older
    return bucket


cdef int schedule(EventQueue* q, int32_t npu, int64_t time, int32_t kind, int64_t item, int64_t size) except -1:
    """Add an event at `time` for an NPU, or for none (-1), in a bucket of its own."""
    cdef int32_t event = _new_event(q)
    cdef int32_t bucket = NONE, newer = NONE, older = NONE
    q.events[event].next = NONE
    q.events[event].kind = kind
    q.events[event].item = item
    q.events[event].size = size
    if npu >= 0:
        older = q.newest[npu]
        while older != NONE and q.buckets[older].time > time:
            newer = older
            older = q.buckets[older].older
        if older != NONE and q.buckets[older].time == time:
            bucket = older
    if bucket == NONE:
        bucket = _new_bucket(q)
        q.order += 1
        q.buckets[bucket].time = time
        q.buckets[bucket].npu = npu
        q.buckets[bucket].older = older
        q.buckets[bucket].first = NONE
        if newer != NONE:
            q.buckets[newer].older = bucket
        elif npu >= 0:
            q.newest[npu] = bucket
        push(&q.heap, Entry(time, q.order, bucket, 0, 0))
    if q.buckets[bucket].first == NONE:
        q.buckets[bucket].first = event
    else:
        q.events[q.buckets[bucket].last].next = event
    q.buckets[bucket].last = event
    return 0


cdef Event take(EventQueue* q) noexcept:
    """Return the first event of the first bucket. An empty bucket, to which events may still be added, is removed by
    the next call, which returns an event of kind -1."""
    cdef int32_t bucket = <int32_t> q.heap.items[0].item, newer
    cdef Bucket* b = &q.buckets[bucket]
    cdef int32_t event = b.first
    cdef Event taken
    if event != NONE:
        taken = q.events[event]
        b.first = taken.next
        q.events[event].next = q.free_event
        q.free_event = event
        return taken
    taken.kind = NONE
    pop(&q.heap)
    if b.npu >= 0:
        if q.newest[b.npu] == bucket:
            q.newest[b.npu] = b.older
        else:
            # It is the oldest bucket: everything earlier of this NPU is done.
            newer = q.newest[b.npu]
            while q.buckets[newer].older != bucket:
                newer = q.buckets[newer].older
            q.buckets[newer].older = NONE
    b.older = q.free_bucket
    q.free_bucket = bucket
    return taken
