"""Ways: through an intermediate node or straight, chosen at the first router. See ways.pyx."""

from libc.stdint cimport int32_t

from pyxsim.core.state cimport Packet, State


cdef void choose_way(State* s, Packet* p, int32_t router) noexcept nogil
