"""Events by (time, order of scheduling): a timing wheel, a heap for its present slot and one for far events.

The wheel has `SLOTS` slots of `1 << shift` picoseconds. Scheduling and taking an event cost O(1) on average if most
events lie within the wheel; timers beyond it wait in the far heap.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport malloc, realloc
from libc.string cimport memset

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil

cdef enum:
    SLOTS = 65536
    WORDS = 1024

cdef struct Event:
    int64_t at
    int64_t order
    int32_t item
    int32_t kind

cdef struct Slotted:
    Event event
    int32_t next

cdef struct EventHeap:
    Event *items
    int64_t count, capacity

cdef struct EventQueue:
    EventHeap near_events, far_events
    Slotted *pool
    int64_t pool_count, pool_capacity
    int32_t *slot          # first event of each slot; -1
    int32_t unused
    uint64_t *filled       # bit per slot
    int64_t cursor         # number of the present slot, counted from time 0
    int64_t in_wheel
    int64_t order
    int32_t shift


cdef inline bint earlier(const Event *one, const Event *other) noexcept nogil:
    return one.at < other.at or (one.at == other.at and one.order < other.order)


cdef inline int heap_push(EventHeap *heap, const Event *event) noexcept nogil:
    cdef int64_t hole, parent
    cdef Event *larger
    if heap.count == heap.capacity:
        larger = <Event*> realloc(heap.items, <size_t> (2 * heap.capacity + 64) * sizeof(Event))
        if larger == NULL:
            return -1
        heap.items, heap.capacity = larger, 2 * heap.capacity + 64
    hole = heap.count
    heap.count += 1
    while hole:
        parent = (hole - 1) >> 1
        if not earlier(event, &heap.items[parent]):
            break
        heap.items[hole] = heap.items[parent]
        hole = parent
    heap.items[hole] = event[0]
    return 0


cdef inline void heap_pop(EventHeap *heap, Event *into) noexcept nogil:
    cdef int64_t hole = 0, child = 1
    cdef Event *items = heap.items
    cdef Event last
    into[0] = items[0]
    heap.count -= 1
    last = items[heap.count]
    while child < heap.count:
        if child + 1 < heap.count and earlier(&items[child + 1], &items[child]):
            child += 1
        if not earlier(&items[child], &last):
            break
        items[hole] = items[child]
        hole, child = child, 2 * child + 1
    items[hole] = last


cdef inline int queue_setup(EventQueue *queue, int32_t shift) noexcept nogil:
    memset(queue, 0, sizeof(EventQueue))
    queue.slot = <int32_t*> malloc(SLOTS * sizeof(int32_t))
    queue.filled = <uint64_t*> malloc(WORDS * sizeof(uint64_t))
    if queue.slot == NULL or queue.filled == NULL:
        return -1
    memset(queue.slot, 0xFF, SLOTS * sizeof(int32_t))
    memset(queue.filled, 0, WORDS * sizeof(uint64_t))
    queue.unused, queue.shift = -1, shift
    return 0


cdef inline int _into_wheel(EventQueue *queue, const Event *event) noexcept nogil:
    cdef int64_t place = (event.at >> queue.shift) & (SLOTS - 1)
    cdef int32_t at = queue.unused
    cdef Slotted *larger
    if at >= 0:
        queue.unused = queue.pool[at].next
    else:
        if queue.pool_count == queue.pool_capacity:
            larger = <Slotted*> realloc(queue.pool, <size_t> (2 * queue.pool_capacity + 1024) * sizeof(Slotted))
            if larger == NULL:
                return -1
            queue.pool, queue.pool_capacity = larger, 2 * queue.pool_capacity + 1024
        at = <int32_t> queue.pool_count
        queue.pool_count += 1
    queue.pool[at].event = event[0]
    queue.pool[at].next = queue.slot[place]
    queue.slot[place] = at
    queue.filled[place >> 6] |= <uint64_t> 1 << (place & 63)
    queue.in_wheel += 1
    return 0


cdef inline int put(EventQueue *queue, int64_t at, int64_t order, int32_t kind, int32_t item) noexcept nogil:
    """Schedule an event that has its place among those of the same time. Returns -1 without memory."""
    cdef Event event
    cdef int64_t slot = at >> queue.shift
    event.at, event.order, event.item, event.kind = at, order, item, kind
    if slot <= queue.cursor:
        return heap_push(&queue.near_events, &event)
    if slot < queue.cursor + SLOTS:
        return _into_wheel(queue, &event)
    return heap_push(&queue.far_events, &event)


cdef inline int schedule(EventQueue *queue, int64_t at, int32_t kind, int32_t item) noexcept nogil:
    """Schedule an event behind all others of the same time. Returns -1 without memory."""
    queue.order += 1
    return put(queue, at, queue.order, kind, item)


cdef inline int64_t _next_slot(EventQueue *queue) noexcept nogil:
    """The number of the first filled slot behind the cursor; the wheel is not empty."""
    cdef int64_t place = (queue.cursor + 1) & (SLOTS - 1), word = place >> 6, found
    cdef uint64_t bits = queue.filled[word] & (~<uint64_t> 0 << (place & 63))
    while not bits:
        word = (word + 1) & (WORDS - 1)
        bits = queue.filled[word]
    found = (word << 6) + __builtin_ctzll(bits)
    return queue.cursor + 1 + ((found - place) & (SLOTS - 1))


cdef inline bint _open(EventQueue *queue) noexcept nogil:
    """Bring the next events into the heap of the present slot; False if there are none."""
    cdef int64_t slot, place
    cdef int32_t at, following
    cdef Event event
    if queue.in_wheel:
        slot = _next_slot(queue)
        # Far events may be due before the wheel's, as the cursor has moved on since they were scheduled.
        if queue.far_events.count and (queue.far_events.items[0].at >> queue.shift) < slot:
            slot = queue.far_events.items[0].at >> queue.shift
    elif queue.far_events.count:
        slot = queue.far_events.items[0].at >> queue.shift
    else:
        return False
    queue.cursor = slot
    place = slot & (SLOTS - 1)
    if queue.filled[place >> 6] >> (place & 63) & 1:
        at = queue.slot[place]
        while at >= 0:
            following = queue.pool[at].next
            heap_push(&queue.near_events, &queue.pool[at].event)
            queue.pool[at].next = queue.unused
            queue.unused = at
            queue.in_wheel -= 1
            at = following
        queue.slot[place] = -1
        queue.filled[place >> 6] &= ~(<uint64_t> 1 << (place & 63))
    while queue.far_events.count and (queue.far_events.items[0].at >> queue.shift) <= slot:
        heap_pop(&queue.far_events, &event)
        heap_push(&queue.near_events, &event)
    return True


cdef inline bint peek(EventQueue *queue) noexcept nogil:
    """Whether there is an event; the first is on top of `near_events` then."""
    return queue.near_events.count > 0 or _open(queue)
