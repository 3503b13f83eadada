"""What is going to happen, the first first: heaps of the executor, of its pipes, and of the tasks of workloads."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc

from pyxsim.raw cimport loaded, saved


cdef struct Entry:
    int64_t at
    int64_t number  # decides between those of one time; no two are alike in both
    int32_t kind
    int32_t task
    int32_t place

cdef struct Heap:
    Entry* items
    int64_t count, room


cdef inline void* grown(void* memory, int64_t* room, int64_t wanted, size_t each) except NULL nogil:
    """The memory with room for `wanted` entries."""
    cdef void* larger
    if wanted <= room[0] and memory != NULL:
        return memory
    room[0] = max(2 * room[0], wanted, 16)
    larger = realloc(memory, room[0] * each)
    if larger == NULL:
        with gil:
            raise MemoryError
    return larger


cdef inline bytes heap_saved(const Heap* heap):
    return saved(heap.items, heap.count, sizeof(Entry))


cdef inline int load_heap(Heap* heap, bytes data) except -1:
    """Into one that is empty."""
    heap.items = <Entry*> loaded(data)
    heap.count = heap.room = len(data) // <int64_t> sizeof(Entry)
    return 0


cdef inline bint before(const Entry* one, const Entry* other) noexcept nogil:
    return one.at < other.at or (one.at == other.at and one.number < other.number)


cdef inline int push(Heap* heap, Entry entry) except -1 nogil:
    if heap.count == heap.room:
        heap.items = <Entry*> grown(heap.items, &heap.room, heap.count + 1, sizeof(Entry))
    cdef int64_t hole = heap.count, parent
    heap.count += 1
    while hole:
        parent = (hole - 1) >> 1
        if not before(&entry, &heap.items[parent]):
            break
        heap.items[hole] = heap.items[parent]
        hole = parent
    heap.items[hole] = entry
    return 0


cdef inline Entry pop(Heap* heap) noexcept nogil:
    cdef Entry* items = heap.items
    cdef Entry top = items[0]
    heap.count -= 1
    cdef Entry last = items[heap.count]
    cdef int64_t hole = 0, child = 1
    while child < heap.count:
        if child + 1 < heap.count and before(&items[child + 1], &items[child]):
            child += 1
        if not before(&items[child], &last):
            break
        items[hole] = items[child]
        hole, child = child, 2 * child + 1
    items[hole] = last
    return top
