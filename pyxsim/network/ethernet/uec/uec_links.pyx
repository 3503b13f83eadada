"""Output queues that trim, the queue behind a NIC, links, and switches that hash the entropy of each packet.

Events of the same instant keep their order, and so do the random draws: docs/uec.md names both.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc

from pyxsim.network.ethernet.uec.uec_pools cimport at, draw, free_packet, new_block, push, transmission_time
from pyxsim.network.ethernet.uec.uec_records cimport (
    ACK, CE, CONTROL_TURNS, DATA, LAST_HOP, LINK, NONE, OF_RTS, PORT, SPECULATIVE, SWITCH, TRIMMED, Fabric, Packet,
    Pipe, Port, Ring, Switch,
)

cdef double MOST_RANDOM = 2147483647.0
cdef uint32_t GOLDEN = 0x9e3779b9  # 2**32 divided by the golden ratio


# -- output queues of switches --

cdef inline void _append(Fabric *fabric, int32_t *head, int32_t *tail, int32_t chosen) noexcept nogil:
    fabric.packet[chosen].next = NONE
    if tail[0] == NONE:
        head[0] = chosen
    else:
        fabric.packet[tail[0]].next = chosen
    tail[0] = chosen


cdef inline int32_t _take(Fabric *fabric, int32_t *head, int32_t *tail) noexcept nogil:
    cdef int32_t chosen = head[0]
    head[0] = fabric.packet[chosen].next
    if head[0] == NONE:
        tail[0] = NONE
    return chosen


cdef inline void _append_data(Fabric *fabric, Port *port, int32_t chosen) noexcept nogil:
    fabric.packet[chosen].place = port.data_tail
    _append(fabric, &port.data_head, &port.data_tail, chosen)
    port.data_bytes += fabric.packet[chosen].size
    if port.data_bytes > port.peak:
        port.peak = port.data_bytes


cdef void enqueue(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil:
    """A packet enters an output queue of a switch: it is accepted, trimmed, or dropped.

    Where data does not fit, the arriving packet or the last one of the queue is trimmed, at random.
    """
    cdef Port *port = &fabric.port[number]
    cdef Packet *packet = &fabric.packet[chosen]
    cdef int32_t last
    if packet.kind == DATA and not packet.flags & TRIMMED:
        if port.data_bytes + packet.size <= port.capacity:
            _append_data(fabric, port, chosen)
            if not port.serving:
                _serve(fabric, number)
            return
        last = port.data_tail
        if draw(fabric) / MOST_RANDOM < 0.5 and last != NONE and (
            fabric.rules.trim_sending or last != port.data_head or port.serving != 1
        ):
            _remove_last(fabric, port)
            if not fabric.rules.trim:
                _drop(fabric, port, last)
            else:
                _trim(fabric, port, last)
                if port.control_bytes + fabric.packet[last].size > 2 * port.capacity:
                    _drop(fabric, port, last)
                else:
                    _append(fabric, &port.control_head, &port.control_tail, last)
                    port.control_bytes += fabric.packet[last].size
            _append_data(fabric, port, chosen)
            if not port.serving:
                _serve(fabric, number)
            return
        if not fabric.rules.trim:
            _drop(fabric, port, chosen)
            return
        _trim(fabric, port, chosen)
    if port.control_bytes + packet.size > 2 * port.capacity:
        _drop(fabric, port, chosen)
        return
    _append(fabric, &port.control_head, &port.control_tail, chosen)
    port.control_bytes += packet.size
    if not port.serving:
        _serve(fabric, number)


cdef void _remove_last(Fabric *fabric, Port *port) noexcept nogil:
    cdef Packet *last = &fabric.packet[port.data_tail]
    port.data_bytes -= last.size
    port.data_tail = last.place
    if port.data_tail == NONE:
        port.data_head = NONE
    else:
        fabric.packet[port.data_tail].next = NONE


cdef void _trim(Fabric *fabric, Port *port, int32_t chosen) noexcept nogil:
    """Cut off the payload of a packet."""
    cdef Packet *packet = &fabric.packet[chosen]
    packet.size = <int32_t> fabric.rules.trim
    packet.flags = (packet.flags & ~(LAST_HOP | SPECULATIVE)) | TRIMMED | (LAST_HOP if port.last else 0)
    port.trimmed += 1
    fabric.flow[packet.flow].trimmed += 1


cdef void _drop(Fabric *fabric, Port *port, int32_t chosen) noexcept nogil:
    cdef Packet *packet = &fabric.packet[chosen]
    port.dropped += 1
    fabric.dropped += 1
    if packet.kind == DATA and not packet.flags & TRIMMED:
        fabric.flow[packet.flow].dropped += 1
    elif packet.kind == ACK:
        keep_ack(fabric, packet.flags & OF_RTS)
    free_packet(fabric, chosen)


cdef void keep_ack(Fabric *fabric, uint8_t of_rts) noexcept nogil:
    """Put an acknowledgment back: the next one that is made gets its flag."""
    cdef uint8_t *larger
    if fabric.old_acks == fabric.old_ack_capacity:
        larger = <uint8_t*> realloc(fabric.old_ack, <size_t> (2 * fabric.old_ack_capacity + 1024))
        if larger == NULL:
            fabric.failed = True
            return
        fabric.old_ack, fabric.old_ack_capacity = larger, 2 * fabric.old_ack_capacity + 1024
    fabric.old_ack[fabric.old_acks] = of_rts
    fabric.old_acks += 1


cdef void _serve(Fabric *fabric, int32_t number) noexcept nogil:
    """Start the next transmission of an idle port that has a packet: control first, but for a share of the turns."""
    cdef Port *port = &fabric.port[number]
    if port.control_head == NONE:
        port.serving = 1
    elif port.data_head == NONE:
        port.serving = 2
    else:
        port.turns = port.turns + 1 if port.turns < CONTROL_TURNS else 0
        port.serving = 2 if port.turns < CONTROL_TURNS else 1
    cdef Packet *packet = &fabric.packet[port.data_head if port.serving == 1 else port.control_head]
    at(fabric, fabric.now + transmission_time(port, packet.size), PORT, number)


cdef void _mark(Fabric *fabric, Port *port, Packet *packet) noexcept nogil:
    """Mark a packet by the bytes that it leaves behind in its queue."""
    cdef int64_t depth = port.data_bytes
    if port.ecn_high < 0 or depth <= port.ecn_low:
        return
    if depth > port.ecn_high or draw(fabric) < <uint32_t> (
        0x7fffffff * (depth - port.ecn_low) // (port.ecn_high - port.ecn_low)
    ):
        packet.flags |= CE
        port.marked += 1
        fabric.flow[packet.flow].marked += 1


cdef void transmitted(Fabric *fabric, int32_t number) noexcept nogil:
    """A port has transmitted its packet: it is on the link now; begin the next one."""
    cdef Port *port = &fabric.port[number]
    cdef int32_t chosen
    if port.from_host:
        chosen = port.sending
        port.serving = 0
    elif port.serving == 1:
        chosen = _take(fabric, &port.data_head, &port.data_tail)
        if port.data_head != NONE:
            fabric.packet[port.data_head].place = NONE
        port.data_bytes -= fabric.packet[chosen].size
        _mark(fabric, port, &fabric.packet[chosen])
    else:
        chosen = _take(fabric, &port.control_head, &port.control_tail)
        port.control_bytes -= fabric.packet[chosen].size
    port.sent_bytes += fabric.packet[chosen].size
    port.sent_packets += 1
    fabric.hops += 1
    if _enter_pipe(fabric, &port.link, chosen):
        at(fabric, port.link.last, LINK, number)
    port.serving = 0
    if port.from_host:
        if port.control_head != NONE or port.data_head != NONE or port.spec_head != NONE:
            _serve_host(fabric, number)
    elif port.control_head != NONE or port.data_head != NONE:
        _serve(fabric, number)


cdef inline bint _enter_pipe(Fabric *fabric, Pipe *pipe, int32_t chosen) noexcept nogil:
    """Append a packet. Returns whether it is the only one, so that its arrival must be scheduled."""
    cdef int64_t arrival = fabric.now + pipe.delay
    cdef bint only = pipe.head == NONE
    fabric.packet[chosen].gap = 0 if only else <uint32_t> (arrival - pipe.last)
    pipe.last = arrival
    _append(fabric, &pipe.head, &pipe.tail, chosen)
    return only


# -- hosts --

cdef void enqueue_at_host(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil:
    """A packet enters the queue between a NIC and its link: control before data before speculative data."""
    cdef Port *port = &fabric.port[number]
    cdef Packet *packet = &fabric.packet[chosen]
    if port.slower:
        _know(fabric, &port.known[0 if packet.kind != DATA else 2 if packet.flags & SPECULATIVE else 1], packet.id)
    if packet.kind != DATA:
        _append(fabric, &port.control_head, &port.control_tail, chosen)
    elif packet.flags & SPECULATIVE:
        _append(fabric, &port.spec_head, &port.spec_tail, chosen)
    else:
        _append(fabric, &port.data_head, &port.data_tail, chosen)
    if not port.serving:
        _serve_host(fabric, number)


cdef void _serve_host(Fabric *fabric, int32_t number) noexcept nogil:
    cdef Port *port = &fabric.port[number]
    if port.control_head != NONE:
        port.sending = _take_in_turn(fabric, port, &port.control_head, &port.control_tail, 0)
    elif port.data_head != NONE:
        port.sending = _take_in_turn(fabric, port, &port.data_head, &port.data_tail, 1)
    else:
        port.sending = _take_in_turn(fabric, port, &port.spec_head, &port.spec_tail, 2)
    port.serving = 1
    at(fabric, fabric.now + transmission_time(port, fabric.packet[port.sending].size), PORT, number)


cdef void _know(Fabric *fabric, Ring *known, uint32_t id) noexcept nogil:
    """Add an id to those of a port."""
    cdef int32_t place = _place(fabric, known, id), i
    if place < known.count and fabric.word[known.at + place] == id:
        return
    push(fabric, known, id)
    for i in range(known.count - 1, place, -1):
        fabric.word[known.at + i] = fabric.word[known.at + i - 1]
    fabric.word[known.at + place] = id


cdef int32_t _place(Fabric *fabric, const Ring *known, int64_t id) noexcept nogil:
    """The number of known ids below `id`."""
    cdef int32_t low = 0, high = known.count, middle
    while low < high:
        middle = (low + high) >> 1
        if fabric.word[known.at + middle] < id:
            low = middle + 1
        else:
            high = middle
    return low


cdef int32_t _take_in_turn(Fabric *fabric, Port *port, int32_t *head, int32_t *tail, int32_t cls) noexcept nogil:
    """Remove the first packet of the flow whose turn it is, in the order of ids.

    The next turn is that of the next flow that had a packet here, even if it has none now, or else of the first one:
    flows between the two that begin later wait for their turn. Without competition any next id serves.
    """
    cdef int32_t packet = head[0], before = NONE, best = NONE, before_best = NONE, place
    cdef uint32_t distance, least = 0
    while packet != NONE:
        distance = fabric.packet[packet].id - port.turn[cls]  # modulo 2**32: lower ids come last
        if best == NONE or distance < least:
            best, before_best, least = packet, before, distance
        before = packet
        packet = fabric.packet[packet].next
    port.turn[cls] = fabric.packet[best].id + 1
    if port.slower:
        place = _place(fabric, &port.known[cls], port.turn[cls])
        port.turn[cls] = 0
        if place < port.known[cls].count:
            port.turn[cls] = <uint32_t> fabric.word[port.known[cls].at + place]
    if before_best == NONE:
        return _take(fabric, head, tail)
    fabric.packet[before_best].next = fabric.packet[best].next
    if tail[0] == best:
        tail[0] = before_best
    return best


# -- switches --

cdef uint32_t _hash(uint32_t id, uint32_t entropy, uint32_t salt) noexcept nogil:
    """Jenkins's mix of three words (Dr. Dobb's Journal, 1997)."""
    cdef uint32_t a = GOLDEN + id, b = GOLDEN + salt, c = entropy
    a = (a - b - c) ^ (c >> 13)
    b = (b - c - a) ^ (a << 8)
    c = (c - a - b) ^ (b >> 13)
    a = (a - b - c) ^ (c >> 12)
    b = (b - c - a) ^ (a << 16)
    c = (c - a - b) ^ (b >> 5)
    a = (a - b - c) ^ (c >> 3)
    b = (b - c - a) ^ (a << 10)
    c = (c - a - b) ^ (b >> 15)
    return c


cdef int64_t _order(Fabric *fabric, int64_t count) noexcept nogil:
    """Draw an order of `count` ports: four bits for each of up to 16, else a block of words, negated."""
    cdef int64_t place[16]
    cdef int64_t *order = place
    cdef int64_t packed = 0, block = 0, i, j
    cdef int32_t cls = 0
    if count > 16:
        while <int64_t> 1 << cls < count:
            cls += 1
        block = new_block(fabric, cls)
        if not block:
            return 0
        order = &fabric.word[block]
    for i in range(count):
        order[i] = i
    for i in range(count):
        j = draw(fabric) % (count - i)
        order[j], order[count - 1 - i] = order[count - 1 - i], order[j]
    if block:
        return -block
    for i in range(count):
        packed |= order[i] << (4 * i)
    return packed if packed else <int64_t> 1 << 60  # of one port


cdef int32_t _output_port(Fabric *fabric, int32_t node, Packet *packet) noexcept nogil:
    """The port by which a packet leaves a switch. Sets of ports are shuffled at their first use."""
    cdef int32_t dst = packet.dst, entry
    cdef int64_t count, index = 0, order
    cdef int32_t cls = 0
    cdef Switch *switch
    if fabric.tor[dst] == node:
        return fabric.down[dst]
    switch = &fabric.node[node - fabric.hosts]
    entry = fabric.route[(node - fabric.hosts) * fabric.groups + fabric.group[dst]]
    count = fabric.set_start[entry + 1] - fabric.set_start[entry]
    if count == 0:
        return NONE
    if count > 1:
        index = _hash(packet.id, packet.entropy, switch.salt) % count
    if fabric.set_shuffle[entry] == 0:
        return fabric.set_port[fabric.set_start[entry] + index]
    if fabric.set_shuffle[entry] == 1:
        if not fabric.order_of_set[entry]:
            fabric.order_of_set[entry] = _order(fabric, count)
        order = fabric.order_of_set[entry]
    else:
        if not switch.shuffled:
            while <int64_t> 1 << cls < fabric.hosts:
                cls += 1
            switch.shuffled = new_block(fabric, cls)
            if not switch.shuffled:
                return NONE
        order = fabric.word[switch.shuffled + dst]
        if not order:
            order = _order(fabric, count)
            fabric.word[switch.shuffled + dst] = order
    if count <= 16:
        index = order >> (4 * index) & 15
    elif order:
        index = fabric.word[-order + index]
    return fabric.set_port[fabric.set_start[entry] + index]


cdef void enter_switch(Fabric *fabric, int32_t node, int32_t chosen) noexcept nogil:
    """A packet has arrived at a switch: choose its output port; after the latency it enters the queue there."""
    cdef Packet *packet = &fabric.packet[chosen]
    cdef Pipe *pipe = &fabric.node[node - fabric.hosts].pipe
    packet.place = _output_port(fabric, node, packet)
    if packet.place == NONE:
        _drop(fabric, &fabric.port[fabric.down[packet.dst]], chosen)
        return
    if _enter_pipe(fabric, pipe, chosen):
        if pipe.delay:
            at(fabric, pipe.last, SWITCH, node)
        else:
            fabric.deferred = node


cdef void pass_switch(Fabric *fabric, int32_t node) noexcept nogil:
    """The first packet in a switch enters its output queue."""
    cdef Pipe *pipe = &fabric.node[node - fabric.hosts].pipe
    cdef int32_t chosen = _take(fabric, &pipe.head, &pipe.tail)
    enqueue(fabric, fabric.packet[chosen].place, chosen)
    if pipe.head != NONE:
        at(fabric, fabric.now + fabric.packet[pipe.head].gap, SWITCH, node)
