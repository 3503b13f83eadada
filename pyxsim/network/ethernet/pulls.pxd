from libc.stdint cimport int32_t

from pyxsim.network.ethernet.records cimport Fabric

cdef void note_arrival(Fabric *fabric, int32_t into, int32_t number, bint solicits) noexcept nogil
cdef void take_turn(Fabric *fabric, int32_t into) noexcept nogil
cdef void take_pull(Fabric *fabric, int32_t number, int32_t pull) noexcept nogil
