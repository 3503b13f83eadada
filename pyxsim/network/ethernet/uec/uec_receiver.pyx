"""A receiver: acknowledgments with a bitmap, reports of trimmed packets, and the pace of its pulls."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from pyxsim.network.ethernet.uec.uec_nic cimport send_control
from pyxsim.network.ethernet.uec.uec_pools cimport (
    at, draw, first, forget_arrived, free_packet, has_arrived, new_packet, note_arrived, pop, push, report_end,
)
from pyxsim.network.ethernet.uec.uec_records cimport (
    ACK, ADAPT, CE, LAST_HOP, NACK, NONE, OF_RTS, OTHER, PACE, PROBE, PULL, PULL_STALLED, QUANTUM, RESENT, RTS,
    TRIMMED, WANTS_ACK, Fabric, Flow, Host, Packet, Ring,
)

cdef enum:
    BITMAP = 64
    PULL_QUANTA = 64          # credit per pull
    LEAST_QUANTA = 4          # a pull without credit takes the time of these
    ENTROPIES = 128           # of pulls
cdef double MOST_RANDOM = 2147483647.0
cdef double MOST_CONGESTION = 0.3  # share of marked packets that does not slow pulls


cdef void take_data(Fabric *fabric, int32_t chosen) noexcept nogil:
    """A packet has arrived at its destination; it ends here."""
    cdef Packet packet = fabric.packet[chosen]
    fabric.host[packet.dst].arrivals += 1
    free_packet(fabric, chosen)
    if packet.kind == RTS:
        _take_request(fabric, &packet)
    elif packet.flags & TRIMMED:
        _take_trimmed(fabric, &packet)
    elif packet.flags & PROBE:
        _acknowledge(fabric, &packet, _base(fabric, &packet), packet.flags & CE, 0, PROBE)
    else:
        _take_payload(fabric, &packet)


cdef void _take_payload(Fabric *fabric, const Packet *packet) noexcept nogil:
    cdef Flow *flow = &fabric.flow[packet.flow]
    cdef bint marked = packet.flags & CE, wanted = packet.flags & WANTS_ACK, report
    cdef uint8_t resent = packet.flags & RESENT
    flow.unreported = <uint16_t> (flow.unreported + packet.size)
    flow.delivered += 1
    _note_request(fabric, packet.flow, packet.extra)
    if marked:
        fabric.host[flow.dst].arrivals_marked += 1
    if packet.number < flow.expected or has_arrived(fabric, flow, packet.number):
        flow.duplicates += 1
        _acknowledge(fabric, packet, packet.number if marked else _base(fabric, packet), marked, resent, 0)
        flow.unreported = 0
        return
    report = flow.received_payload == 0 or wanted
    if not packet.flags & OF_RTS:
        flow.received_payload += packet.size - fabric.rules.header
        fabric.delivered_bytes += packet.size - fabric.rules.header
    flow.received_bytes += packet.size
    if wanted:
        flow.ack_wanted = True
    if _take_number(fabric, flow, packet.number):
        report = True
    if flow.received_payload == flow.nbytes and not packet.flags & OF_RTS:
        flow.received_at = fabric.now
        if not fabric.rules.ack_ends:
            report_end(fabric, packet.flow)
    if marked or flow.unreported >= fabric.rules.sack_threshold or report:
        _acknowledge(
            fabric, packet, packet.number if marked or wanted else _base(fabric, packet), marked, resent, 0
        )
        flow.unreported = 0


cdef bint _take_number(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """Note a packet that has arrived. Returns whether it closes the last gap and an acknowledgment is wanted."""
    if number != flow.expected:
        note_arrived(fabric, flow, number)
        flow.disordered += 1
        flow.out_of_order += 1
        return False
    flow.expected += 1
    while flow.disordered and has_arrived(fabric, flow, flow.expected):
        forget_arrived(fabric, flow, flow.expected)
        flow.disordered -= 1
        flow.expected += 1
    if flow.disordered or not flow.ack_wanted:
        return False
    flow.ack_wanted = False
    return True


cdef void _take_trimmed(Fabric *fabric, const Packet *packet) noexcept nogil:
    """The payload of a packet is lost: report it."""
    cdef Flow *flow = &fabric.flow[packet.flow]
    cdef int32_t chosen
    if packet.flags & LAST_HOP:
        fabric.host[flow.dst].trimmed_last += 1
    else:
        fabric.host[flow.dst].trimmed_before += 1
    if packet.number < flow.expected or has_arrived(fabric, flow, packet.number):
        flow.duplicates += 1
        _acknowledge(fabric, packet, _base(fabric, packet), False, packet.flags & RESENT, 0)
        return
    _note_request(fabric, packet.flow, packet.extra)
    chosen = _reply(fabric, packet.flow, NACK, packet.entropy, packet.number)
    if chosen == NONE:
        return
    fabric.packet[chosen].flags = packet.flags & (LAST_HOP | CE)
    send_control(fabric, flow.dst, chosen)
    _pull(fabric, packet.flow)


cdef void _take_request(Fabric *fabric, const Packet *packet) noexcept nogil:
    """A request to send: its number counts as a packet without payload."""
    cdef Flow *flow = &fabric.flow[packet.flow]
    _note_request(fabric, packet.flow, packet.extra)
    _pull(fabric, packet.flow)
    if packet.number < flow.expected or has_arrived(fabric, flow, packet.number):
        _acknowledge(fabric, packet, _base(fabric, packet), False, 0, OF_RTS)
        flow.unreported = 0
        return
    _take_number(fabric, flow, packet.number)
    _acknowledge(fabric, packet, packet.number, False, 0, OF_RTS)


cdef inline int32_t _base(Fabric *fabric, const Packet *packet) noexcept nogil:
    """First packet of the bitmap of an acknowledgment."""
    return max(packet.number - BITMAP + 1, fabric.flow[packet.flow].expected + 1)


cdef int32_t _reply(Fabric *fabric, int32_t number, int32_t kind, uint16_t entropy, int32_t packet) noexcept nogil:
    """A control packet to the sender of a flow; NONE without memory."""
    cdef int32_t chosen = new_packet(fabric)
    cdef Flow *flow = &fabric.flow[number]
    if chosen == NONE:
        return NONE
    cdef Packet *reply = &fabric.packet[chosen]
    reply.kind, reply.flow, reply.size, reply.number = kind, number, <int32_t> fabric.rules.control, packet
    reply.dst, reply.id, reply.entropy = flow.src, flow.sink_id, entropy
    return chosen


cdef void _acknowledge(
    Fabric *fabric, const Packet *packet, int32_t base, bint marked, uint8_t resent, uint8_t of
) noexcept nogil:
    """Send an acknowledgment with all that has arrived below `expected`, and a bitmap from packet `base` on."""
    cdef Flow *flow = &fabric.flow[packet.flow]
    cdef int32_t chosen = _reply(fabric, packet.flow, ACK, packet.entropy, packet.number), i
    cdef uint64_t bits = 0
    cdef Packet *reply
    if chosen == NONE:
        return
    if fabric.old_acks:
        fabric.old_acks -= 1
        of |= fabric.old_ack[fabric.old_acks]
    if flow.disordered:
        for i in range(BITMAP):
            if base + i > flow.expected and has_arrived(fabric, flow, base + i):
                bits |= <uint64_t> 1 << i
    reply = &fabric.packet[chosen]
    reply.flags = of | resent | (CE if marked else 0)
    reply.cumulative, reply.base, reply.extra = flow.expected, base, <int64_t> bits
    reply.received, reply.disordered = flow.received_bytes, flow.disordered
    send_control(fabric, flow.dst, chosen)


# -- pulls --

cdef void _note_request(Fabric *fabric, int32_t number, int64_t requested) noexcept nogil:
    """A flow asks for credit up to a total."""
    cdef Flow *flow = &fabric.flow[number]
    if fabric.rules.receiver_cc and requested > flow.highest:
        flow.highest = requested
        _pull(fabric, number)


cdef void _pull(Fabric *fabric, int32_t number) noexcept nogil:
    """Take a flow into the turns of the pulls of its receiver."""
    cdef Flow *flow = &fabric.flow[number]
    cdef Host *host = &fabric.host[flow.dst]
    if not fabric.rules.receiver_cc or flow.in_pull:
        return
    flow.in_pull = True
    push(fabric, &host.active, number)
    if not host.pacing:
        host.pacing = True
        at(fabric, fabric.now, PACE, flow.dst)


cdef void _forget_finished(Fabric *fabric, Ring *turns) noexcept nogil:
    """Take the flows at the head that have received everything out of the turns of pulls."""
    cdef Flow *flow
    while turns.count:
        flow = &fabric.flow[<int32_t> first(fabric, turns)]
        if flow.received_payload < flow.nbytes:
            return
        pop(fabric, turns)


cdef void pace(Fabric *fabric, int32_t host_number) noexcept nogil:
    """Send the next pull: flows that have asked for credit in turn, else those that may have more to send."""
    cdef Host *host = &fabric.host[host_number]
    cdef int32_t number, chosen
    cdef int64_t before, granted
    cdef Flow *flow
    if not fabric.rules.pull_finished:
        _forget_finished(fabric, &host.active)
        _forget_finished(fabric, &host.idle)
    if not host.active.count and not host.idle.count:
        host.pacing = False
        return
    if host.active.count:
        number = <int32_t> pop(fabric, &host.active)
        flow = &fabric.flow[number]
        before = flow.granted
        flow.granted = max(min(flow.granted + PULL_QUANTA, flow.highest), before)
        granted = flow.granted - before
        if flow.highest > flow.granted:
            push(fabric, &host.active, number)
        else:
            push(fabric, &host.idle, number)
            flow.in_pull, flow.idle = False, True
    else:
        number = <int32_t> pop(fabric, &host.idle)
        flow = &fabric.flow[number]
        if not flow.idle:
            flow.idle, flow.in_pull = True, False
        granted = PULL_QUANTA
        flow.granted += granted
        if flow.highest <= flow.granted and flow.granted - flow.highest < fabric.most_window // QUANTUM:
            push(fabric, &host.idle, number)
        else:
            flow.in_pull = flow.idle = False
            if not fabric.rules.pull_finished:
                _watch(fabric, host_number, number)
    flow.pull_entropy = (flow.pull_entropy + 1) % ENTROPIES
    chosen = _reply(fabric, number, PULL, flow.pull_entropy, 0)
    if chosen == NONE:
        return
    fabric.packet[chosen].extra = flow.granted
    send_control(fabric, host_number, chosen)
    at(fabric, fabric.now + host.quantum_time * (granted if granted else LEAST_QUANTA), PACE, host_number)


cdef void _watch(Fabric *fabric, int32_t host_number, int32_t number) noexcept nogil:
    """Pull a flow again after a timeout: links may have lost its pulls, and it does not ask again."""
    cdef Host *host = &fabric.host[host_number]
    push(fabric, &host.stalled, number)
    if not host.watching:
        host.watching = True
        at(fabric, fabric.now + fabric.rules.min_rto, OTHER, 4 * host_number + PULL_STALLED)


cdef void pull_stalled(Fabric *fabric, int32_t host_number) noexcept nogil:
    """Take the flows that have waited for a timeout into the turns of pulls."""
    cdef Host *host = &fabric.host[host_number]
    cdef int32_t number
    host.watching = False
    while host.stalled.count:
        number = <int32_t> pop(fabric, &host.stalled)
        if fabric.flow[number].received_payload < fabric.flow[number].nbytes:
            push(fabric, &host.idle, number)
    if host.idle.count and not host.pacing:
        host.pacing = True
        at(fabric, fabric.now, PACE, host_number)


# -- receivers behind oversubscribed links --

cdef int64_t _interval(Fabric *fabric) noexcept nogil:
    return <int64_t> ((0.75 + draw(fabric) / MOST_RANDOM / 2) * 1.5 * <double> fabric.rules.network_rtt)


cdef void begin_adaptation(Fabric *fabric, int32_t number) noexcept nogil:
    fabric.host[number].rate = 1
    at(fabric, fabric.now + _interval(fabric), OTHER, 4 * number + ADAPT)


cdef void adapt(Fabric *fabric, int32_t number) noexcept nogil:
    """Adapt the rate of pulls to the marks and the losses before the last hop."""
    cdef Host *host = &fabric.host[number]
    cdef int64_t whole = host.arrivals - host.trimmed_last - host.trimmed_before
    cdef double share = <double> host.arrivals_marked / <double> whole if whole else 0
    cdef double gain = fabric.rules.oversub_alpha
    cdef bint slower = False
    if host.trimmed_before > 0:
        host.rate -= <double> host.trimmed_before / <double> host.arrivals
        slower = True
    host.congestion = host.congestion * (1 - gain) + gain * share
    if host.congestion > MOST_CONGESTION and fabric.rules.oversub_md > 0:
        host.rate *= 1 - (host.congestion - MOST_CONGESTION) * fabric.rules.oversub_md
        slower = True
    if slower:
        host.increases = 0
    else:
        if host.arrivals_marked:
            host.rate += fabric.rules.oversub_ai
        else:
            host.rate += fabric.rules.oversub_ai * 2.0 ** host.increases
        host.increases += 1
    host.rate = min(1.0, max(host.rate, fabric.rules.oversub_min_rate))
    host.arrivals = host.arrivals_marked = host.trimmed_last = host.trimmed_before = 0
    host.quantum_time = <int64_t> (<double> host.least_quantum_time / host.rate)
    at(fabric, fabric.now + _interval(fabric), OTHER, 4 * number + ADAPT)
