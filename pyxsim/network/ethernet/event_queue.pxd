"""Events by (time, order of scheduling): a timing wheel, a heap for its present slot and one for far events.

The wheel has `SLOTS` slots of `1 << shift` picoseconds, each an array of events in the order of scheduling. When a
slot is opened, its events go into the heap `near`; those that are scheduled for the present slot afterwards join them.
Events beyond the wheel wait in the heap `far`; all of them were scheduled before any event of the same slot in the
wheel.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport malloc, realloc
from libc.string cimport memset

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil

cdef enum:
    SLOTS = 32768
    WORDS = 512

cdef struct Event:
    int64_t at
    int64_t order
    int32_t item
    int32_t kind

cdef struct Stored:    # an event in the wheel
    uint32_t offset    # picoseconds from the beginning of its slot
    int32_t code       # 8 x item + kind

cdef struct Slot:
    Stored *events
    int32_t count, capacity

cdef struct EventHeap:
    Event *items
    int64_t count, capacity

cdef struct EventQueue:
    EventHeap near_events, far_events
    Slot *slot
    uint64_t *filled       # bit per slot
    int64_t cursor         # number of the present slot, counted from time 0
    int64_t in_wheel
    int64_t order
    int32_t shift


cdef inline bint earlier(const Event *one, const Event *other) noexcept nogil:
    return one.at < other.at or (one.at == other.at and one.order < other.order)


cdef inline int heap_push(EventHeap *heap, const Event *event) noexcept nogil:
    """Add an event. Returns -1 without memory."""
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
    """Remove the first event of a heap that is not empty."""
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
    """Make an empty queue. Returns -1 without memory."""
    memset(queue, 0, sizeof(EventQueue))
    queue.slot = <Slot*> malloc(SLOTS * sizeof(Slot))
    queue.filled = <uint64_t*> malloc(WORDS * sizeof(uint64_t))
    if queue.slot == NULL or queue.filled == NULL:
        return -1
    memset(queue.slot, 0, SLOTS * sizeof(Slot))
    memset(queue.filled, 0, WORDS * sizeof(uint64_t))
    queue.shift = shift
    return 0


cdef inline int schedule(EventQueue *queue, int64_t at, int32_t kind, int32_t item) noexcept nogil:
    """Schedule an event behind all others of the same time. Returns -1 without memory."""
    cdef Event event
    cdef int64_t number = at >> queue.shift, place
    cdef Slot *slot
    cdef Stored *larger
    if queue.cursor < number < queue.cursor + SLOTS:
        place = number & (SLOTS - 1)
        slot = &queue.slot[place]
        if slot.count == slot.capacity:
            larger = <Stored*> realloc(slot.events, <size_t> (2 * slot.capacity + 8) * sizeof(Stored))
            if larger == NULL:
                return -1
            slot.events, slot.capacity = larger, 2 * slot.capacity + 8
        slot.events[slot.count].offset = <uint32_t> (at - (number << queue.shift))
        slot.events[slot.count].code = 8 * item + kind
        slot.count += 1
        queue.filled[place >> 6] |= <uint64_t> 1 << (place & 63)
        queue.in_wheel += 1
        return 0
    queue.order += 1
    event.at, event.order, event.item, event.kind = at, queue.order, item, kind
    return heap_push(&queue.near_events if number <= queue.cursor else &queue.far_events, &event)


cdef inline int64_t _next_slot(EventQueue *queue) noexcept nogil:
    """The number of the first filled slot behind the cursor; the wheel is not empty."""
    cdef int64_t place = (queue.cursor + 1) & (SLOTS - 1), word = place >> 6, found
    cdef uint64_t bits = queue.filled[word] & (~<uint64_t> 0 << (place & 63))
    while not bits:
        word = (word + 1) & (WORDS - 1)
        bits = queue.filled[word]
    found = (word << 6) + __builtin_ctzll(bits)
    return queue.cursor + 1 + ((found - place) & (SLOTS - 1))


cdef inline int open_slot(EventQueue *queue) noexcept nogil:
    """Bring the next events into the heap `near`, which is empty. Returns 1, 0 if there are none, -1 without memory."""
    cdef int64_t number, place
    cdef EventHeap *far = &queue.far_events
    cdef Slot *slot
    cdef Event event
    cdef int32_t i
    if queue.in_wheel:
        number = _next_slot(queue)
        if far.count and (far.items[0].at >> queue.shift) < number:
            number = far.items[0].at >> queue.shift
    elif far.count:
        number = far.items[0].at >> queue.shift
    else:
        return 0
    queue.cursor = number
    while far.count and (far.items[0].at >> queue.shift) <= number:
        heap_pop(far, &event)
        queue.order += 1
        event.order = queue.order
        if heap_push(&queue.near_events, &event):
            return -1
    place = number & (SLOTS - 1)
    slot = &queue.slot[place]
    for i in range(slot.count):
        queue.order += 1
        event.at, event.order = (number << queue.shift) + slot.events[i].offset, queue.order
        event.item, event.kind = slot.events[i].code >> 3, slot.events[i].code & 7
        if heap_push(&queue.near_events, &event):
            return -1
    queue.in_wheel -= slot.count
    slot.count = 0
    queue.filled[place >> 6] &= ~(<uint64_t> 1 << (place & 63))
    return 1
