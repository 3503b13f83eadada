"""Packets that receivers pull: each pull permits the sender of a flow one more packet (docs/ethernet.md).

A receiver knows how many packets of a flow may be on the way or were trimmed: the first window, and each packet that it
has pulled since, less those that have arrived. While these are fewer than the window, and than the packets that it
still misses, the flow waits in the queue of the port by which its packets arrive. The port pulls a packet of the flow
at the head of its queue in the time that a full packet takes on its link.

Pulls are numbered, so a later one makes up for a lost one. Packets that vanish are still counted as on the way; after a
timeout, the sender sends one packet without a pull, and the receiver counts anew.
"""

from libc.stdint cimport int32_t

from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.pools cimport new_packet, transmission_time
from pyxsim.network.ethernet.records cimport NONE, PULL, TURN, Fabric, Flow, Packet, Puller
from pyxsim.network.ethernet.route_choice cimport select_port
from pyxsim.network.ethernet.switching cimport enqueue


# -- receiver --

cdef inline bint _wanted(const Flow *flow) noexcept nogil:
    """Whether a receiver wants a further packet of a flow to be sent."""
    return flow.requested < min(flow.pull_window, flow.packets - flow.arrived)


cdef void note_arrival(Fabric *fabric, int32_t into, int32_t number, bint solicits) noexcept nogil:
    """A data packet of a flow, trimmed or not, has arrived at its destination by port `into`."""
    cdef Flow *flow = &fabric.flow[number]
    cdef Puller *puller = &fabric.puller[into]
    flow.requested = 0 if solicits else max(flow.requested - 1, 0)
    if flow.queued or not _wanted(flow):
        return
    _append(fabric, puller, number)
    if not puller.scheduled:
        if puller.next_turn <= fabric.now:
            take_turn(fabric, into)
        else:
            _schedule_turn(fabric, into)


cdef void take_turn(Fabric *fabric, int32_t into) noexcept nogil:
    """Pull a packet of the first flow in the queue of a port, which then goes to the end."""
    cdef Puller *puller = &fabric.puller[into]
    cdef int32_t number
    cdef Flow *flow
    puller.scheduled = False
    while puller.first != NONE:
        number = puller.first
        flow = &fabric.flow[number]
        puller.first, flow.queued = flow.next_pulled, False
        if puller.first == NONE:
            puller.last = NONE
        if not _wanted(flow):  # its last packets have arrived meanwhile
            continue
        flow.requested += 1
        flow.pulls += 1
        if _wanted(flow):
            _append(fabric, puller, number)
        puller.next_turn = fabric.now + transmission_time(
            fabric, &fabric.port[into], <int32_t> (fabric.rules.mtu + fabric.rules.header)
        )
        if puller.first != NONE:
            _schedule_turn(fabric, into)
        _send_pull(fabric, fabric.port[into].peer, number)
        return


cdef void _append(Fabric *fabric, Puller *puller, int32_t number) noexcept nogil:
    cdef Flow *flow = &fabric.flow[number]
    flow.queued, flow.next_pulled = True, NONE
    if puller.first == NONE:
        puller.first = number
    else:
        fabric.flow[puller.last].next_pulled = number
    puller.last = number


cdef void _schedule_turn(Fabric *fabric, int32_t into) noexcept nogil:
    fabric.puller[into].scheduled = True
    if schedule(&fabric.events, fabric.puller[into].next_turn, TURN, into):
        fabric.failed = True


cdef void _send_pull(Fabric *fabric, int32_t node, int32_t number) noexcept nogil:
    cdef int32_t chosen = new_packet(fabric)
    cdef Packet *packet
    cdef Flow *flow = &fabric.flow[number]
    if chosen == NONE:
        return
    packet = &fabric.packet[chosen]
    packet.kind, packet.flow, packet.number, packet.port = PULL, number, flow.pulls, NONE
    packet.size, packet.cls = <int32_t> fabric.rules.ack, 0
    packet.src, packet.dst = flow.dst, flow.src
    packet.entropy = (flow.entropy >> 16) | (flow.entropy << 16)
    fabric.made += 1
    fabric.in_network += 1
    enqueue(fabric, select_port(fabric, node, chosen), chosen)


# -- sender --

cdef void take_pull(Fabric *fabric, int32_t number, int32_t pull) noexcept nogil:
    """A pull has arrived: it gives credit for all packets that were pulled since the latest one."""
    cdef Flow *flow = &fabric.flow[number]
    if pull > flow.pulled:
        flow.credit += pull - flow.pulled
        flow.pulled = pull
    if flow.rto:
        flow.retry_at, flow.expiries = fabric.now + flow.rto, 0
