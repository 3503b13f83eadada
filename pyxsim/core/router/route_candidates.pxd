"""Route choice at the first router: see route_candidates.pyx."""

from libc.stdint cimport int32_t

from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Packet


cdef void choose_route_candidate(State* s, Packet* p, int32_t router) noexcept nogil
