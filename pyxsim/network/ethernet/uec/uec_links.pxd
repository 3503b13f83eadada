from libc.stdint cimport int32_t, uint8_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric

cdef void enqueue(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil
cdef void enqueue_at_host(Fabric *fabric, int32_t number, int32_t chosen) noexcept nogil
cdef void transmitted(Fabric *fabric, int32_t number) noexcept nogil
cdef void enter_switch(Fabric *fabric, int32_t node, int32_t chosen) noexcept nogil
cdef void pass_switch(Fabric *fabric, int32_t node) noexcept nogil
cdef void keep_ack(Fabric *fabric, uint8_t of_rts) noexcept nogil
