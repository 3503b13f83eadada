from libc.stdint cimport int32_t

from pyxsim.network.ethernet.records cimport Fabric

cdef void serve(Fabric *fabric, int32_t number) noexcept nogil
cdef void transmitted(Fabric *fabric, int32_t number) noexcept nogil
cdef void forward(Fabric *fabric, int32_t node, int32_t packet) noexcept nogil
cdef void enqueue(Fabric *fabric, int32_t number, int32_t packet) noexcept nogil
cdef void set_pause(Fabric *fabric, int32_t number, int32_t cls, bint paused) noexcept nogil
cdef void refresh(Fabric *fabric, int32_t flow) noexcept nogil
