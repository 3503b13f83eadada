from libc.stdint cimport int32_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric

cdef void take_data(Fabric *fabric, int32_t chosen) noexcept nogil
cdef void pace(Fabric *fabric, int32_t host) noexcept nogil
cdef void pull_stalled(Fabric *fabric, int32_t host_number) noexcept nogil
cdef void adapt(Fabric *fabric, int32_t host) noexcept nogil
cdef void begin_adaptation(Fabric *fabric, int32_t host) noexcept nogil
