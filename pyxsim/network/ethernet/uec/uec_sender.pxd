from libc.stdint cimport int32_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric

cdef void take_reply(Fabric *fabric, int32_t chosen) noexcept nogil
