"""The agenda of all NPUs, in ASTRA-sim's order.

Everything that an NPU does at one time stands in one *bucket*, whose place among the things of that time is that of its
first entry: the callbacks of an NPU are run together, in the order in which they were asked for, those included that
are added meanwhile. Different NPUs, and things that belong to none, come in the order in which they were asked for.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from pyxsim.raw cimport loaded, saved

cdef int32_t NONE = -1


cdef void* grown(void* old, int64_t count, int64_t size) except NULL:
    """`old` with room for `count` things of `size` bytes; the new ones are not set."""
    cdef void* fresh = realloc(old, count * size)
    if fresh == NULL:
        raise MemoryError
    return fresh


cdef int open_agenda(Agenda* a, int64_t npus) except -1:
    cdef int64_t i
    a.entries = NULL
    a.buckets = NULL
    a.heap = NULL
    a.entry_free = a.bucket_free = NONE
    a.entry_room = a.bucket_room = a.heap_count = a.turn = 0
    a.newest = <int32_t*> grown(NULL, npus, sizeof(int32_t))
    for i in range(npus):
        a.newest[i] = NONE
    return 0


cdef void close_agenda(Agenda* a) noexcept:
    free(a.entries)
    free(a.buckets)
    free(a.heap)
    free(a.newest)


cdef tuple agenda_saved(Agenda* a, int64_t npus):
    return (
        saved(a.entries, a.entry_room, sizeof(Entry)),
        saved(a.buckets, a.bucket_room, sizeof(Bucket)),
        saved(a.heap, a.heap_count, sizeof(int32_t)),
        saved(a.newest, npus, sizeof(int32_t)),
        (a.entry_free, a.bucket_free, a.heap_count, a.turn),
    )


cdef int load_agenda(Agenda* a, tuple kept) except -1:
    """Into one that was never opened."""
    entries, buckets, heap, newest, numbers = kept
    a.entry_free, a.bucket_free, a.heap_count, a.turn = numbers
    a.entry_room = len(entries) // <int64_t> sizeof(Entry)
    a.bucket_room = len(buckets) // <int64_t> sizeof(Bucket)
    a.entries, a.buckets = <Entry*> loaded(entries), <Bucket*> loaded(buckets)
    a.newest = <int32_t*> loaded(newest)
    a.heap = <int32_t*> grown(loaded(heap), max(a.bucket_room, 1), sizeof(int32_t))   # room for all buckets
    return 0


cdef int32_t _new_entry(Agenda* a) except -1:
    cdef int64_t i, room
    cdef int32_t found
    if a.entry_free == NONE:
        room = a.entry_room * 2 if a.entry_room else 64
        a.entries = <Entry*> grown(a.entries, room, sizeof(Entry))
        for i in range(a.entry_room, room):
            a.entries[i].next = <int32_t> (i + 1) if i + 1 < room else NONE
        a.entry_free = <int32_t> a.entry_room
        a.entry_room = room
    found = a.entry_free
    a.entry_free = a.entries[found].next
    return found


cdef int32_t _new_bucket(Agenda* a) except -1:
    cdef int64_t i, room
    cdef int32_t found
    if a.bucket_free == NONE:
        room = a.bucket_room * 2 if a.bucket_room else 64
        a.buckets = <Bucket*> grown(a.buckets, room, sizeof(Bucket))
        a.heap = <int32_t*> grown(a.heap, room, sizeof(int32_t))
        for i in range(a.bucket_room, room):
            a.buckets[i].older = <int32_t> (i + 1) if i + 1 < room else NONE
        a.bucket_free = <int32_t> a.bucket_room
        a.bucket_room = room
    found = a.bucket_free
    a.bucket_free = a.buckets[found].older
    return found


cdef inline bint _before(Agenda* a, int32_t one, int32_t other) noexcept:
    cdef Bucket* x = &a.buckets[one]
    cdef Bucket* y = &a.buckets[other]
    return x.time < y.time or (x.time == y.time and x.turn < y.turn)


cdef void _rise(Agenda* a, int32_t bucket) noexcept:
    """Put a bucket into the heap."""
    cdef int64_t place = a.heap_count, parent
    a.heap_count += 1
    while place:
        parent = (place - 1) >> 1
        if not _before(a, bucket, a.heap[parent]):
            break
        a.heap[place] = a.heap[parent]
        place = parent
    a.heap[place] = bucket


cdef void _remove_top(Agenda* a) noexcept:
    cdef int64_t place = 0, child
    cdef int32_t last
    a.heap_count -= 1
    if not a.heap_count:
        return
    last = a.heap[a.heap_count]
    while True:
        child = 2 * place + 1
        if child >= a.heap_count:
            break
        if child + 1 < a.heap_count and _before(a, a.heap[child + 1], a.heap[child]):
            child += 1
        if not _before(a, a.heap[child], last):
            break
        a.heap[place] = a.heap[child]
        place = child
    a.heap[place] = last


cdef int add(Agenda* a, int32_t npu, int64_t time, int32_t what, int64_t who, int64_t size) except -1:
    """Something to do at `time` for an NPU, or for none (-1): then it stands by itself."""
    cdef int32_t entry = _new_entry(a)
    cdef int32_t bucket = NONE, newer = NONE, older = NONE
    a.entries[entry].next = NONE
    a.entries[entry].what = what
    a.entries[entry].who = who
    a.entries[entry].size = size
    if npu >= 0:
        older = a.newest[npu]
        while older != NONE and a.buckets[older].time > time:
            newer = older
            older = a.buckets[older].older
        if older != NONE and a.buckets[older].time == time:
            bucket = older
    if bucket == NONE:
        bucket = _new_bucket(a)
        a.turn += 1
        a.buckets[bucket].time = time
        a.buckets[bucket].turn = a.turn
        a.buckets[bucket].npu = npu
        a.buckets[bucket].older = older
        a.buckets[bucket].first = NONE
        if newer != NONE:
            a.buckets[newer].older = bucket
        elif npu >= 0:
            a.newest[npu] = bucket
        _rise(a, bucket)
    if a.buckets[bucket].first == NONE:
        a.buckets[bucket].first = entry
    else:
        a.entries[a.buckets[bucket].last].next = entry
    a.buckets[bucket].last = entry
    return 0


cdef Entry take(Agenda* a) noexcept:
    """The first entry of the first bucket. A bucket that is empty goes with the next look: until then it may be added
    to. With nothing to do in it any more the entry has `what` == -1."""
    cdef int32_t bucket = a.heap[0], entry = a.buckets[bucket].first, other
    cdef Entry found
    cdef Bucket* b = &a.buckets[bucket]
    if entry != NONE:
        found = a.entries[entry]
        b.first = found.next
        a.entries[entry].next = a.entry_free
        a.entry_free = entry
        return found
    found.what = NONE
    _remove_top(a)
    if b.npu >= 0:
        if a.newest[b.npu] == bucket:
            a.newest[b.npu] = b.older
        else:
            # It is the oldest one: everything of this NPU that is earlier has been done.
            other = a.newest[b.npu]
            while a.buckets[other].older != bucket:
                other = a.buckets[other].older
            a.buckets[other].older = NONE
    b.older = a.bucket_free
    a.bucket_free = bucket
    return found
