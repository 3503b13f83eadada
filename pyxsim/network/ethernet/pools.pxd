"""Packets and telemetry records, reused by index; the arithmetic of transmission times; random draws and the hash."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyxsim.network.ethernet.records cimport CLASSES, NONE, Fabric, Flow, Packet, Port, Telemetry


cdef enum:
    MOST_KNOWN = 2147483647  # picoseconds: longer times of transmission are computed each time


cdef inline int32_t new_packet(Fabric *fabric) noexcept nogil:
    """The number of an unused packet, zeroed; NONE without memory. Pointers to packets are invalid afterwards."""
    cdef int64_t number = fabric.unused_packet
    cdef Packet *larger
    if number >= 0:
        fabric.unused_packet = fabric.packet[number].next
    else:
        if fabric.packets == fabric.packet_capacity:
            larger = <Packet*> realloc(fabric.packet, <size_t> (2 * fabric.packet_capacity + 1024) * sizeof(Packet))
            if larger == NULL:
                fabric.failed = True
                return NONE
            fabric.packet, fabric.packet_capacity = larger, 2 * fabric.packet_capacity + 1024
        number = fabric.packets
        fabric.packets += 1
    memset(&fabric.packet[number], 0, sizeof(Packet))
    fabric.packet[number].telemetry = fabric.packet[number].next = NONE
    return <int32_t> number


cdef inline void free_telemetry(Fabric *fabric, int32_t number) noexcept nogil:
    if number != NONE:
        fabric.telemetry[number].next = <int32_t> fabric.unused_telemetry
        fabric.unused_telemetry = number


cdef inline void free_packet(Fabric *fabric, int32_t number) noexcept nogil:
    free_telemetry(fabric, fabric.packet[number].telemetry)
    fabric.packet[number].next = <int32_t> fabric.unused_packet
    fabric.unused_packet = number


cdef inline int32_t new_telemetry(Fabric *fabric) noexcept nogil:
    cdef int64_t number = fabric.unused_telemetry
    cdef Telemetry *larger
    if number >= 0:
        fabric.unused_telemetry = fabric.telemetry[number].next
        fabric.telemetry[number].path = 0
        return <int32_t> number
    if fabric.telemetries == fabric.telemetry_capacity:
        larger = <Telemetry*> realloc(
            fabric.telemetry, <size_t> (2 * fabric.telemetry_capacity + 256) * sizeof(Telemetry)
        )
        if larger == NULL:
            fabric.failed = True
            return NONE
        fabric.telemetry, fabric.telemetry_capacity = larger, 2 * fabric.telemetry_capacity + 256
    fabric.telemetry[fabric.telemetries].path = 0
    fabric.telemetries += 1
    return <int32_t> (fabric.telemetries - 1)


cdef inline int64_t rounded_time(int64_t size, int64_t picoseconds, int64_t per_bytes, int64_t step) noexcept nogil:
    """Time of `size` bytes in picoseconds, rounded to the nearest multiple of `step` (a half down)."""
    cdef int64_t unit = per_bytes * step
    return (2 * size * picoseconds + unit - 1) // (2 * unit) * step


cdef inline int64_t transmission_time(Fabric *fabric, Port *port, int64_t size) noexcept nogil:
    if size == port.known_size[0]:
        return port.known_time[0]
    if size == port.known_size[1]:
        return port.known_time[1]
    cdef int64_t time = rounded_time(size, port.picoseconds, port.per_bytes, fabric.rules.step)
    if time > MOST_KNOWN:
        return time
    port.known_size[1], port.known_time[1] = port.known_size[0], port.known_time[0]
    port.known_size[0], port.known_time[0] = <int32_t> size, <int32_t> time
    return time


cdef inline int64_t payload_of(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """Bytes of payload of a data packet."""
    return flow.last_payload if number == flow.packets - 1 else fabric.rules.mtu


cdef inline uint64_t next_random(uint64_t *state) noexcept nogil:
    """A draw of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    state[0] += <uint64_t> 0x9E3779B97F4A7C15
    cdef uint64_t mixed = state[0]
    mixed = (mixed ^ (mixed >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * <uint64_t> 0x94D049BB133111EB
    return mixed ^ (mixed >> 31)


cdef inline double next_uniform(uint64_t *state) noexcept nogil:
    """A number in [0, 1)."""
    return <double> (next_random(state) >> 11) * (1.0 / 9007199254740992.0)


cdef inline uint32_t _turned(uint32_t word, int count) noexcept nogil:
    return (word << count) | (word >> (32 - count))


cdef inline uint32_t _stirred(uint32_t total, uint32_t word) noexcept nogil:
    word = _turned(word * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593
    return _turned(total ^ word, 13) * 5 + <uint32_t> 0xE6546B64


cdef inline uint32_t address_of(uint32_t npu) noexcept nogil:
    """The IPv4 address of an NPU: 11.x.y.1 with x and y from its number."""
    return <uint32_t> 0x0B000001 + (npu // 256) * <uint32_t> 0x00010000 + (npu % 256) * <uint32_t> 0x00000100


cdef inline uint32_t route_hash(uint32_t src, uint32_t dst, uint32_t ports, uint32_t seed) noexcept nogil:
    """MurmurHash3 (32 bits, Appleby) of both addresses and both UDP ports; `seed`: the number of the switch."""
    cdef uint32_t total = _stirred(_stirred(_stirred(seed, address_of(src)), address_of(dst)), ports) ^ 12
    total = (total ^ (total >> 16)) * <uint32_t> 0x85EBCA6B
    total = (total ^ (total >> 13)) * <uint32_t> 0xC2B2AE35
    return total ^ (total >> 16)
