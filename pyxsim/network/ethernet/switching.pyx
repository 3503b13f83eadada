"""Output queues, the shared buffer, ECN, PFC and trimming.

A packet that arrives at a switch is admitted to the buffer, or trimmed, or dropped (`forward`); it waits in the queue
of its class at one output port (`enqueue`), and `serve` starts the next transmission of a port that is idle.
docs/ethernet.md describes the rules.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport realloc

from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.flow_times cimport wait_for
from pyxsim.network.ethernet.nic cimport may_send, next_by_timer, next_of_flows, unsent
from pyxsim.network.ethernet.nic_slots cimport set_ready
from pyxsim.network.ethernet.ns3_random cimport draw_stream, skip_stream
from pyxsim.network.ethernet.pools cimport free_packet, new_packet, next_uniform, transmission_time
from pyxsim.network.ethernet.records cimport (
    ARRIVE, CE, CLASSES, DATA, FOR_NOTHING, FOR_PORT, FOR_RATE, FOR_WINDOW, HOPS, IDLE, NONE, PAUSE, RESUME, TO_SWITCH,
    TRIMMED, WAKE, Fabric, Flow, Node, Packet, Port, Puller, Queue,
)
from pyxsim.network.ethernet.route_choice cimport select_port
from pyxsim.network.ethernet.telemetry cimport write_telemetry

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil


# -- ports --

cdef void serve(Fabric *fabric, int32_t number) noexcept nogil:
    """Start the next transmission of a port, if it is idle and has a packet that may leave."""
    cdef Port *port = &fabric.port[number]
    cdef int32_t packet
    if port.sending != NONE:
        return
    if port.waiting & ~port.paused:
        packet = _dequeue(fabric, port)
    elif fabric.rules.port_timer and port.slots:
        packet = next_by_timer(fabric, number)
        if packet == NONE:
            return
        port = &fabric.port[number]
    elif port.ready_count:
        packet = next_of_flows(fabric, number)
        if packet == NONE:
            return
        port = &fabric.port[number]
    else:
        return
    _transmit(fabric, number, packet)


cdef void _transmit(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil:
    cdef Port *port = &fabric.port[number]
    cdef Packet *packet = &fabric.packet[chosen]
    cdef int64_t time = transmission_time(fabric, port, packet.size), end = fabric.now + time, head
    if packet.last > end:  # cut-through from a slower link: the last byte is not here yet
        end = packet.last
    port.sending = chosen
    port.sent_bytes += packet.size
    port.sent_packets += 1
    fabric.hops += 1
    packet.port = number
    packet.last = head = end + port.delay
    if fabric.rules.cut_bytes and port.traits & TO_SWITCH and packet.size > fabric.rules.cut_bytes:
        head = fabric.now + transmission_time(fabric, port, fabric.rules.cut_bytes) + port.delay
    if fabric.rules.tail_order:
        if schedule(&fabric.events, end, IDLE, number):
            fabric.failed = True
    else:
        if schedule(&fabric.events, end, IDLE, number) or schedule(&fabric.events, head, ARRIVE, chosen):
            fabric.failed = True


cdef void transmitted(Fabric *fabric, int32_t number) noexcept nogil:
    """A port has transmitted its packet: begin the next one."""
    cdef Port *port = &fabric.port[number]
    if fabric.rules.tail_order and schedule(&fabric.events, fabric.packet[port.sending].last, ARRIVE, port.sending):
        fabric.failed = True
    port.sending = NONE
    serve(fabric, number)


cdef int32_t _dequeue(Fabric *fabric, Port *port) noexcept nogil:
    """Take the next packet of a port: class 0 first, then the other classes by `schedule`."""
    cdef uint32_t may = port.waiting & ~port.paused
    cdef int32_t cls = 0, chosen
    cdef Packet *packet
    if not may & 1 or (fabric.rules.control_turns and _data_turn(fabric, port, may)):
        cls = _next_class(fabric, port, may & ~(<uint32_t> 1))
    chosen = port.queue[cls].head
    packet = &fabric.packet[chosen]
    port.queue[cls].head = packet.next
    if packet.next == NONE:
        port.queue[cls].tail = NONE
        port.waiting &= ~(1 << cls)
    port.queue[cls].depth -= packet.size
    if packet.port != NONE:
        port.sending = chosen  # a packet that turns back may make this port resume its peer
        _leave_buffer(fabric, port, packet, cls)
    return chosen


cdef bint _data_turn(Fabric *fabric, Port *port, uint32_t may) noexcept nogil:
    """Whether data is served next although control packets wait, as many of those have been sent in a row."""
    cdef Puller *turns = &fabric.puller[port - fabric.port]
    turns.controls = turns.controls + 1 if may & ~(<uint32_t> 1) else 0
    if turns.controls <= fabric.rules.control_turns:
        return False
    turns.controls = 0
    return True


cdef int32_t _next_class(Fabric *fabric, Port *port, uint32_t may) noexcept nogil:
    """Strict priority (0), round robin by packet (1), or deficit weighted round robin (2: Shreedhar and Varghese)."""
    cdef int32_t cls = port.turn, _i
    if fabric.rules.schedule == 0 or not may & (may - 1):
        cls = __builtin_ctzll(may)
    elif fabric.rules.schedule == 1:
        for _i in range(CLASSES):
            cls = (cls + 1) % CLASSES
            if may >> cls & 1:
                break
    else:
        while True:
            if may >> cls & 1 and port.deficit[cls] >= fabric.packet[port.queue[cls].head].size:
                port.deficit[cls] -= fabric.packet[port.queue[cls].head].size
                break
            if not port.waiting >> cls & 1:
                port.deficit[cls] = 0
            cls = (cls + 1) % CLASSES
            if may >> cls & 1:
                port.deficit[cls] += fabric.rules.weight[cls]
    port.turn = cls
    return cls


# -- switches --

cdef void forward(Fabric *fabric, int32_t node, int32_t chosen) noexcept nogil:
    """A packet has arrived at a switch: admit it to the buffer and pass it to its output port."""
    cdef Packet *packet = &fabric.packet[chosen]
    cdef int32_t number = select_port(fabric, node, chosen)
    if number == NONE:
        _drop(fabric, packet.port, chosen)
        return
    cdef Port *port = &fabric.port[number]
    cdef int32_t cls = packet.cls
    if not _admitted(fabric, port, packet, cls):
        if not (fabric.rules.trim and packet.kind == DATA and packet.size > fabric.rules.trim):
            _drop(fabric, number, chosen)
            return
        fabric.flow[packet.flow].trimmed += 1
        port.trimmed += 1
        packet.flags |= TRIMMED
        packet.size, packet.cls, cls = fabric.rules.trim, 0, 0
        packet.last = 0
        if fabric.node[node].used + packet.size > fabric.node[node].pool:
            _drop(fabric, number, chosen)
            return
    if _enter_buffer(fabric, node, packet, cls):
        if port.queue[cls].depth or fabric.port[packet.port].cause == NONE:  # an empty queue holds nothing up
            fabric.port[packet.port].cause = number
        _send_pause(fabric, packet.port, cls, True)
    enqueue(fabric, number, chosen)


cdef void enqueue(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil:
    """Append a packet to the queue of its class."""
    cdef Port *port = &fabric.port[number]
    cdef Packet *packet = &fabric.packet[chosen]
    cdef int32_t cls = packet.cls
    packet.next = NONE
    if port.waiting >> cls & 1:
        fabric.packet[port.queue[cls].tail].next = chosen
    else:
        port.queue[cls].head = chosen
        port.waiting |= 1 << cls
    port.queue[cls].tail = chosen
    port.queue[cls].depth += packet.size
    if port.queue[cls].depth > port.queue[cls].peak:
        port.queue[cls].peak = port.queue[cls].depth
    if not fabric.rules.mark_at_dequeue and fabric.rules.ecn >> cls & 1 and packet.kind == DATA:
        _mark(fabric, port, packet, cls)
    if port.sending == NONE:
        serve(fabric, number)


cdef void _drop(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil:
    cdef Packet *packet = &fabric.packet[chosen]
    if packet.kind == DATA and not packet.flags & TRIMMED:
        fabric.flow[packet.flow].dropped += 1
    fabric.port[number].dropped += 1
    fabric.dropped += 1
    fabric.in_network -= 1
    free_packet(fabric, chosen)


cdef inline int64_t _threshold(Port *port, Node *node) noexcept nogil:
    """The dynamic threshold: a share of what is left of the shared buffer (Choudhury and Hahne, 1998)."""
    return <int64_t> (port.alpha * <double> (node.pool - node.shared))


cdef bint _admitted(Fabric *fabric, Port *port, Packet *packet, int32_t cls) noexcept nogil:
    """Whether the output queue and the buffer have room for a packet."""
    cdef Node *node = &fabric.node[port.node]
    cdef Port *into = &fabric.port[packet.port]
    cdef int64_t used
    if cls == 0:
        return True
    if fabric.rules.pfc >> cls & 1:
        return (max(into.queue[cls].ingress - fabric.rules.reserve, 0) + packet.size <= _threshold(into, node)
                or into.queue[cls].headroom_used + packet.size <= into.headroom)
    if fabric.rules.queue and port.queue[cls].depth + packet.size > fabric.rules.queue:
        return False
    used = node.shared if fabric.rules.pfc else node.used
    if used + packet.size > node.pool:
        return False
    return not port.alpha or port.queue[cls].depth + packet.size <= <int64_t> (
        port.alpha * <double> (node.pool - used))


cdef bint _enter_buffer(Fabric *fabric, int32_t number, Packet *packet, int32_t cls) noexcept nogil:
    """Count a packet in the buffer of its switch: in the reserve of its port, in the shared part, or in headroom.

    Returns whether the sender must be paused.
    """
    cdef Node *node = &fabric.node[number]
    cdef Port *into = &fabric.port[packet.port]
    cdef int64_t size = packet.size, bytes_there, beyond
    node.used += size
    if not fabric.rules.pfc >> cls & 1:
        if cls and fabric.rules.pfc:
            node.shared += size  # what it takes is not there for the classes that pause
        return False
    bytes_there = into.queue[cls].ingress + size
    beyond = bytes_there - fabric.rules.reserve
    if beyond <= 0:
        into.queue[cls].ingress = <int32_t> bytes_there
    elif beyond > _threshold(into, node):
        into.queue[cls].headroom_used += <int32_t> size
    else:
        into.queue[cls].ingress = <int32_t> bytes_there
        node.shared += min(size, beyond)
    return not into.pausing >> cls & 1 and (
        into.queue[cls].headroom_used > 0
        or max(into.queue[cls].ingress - fabric.rules.reserve, 0) >= _threshold(into, node)
    )


cdef void _leave_buffer(Fabric *fabric, Port *port, Packet *packet, int32_t cls) noexcept nogil:
    """A packet leaves the buffer: free its bytes, mark it, write telemetry, resume the sender."""
    cdef Node *node = &fabric.node[port.node]
    cdef Port *into = &fabric.port[packet.port]
    cdef int64_t size = packet.size, from_headroom, from_shared, over
    node.used -= size
    if fabric.rules.pfc >> cls & 1:
        from_headroom = min(into.queue[cls].headroom_used, size)
        over = max(into.queue[cls].ingress - fabric.rules.reserve, 0)
        from_shared = min(size - from_headroom, over)
        into.queue[cls].headroom_used -= <int32_t> from_headroom
        into.queue[cls].ingress -= <int32_t> (size - from_headroom)
        node.shared -= from_shared
    elif cls and fabric.rules.pfc:
        node.shared -= size
    if (fabric.rules.ecn >> cls & 1 and fabric.rules.mark_at_dequeue
            and (packet.kind == DATA or fabric.rules.ns3_random)):
        _mark(fabric, port, packet, cls)
    if fabric.rules.pfc >> cls & 1 and into.pausing >> cls & 1 and into.queue[cls].headroom_used == 0:
        over = max(into.queue[cls].ingress - fabric.rules.reserve, 0)
        if over == 0 or over + fabric.rules.resume_offset <= _threshold(into, node):
            _send_pause(fabric, packet.port, cls, False)
    if fabric.rules.telemetry:
        write_telemetry(fabric, port, packet)


cdef void _mark(Fabric *fabric, Port *port, Packet *packet, int32_t cls) noexcept nogil:
    """Mark a packet by the depth of its queue: never to kmin, with a probability to kmax, always beyond (RED)."""
    cdef int64_t depth = port.queue[cls].depth
    if not depth or depth <= port.kmin:
        return
    if depth > port.kmax or _drawn(fabric, port) < (
        port.pmax * <double> (depth - port.kmin) / <double> (port.kmax - port.kmin)
    ):
        if packet.kind != DATA:  # ns-3 draws for replies, too; their mark is that of the data packet
            return
        packet.flags |= CE
        port.marked += 1
        fabric.flow[packet.flow].marked += 1


cdef inline double _drawn(Fabric *fabric, Port *port) noexcept nogil:
    """A random number in [0, 1)."""
    if fabric.rules.ns3_random:
        return draw_stream(&fabric.streams)
    return next_uniform(&fabric.node[port.node].random)


cdef void _send_pause(Fabric *fabric, int32_t into, int32_t cls, bint pause) noexcept nogil:
    """Send a PFC frame to the sender of port `into` (IEEE 802.1Qbb)."""
    cdef int32_t frame = new_packet(fabric), back = fabric.port[into].reverse
    cdef Packet *packet
    if frame == NONE:
        return
    if fabric.rules.ns3_random:  # each frame has a stream of its own there
        skip_stream(&fabric.streams)
    if pause:
        fabric.port[into].pausing |= 1 << cls
        fabric.port[into].pauses += 1
    else:
        fabric.port[into].pausing &= ~(1 << cls)
    packet = &fabric.packet[frame]
    packet.kind = PAUSE if pause else RESUME
    packet.size, packet.number, packet.port = fabric.rules.pause_size, cls, NONE
    packet.flow = NONE
    _enqueue_frame(fabric, back, frame)


cdef void _enqueue_frame(Fabric *fabric, int32_t number, int32_t frame) noexcept nogil:
    """Put a PFC frame before all packets of a port but earlier frames."""
    cdef Queue *queue = &fabric.port[number].queue[0]
    cdef int32_t before = NONE, after = queue.head if fabric.port[number].waiting & 1 else NONE
    while after != NONE and fabric.packet[after].kind >= PAUSE:
        before, after = after, fabric.packet[after].next
    if after == NONE:
        enqueue(fabric, number, frame)
        return
    fabric.packet[frame].next = after
    if before == NONE:
        queue.head = frame
    else:
        fabric.packet[before].next = frame
    queue.depth += fabric.packet[frame].size
    queue.peak = max(queue.peak, queue.depth)


cdef void set_pause(Fabric *fabric, int32_t number, int32_t cls, bint paused) noexcept nogil:
    """A PFC frame has arrived for this port: stop or go; the port at the end of the chain of causes is its root."""
    cdef Port *port = &fabric.port[number]
    cdef int hops = 0
    if fabric.rules.log_frames:
        _log_frame(fabric, number, paused)
    if paused:
        if not port.paused:
            port.paused_since = fabric.now
            port.root = port.cause
            while fabric.port[port.root].paused >> cls & 1 and hops < HOPS:
                port.root = fabric.port[port.root].root
                hops += 1
        port.paused |= 1 << cls
    else:
        port.paused &= ~(1 << cls)
        if not port.paused:
            port.paused_time += fabric.now - port.paused_since
            fabric.port[port.root].caused_time += fabric.now - port.paused_since
        serve(fabric, number)


cdef void _log_frame(Fabric *fabric, int32_t number, bint paused) noexcept nogil:
    """Record a PFC frame."""
    cdef int64_t *larger
    if fabric.frames == fabric.frame_capacity:
        larger = <int64_t*> realloc(fabric.frame, <size_t> (2 * fabric.frame_capacity + 64) * 3 * sizeof(int64_t))
        if larger == NULL:
            fabric.failed = True
            return
        fabric.frame, fabric.frame_capacity = larger, 2 * fabric.frame_capacity + 64
    larger = &fabric.frame[3 * fabric.frames]
    larger[0], larger[1], larger[2] = fabric.now, number, paused
    fabric.frames += 1


# -- NICs --

cdef void refresh(Fabric *fabric, int32_t number) noexcept nogil:
    """Update whether a flow may send, after its window, rate or packets have changed, and serve its port."""
    cdef Flow *flow = &fabric.flow[number]
    cdef Port *port
    cdef bint may = may_send(fabric, flow), now
    if flow.slot == NONE:
        return
    port = &fabric.port[flow.port]
    # it may send now, or when the port does
    now = flow.next_send <= fabric.now or (
        port.sending != NONE and flow.next_send <= fabric.packet[port.sending].last - port.delay
    )
    if fabric.rules.attribution:
        if may:
            wait_for(fabric, number, FOR_PORT if now else FOR_RATE)
        else:
            wait_for(fabric, number, FOR_WINDOW if unsent(flow) else FOR_NOTHING)
    if fabric.rules.port_timer:
        serve(fabric, flow.port)
        return
    set_ready(fabric, flow, may and now)
    if not may:
        return
    if now:
        if port.sending == NONE:
            serve(fabric, flow.port)
    elif flow.wake_at != flow.next_send:
        flow.wake_at = flow.next_send
        if schedule(&fabric.events, flow.next_send, WAKE, number):
            fabric.failed = True
