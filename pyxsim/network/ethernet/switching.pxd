from libc.stdint cimport int32_t, int64_t, uint32_t

from pyxsim.network.ethernet.records cimport Fabric, Flow

cdef void serve(Fabric *fabric, int32_t number) noexcept nogil
cdef void transmitted(Fabric *fabric, int32_t number) noexcept nogil
cdef void forward(Fabric *fabric, int32_t node, int32_t packet) noexcept nogil
cdef void enqueue(Fabric *fabric, int32_t number, int32_t packet) noexcept nogil
cdef int32_t select_port(Fabric *fabric, int32_t node, int32_t packet) noexcept nogil
cdef int32_t ecmp_port(Fabric *fabric, int32_t node, int32_t src, int32_t dst, uint32_t entropy) noexcept nogil
cdef int32_t nic_port(Fabric *fabric, int32_t node, Flow *flow, int64_t number) noexcept nogil
cdef void set_pause(Fabric *fabric, int32_t number, int32_t cls, bint paused) noexcept nogil
cdef void refresh(Fabric *fabric, int32_t flow) noexcept nogil
