from libc.stdint cimport int32_t, uint16_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric, Flow

cdef enum Feedback:
    GOOD = 0
    MARKED = 1
    REJECTED = 4
    EXPIRED = 15

cdef void begin_entropy(Fabric *fabric, Flow *flow) noexcept nogil
cdef uint16_t next_entropy(Fabric *fabric, Flow *flow) noexcept nogil
cdef void feed_back(Fabric *fabric, Flow *flow, uint16_t entropy, int32_t feedback) noexcept nogil
