"""Time in ticks: a fraction of a cycle in which all times of links are whole numbers.

Ticks per cycle are the least common multiple of the denominators of all latencies and of all times per byte. 62 bits
are enough for that unless many odd bandwidths occur together. Where they are not, a cycle has 2^62 ticks and each time
is rounded up: late by less than 2^-61 cycles per link.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from fractions import Fraction
from math import ceil, lcm

import numpy as np

from pyxsim.arrays import unique_by_identity
from pyxsim.errors import InputError
from pyxsim.raw cimport loaded, saved

MOST = 2**62
cdef int64_t LONGEST = 1 << 60


cdef class Ticks:
    """`rates`: bytes per cycle of each link; `latencies`: cycles. Fractions of numbers below 2^62."""

    def __dealloc__(self):
        free(self.latency)

    def __init__(self, rates, latencies):
        cdef Py_ssize_t link
        cdef int64_t[:, ::1] late
        self.links = len(rates)
        self.latency = <int128_t*> calloc(self.links + 1, sizeof(int128_t))
        if self.latency == NULL:
            raise MemoryError(f"{self.links} links")
        widths, width_of = unique_by_identity(rates)
        widths = [Fraction(width) for width in widths]
        waits, wait_of = unique_by_identity(latencies)
        waits = [Fraction(wait) for wait in waits]
        common = lcm(*(width.numerator for width in widths), *(wait.denominator for wait in waits))
        self.exact = common < MOST and all(common < MOST * width for width in widths)
        self.per_cycle = common if self.exact else MOST
        if any(number >= MOST for width in widths for number in width.as_integer_ratio()):
            raise InputError("a time of latency and bandwidth together is too fine a fraction to be kept")
        if any(wait > LONGEST for wait in waits):
            raise InputError("a latency takes more cycles than can be counted")
        self.rate = np.array([width.as_integer_ratio() for width in widths], np.int64).reshape(-1, 2)[width_of]
        whole = [int(self.per_cycle / width) if self.exact else 0 for width in widths]
        self.per_byte = np.array(whole, np.int64)[width_of]
        ticks = [ceil(wait * self.per_cycle) for wait in waits]
        late = np.array([divmod(each, MOST) for each in ticks], np.int64).reshape(-1, 2)[wait_of]
        for link in range(self.links):
            self.latency[link] = (<int128_t> late[link, 0] << 62) + late[link, 1]

    cdef int128_t serial(self, int64_t link, int64_t nbytes) noexcept nogil:
        """Serialisation time of bytes on a link; -1 beyond 2^60 cycles."""
        cdef int64_t above, below
        cdef int128_t ticks, cycles
        if self.exact:
            ticks = <int128_t> nbytes * self.per_byte[link]
            return ticks if ticks <= <int128_t> LONGEST * self.per_cycle else -1
        above, below = self.rate[link, 0], self.rate[link, 1]
        ticks = <int128_t> nbytes * below
        cycles = ticks // above
        if cycles > LONGEST:
            return -1
        return cycles * self.per_cycle + ((ticks - cycles * above) * self.per_cycle + above - 1) // above

    cdef int64_t cycle(self, int128_t ticks) noexcept nogil:
        """The cycle of a time; -1 beyond 2^60 cycles."""
        cdef int64_t short = <int64_t> ticks
        if <int128_t> short == ticks:  # a division of 64 bits is several times faster
            short //= self.per_cycle
        else:
            ticks //= self.per_cycle
            short = <int64_t> ticks if ticks <= LONGEST else -1
        return short if short <= LONGEST else -1

    def __getstate__(self):
        numbers = self.per_cycle, self.links, self.exact
        return numbers, saved(self.latency, self.links, sizeof(int128_t)), np.asarray(self.per_byte), \
            np.asarray(self.rate)

    def __setstate__(self, state):
        numbers, latency, self.per_byte, self.rate = state
        self.per_cycle, self.links, self.exact = numbers
        self.latency = <int128_t*> loaded(latency)
