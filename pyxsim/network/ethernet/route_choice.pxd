"""How a node chooses the port of a packet: one of those on shortest routes, by load balancing (docs/ethernet.md)."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pyxsim.network.ethernet.flowlets cimport flowlet_choice
from pyxsim.network.ethernet.pools cimport next_random, route_hash
from pyxsim.network.ethernet.records cimport NONE, Fabric, Flow, Packet, Port

cdef extern from *:
    int __builtin_ctzll(unsigned long long word) noexcept nogil

cdef enum:
    ECMP = 0
    SPRAY = 1
    SHORTEST = 2
    FLOWLET = 3


cdef inline int64_t queued_bytes(Port *port) noexcept nogil:
    """Bytes in all queues of a port."""
    cdef int64_t total = 0
    cdef uint32_t classes = port.waiting
    while classes:
        total += port.queue[__builtin_ctzll(classes)].depth
        classes &= classes - 1
    return total


cdef inline int32_t select_port(Fabric *fabric, int32_t node, int32_t chosen) noexcept nogil:
    """The port by which a packet leaves a node; NONE without a route."""
    cdef int32_t dst = fabric.packet[chosen].dst, group = fabric.group[dst], entry, best
    cdef int64_t first, count, i, least, queued, _each
    cdef uint32_t hashed
    cdef Packet *packet
    if fabric.node[node].uplink != NONE:
        return fabric.node[node].uplink
    if fabric.node[node].group == group:
        return fabric.down[dst]
    entry = fabric.route[node * fabric.groups + group]
    first, count = fabric.set_start[entry], fabric.set_start[entry + 1] - fabric.set_start[entry]
    if count <= 1:
        return fabric.set_port[first] if count else NONE
    if fabric.rules.balance == SPRAY:
        return fabric.set_port[first + <int64_t> (next_random(&fabric.node[node].random) % <uint64_t> count)]
    packet = &fabric.packet[chosen]
    if fabric.rules.balance == SHORTEST:
        i = <int64_t> (next_random(&fabric.node[node].random) % <uint64_t> count)
        best, least = NONE, 0
        for _each in range(count):
            queued = queued_bytes(&fabric.port[fabric.set_port[first + i]])
            if best == NONE or queued < least:
                best, least = fabric.set_port[first + i], queued
            i = i + 1 if i + 1 < count else 0
        return best
    hashed = route_hash(packet.src, packet.dst, packet.entropy, node)
    if fabric.rules.balance == FLOWLET:
        hashed = flowlet_choice(fabric, node, hashed)
    return fabric.set_port[first + hashed % <uint32_t> count]


cdef inline int32_t ecmp_port(Fabric *fabric, int32_t node, int32_t src, int32_t dst, uint32_t entropy) noexcept nogil:
    """The port by which packets leave a node with ECMP; NONE without a route."""
    cdef int32_t entry
    cdef int64_t first, count
    if fabric.node[node].uplink != NONE:
        return fabric.node[node].uplink
    if fabric.node[node].group == fabric.group[dst]:
        return fabric.down[dst]
    entry = fabric.route[node * fabric.groups + fabric.group[dst]]
    first, count = fabric.set_start[entry], fabric.set_start[entry + 1] - fabric.set_start[entry]
    if count <= 1:
        return fabric.set_port[first] if count else NONE
    return fabric.set_port[first + route_hash(src, dst, entropy, node) % <uint32_t> count]


cdef inline int32_t nic_port(Fabric *fabric, int32_t node, Flow *flow, int64_t number) noexcept nogil:
    """The port of its NIC that a flow uses: of several on shortest routes, `number` selects one."""
    cdef int32_t entry, count
    if fabric.node[node].uplink != NONE:
        return fabric.node[node].uplink
    entry = fabric.route[node * fabric.groups + fabric.group[flow.dst]]
    count = fabric.set_start[entry + 1] - fabric.set_start[entry]
    return fabric.set_port[fabric.set_start[entry] + <int32_t> (number % count)]
