"""How long a message takes over a *way*: a pair of NPUs, or a single link. Time is in whole cycles.

A way has a latency and a *kind*; a kind has a bandwidth. A rule is told its ways one after the other (`extend`); they
are numbered in that order. Three rules that differ in how they round:

    Exact      latency + bytes / bandwidth, cut off to whole cycles; all numbers are exact fractions
    Doubles    the same in floating point, as ASTRA-sim 2 computes it
    Summands   ASTRA-sim 1: cut off after each summand, with what interfaces, switches and memories add

The last two may differ from the first by a cycle, where the exact time is a whole number or close to one.
"""

from libc.stdint cimport int32_t, int64_t

from fractions import Fraction
from math import gcd

import numpy as np

from pyxsim.errors import InputError
from pyxsim.raw cimport arrays

cdef extern from *:
    """
    typedef __int128 pyxsim_int128;
    """
    # Wider than C calls it here: twice 64 bits.
    ctypedef long long int128_t "pyxsim_int128"

cdef extern from "math.h" nogil:
    double trunc(double x)

cdef int64_t LONGEST = 1 << 60
cdef double LONGEST_DOUBLE = <double> LONGEST
MOST = 2**62  # numerators and denominators: a product of two, and the sum of two such, fit into 128 bits


cdef class Rule:
    """The ways and their kinds. `flight`: from one end to the other; `serial`: the part in which a link is taken.

    Both are -1 where it takes more than 2^60 cycles.
    """

    def __cinit__(self):
        self.ways = 0
        self.kind = np.zeros(16, np.int32)

    cdef int64_t flight(self, int64_t way, int64_t nbytes) noexcept nogil:
        return -1

    cdef int64_t serial(self, int64_t way, int64_t nbytes) noexcept nogil:
        return -1

    cdef void _grow(self, kind):
        self.kind = grown(self.kind, self.ways, kind)
        self.ways += len(kind)

    def __getstate__(self):
        return {"rule": (self.ways, np.asarray(self.kind))}

    def __setstate__(self, state):
        self.ways, self.kind = state["rule"]

    def times(self, ways, nbytes):
        """int64[K]: `flight` of many messages."""
        cdef const int64_t[::1] way = np.ascontiguousarray(ways, np.int64)
        cdef const int64_t[::1] size = np.ascontiguousarray(nbytes, np.int64)
        found = np.empty(len(way), np.int64)
        cdef int64_t[::1] time = found
        cdef Py_ssize_t i
        if len(way) and not 0 <= np.min(way) <= np.max(way) < self.ways:
            raise IndexError("no such way")
        for i in range(len(way)):
            time[i] = self.flight(way[i], size[i])
        return found


def grown(values, used, more):
    """An array whose first `used` entries are kept and followed by `more`, with room for as many again."""
    values = np.asarray(values)
    if used + len(more) > len(values):
        larger = np.zeros(2 * (used + len(more)), values.dtype)
        larger[:used] = values[:used]
        values = larger
    values[used : used + len(more)] = more
    return values


cdef class Exact(Rule):
    """`rates`: bytes per cycle of each kind, as fractions. Latencies are counted in 1 / `per_cycle` cycles."""

    def __init__(self, rates, per_cycle=1):
        self.per_cycle = per_cycle
        self.latency = np.zeros(16, np.int64)
        flight, serial = [], []
        for rate in map(Fraction, rates):
            # (latency / per_cycle + bytes * below / above) over one denominator.
            above, below = rate.numerator, rate.denominator
            serial.append((below, above))
            flight.append(lowest_terms(above, below * per_cycle, above * per_cycle))
        if max((number for row in flight for number in row), default=0) >= MOST:
            raise InputError("a time of latency and bandwidth together is too fine a fraction to be kept exactly")
        self.of_flight = np.array(flight, np.int64).reshape(-1, 3)
        self.of_serial = np.array(serial, np.int64).reshape(-1, 2)

    def extend(self, latency, kind):
        """More ways: their latencies (int64, in 1 / `per_cycle` cycles) and kinds."""
        self.latency = grown(self.latency, self.ways, latency)
        self._grow(kind)

    def __getstate__(self):
        exact = self.per_cycle, *arrays([self.latency, self.of_flight, self.of_serial])
        return super().__getstate__() | {"exact": exact}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.per_cycle, self.latency, self.of_flight, self.of_serial = state["exact"]

    cdef int64_t flight(self, int64_t way, int64_t nbytes) noexcept nogil:
        cdef int64_t *row = &self.of_flight[self.kind[way], 0]
        cdef int128_t sum = <int128_t> self.latency[way] * row[0] + <int128_t> nbytes * row[1]
        return divided(sum, row[2])

    cdef int64_t serial(self, int64_t way, int64_t nbytes) noexcept nogil:
        cdef int64_t *row = &self.of_serial[self.kind[way], 0]
        return divided(<int128_t> nbytes * row[0], row[1])


def lowest_terms(*numbers):
    """The numbers over their greatest common divisor."""
    common = gcd(*numbers)
    return tuple(number // common for number in numbers)


cdef inline int64_t divided(int128_t sum, int64_t by) noexcept nogil:
    cdef int64_t short = <int64_t> sum
    if <int128_t> short == sum:  # a division of 64 bits is several times faster
        short //= by
    else:
        sum //= by
        if sum > LONGEST:
            return -1
        short = <int64_t> sum
    return short if short <= LONGEST else -1


cdef class Doubles(Rule):
    """`rates`: bytes per cycle of each kind. Latencies are in cycles."""

    def __init__(self, rates):
        self.rate = np.array(list(rates), np.float64)
        self.latency = np.zeros(16, np.float64)

    def extend(self, latency, kind):
        """More ways: their latencies (cycles, float64) and kinds."""
        self.latency = grown(self.latency, self.ways, latency)
        self._grow(kind)

    def __getstate__(self):
        return super().__getstate__() | {"doubles": arrays([self.latency, self.rate])}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.latency, self.rate = state["doubles"]

    cdef int64_t flight(self, int64_t way, int64_t nbytes) noexcept nogil:
        return cut(self.latency[way] + <double> nbytes / self.rate[self.kind[way]])

    cdef int64_t serial(self, int64_t way, int64_t nbytes) noexcept nogil:
        return cut(<double> nbytes / self.rate[self.kind[way]])


cdef inline int64_t cut(double cycles) noexcept nogil:
    return <int64_t> cycles if cycles <= LONGEST_DOUBLE else -1


cdef class Summands(Doubles):
    """`more`: what each kind adds, rows (interfaces, switches, memory latency, bytes per cycle of the memory, scale).

    The memory is busy while the message flies; the slower of both counts. A scale of 0 leaves the memory out.
    """

    def __init__(self, rates, more):
        super().__init__(rates)
        self.more = np.array(list(more), np.float64).reshape(-1, 5)

    def __getstate__(self):
        return super().__getstate__() | {"more": np.asarray(self.more)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.more = state["more"]

    cdef int64_t flight(self, int64_t way, int64_t nbytes) noexcept nogil:
        cdef int32_t kind = self.kind[way]
        cdef double *more = &self.more[kind, 0]
        cdef double sum = trunc(self.latency[way])
        sum = trunc(sum + <double> nbytes / self.rate[kind])
        sum = trunc(sum + more[0])
        sum = trunc(sum + more[1])
        cdef double memory = 0
        if more[4] > 0:
            memory = trunc((more[2] + <double> nbytes / more[3]) * more[4])
        return cut(memory if memory > sum else sum)
