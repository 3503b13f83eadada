"""What switches write into data packets."""

from pyxsim.network.ethernet.records cimport Fabric, Packet, Port

cdef enum:
    LARGEST = 512  # the largest utilization that PINT encodes; the smallest is its inverse

cdef void write_telemetry(Fabric *fabric, Port *port, Packet *packet) noexcept nogil
