"""The ends of flows: a receiver acknowledges packets; a sender handles replies and resends (docs/ethernet.md).

Reliability is go-back-N (a receiver takes packets in order only and reports the first gap, as RoCEv2 NICs do) or
selective (a receiver takes every packet; each reply names the packet that caused it).
"""

from libc.math cimport expm1
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyxsim.network.ethernet.bitmaps cimport ACKNOWLEDGED, LOST, RECEIVED, bitmap, mark_lost, set_bit, test_bit
from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.flow_times cimport close_times, open_times
from pyxsim.network.ethernet.nic_slots cimport enter_nic, leave_nic
from pyxsim.network.ethernet.ns3_random cimport draw_error
from pyxsim.network.ethernet.pools cimport free_packet, new_packet, next_uniform, payload_of
from pyxsim.network.ethernet.records cimport (
    ACK, ACK_NOW, CE, CNP, DATA, GAVE_UP, LOSSY, NACK, NONE, PAUSE, PULL, SOLICIT, TIMER, TRIMMED, Fabric,
    Flow, Medium, Packet, Port,
)
from pyxsim.network.ethernet.pulls cimport note_arrival, take_pull
from pyxsim.network.ethernet.route_choice cimport select_port
from pyxsim.network.ethernet.switching cimport enqueue, forward, refresh, serve, set_pause
from pyxsim.network.ethernet.transport cimport Transport


cdef void arrived(Fabric *fabric, Transport transport, int32_t chosen) noexcept:
    """A packet has arrived at the node behind its port."""
    cdef Packet *packet = &fabric.packet[chosen]
    cdef Port *port = &fabric.port[packet.port]
    cdef int32_t node = port.peer, npu = fabric.node[node].npu, into = packet.port, number = packet.flow
    cdef bint solicits
    if packet.kind >= PAUSE:
        if not fabric.rules.deaf:
            set_pause(fabric, port.reverse, packet.number, packet.kind == PAUSE)
        free_packet(fabric, chosen)
        return
    if port.traits & LOSSY and _lost(fabric, &fabric.medium[packet.port], chosen):
        return
    if packet.kind == DATA:
        if npu != packet.dst:
            forward(fabric, node, chosen)
            return
        fabric.delivered += 1
        fabric.in_network -= 1
        solicits = packet.flags & SOLICIT
        _take_data(fabric, node, chosen)
        if fabric.rules.pulls:
            note_arrival(fabric, into, number, solicits)
        return
    if npu != packet.dst:
        forward(fabric, node, chosen)
        return
    fabric.delivered += 1
    fabric.in_network -= 1
    if packet.kind == CNP or packet.kind == PULL:
        if not fabric.flow[number].finished:
            if packet.kind == CNP:
                transport.on_cnp(number)
            else:
                take_pull(fabric, number, packet.number)
            refresh(fabric, number)
        free_packet(fabric, chosen)
        return
    _take_reply(fabric, transport, chosen)


cdef bint _lost(Fabric *fabric, Medium *medium, int32_t chosen) noexcept nogil:
    """Whether a packet was lost on the link by which it arrives, and is gone."""
    cdef Packet *packet = &fabric.packet[chosen]
    cdef double drawn = draw_error(&fabric.streams) if fabric.rules.ns3_random else next_uniform(&medium.random)
    if drawn >= -expm1(medium.survival[0] + medium.survival[1] * packet.size):
        return False
    if packet.kind == DATA and not packet.flags & TRIMMED:
        fabric.flow[packet.flow].errors += 1
    medium.errors += 1
    fabric.errored += 1
    fabric.in_network -= 1
    free_packet(fabric, chosen)
    return True


# -- receiver --

cdef void _take_data(Fabric *fabric, int32_t node, int32_t chosen) noexcept nogil:
    cdef Packet *packet = &fabric.packet[chosen]
    cdef Flow *flow = &fabric.flow[packet.flow]
    cdef uint64_t *received
    cdef bint last
    if packet.flags & TRIMMED:
        _reply(fabric, node, chosen, NACK)
        return
    flow.delivered += 1
    if fabric.rules.selective:
        received = bitmap(fabric, flow, RECEIVED)
        if test_bit(received, packet.number):
            flow.duplicates += 1
        else:
            set_bit(received, packet.number)
            flow.arrived += 1
            if packet.number != flow.expected:
                flow.out_of_order += 1
            while flow.expected < flow.packets and test_bit(received, flow.expected):
                flow.expected += 1
    elif packet.number == flow.expected:
        flow.expected += 1
        flow.arrived += 1
    elif packet.number > flow.expected:
        flow.out_of_order += 1
        if flow.nack_of != flow.expected or fabric.now >= flow.nack_after:
            flow.nack_of, flow.nack_after = flow.expected, fabric.now + fabric.rules.nack_interval
            _reply(fabric, node, chosen, NACK)
        else:
            free_packet(fabric, chosen)
        return
    else:
        flow.duplicates += 1
    last = flow.arrived == flow.packets
    if last and not flow.received_all:
        flow.received_all = True
        flow.received_at = fabric.now
        if not fabric.rules.ack_ends:
            finish(fabric, packet.flow)
    flow.unacknowledged += 1
    if (flow.unacknowledged >= fabric.rules.ack_every or last or fabric.rules.selective
            or packet.flags & ACK_NOW):
        flow.unacknowledged = 0
        _reply(fabric, node, chosen, ACK)
    else:
        free_packet(fabric, chosen)


