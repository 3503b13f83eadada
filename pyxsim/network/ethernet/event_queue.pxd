"""Events by (time, order of scheduling): a timing wheel, a heap for its present slot and one for far events.

The wheel has `SLOTS` slots of `1 << shift` picoseconds, each an array of events in the order of scheduling. When a
slot is opened, its events are sorted by time and become the batch; those that are scheduled for the present slot
afterwards go into the heap `near`. Events beyond the wheel wait in the heap `far`; all of them were scheduled before
any event of the same slot in the wheel.
"""


from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from pyxsim.raw cimport loaded, saved

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil

cdef enum:
    SLOTS = 4096
    WORDS = 64
    SORTED = 48            # most events that are sorted by insertion

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
    Stored *batch          # events of the present slot in the order of time
    int32_t batch_next, batch_count
    int64_t batch_start
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


cdef inline int64_t following_slot(const EventQueue *queue, int64_t number) noexcept nogil:
    """The number of the next filled slot of the wheel behind one; -1 if it is more than 64 slots away."""
    cdef int64_t place = (number + 1) & (SLOTS - 1)
    cdef uint64_t bits = queue.filled[place >> 6] >> (place & 63)
    if not bits:
        number += 64 - (place & 63)
        place = (number + 1) & (SLOTS - 1)
        bits = queue.filled[place >> 6]
        if not bits:
            return -1
    return number + 1 + __builtin_ctzll(bits)


cdef inline int open_slot(EventQueue *queue) noexcept nogil:
    """Make the events of the next slot present, where none is. Returns 1, 0 if there are none, -1 without memory."""
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
    if not queue.near_events.count and slot.count <= SORTED:
        _sort(slot.events, slot.count)
        queue.batch, queue.batch_next, queue.batch_count = slot.events, 0, slot.count
        queue.batch_start = number << queue.shift
    else:
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


cdef inline void _sort(Stored *events, int32_t count) noexcept nogil:
    """Sort by time; events of the same time keep their order."""
    cdef int32_t i, hole
    cdef Stored event
    for i in range(1, count):
        event, hole = events[i], i
        while hole and events[hole - 1].offset > event.offset:
            events[hole] = events[hole - 1]
            hole -= 1
        events[hole] = event


cdef inline int64_t present(const EventQueue *queue) noexcept nogil:
    """The time of the first event of the present slot; -1 if there is none."""
    cdef int64_t at
    if queue.batch_next == queue.batch_count:
        return queue.near_events.items[0].at if queue.near_events.count else -1
    at = queue.batch_start + queue.batch[queue.batch_next].offset
    if queue.near_events.count and queue.near_events.items[0].at < at:
        return queue.near_events.items[0].at
    return at


cdef inline void take_stored(EventQueue *queue, Event *into) noexcept nogil:
    """Remove the first event of the batch, which is not empty."""
    into.at = queue.batch_start + queue.batch[queue.batch_next].offset
    into.item, into.kind = queue.batch[queue.batch_next].code >> 3, queue.batch[queue.batch_next].code & 7
    queue.batch_next += 1


cdef inline void take(EventQueue *queue, Event *into) noexcept nogil:
    """Remove the first event of the present slot; there is one. At the same time, the batch is before the heap."""
    if queue.batch_next < queue.batch_count and not (
        queue.near_events.count
        and queue.near_events.items[0].at < queue.batch_start + queue.batch[queue.batch_next].offset
    ):
        take_stored(queue, into)
        return
    heap_pop(&queue.near_events, into)


# -- checkpoints --

cdef inline tuple queue_state(EventQueue *queue):
    """The events as bytes. The rest of the batch moves to the heap, before all that is there."""
    cdef Event event
    cdef int64_t i
    while queue.batch_next < queue.batch_count:
        event.order = queue.batch_next - (<int64_t> 1 << 60)
        take_stored(queue, &event)
        if heap_push(&queue.near_events, &event):
            raise MemoryError("events")
    return (
        saved(queue.near_events.items, queue.near_events.count, sizeof(Event)),
        saved(queue.far_events.items, queue.far_events.count, sizeof(Event)),
        saved(queue.filled, WORDS, sizeof(uint64_t)),
        [(i, saved(queue.slot[i].events, queue.slot[i].count, sizeof(Stored)))
         for i in range(SLOTS) if queue.slot[i].count],
        (queue.cursor, queue.in_wheel, queue.order, queue.shift),
    )


cdef inline int queue_restore(EventQueue *queue, tuple state) except -1:
    """Make a queue from the bytes of another one."""
    cdef int64_t i
    near_events, far_events, filled, slots, numbers = state
    if queue_setup(queue, numbers[3]):
        raise MemoryError("events")
    queue.cursor, queue.in_wheel, queue.order = numbers[:3]
    queue.near_events.items = <Event*> loaded(near_events)
    queue.near_events.count = queue.near_events.capacity = len(near_events) // <int64_t> sizeof(Event)
    queue.far_events.items = <Event*> loaded(far_events)
    queue.far_events.count = queue.far_events.capacity = len(far_events) // <int64_t> sizeof(Event)
    free(queue.filled)
    queue.filled = <uint64_t*> loaded(filled)
    for i, events in slots:
        queue.slot[i].events = <Stored*> loaded(events)
        queue.slot[i].count = queue.slot[i].capacity = len(events) // <int64_t> sizeof(Stored)
    return 0


cdef inline void queue_free(EventQueue *queue) noexcept:
    cdef int64_t i
    free(queue.near_events.items)
    free(queue.far_events.items)
    if queue.slot != NULL:
        for i in range(SLOTS):
            free(queue.slot[i].events)
    free(queue.slot)
    free(queue.filled)
    memset(queue, 0, sizeof(EventQueue))
