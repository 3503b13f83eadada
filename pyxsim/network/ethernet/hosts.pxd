from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.records cimport Fabric
from pyxsim.network.ethernet.transport cimport Transport

cdef void arrived(Fabric *fabric, Transport transport, int32_t packet) noexcept
cdef void begin_flow(Fabric *fabric, Transport transport, int32_t number) noexcept
cdef void due(Fabric *fabric, Transport transport, int32_t number) noexcept
cdef void timer(Fabric *fabric, Transport transport, int32_t number) noexcept
cdef void arm(Fabric *fabric, int32_t number) noexcept nogil
cdef void finish(Fabric *fabric, int32_t number) noexcept nogil
