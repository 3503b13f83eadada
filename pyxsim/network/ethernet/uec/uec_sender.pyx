"""A sender and the replies to its packets: acknowledgments, reports of trimmed packets, and pulls."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from pyxsim.network.ethernet.uec.nscc cimport note_delay, note_rtt, window_after_ack, window_after_nack
from pyxsim.network.ethernet.uec.uec_entropy cimport GOOD, MARKED, REJECTED, feed_back
from pyxsim.network.ethernet.uec.uec_links cimport keep_ack
from pyxsim.network.ethernet.uec.uec_nic cimport (
    disarm, rearm, remove_lost, send_again, stop_speculating, try_to_send, unlist,
)
from pyxsim.network.ethernet.uec.uec_pools cimport at, free_block, free_packet, free_ring, record, report_end
from pyxsim.network.ethernet.uec.uec_records cimport (
    ACK, CE, LAST_HOP, LOST, NACK, OF_RTS, OTHER, PROBE, QUANTUM, RESENT, SEND_PROBE, SENT, Fabric, Flow, Packet,
    Sent,
)

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil

cdef double LOSS_FACTOR = 1.5  # SLEEK: windows that must arrive out of order
cdef int64_t LEAST_LOSS = 5    # SLEEK: packets


cdef void take_reply(Fabric *fabric, int32_t chosen) noexcept nogil:
    """A reply has arrived at the sender."""
    cdef Packet *reply = &fabric.packet[chosen]
    cdef int32_t number = reply.flow
    fabric.flow[number].last_reply = fabric.now
    if reply.kind == ACK:
        _take_ack(fabric, number, reply)
        keep_ack(fabric, fabric.packet[chosen].flags & OF_RTS)
    elif reply.kind == NACK:
        _take_nack(fabric, number, reply)
    else:
        _take_pull(fabric, number, reply)
    free_packet(fabric, chosen)


cdef void _take_ack(Fabric *fabric, int32_t number, const Packet *reply) noexcept nogil:
    cdef Flow *flow = &fabric.flow[number]
    cdef bint marked = reply.flags & CE, probed = reply.flags & PROBE
    cdef int32_t cumulative = reply.cumulative, disordered = reply.disordered
    cdef int64_t fresh = max(<int64_t> 0, reply.received - flow.last_received), delay
    flow.acks += 1
    if flow.finished and not flow.connection and not fabric.rules.sleek:
        return
    if fresh:
        flow.last_received = reply.received
        flow.achieved += fresh
        flow.received += fresh
        flow.ignored += <unsigned int> fresh
    flow.in_flight -= fresh
    delay = _sample(fabric, flow, reply)
    _acknowledge(fabric, number, reply)
    feed_back(fabric, flow, reply.entropy, MARKED if marked else GOOD)
    if probed:
        delay = flow.average_delay
        if reply.number == flow.probes:
            delay = max(<int64_t> 0, fabric.now - flow.probe_sent - flow.base_rtt)
            if fabric.now - flow.probe_sent >= flow.base_rtt:
                note_delay(fabric, flow, delay, marked)
    if fabric.rules.sender_cc:
        window_after_ack(fabric, flow, marked, delay, fresh)
        if fabric.rules.sleek:
            _recover(fabric, number, cumulative, disordered, probed and delay < fabric.rules.target)
    stop_speculating(flow)
    _end(fabric, number, cumulative)
    if not flow.finished:
        try_to_send(fabric, number)


cdef int64_t _sample(Fabric *fabric, Flow *flow, const Packet *reply) noexcept nogil:
    """Queueing delay of the acknowledged packet; the mean delay if it is unknown."""
    cdef Sent *sent
    cdef int64_t rtt
    if reply.flags & PROBE or not flow.una <= reply.number < flow.next:
        return flow.average_delay
    sent = record(fabric, flow, reply.number)
    if sent.state != SENT or sent.times != (1 if reply.flags & RESENT else 0):
        return flow.average_delay
    flow.last_rtt = rtt = fabric.now - sent.at
    if not reply.flags & OF_RTS:
        note_rtt(fabric, flow, rtt)
    if rtt < flow.base_rtt:
        return flow.average_delay
    note_delay(fabric, flow, rtt - flow.base_rtt, reply.flags & CE)
    return rtt - flow.base_rtt


cdef void _acknowledge(Fabric *fabric, int32_t number, const Packet *reply) noexcept nogil:
    """Forget the packets that have arrived: all below the cumulative number, and those of the bitmap."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t packet, cumulative = reply.cumulative, base = reply.base
    cdef uint64_t bits = <uint64_t> reply.extra
    if flow.lost:
        for packet in range(flow.una, cumulative):
            if record(fabric, flow, packet).state == LOST:
                flow.in_flight += remove_lost(fabric, flow, packet)
    for packet in range(flow.una, cumulative):
        _forget(fabric, number, packet)
    flow.una = max(flow.una, cumulative)
    while bits:
        packet = base + __builtin_ctzll(bits)
        bits &= bits - 1
        if not flow.una <= packet < flow.next:
            continue
        if record(fabric, flow, packet).state == LOST:
            flow.in_flight += remove_lost(fabric, flow, packet)
        _forget(fabric, number, packet)


