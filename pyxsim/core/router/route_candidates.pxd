"""Ways: through an intermediate node or straight, chosen at the first router. See route_candidates.pyx."""

from libc.stdint cimport int32_t

from pyxsim.core.state.network_state cimport Packet, State


cdef void choose_way(State* s, Packet* p, int32_t router) noexcept nogil
