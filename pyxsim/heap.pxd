"""Event queues: binary heaps in C memory, the earliest entry on top, and arrays that grow."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc

from pyxsim.raw cimport loaded, saved


cdef struct Entry:
    int64_t at
    int64_t number  # breaks ties; unique among the entries of one time
    int64_t item    # what happens, for the owner of the heap; so are kind and place
    int32_t kind
    int32_t place

cdef struct Heap:
    Entry* items
    int64_t count, capacity


cdef inline void* resized(void* memory, int64_t count, size_t size) except NULL nogil:
    """`memory` with space for `count` records of `size` bytes; new ones are not initialised."""
    cdef void* fresh = realloc(memory, max(count, 1) * size)
    if fresh == NULL:
        with gil:
            raise MemoryError
    return fresh


cdef inline void* grown(void* memory, int64_t* capacity, int64_t count, size_t size) except NULL nogil:
    """`memory` with space for at least `count` records; `capacity` is doubled where it does not suffice."""
    if count <= capacity[0] and memory != NULL:
        return memory
    capacity[0] = max(2 * capacity[0], count, 16)
    return resized(memory, capacity[0], size)


cdef inline bytes heap_saved(const Heap* heap):
    return saved(heap.items, heap.count, sizeof(Entry))


cdef inline int load_heap(Heap* heap, bytes data) except -1:
    """Fill an empty heap from `heap_saved`."""
    heap.items = <Entry*> loaded(data)
    heap.count = heap.capacity = len(data) // <int64_t> sizeof(Entry)
    return 0


cdef inline bint before(const Entry* one, const Entry* other) noexcept nogil:
    return one.at < other.at or (one.at == other.at and one.number < other.number)


cdef inline int push(Heap* heap, Entry entry) except -1 nogil:
    if heap.count == heap.capacity:
        heap.items = <Entry*> grown(heap.items, &heap.capacity, heap.count + 1, sizeof(Entry))
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
    """Remove and return the first entry of a heap that is not empty."""
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
