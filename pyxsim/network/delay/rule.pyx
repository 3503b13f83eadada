"""Rules: the time of a message over a *path* (between a pair of NPUs, or a single link), in whole cycles.

A path has a latency and a *kind*; a kind has a bandwidth. Paths are numbered in the order in which `extend` adds them.
Three rules differ in how they round:

    Exact      latency + bytes / bandwidth, rounded down to whole cycles; all numbers are exact fractions
    Doubles    the same in floating point, as ASTRA-sim 2 computes it
    Summands   ASTRA-sim 1: rounded down after each summand, with terms of interfaces, switches and memories

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
    """The paths and their kinds.

    `flight` is the time from sending to arrival, `serial` the part of it in which a link is busy; -1 beyond 2^60
    cycles.
    """

    def __cinit__(self):
        self.paths = 0
        self.kind = np.zeros(16, np.int32)

    cdef int64_t flight(self, int64_t path, int64_t nbytes) noexcept nogil:
        return -1

    cdef int64_t serial(self, int64_t path, int64_t nbytes) noexcept nogil:
        return -1

    cdef void _grow(self, kind):
        self.kind = grown(self.kind, self.paths, kind)
        self.paths += len(kind)

    def __getstate__(self):
        return {"rule": (self.paths, np.asarray(self.kind))}

    def __setstate__(self, state):
        self.paths, self.kind = state["rule"]

    def times(self, paths, nbytes):
        """Return int64[K]: `flight` of many messages."""
        cdef const int64_t[::1] path = np.ascontiguousarray(paths, np.int64)
        cdef const int64_t[::1] size = np.ascontiguousarray(nbytes, np.int64)
        results = np.empty(len(path), np.int64)
        cdef int64_t[::1] time = results
        cdef Py_ssize_t i
        if len(path) and not 0 <= np.min(path) <= np.max(path) < self.paths:
            raise IndexError("unknown path")
        for i in range(len(path)):
            time[i] = self.flight(path[i], size[i])
        return results


def grown(values, used, more):
    """Return the first `used` entries followed by `more`, in an array with twice the capacity where it must grow."""
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
        """Add paths: their latencies (int64, in 1 / `per_cycle` cycles) and kinds."""
        self.latency = grown(self.latency, self.paths, latency)
        self._grow(kind)

    def __getstate__(self):
        exact = self.per_cycle, *arrays([self.latency, self.of_flight, self.of_serial])
        return super().__getstate__() | {"exact": exact}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.per_cycle, self.latency, self.of_flight, self.of_serial = state["exact"]

    cdef int64_t flight(self, int64_t path, int64_t nbytes) noexcept nogil:
        cdef int64_t *row = &self.of_flight[self.kind[path], 0]
        cdef int128_t sum = <int128_t> self.latency[path] * row[0] + <int128_t> nbytes * row[1]
        return divided(sum, row[2])

    cdef int64_t serial(self, int64_t path, int64_t nbytes) noexcept nogil:
        cdef int64_t *row = &self.of_serial[self.kind[path], 0]
        return divided(<int128_t> nbytes * row[0], row[1])


def lowest_terms(*numbers):
    """Return the numbers divided by their greatest common divisor."""
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
        """Add paths: their latencies (cycles, float64) and kinds."""
        self.latency = grown(self.latency, self.paths, latency)
        self._grow(kind)

    def __getstate__(self):
        return super().__getstate__() | {"doubles": arrays([self.latency, self.rate])}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.latency, self.rate = state["doubles"]

    cdef int64_t flight(self, int64_t path, int64_t nbytes) noexcept nogil:
        return cut(self.latency[path] + <double> nbytes / self.rate[self.kind[path]])

    cdef int64_t serial(self, int64_t path, int64_t nbytes) noexcept nogil:
        return cut(<double> nbytes / self.rate[self.kind[path]])


cdef inline int64_t cut(double cycles) noexcept nogil:
    return <int64_t> cycles if cycles <= LONGEST_DOUBLE else -1


cdef class Summands(Doubles):
    """`more`: terms of each kind, rows (interfaces, switches, memory latency, memory bytes per cycle, scale).

    The memory works while the message is in flight; the slower of both counts. With a scale of 0 the memory is ignored.
    """

    def __init__(self, rates, more):
        super().__init__(rates)
        self.more = np.array(list(more), np.float64).reshape(-1, 5)

    def __getstate__(self):
        return super().__getstate__() | {"more": np.asarray(self.more)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.more = state["more"]

    cdef int64_t flight(self, int64_t path, int64_t nbytes) noexcept nogil:
        cdef int32_t kind = self.kind[path]
        cdef double *more = &self.more[kind, 0]
        cdef double sum = trunc(self.latency[path])
        sum = trunc(sum + <double> nbytes / self.rate[kind])
        sum = trunc(sum + more[0])
        sum = trunc(sum + more[1])
        cdef double memory = 0
        if more[4] > 0:
            memory = trunc((more[2] + <double> nbytes / more[3]) * more[4])
        return cut(memory if memory > sum else sum)
