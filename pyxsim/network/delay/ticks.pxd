"""Time in ticks: a fraction of a cycle in which all times of links are whole numbers."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    typedef __int128 pyxsim_int128;
    """
    # Wider than C calls it here: twice 64 bits.
    ctypedef long long int128_t "pyxsim_int128"


cdef class Ticks:
    cdef readonly int64_t per_cycle
    cdef readonly int64_t links
    cdef readonly bint exact
    cdef int128_t *latency
    cdef int64_t[::1] per_byte
    cdef int64_t[:, ::1] rate

    cdef int128_t serial(self, int64_t link, int64_t nbytes) noexcept nogil
    cdef int64_t cycle(self, int128_t ticks) noexcept nogil
