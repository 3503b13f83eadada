"""Packets, blocks of words and queues in them, random draws, and events before the end of the run."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.uec.uec_records cimport CLASSES, NONE, Fabric, Flow, Packet, Port, Ring, Sent


cdef inline void at(Fabric *fabric, int64_t time, int32_t kind, int32_t item) noexcept nogil:
    """Schedule an event, if it is before the end of the run."""
    if fabric.rules.end and time >= fabric.rules.end:
        return
    if schedule(&fabric.events, time, kind, item):
        fabric.failed = True


cdef inline uint32_t draw(Fabric *fabric) noexcept nogil:
    """A random number of 31 bits."""
    return fabric.random.next_uint32(fabric.random.state) & 0x7fffffff


cdef inline int32_t new_packet(Fabric *fabric) noexcept nogil:
    """The number of an unused packet, zeroed; NONE without memory. Pointers to packets are invalid afterwards."""
    cdef int64_t number = fabric.unused_packet
    cdef Packet *larger
    if number >= 0:
        fabric.unused_packet = fabric.packet[number].next
    else:
        if fabric.packets == fabric.packet_capacity:
            larger = <Packet*> realloc(fabric.packet, <size_t> (2 * fabric.packet_capacity + 1024) * sizeof(Packet))
            if larger == NULL:
                fabric.failed = True
                return NONE
            fabric.packet, fabric.packet_capacity = larger, 2 * fabric.packet_capacity + 1024
        number = fabric.packets
        fabric.packets += 1
    memset(&fabric.packet[number], 0, sizeof(Packet))
    fabric.packet[number].next = NONE
    fabric.made += 1
    fabric.in_network += 1
    return <int32_t> number


cdef inline void free_packet(Fabric *fabric, int32_t number) noexcept nogil:
    """Put a packet back that was delivered or dropped."""
    fabric.packet[number].next = <int32_t> fabric.unused_packet
    fabric.unused_packet = number
    fabric.in_network -= 1


cdef inline int64_t transmission_time(const Port *port, int64_t size) noexcept nogil:
    """Picoseconds, rounded down."""
    if port.per_bytes == 1:
        return size * port.picoseconds
    return size * port.picoseconds // port.per_bytes


cdef inline void report_end(Fabric *fabric, int32_t number) noexcept nogil:
    """A flow ends."""
    cdef int64_t *larger
    fabric.flow[number].end = fabric.now
    if fabric.done_count == fabric.done_capacity:
        larger = <int64_t*> realloc(fabric.done, <size_t> (2 * fabric.done_capacity + 64) * sizeof(int64_t))
        if larger == NULL:
            fabric.failed = True
            return
        fabric.done, fabric.done_capacity = larger, 2 * fabric.done_capacity + 64
    fabric.done[fabric.done_count] = number
    fabric.done_count += 1


# -- blocks of words --

cdef inline int64_t new_block(Fabric *fabric, int32_t cls) noexcept nogil:
    """A block of `1 << cls` words, zeroed; 0 without memory. Pointers into blocks are invalid afterwards."""
    cdef int64_t block = fabric.unused_words[cls], size = <int64_t> 1 << cls, capacity
    cdef int64_t *larger
    if block:
        fabric.unused_words[cls] = fabric.word[block]
    else:
        if fabric.words + size > fabric.word_capacity:
            capacity = 2 * fabric.word_capacity + size + 4096
            larger = <int64_t*> realloc(fabric.word, <size_t> capacity * sizeof(int64_t))
            if larger == NULL:
                fabric.failed = True
                return 0
            fabric.word, fabric.word_capacity = larger, capacity
        if not fabric.words:
            fabric.words = 1  # block 0 is none
        block = fabric.words
        fabric.words += size
    memset(&fabric.word[block], 0, <size_t> size * sizeof(int64_t))
    return block


cdef inline void free_block(Fabric *fabric, int64_t block, int32_t cls) noexcept nogil:
    if block:
        fabric.word[block] = fabric.unused_words[cls]
        fabric.unused_words[cls] = block


cdef inline void push(Fabric *fabric, Ring *ring, int64_t value) noexcept nogil:
    """Append to a queue. `ring` must not be in a block."""
    cdef int64_t larger, mask
    cdef int32_t i
    if not ring.cls or ring.count == 1 << ring.cls:
        larger = new_block(fabric, ring.cls + 1 if ring.cls else 3)
        if not larger:
            return
        mask = (<int64_t> 1 << ring.cls) - 1
        for i in range(ring.count):
            fabric.word[larger + i] = fabric.word[ring.at + ((ring.head + i) & mask)]
        if ring.cls:
            free_block(fabric, ring.at, ring.cls)
        ring.at, ring.head = larger, 0
        ring.cls = ring.cls + 1 if ring.cls else 3
    fabric.word[ring.at + ((ring.head + ring.count) & ((<int64_t> 1 << ring.cls) - 1))] = value
    ring.count += 1


cdef inline int64_t first(Fabric *fabric, Ring *ring) noexcept nogil:
    return fabric.word[ring.at + ring.head]


cdef inline int64_t pop(Fabric *fabric, Ring *ring) noexcept nogil:
    """Remove the first of a queue that is not empty."""
    cdef int64_t value = fabric.word[ring.at + ring.head]
    ring.head = (ring.head + 1) & ((1 << ring.cls) - 1)
    ring.count -= 1
    return value


cdef inline void free_ring(Fabric *fabric, Ring *ring) noexcept nogil:
    if ring.cls:
        free_block(fabric, ring.at, ring.cls)
    memset(ring, 0, sizeof(Ring))


# -- packets that are not acknowledged --

cdef inline Sent *record(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """The record of a packet from `una` to `next`; invalid after `new_block`."""
    return <Sent*> &fabric.word[flow.records + 4 * (number & ((1 << flow.records_cls) - 1))]


cdef inline void reserve_record(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """Make room for the record of packet `number`, the next new one."""
    cdef int32_t cls = flow.records_cls, i
    cdef int64_t larger
    cdef Sent *fresh
    if not flow.records or number - flow.una >= 1 << cls:
        larger = new_block(fabric, (cls + 1 if flow.records else 6) + 2)
        if not larger:
            return
        if flow.records:
            for i in range(flow.una, number):
                memcpy(&fabric.word[larger + 4 * (i & ((2 << cls) - 1))], record(fabric, flow, i), sizeof(Sent))
            free_block(fabric, flow.records, cls + 2)
            flow.records_cls = cls + 1
        else:
            flow.records_cls = 6
        flow.records = larger
    fresh = record(fabric, flow, number)
    memset(fresh, 0, sizeof(Sent))
    fresh.times = fresh.before = fresh.after = NONE


# -- packets that have arrived out of order --

cdef inline bint has_arrived(Fabric *fabric, const Flow *flow, int32_t number) noexcept nogil:
    """Whether a packet beyond `expected` has arrived."""
    cdef int64_t bits = <int64_t> 64 << flow.arrived_cls
    if not flow.arrived or number - flow.expected >= bits:
        return False
    return fabric.word[flow.arrived + ((number & (bits - 1)) >> 6)] >> (number & 63) & 1


cdef inline void forget_arrived(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    cdef int64_t bits = <int64_t> 64 << flow.arrived_cls
    fabric.word[flow.arrived + ((number & (bits - 1)) >> 6)] &= ~(<int64_t> 1 << (number & 63))


cdef inline void note_arrived(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """Note that a packet beyond `expected` has arrived."""
    cdef int64_t bits = <int64_t> 64 << flow.arrived_cls, larger, wider
    cdef int32_t cls, i
    if not flow.arrived or number - flow.expected >= bits:
        cls = flow.arrived_cls + 1 if flow.arrived else 2
        while number - flow.expected >= <int64_t> 64 << cls:
            cls += 1
        larger, wider = new_block(fabric, cls), <int64_t> 64 << cls
        if not larger:
            return
        if flow.arrived:
            for i in range(flow.expected, flow.expected + <int32_t> bits):
                if has_arrived(fabric, flow, i):
                    fabric.word[larger + ((i & (wider - 1)) >> 6)] |= <int64_t> 1 << (i & 63)
            free_block(fabric, flow.arrived, flow.arrived_cls)
        flow.arrived, flow.arrived_cls = larger, cls
        bits = wider
    fabric.word[flow.arrived + ((number & (bits - 1)) >> 6)] |= <int64_t> 1 << (number & 63)
