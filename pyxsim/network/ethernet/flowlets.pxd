"""Flowlets: bursts of a flow whose routes a switch draws (LetFlow: Vanini et al., NSDI 2017)."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyxsim.network.ethernet.pools cimport next_random
from pyxsim.network.ethernet.records cimport Fabric, Flowlet


cdef inline uint32_t flowlet_choice(Fabric *fabric, int32_t node, uint32_t hashed) noexcept nogil:
    """The choice of a flowlet at a switch, drawn anew when the gap behind the last packet is too long."""
    cdef Flowlet *flowlet = &fabric.flowlet[node * fabric.rules.flowlets + hashed % <uint64_t> fabric.rules.flowlets]
    if not flowlet.last or fabric.now - flowlet.last > fabric.rules.flowlet_gap:
        flowlet.choice = <uint32_t> next_random(&fabric.node[node].random)
    flowlet.last = max(fabric.now, 1)
    return flowlet.choice
