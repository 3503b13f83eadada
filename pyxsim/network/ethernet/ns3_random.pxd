"""Draws of ns-3's random numbers; ns3_random.py makes the first state and the matrices."""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define MODULUS_A 4294967087ULL
    #define MODULUS_B 4294944443ULL
    """
    const uint64_t MODULUS_A, MODULUS_B

cdef struct Streams:
    uint64_t a[3]          # the state of the next stream in run 0
    uint64_t b[3]
    uint64_t next_a[9]     # matrices to the next stream
    uint64_t next_b[9]
    uint64_t run_a[9]      # matrices to the run
    uint64_t run_b[9]
    uint64_t error_a[3]    # the state of the stream of errors of links
    uint64_t error_b[3]


cdef inline void _times(uint64_t *matrix, uint64_t *vector, uint64_t *result, uint64_t modulus) noexcept nogil:
    cdef uint64_t x = vector[0], y = vector[1], z = vector[2]
    cdef int i
    for i in range(3):
        result[i] = (
            matrix[3 * i] * x % modulus + matrix[3 * i + 1] * y % modulus + matrix[3 * i + 2] * z % modulus
        ) % modulus


cdef inline void skip_stream(Streams *streams) noexcept nogil:
    """Pass over a stream."""
    _times(streams.next_a, streams.a, streams.a, MODULUS_A)
    _times(streams.next_b, streams.b, streams.b, MODULUS_B)


cdef inline double draw_stream(Streams *streams) noexcept nogil:
    """The first number of the next stream, in [0, 1)."""
    cdef uint64_t a[3]
    cdef uint64_t b[3]
    _times(streams.run_a, streams.a, a, MODULUS_A)
    _times(streams.run_b, streams.b, b, MODULUS_B)
    skip_stream(streams)
    return _step(a, b)


cdef inline double draw_error(Streams *streams) noexcept nogil:
    """The next number of the stream of errors, in [0, 1)."""
    return _step(streams.error_a, streams.error_b)


cdef inline double _step(uint64_t *a, uint64_t *b) noexcept nogil:
    """The next number of a generator with this state."""
    cdef uint64_t x, y
    x = (<uint64_t> 1403580 * a[1] + (MODULUS_A - <uint64_t> 810728 * a[0] % MODULUS_A)) % MODULUS_A
    y = (<uint64_t> 527612 * b[2] + (MODULUS_B - <uint64_t> 1370589 * b[0] % MODULUS_B)) % MODULUS_B
    a[0], a[1], a[2] = a[1], a[2], x
    b[0], b[1], b[2] = b[1], b[2], y
    x = x - y if x > y else x + MODULUS_A - y
    return <double> x / 4294967088.0