cdef void _reply(Fabric *fabric, int32_t node, int32_t chosen, int32_t kind) noexcept nogil:
    """Turn a data packet into its reply: same record, same time stamp, mark and telemetry."""
    cdef Packet *packet = &fabric.packet[chosen]
    cdef Flow *flow = &fabric.flow[packet.flow]
    cdef int32_t number
    if packet.flags & CE and fabric.rules.cnp_interval > 0:
        packet.flags &= ~CE  # reported by a packet of its own
        if fabric.now >= flow.cnp_after:
            flow.cnp_after = fabric.now + fabric.rules.cnp_interval
            _send_cnp(fabric, node, packet.flow, packet.entropy)
            packet, flow = &fabric.packet[chosen], &fabric.flow[fabric.packet[chosen].flow]
    packet.kind = kind
    packet.size = <int32_t> (fabric.rules.ack + (fabric.rules.telemetry_header if packet.telemetry != NONE else 0))
    packet.cls = flow.cls if fabric.rules.ack_class else 0
    packet.cumulative = flow.expected
    packet.entropy = (packet.entropy >> 16) | (packet.entropy << 16)
    packet.port, packet.last = NONE, 0
    fabric.made += 1
    fabric.in_network += 1
    packet.src, packet.dst = packet.dst, packet.src
    number = select_port(fabric, node, chosen)
    enqueue(fabric, number, chosen)


cdef void _send_cnp(Fabric *fabric, int32_t node, int32_t of, uint64_t entropy) noexcept nogil:
    cdef int32_t chosen = new_packet(fabric)
    cdef Packet *packet
    if chosen == NONE:
        return
    packet = &fabric.packet[chosen]
    packet.kind, packet.flow, packet.port = CNP, of, NONE
    packet.size = <int32_t> fabric.rules.ack
    packet.cls = 0
    packet.entropy = <uint64_t> (entropy >> 16) | (entropy << 16)
    fabric.made += 1
    fabric.in_network += 1
    packet.src, packet.dst = fabric.flow[of].dst, fabric.flow[of].src
    enqueue(fabric, select_port(fabric, node, chosen), chosen)


# -- sender --

cdef void begin_flow(Fabric *fabric, Transport transport, int32_t number) noexcept:
    """Start a flow: it takes its place at a port of its NIC."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t words
    cdef uint64_t *larger
    if fabric.rules.selective or fabric.rules.trim:
        words = 3 * ((flow.packets + 63) >> 6)
        if fabric.bit_words + words > fabric.bit_capacity:
            larger = <uint64_t*> realloc(
                fabric.bits, <size_t> (2 * fabric.bit_capacity + words + 4096) * sizeof(uint64_t)
            )
            if larger == NULL:
                fabric.failed = True
                return
            fabric.bits, fabric.bit_capacity = larger, 2 * fabric.bit_capacity + words + 4096
        flow.bits = fabric.bit_words
        memset(&fabric.bits[flow.bits], 0, <size_t> words * sizeof(uint64_t))
        fabric.bit_words += words
    if enter_nic(fabric, number):
        fabric.failed = True
        return
    flow.active = True
    flow.next_send = fabric.now
    if fabric.rules.attribution:
        open_times(fabric, number)
    flow.rto = fabric.rules.retry
    transport.begin(number)
    if flow.rto:
        flow.retry_at = fabric.now + flow.rto
    arm(fabric, number)
    refresh(fabric, number)


cdef void finish(Fabric *fabric, int32_t number) noexcept nogil:
    """Report that a message has arrived."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t *larger
    if fabric.rules.attribution:
        close_times(fabric, number)
    flow.end = fabric.now
    fabric.delivered_bytes += flow.nbytes
    if fabric.done_count == fabric.done_capacity:
        larger = <int64_t*> realloc(fabric.done, <size_t> (2 * fabric.done_capacity + 64) * sizeof(int64_t))
        if larger == NULL:
            fabric.failed = True
            return
        fabric.done, fabric.done_capacity = larger, 2 * fabric.done_capacity + 64
    fabric.done[fabric.done_count] = number
    fabric.done_count += 1


