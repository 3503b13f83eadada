"""How a port of a NIC chooses the next packet of its flows."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pyxsim.network.ethernet.bitmaps cimport LOST, bitmap
from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.flow_times cimport spend
from pyxsim.network.ethernet.nic_slots cimport close_gaps_from, set_ready
from pyxsim.network.ethernet.pools cimport new_packet, payload_of, transmission_time
from pyxsim.network.ethernet.records cimport (
    ACK_NOW, CLASSES, DATA, FOR_NOTHING, FOR_PORT, FOR_RATE, FOR_WINDOW, NONE, PORT_WAKE, RESENDING, RESENT, SENDING,
    SOLICIT, WAKE, Fabric, Flow, NicClasses, Packet, Port,
)

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil


cdef int32_t next_of_flows(Fabric *fabric, int32_t number) noexcept nogil:
    """Make the next packet of the next flow of this port that may send, in turn; NONE if all are paused."""
    cdef Port *port = &fabric.port[number]
    cdef int32_t words = (port.slots + 63) >> 6, slot = port.last_slot + 1, word, tried
    cdef uint64_t bits
    cdef Flow *flow
    cdef int32_t cls = NONE
    if fabric.nic != NULL:
        cls = _next_nic_class(fabric, port, &fabric.nic[number])
        if cls == NONE:
            return NONE
        slot = fabric.nic[number].last_slot[cls] + 1
    if slot >= port.slots:
        slot = 0
    word = slot >> 6
    bits = port.ready[word] & (~<uint64_t> 0 << (slot & 63))
    tried = 0
    while tried <= words:
        while bits:
            slot = (word << 6) + __builtin_ctzll(bits)
            bits &= bits - 1
            flow = &fabric.flow[port.slot[slot]]
            if cls != NONE:
                if flow.cls == cls:
                    fabric.nic[number].last_slot[cls] = slot
                    return _charged(fabric, &fabric.nic[number], _next_packet(fabric, number, port.slot[slot]))
            elif not port.paused >> flow.cls & 1:
                port.last_slot = slot
                return _next_packet(fabric, number, port.slot[slot])
        word = word + 1 if word + 1 < words else 0
        bits = port.ready[word]
        tried += 1
    return NONE


cdef int32_t next_by_timer(Fabric *fabric, int32_t number) noexcept nogil:
    """As `next_of_flows`, for ports with one timer: without a flow that may send now, set the timer.

    The port looks at its flows only when it is idle and one of them starts or takes a reply, a PFC frame arrives, or
    its timer expires; and it sets no timer while the pause of any flow is over, even of one that its window stops. So
    it may stay idle although a flow may send, as in ns-3. The order of turns after flows have ended is that of ns-3.
    """
    cdef Port *port = &fabric.port[number]
    cdef int32_t i, slot, chosen = NONE, gap = NONE
    cdef int64_t first = 0
    cdef Flow *flow
    for i in range(1, port.slots + 1):
        slot = (i + port.last_slot) % port.slots
        if port.slot[slot] == NONE:
            gap = slot if gap == NONE else min(gap, slot)
            continue
        flow = &fabric.flow[port.slot[slot]]
        if not port.paused >> flow.cls & 1 and may_send(fabric, flow) and flow.next_send <= fabric.now:
            chosen = slot
            break
    if gap != NONE:
        chosen = close_gaps_from(fabric, port, gap, chosen)
    if chosen != NONE:
        port.last_slot = chosen
        return _next_packet(fabric, number, port.slot[chosen])
    if port.wake_at > fabric.now:
        return NONE
    for i in range(port.slots):
        if port.slot[i] != NONE:
            flow = &fabric.flow[port.slot[i]]
            if flow.next_send <= fabric.now:
                return NONE
            first = min(first, flow.next_send) if first else flow.next_send
    if first:
        port.wake_at = first
        if schedule(&fabric.events, first, PORT_WAKE, number):
            fabric.failed = True
    return NONE


cdef void advance_timer(Fabric *fabric, Flow *flow) noexcept nogil:
    """The pause of a flow has changed: the timer of its port expires no later than that."""
    cdef Port *port = &fabric.port[flow.port]
    if port.wake_at > fabric.now and flow.next_send < port.wake_at:
        port.wake_at = max(flow.next_send, fabric.now)
        if schedule(&fabric.events, port.wake_at, PORT_WAKE, flow.port):
            fabric.failed = True


cdef int32_t _next_nic_class(Fabric *fabric, Port *port, NicClasses *nic) noexcept nogil:
    """The class of which a NIC sends a packet next; as in switches, but a class may overdraw its share by a packet."""
    cdef uint32_t may = 0
    cdef int32_t cls, _i
    for cls in range(CLASSES):
        if nic.ready[cls]:
            may |= 1 << cls
        else:
            nic.deficit[cls] = 0
    may &= ~(<uint32_t> port.paused)
    if not may:
        return NONE
    if fabric.rules.schedule == 0:
        return __builtin_ctzll(may)
    cls = nic.turn
    if fabric.rules.schedule == 1:
        for _i in range(CLASSES):
            cls = (cls + 1) % CLASSES
            if may >> cls & 1:
                break
    else:
        while not may >> cls & 1 or nic.deficit[cls] <= 0:
            cls = (cls + 1) % CLASSES
            if may >> cls & 1:
                nic.deficit[cls] += <int32_t> fabric.rules.weight[cls]
    nic.turn = cls
    return cls


cdef int32_t _charged(Fabric *fabric, NicClasses *nic, int32_t packet) noexcept nogil:
    """Charge a packet to the share of its class."""
    if packet != NONE and fabric.rules.schedule == 2:
        nic.deficit[fabric.packet[packet].cls] -= fabric.packet[packet].size
    return packet


cdef int32_t _next_packet(Fabric *fabric, int32_t nic, int32_t number) noexcept nogil:
    """Make the next packet of a flow: a lost one first, else a new one."""
    cdef int32_t chosen = new_packet(fabric), index, waits = FOR_PORT
    cdef Flow *flow = &fabric.flow[number]
    cdef Packet *packet
    cdef int64_t payload, time, gap
    cdef uint64_t *lost
    if chosen == NONE:
        return NONE
    packet = &fabric.packet[chosen]
    if flow.lost:
        lost = bitmap(fabric, flow, LOST)
        index = flow.una >> 6
        while not lost[index]:
            index += 1
        packet.number = (index << 6) + __builtin_ctzll(lost[index])
        lost[index] &= lost[index] - 1
        flow.lost -= 1
        packet.flags = RESENT
        flow.resent += 1
    else:
        packet.number = flow.next
        if flow.next < flow.sent:  # go-back-N sends it again
            packet.flags = RESENT
            flow.resent += 1
        else:
            flow.sent = flow.next + 1
        flow.next += 1
    if fabric.rules.pulls:
        if flow.credit:
            flow.credit -= 1
        else:
            flow.solicits -= 1
            packet.flags |= SOLICIT
    payload = payload_of(fabric, flow, packet.number)
    flow.flight += payload
    packet.flow, packet.cls, packet.kind = number, flow.cls, DATA
    packet.src, packet.dst = flow.src, flow.dst
    packet.entropy = flow.entropy
    packet.size = <int32_t> (payload + fabric.rules.header)
    packet.sent = fabric.now
    packet.port = NONE
    fabric.made += 1
    fabric.in_network += 1
    time = transmission_time(fabric, &fabric.port[nic], packet.size)
    gap = time
    if flow.rate < <double> flow.line:
        gap = <int64_t> (8e12 * packet.size / fabric.rules.step / flow.rate + 0.5) * fabric.rules.step
    flow.next_send = fabric.now + gap
    flow.last_size = packet.size
    if not may_send(fabric, flow):
        packet.flags |= ACK_NOW
        waits = FOR_WINDOW if unsent(flow) else FOR_NOTHING
        set_ready(fabric, flow, False)
    elif gap > time:  # the port is idle before the flow may send again
        waits = FOR_RATE
        set_ready(fabric, flow, False)
        if not fabric.rules.port_timer:
            flow.wake_at = flow.next_send
            if schedule(&fabric.events, flow.next_send, WAKE, number):
                fabric.failed = True
    if fabric.rules.attribution:
        spend(fabric, number, RESENDING if packet.flags & RESENT else SENDING, time, waits)
    return chosen
