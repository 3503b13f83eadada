"""What switches write into data packets.

In-band telemetry (HPCC): time, bytes sent, depth and rate of each port on the way. PINT: a few bits for all of them.
"""

from libc.math cimport ceil, floor, log, log2, pow, round
from libc.stdint cimport int32_t, int64_t, uint32_t

from pyxsim.network.ethernet.libc_random cimport draw_libc
from pyxsim.network.ethernet.pools cimport new_telemetry
from pyxsim.network.ethernet.records cimport DATA, HOPS, NONE, PINT, Fabric, Hop, Packet, PintPort, Port
from pyxsim.network.ethernet.route_choice cimport queued_bytes

cdef enum:
    MANTISSA = 16          # bits of a number that the logarithm table of a switch takes
    FRACTION = 1 << 15     # steps of a binary logarithm in that table: 20 bits, less 5 for whole numbers to 20
    CELL = 256             # bytes
    SCALE = 8192           # of the utilization


cdef void write_telemetry(Fabric *fabric, Port *port, Packet *packet) noexcept nogil:
    """A packet leaves the queue of a port."""
    cdef Hop *hop
    if fabric.rules.telemetry == PINT:
        _write_pint(fabric, port, packet)
        return
    if packet.kind != DATA:
        return
    if packet.telemetry == NONE:
        packet.telemetry = new_telemetry(fabric)
        if packet.telemetry == NONE:
            return
    if packet.hops < HOPS:
        hop = &fabric.telemetry[packet.telemetry].hop[packet.hops]
        fabric.telemetry[packet.telemetry].path = (
            31 * fabric.telemetry[packet.telemetry].path + <uint32_t> (port - fabric.port) + 1
        )
        hop.at, hop.sent_bytes, hop.depth, hop.rate = fabric.now, port.sent_bytes, queued_bytes(port), port.rate
        packet.hops += 1


# -- PINT: Ben Basat et al., "PINT: probabilistic in-band network telemetry", SIGCOMM 2020, section 4.3 --

cdef void _write_pint(Fabric *fabric, Port *port, Packet *packet) noexcept nogil:
    """Average the utilization of a port over a round trip T, and write it into a packet that has seen a lower one.

    U = (1 - dt / T) U + dt queue / (B T^2) + bytes / (B T); products are sums of logarithms from a table.
    """
    cdef PintPort *pint = &fabric.pint[port - fabric.port]
    cdef int64_t now = fabric.now // 1000, trip = fabric.rules.pint_trip, since = min(now - pint.at, trip)
    cdef int64_t depth = queued_bytes(port)
    cdef double log_trip, log_rate, log_second, u = 0
    cdef int32_t code, one, other
    if packet.kind == DATA:
        log_trip, log_rate = log2(<double> trip) * FRACTION, log2(<double> (port.rate // 8)) * FRACTION
        log_second = log2(1e9) * FRACTION
        if depth >= CELL:
            one = _log(fabric, since)
            other = _log(fabric, depth // CELL)
            u += pow(2, (<double> one + other + log_second - log_rate - 2 * log_trip) / FRACTION) * CELL
        if pint.size:
            one = _log(fabric, pint.size)
            u += pow(2, (one + log_second - log_rate - log_trip) / FRACTION)
        if trip > since and pint.utilization > 0:
            one = _log(fabric, trip - since)
            other = _log(fabric, <int64_t> round(pint.utilization * SCALE))
            u += pow(2, (<double> one + other - log_trip) / FRACTION) / SCALE
        code = _encoded(fabric, u)
        if code > packet.digest:
            packet.digest = code
        pint.utilization = u
    pint.size, pint.at = packet.size, now


cdef int32_t _log(Fabric *fabric, int64_t value) noexcept nogil:
    """The binary logarithm of the leading bits of a number, rounded at random, in steps of 1 / FRACTION."""
    cdef int32_t bits
    cdef int64_t x = value, mask
    if value <= 0:
        return -(<int32_t> 1 << 30)
    bits = <int32_t> log2(<double> x) + 1
    if bits > MANTISSA:
        mask = (1 << (bits - MANTISSA)) - 1
        x &= ~mask
        if (value & mask) > (draw_libc(&fabric.libc_random) & mask):
            x += mask + 1
    return <int32_t> (log2(<double> x) * FRACTION)


cdef int32_t _encoded(Fabric *fabric, double u) noexcept nogil:
    """The logarithm of a utilization, rounded at random so that its expectation is right."""
    cdef double value = max(ceil(u * LARGEST), 1), power = log(value) * (1 / log(fabric.rules.pint_base))
    cdef int32_t above = <int32_t> ceil(power), below = <int32_t> floor(power)
    cdef double lower = pow(fabric.rules.pint_base, below), upper = pow(fabric.rules.pint_base, above)
    if above == below:
        upper *= fabric.rules.pint_base
    return above if draw_libc(&fabric.libc_random) % 65536 < (value - lower) / (upper - lower) * 65536 else below
