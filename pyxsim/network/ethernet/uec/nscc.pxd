from libc.stdint cimport int64_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric, Flow

cdef void note_delay(Fabric *fabric, Flow *flow, int64_t delay, bint marked) noexcept nogil
cdef void note_rtt(Fabric *fabric, Flow *flow, int64_t rtt) noexcept nogil
cdef void window_after_ack(Fabric *fabric, Flow *flow, bint marked, int64_t delay, int64_t fresh) noexcept nogil
cdef void window_after_nack(Fabric *fabric, Flow *flow, int64_t size, bint last_hop) noexcept nogil