cdef void _take_reply(Fabric *fabric, Transport transport, int32_t chosen) noexcept:
    cdef Packet *reply = &fabric.packet[chosen]
    cdef int32_t number = reply.flow, before
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t acknowledged = 0
    if flow.finished:
        free_packet(fabric, chosen)
        return
    before = flow.una
    flow.rtt = fabric.now - reply.sent
    if fabric.rules.selective:
        acknowledged = _acknowledge(fabric, flow, reply)
    else:
        while flow.una < reply.cumulative:
            acknowledged += payload_of(fabric, flow, flow.una)
            flow.una += 1
        flow.flight -= acknowledged
        if flow.next < flow.una:  # sent again meanwhile
            flow.next, flow.flight = flow.una, 0
        if reply.kind == NACK:
            flow.next, flow.flight = flow.una, 0
    if (flow.una > before or fabric.rules.pulls) and flow.rto:
        flow.retry_at, flow.expiries = fabric.now + flow.rto, 0
    if flow.una == flow.packets:
        flow.finished, flow.active = True, False
        flow.retry_at = 0
        leave_nic(fabric, flow)
        transport.end(number)
        if fabric.rules.ack_ends:
            finish(fabric, number)
        free_packet(fabric, chosen)
        if fabric.rules.port_timer:
            serve(fabric, flow.port)
        return
    if reply.kind == NACK:
        transport.on_nack(number, reply)
    transport.on_ack(number, reply, acknowledged)
    free_packet(fabric, chosen)
    arm(fabric, number)
    refresh(fabric, number)


cdef int64_t _acknowledge(Fabric *fabric, Flow *flow, Packet *reply) noexcept nogil:
    """Selective: note the packet that the reply names, and all below its cumulative number. Returns bytes."""
    cdef uint64_t *known = bitmap(fabric, flow, ACKNOWLEDGED)
    cdef uint64_t *lost = bitmap(fabric, flow, LOST)
    cdef int64_t total = 0
    if reply.kind == NACK:
        mark_lost(fabric, flow, reply.number)
    elif not test_bit(known, reply.number):
        total += _note(fabric, flow, known, lost, reply.number)
    while flow.una < flow.packets and (flow.una < reply.cumulative or test_bit(known, flow.una)):
        if not test_bit(known, flow.una):
            total += _note(fabric, flow, known, lost, flow.una)
        flow.una += 1
    return total


cdef int64_t _note(Fabric *fabric, Flow *flow, uint64_t *known, uint64_t *lost, int32_t number) noexcept nogil:
    cdef int64_t payload = payload_of(fabric, flow, number)
    set_bit(known, number)
    if test_bit(lost, number):  # it was not lost after all; its bytes are not in flight
        lost[number >> 6] &= ~(<uint64_t> 1 << (number & 63))
        flow.lost -= 1
    else:
        flow.flight -= payload
    return payload


# -- timers --

cdef void arm(Fabric *fabric, int32_t number) noexcept nogil:
    """Schedule the retransmission timeout of a flow."""
    cdef Flow *flow = &fabric.flow[number]
    if flow.retry_at and (not flow.timer_at or flow.retry_at < flow.timer_at):
        flow.timer_at = flow.retry_at
        if schedule(&fabric.events, flow.retry_at, TIMER, number):
            fabric.failed = True


cdef void timer(Fabric *fabric, Transport transport, int32_t number) noexcept:
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t i
    if flow.timer_at != fabric.now:
        return
    flow.timer_at = 0
    if flow.finished:
        return
    if flow.retry_at > fabric.now:  # set again since
        arm(fabric, number)
        return
    flow.timeouts += 1
    flow.expiries += 1
    flow.retry_at = fabric.now + (flow.rto << min(flow.expiries, 10))
    if fabric.rules.retries and flow.expiries > fabric.rules.retries:
        fabric.failed, fabric.gave_up = GAVE_UP, number
        return
    if fabric.rules.selective:
        for i in range(flow.una, flow.next):
            mark_lost(fabric, flow, i)
    else:
        flow.next, flow.flight = flow.una, 0
    flow.solicits = fabric.rules.pulls
    transport.on_loss(number)
    arm(fabric, number)
    refresh(fabric, number)


cdef void due(Fabric *fabric, Transport transport, int32_t number) noexcept:
    """A timer of the transport has expired."""
    if fabric.flow[number].finished:
        return
    transport.on_due(number)
    if not fabric.rules.port_timer:  # with it, a NIC does not look at its flows now
        refresh(fabric, number)
