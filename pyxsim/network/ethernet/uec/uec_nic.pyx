"""What a sender transmits, and when: permission by window and credit, the NIC's turns, the retransmission timer."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.uec.uec_entropy cimport EXPIRED, feed_back, next_entropy
from pyxsim.network.ethernet.uec.uec_links cimport enqueue_at_host
from pyxsim.network.ethernet.uec.uec_pools cimport (
    at, first, new_packet, pop, push, record, reserve_record,
)
from pyxsim.network.ethernet.uec.uec_records cimport (
    DATA, FREE, GAVE_UP, LOST, NIC, NIC_TURNS, NONE, OF_RTS, OTHER, PROBE, QUANTUM, RESENT, RTS, SEND_PROBE, SENT,
    SPECULATIVE, TIMEOUT, WANTS_ACK, Fabric, Flow, Host, Packet, Sent,
)

cdef int64_t PICOSECONDS = 8 * 10**12


# -- the NIC --

cdef inline void _occupy(Fabric *fabric, int32_t host, int64_t size) noexcept nogil:
    """The NIC is busy while it sends `size` bytes at its line rate."""
    fabric.host[host].busy = True
    at(fabric, fabric.now + size * PICOSECONDS // fabric.rules.line, NIC, host)


cdef void send_control(Fabric *fabric, int32_t host, int32_t chosen) noexcept nogil:
    """A control packet waits for the NIC, or leaves at once."""
    cdef Host *nic = &fabric.host[host]
    fabric.packet[chosen].next = NONE
    if nic.control_tail == NONE:
        nic.control_head = chosen
    else:
        fabric.packet[nic.control_tail].next = chosen
    nic.control_tail = chosen
    if not nic.busy:
        _next_control(fabric, host)


cdef void _next_control(Fabric *fabric, int32_t host) noexcept nogil:
    cdef Host *nic = &fabric.host[host]
    cdef int32_t chosen = nic.control_head
    nic.control_head = fabric.packet[chosen].next
    if nic.control_head == NONE:
        nic.control_tail = NONE
    _occupy(fabric, host, fabric.packet[chosen].size)
    enqueue_at_host(fabric, fabric.uplink[host], chosen)


cdef void nic_free(Fabric *fabric, int32_t host) noexcept nogil:
    """The NIC has sent a packet: ten control packets, then a flow has its turn."""
    cdef Host *nic = &fabric.host[host]
    nic.busy = False
    if nic.waiting.count and nic.control_head != NONE:
        nic.turns = nic.turns + 1 if nic.turns < NIC_TURNS else 0
        if nic.turns:
            _next_control(fabric, host)
        else:
            _next_flow(fabric, host)
    elif nic.waiting.count:
        _next_flow(fabric, host)
    elif nic.control_head != NONE:
        _next_control(fabric, host)


cdef void _next_flow(Fabric *fabric, int32_t host) noexcept nogil:
    """The first waiting flow that still may send does; those before it stop waiting."""
    cdef Host *nic = &fabric.host[host]
    cdef int32_t number
    cdef Flow *flow
    cdef int64_t size
    while nic.waiting.count:
        number = <int32_t> first(fabric, &nic.waiting)
        flow = &fabric.flow[number]
        flow.blocked = False
        if _may_send(fabric, flow):
            size = _send(fabric, number)
            pop(fabric, &nic.waiting)
            _occupy(fabric, host, size)
            if _may_send(fabric, flow):
                _wait(fabric, number)
            return
        pop(fabric, &nic.waiting)
    if nic.control_head != NONE:
        _next_control(fabric, host)


cdef inline void _wait(Fabric *fabric, int32_t number) noexcept nogil:
    push(fabric, &fabric.host[fabric.flow[number].src].waiting, number)
    fabric.flow[number].blocked = True


# -- permission --

cdef inline bint _may_send(Fabric *fabric, Flow *flow) noexcept nogil:
    """Whether a flow has a packet and its window and credit permit it."""
    cdef int64_t size
    if not flow.lost and not flow.backlog:
        return False
    if fabric.rules.receiver_cc and flow.credit <= 0:
        return False
    if fabric.rules.sender_cc:
        if flow.lost:
            size = record(fabric, flow, _first_lost(fabric, flow)).size
        else:
            size = min(fabric.rules.mtu, flow.backlog)
        return flow.window >= flow.in_flight + size or (flow.recovering and flow.lost)
    return True


cdef inline int32_t _first_lost(Fabric *fabric, Flow *flow) noexcept nogil:
    """The lowest number of a packet that waits to be sent again; there is one."""
    flow.first_lost = max(flow.first_lost, flow.una)
    while record(fabric, flow, flow.first_lost).state != LOST:
        flow.first_lost += 1
    return flow.first_lost


cdef void try_to_send(Fabric *fabric, int32_t number) noexcept nogil:
    """Send a packet if the NIC is idle, and wait for the NIC with the next one."""
    cdef Flow *flow = &fabric.flow[number]
    while not flow.blocked and _may_send(fabric, flow):
        if fabric.host[flow.src].busy:
            _wait(fabric, number)
        else:
            _occupy(fabric, flow.src, _send(fabric, number))


cdef void start_flow(Fabric *fabric, int32_t number) noexcept nogil:
    """A flow starts with all the credit there is."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t payload = fabric.rules.mtu - fabric.rules.header
    if flow.next or (flow.started and not flow.connection):
        return
    flow.started = True
    flow.last_reply = fabric.now
    flow.credit = fabric.most_window
    if not flow.connection:
        flow.start = fabric.now
        flow.backlog = flow.nbytes + fabric.rules.header * ((flow.nbytes + payload - 1) // payload)
    try_to_send(fabric, number)


cdef void enter_messages(Fabric *fabric, int32_t number) noexcept nogil:
    """The messages of a connection whose time has come may be sent."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int64_t payload = fabric.rules.mtu - fabric.rules.header, size, due, nbytes
    cdef bint active = flow.blocked or flow.backlog > 0 or flow.lost
    cdef int32_t _i
    for _i in range(flow.later.count // 2):
        due, nbytes = pop(fabric, &flow.later), pop(fabric, &flow.later)
        if due != fabric.now:
            push(fabric, &flow.later, due)
            push(fabric, &flow.later, nbytes)
            continue
        size = nbytes + fabric.rules.header * ((nbytes + payload - 1) // payload)
        push(fabric, &flow.messages, nbytes)
        flow.eligible += size
        flow.backlog += size
    flow.finished = False
    if not flow.started:
        start_flow(fabric, number)
    elif not active:
        try_to_send(fabric, number)


# -- packets of a flow --

cdef int64_t _send(Fabric *fabric, int32_t number) noexcept nogil:
    """Send the first lost packet, or a new one, to the link. Returns its size."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t lost
    cdef int64_t size
    cdef bint wanted = True
    if flow.lost:
        lost = _first_lost(fabric, flow)
        size = remove_lost(fabric, flow, lost)
        if fabric.rules.receiver_cc:
            flow.credit -= size
        flow.in_flight += size
        flow.requested = _request(fabric, flow)
        _launch(fabric, number, lost, size, RESENT | WANTS_ACK | (OF_RTS if record(fabric, flow, lost).rts else 0))
        flow.sent_again += 1
        return size
    size = _new_size(fabric, flow)
    if fabric.rules.receiver_cc:
        flow.credit -= size
    flow.backlog -= size
    flow.in_flight += size
    flow.requested = _request(fabric, flow)
    wanted = flow.backlog == 0 or (fabric.rules.receiver_cc and flow.credit <= 0) or (
        fabric.rules.sender_cc and flow.in_flight + size >= flow.window
    )
    reserve_record(fabric, flow, flow.next)
    _launch(fabric, number, flow.next, size, (WANTS_ACK if wanted else 0) | (SPECULATIVE if flow.speculating else 0))
    flow.sent_new += 1
    return size


cdef int64_t _new_size(Fabric *fabric, Flow *flow) noexcept nogil:
    """The size of the next new packet; a packet has bytes of one message only."""
    cdef int64_t rest, payload
    if not flow.connection:
        return min(fabric.rules.mtu, flow.backlog)
    rest = first(fabric, &flow.messages)
    payload = min(rest, fabric.rules.mtu - fabric.rules.header)
    if payload == rest:
        pop(fabric, &flow.messages)
    else:
        fabric.word[flow.messages.at + flow.messages.head] -= payload
    return payload + fabric.rules.header


cdef void _launch(Fabric *fabric, int32_t number, int32_t packet, int64_t size, int32_t flags) noexcept nogil:
    """Make a data packet, note it, and pass it to the link of its host."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t chosen = _make(fabric, number, DATA, packet, size)
    if chosen == NONE:
        return
    fabric.packet[chosen].flags = flags
    _note_sent(fabric, flow, packet, size)
    enqueue_at_host(fabric, fabric.uplink[flow.src], chosen)
    if packet == flow.next:
        flow.next += 1
    _arm(fabric, number, fabric.now)


cdef int32_t _make(Fabric *fabric, int32_t number, int32_t kind, int32_t packet, int64_t size) noexcept nogil:
    """A packet of the sender; NONE without memory."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t chosen = new_packet(fabric)
    if chosen == NONE:
        return NONE
    cdef Packet *made = &fabric.packet[chosen]
    made.kind, made.flow, made.number, made.size = kind, number, packet, <int32_t> size
    made.dst, made.id, made.extra = flow.dst, flow.source_id, flow.requested
    made.entropy = next_entropy(fabric, flow)
    return chosen


cdef void _note_sent(Fabric *fabric, Flow *flow, int32_t packet, int64_t size) noexcept nogil:
    cdef Sent *sent = record(fabric, flow, packet)
    sent.at, sent.size, sent.state, sent.listed = fabric.now, <int32_t> size, SENT, True
    sent.times += 1
    sent.before, sent.after = flow.newest, NONE
    if flow.newest == NONE:
        flow.oldest = packet
    else:
        record(fabric, flow, flow.newest).after = packet
    flow.newest = packet


cdef int64_t unlist(Fabric *fabric, Flow *flow, int32_t packet) noexcept nogil:
    """A packet is no longer outstanding. Returns its size."""
    cdef Sent *sent = record(fabric, flow, packet)
    sent.state = FREE
    if sent.listed:
        _remove_from_order(fabric, flow, sent)
    return sent.size


cdef void _remove_from_order(Fabric *fabric, Flow *flow, Sent *sent) noexcept nogil:
    sent.listed = False
    if sent.before == NONE:
        flow.oldest = sent.after
    else:
        record(fabric, flow, sent.before).after = sent.after
    if sent.after == NONE:
        flow.newest = sent.before
    else:
        record(fabric, flow, sent.after).before = sent.before


cdef int64_t remove_lost(Fabric *fabric, Flow *flow, int32_t packet) noexcept nogil:
    """A packet need no longer be sent again. Returns its size."""
    cdef Sent *sent = record(fabric, flow, packet)
    sent.state = FREE
    flow.lost -= 1
    flow.lost_bytes -= sent.size
    return sent.size


cdef void send_again(Fabric *fabric, int32_t number, int32_t packet, int64_t size) noexcept nogil:
    """A packet that is not outstanding waits to be sent again."""
    cdef Flow *flow = &fabric.flow[number]
    record(fabric, flow, packet).state = LOST
    if not flow.lost or packet < flow.first_lost:
        flow.first_lost = packet
    flow.lost += 1
    flow.lost_bytes += size
    if not flow.speculating or not fabric.rules.receiver_cc:
        try_to_send(fabric, number)


cdef int64_t _request(Fabric *fabric, Flow *flow) noexcept nogil:
    """The credit that a flow asks its receiver for, as a total in quanta."""
    cdef int64_t wanted = flow.backlog + flow.lost_bytes
    cdef int32_t waiting
    if not fabric.rules.receiver_cc:
        return 0
    if fabric.rules.sender_cc:
        wanted = min(wanted, flow.window + fabric.rules.mtu)
    wanted = min(wanted, fabric.most_window) - flow.credit
    if flow.speculating and wanted < fabric.rules.mtu and flow.backlog > 0:
        wanted = fabric.rules.mtu
    waiting = fabric.host[flow.src].waiting.count
    if waiting > 1:
        wanted = <int64_t> (<double> wanted / waiting)
    wanted += flow.pulled * QUANTUM
    return (wanted + QUANTUM - 1) // QUANTUM


cdef void stop_speculating(Flow *flow) noexcept nogil:
    """The receiver has answered: what is left of the first credit expires."""
    if flow.speculating:
        flow.speculating = False
        flow.credit = min(flow.credit, 0)


# -- the retransmission timer --

cdef void _arm(Fabric *fabric, int32_t number, int64_t sent) noexcept nogil:
    """Guard a packet that was sent at `sent`, unless the timer guards an earlier one."""
    cdef Flow *flow = &fabric.flow[number]
    if flow.timer and sent + fabric.rules.min_rto >= flow.timeout_at:
        return
    flow.timeout_at, flow.timeout_sent = max(sent + fabric.rules.min_rto, fabric.now), sent
    flow.timer = not fabric.rules.end or flow.timeout_at < fabric.rules.end
    at(fabric, flow.timeout_at, TIMEOUT, number)


cdef void disarm(Flow *flow) noexcept nogil:
    flow.timer = False


cdef void rearm(Fabric *fabric, int32_t number) noexcept nogil:
    """Guard the packet that was sent first of those that are outstanding."""
    cdef Flow *flow = &fabric.flow[number]
    flow.timer = False
    if flow.oldest != NONE:
        _arm(fabric, number, record(fabric, flow, flow.oldest).at)


cdef void timeout(Fabric *fabric, int32_t number) noexcept nogil:
    """The packet that was sent first is lost: send it again, or ask for credit."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t packet = flow.oldest
    cdef int64_t size
    cdef bint others
    if not flow.timer or flow.timeout_at != fabric.now or packet == NONE:
        return
    flow.timer = False
    flow.timeouts += 1
    _end_patience(fabric, number)
    feed_back(fabric, flow, 0, EXPIRED)
    if fabric.rules.sender_cc and fabric.rules.sleek and flow.recovering:
        _remove_from_order(fabric, flow, record(fabric, flow, packet))
        if record(fabric, flow, packet).times < 1:
            rearm(fabric, number)
        else:
            flow.recovered = packet
        return
    size = unlist(fabric, flow, packet)
    rearm(fabric, number)
    if fabric.rules.sender_cc:
        flow.in_flight -= size
        flow.window = max(flow.window - size, fabric.rules.mtu)
    others = flow.lost > 0
    if others:
        stop_speculating(flow)
    send_again(fabric, number, packet, size)
    if others:
        if fabric.rules.receiver_cc:
            _request_to_send(fabric, number)
        return
    if (fabric.rules.sender_cc and flow.window < size + flow.in_flight) or (
        fabric.rules.receiver_cc and flow.credit <= 0
    ):
        _request_to_send(fabric, number)
    elif fabric.host[flow.src].busy:
        push(fabric, &fabric.host[flow.src].waiting, number)
    elif flow.lost:
        _occupy(fabric, flow.src, _send(fabric, number))


cdef inline void _end_patience(Fabric *fabric, int32_t number) noexcept nogil:
    if fabric.rules.patience and fabric.now - fabric.flow[number].last_reply > fabric.rules.patience:
        fabric.failed, fabric.gave_up = GAVE_UP, number


cdef void _request_to_send(Fabric *fabric, int32_t number) noexcept nogil:
    """Send a request to send, at most one per round trip if the window decides."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t chosen
    if fabric.rules.sender_cc and flow.last_rts > 0 and fabric.now - flow.last_rts < fabric.rules.network_rtt:
        return
    reserve_record(fabric, flow, flow.next)
    record(fabric, flow, flow.next).rts = True
    _note_sent(fabric, flow, flow.next, fabric.rules.control)
    chosen = _make(fabric, number, RTS, flow.next, fabric.rules.control)
    if chosen == NONE:
        return
    fabric.packet[chosen].flags = WANTS_ACK
    send_control(fabric, flow.src, chosen)
    flow.next += 1
    flow.sent_rts += 1
    flow.last_rts = fabric.now
    _arm(fabric, number, fabric.now)


cdef void send_probe(Fabric *fabric, int32_t number) noexcept nogil:
    """SLEEK: ask for an acknowledgment, and again after five round trips."""
    cdef Flow *flow = &fabric.flow[number]
    cdef int32_t chosen
    if not flow.probing or flow.probe_at != fabric.now:
        return
    _end_patience(fabric, number)
    flow.probes += 1
    chosen = _make(fabric, number, DATA, flow.probes, fabric.rules.control)
    if chosen == NONE:
        return
    fabric.packet[chosen].flags = PROBE
    fabric.packet[chosen].extra = 0
    send_control(fabric, flow.src, chosen)
    flow.probe_sent = fabric.now
    flow.probe_at = fabric.now + 5 * flow.base_rtt
    flow.probing = not fabric.rules.end or flow.probe_at < fabric.rules.end
    at(fabric, flow.probe_at, OTHER, 4 * number + SEND_PROBE)
