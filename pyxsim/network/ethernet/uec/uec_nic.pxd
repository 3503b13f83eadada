from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric, Flow

cdef void start_flow(Fabric *fabric, int32_t number) noexcept nogil
cdef void enter_messages(Fabric *fabric, int32_t number) noexcept nogil
cdef void nic_free(Fabric *fabric, int32_t host) noexcept nogil
cdef void send_control(Fabric *fabric, int32_t host, int32_t chosen) noexcept nogil
cdef void try_to_send(Fabric *fabric, int32_t number) noexcept nogil
cdef void send_again(Fabric *fabric, int32_t number, int32_t packet, int64_t size) noexcept nogil
cdef int64_t remove_lost(Fabric *fabric, Flow *flow, int32_t packet) noexcept nogil
cdef int64_t unlist(Fabric *fabric, Flow *flow, int32_t packet) noexcept nogil
cdef void rearm(Fabric *fabric, int32_t number) noexcept nogil
cdef void disarm(Flow *flow) noexcept nogil
cdef void timeout(Fabric *fabric, int32_t number) noexcept nogil
cdef void send_probe(Fabric *fabric, int32_t number) noexcept nogil
cdef void stop_speculating(Flow *flow) noexcept nogil
