from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.records cimport Fabric, Flow, Packet

cdef class Transport:
    cdef Fabric *fabric
    cdef readonly str name
    cdef readonly dict given, values  # options: as set, and as numbers
    cdef public object error
    cdef readonly int64_t header_bytes, reply_bytes
    cdef readonly int telemetry
    cdef readonly dict rules  # fields of `Rules` that the transport sets
    cdef bint windowed, variable
    cdef void bind(self, Fabric *fabric) noexcept
    cdef void set_rate(self, Flow *flow, double rate) noexcept
    cdef void change_rate(self, Flow *flow, double rate) noexcept
    cdef void begin(self, int32_t number) noexcept
    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept
    cdef void on_nack(self, int32_t number, Packet *reply) noexcept
    cdef void on_cnp(self, int32_t number) noexcept
    cdef void on_loss(self, int32_t number) noexcept
    cdef void end(self, int32_t number) noexcept
    cdef void call_at(self, int32_t number, int64_t at) noexcept
    cdef void on_due(self, int32_t number) noexcept