cdef inline void _forget(Fabric *fabric, int32_t number, int32_t packet) noexcept nogil:
    """A packet has arrived. The timer that guards it guards the earliest of the others."""
    cdef Flow *flow = &fabric.flow[number]
    cdef Sent *sent = record(fabric, flow, packet)
    if not sent.counted and not sent.rts:
        sent.counted = True
        flow.acknowledged += sent.size
    if sent.state == SENT:
        unlist(fabric, flow, packet)
        if sent.at == flow.timeout_sent:
            rearm(fabric, number)


cdef void _end(Fabric *fabric, int32_t number, int32_t cumulative) noexcept nogil:
    """End a flow whose bytes are all acknowledged."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t payload = fabric.rules.mtu - fabric.rules.header, packets
    if flow.finished:
        return
    if flow.connection:
        if flow.acknowledged != flow.eligible:
            return
    elif not fabric.rules.pull_finished:  # the request to send may be lost, and with it the credit
        packets = (flow.nbytes + payload - 1) // payload
        if flow.acknowledged != flow.nbytes + packets * fabric.rules.header:
            return
    elif <int64_t> (cumulative - flow.sent_rts) * payload < flow.nbytes:
        return
    flow.finished = True
    flow.final_cumulative, flow.final_in_flight = cumulative, flow.in_flight
    disarm(flow)
    if fabric.rules.ack_ends:
        report_end(fabric, number)
    if not flow.connection and not fabric.rules.sleek:  # SLEEK still sends probes
        _release(fabric, flow)


cdef void _release(Fabric *fabric, Flow *flow) noexcept nogil:
    """Free the memory of a flow that has ended; what still arrives was sent twice."""
    cdef int32_t cls = 0
    if not flow.lost:
        free_block(fabric, flow.records, flow.records_cls + 2)
        flow.records, flow.una = 0, flow.next
    free_block(fabric, flow.arrived, flow.arrived_cls)
    flow.arrived = 0
    if flow.entropy.penalty:
        while <int64_t> 1 << cls < fabric.rules.paths:
            cls += 1
        free_block(fabric, flow.entropy.penalty, cls)
    free_ring(fabric, &flow.entropy.good)


cdef void _take_nack(Fabric *fabric, int32_t number, const Packet *reply) noexcept nogil:
    """A packet was trimmed: send it again."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t packet = reply.number
    cdef int64_t size, sent_at
    cdef uint16_t entropy = reply.entropy
    cdef bint last_hop = reply.flags & LAST_HOP, marked = reply.flags & CE
    flow.nacks += 1
    if not flow.una <= packet < flow.next or record(fabric, flow, packet).state != SENT:
        return
    sent_at = record(fabric, flow, packet).at
    flow.last_rtt = fabric.now - sent_at
    if fabric.rules.update_rtt_on_nack:
        note_rtt(fabric, flow, flow.last_rtt)
    if fabric.rules.sender_cc:
        window_after_nack(fabric, flow, record(fabric, flow, packet).size, last_hop)
    size = unlist(fabric, flow, packet)
    flow.in_flight -= size
    stop_speculating(flow)
    send_again(fabric, number, packet, size)
    if sent_at == flow.timeout_sent:
        rearm(fabric, number)
    feed_back(fabric, flow, entropy, (MARKED if marked else GOOD) if last_hop else REJECTED)
    try_to_send(fabric, number)


cdef void _take_pull(Fabric *fabric, int32_t number, const Packet *reply) noexcept nogil:
    """The receiver grants credit."""
    cdef Flow *flow = &fabric.flow[number]
    flow.pulls += 1
    stop_speculating(flow)
    if reply.extra > flow.pulled:
        flow.credit = min(flow.credit + QUANTUM * (reply.extra - flow.pulled), fabric.most_window)
        flow.pulled = reply.extra
    try_to_send(fabric, number)


# -- SLEEK --

cdef void _recover(Fabric *fabric, int32_t number, int32_t cumulative, int32_t disordered, bint probed) noexcept nogil:
    """SLEEK: infer losses from packets that arrive out of order, or from an answered probe; send them again."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t payload = fabric.rules.mtu - fabric.rules.header, threshold, size, sent_at
    cdef int32_t packet = cumulative
    flow.probing = False
    if cumulative < flow.next or flow.backlog > 0:
        flow.probe_at = fabric.now + (3 * flow.base_rtt if flow.backlog else flow.base_rtt + fabric.rules.target)
        flow.probing = not fabric.rules.end or flow.probe_at < fabric.rules.end
        at(fabric, flow.probe_at, OTHER, 4 * number + SEND_PROBE)
    if probed:
        flow.recovering, flow.recovery_end, flow.recovered = True, flow.next, cumulative
    threshold = max(min(<int64_t> (LOSS_FACTOR * <double> flow.window), flow.most_window), LEAST_LOSS * payload)
    if flow.recovering and cumulative >= flow.recovery_end:
        flow.recovering = False
    if disordered < threshold // payload and not flow.recovering:
        return
    if not flow.recovering and not flow.lost:
        flow.recovering, flow.recovery_end = True, flow.next
    while packet < flow.recovery_end and packet < cumulative + flow.window // payload:
        if (packet >= flow.recovered and flow.una <= packet < flow.next
                and record(fabric, flow, packet).state == SENT):
            flow.recovered_packets += 1
            sent_at = record(fabric, flow, packet).at
            size = unlist(fabric, flow, packet)
            flow.in_flight -= size
            flow.recovered = packet + 1
            send_again(fabric, number, packet, size)
            if sent_at == flow.timeout_sent:
                rearm(fabric, number)
        packet += 1
    try_to_send(fabric, number)
