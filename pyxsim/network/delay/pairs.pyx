"""Numbers for what messages travel between: (source, destination, plane), in the order in which they are first seen.

A hash table with open addressing: most networks use few of all their pairs.
"""

from libc.stdint cimport int64_t, uint64_t

import numpy as np

# 20 bits for an NPU, and what is left for the plane, which counts from -1.
cdef int64_t BITS = 20
cdef int64_t FREE = -1


cdef inline int64_t key_of(int64_t src, int64_t dst, int64_t plane) noexcept nogil:
    return (((plane + 1) << BITS) | src) << BITS | dst


cdef class Pairs:
    """Pairs of `npus` NPUs."""

    def __cinit__(self, int64_t npus):
        self.npus = npus
        self.count = 0
        self.mask = 63
        self.keys = np.full(64, FREE)
        self.numbers = np.zeros(64, np.int64)

    cdef int64_t _place(self, int64_t key) noexcept nogil:
        """Where a key is, or would be."""
        cdef uint64_t hashed = <uint64_t> key * <uint64_t> 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
        cdef int64_t place = <int64_t> (hashed >> 20) & self.mask
        while self.keys[place] != key and self.keys[place] != FREE:
            place = (place + 1) & self.mask
        return place

    cdef void _make_room(self):
        """Twice the room when half of it is taken."""
        cdef int64_t[::1] keys = self.keys
        cdef int64_t[::1] numbers = self.numbers
        cdef int64_t i, place
        if 2 * self.count <= self.mask:
            return
        self.mask = 2 * self.mask + 1
        self.keys = np.full(self.mask + 1, FREE)
        self.numbers = np.zeros(self.mask + 1, np.int64)
        for i in range(len(keys)):
            if keys[i] != FREE:
                place = self._place(keys[i])
                self.keys[place] = keys[i]
                self.numbers[place] = numbers[i]

    def number(self, const int64_t[::1] src, const int64_t[::1] dst, const int64_t[::1] plane):
        """(int64[K], int64[F]): the number of each pair, and the places of those that have just got theirs, in order.
        """
        found = np.empty(len(src), np.int64)
        cdef int64_t[::1] numbers = found
        cdef int64_t i, key, place
        fresh = []
        for i in range(len(src)):
            if src[i] == dst[i]:
                raise ValueError(f"a message of NPU {src[i]} to itself")
            if not (0 <= src[i] < self.npus and 0 <= dst[i] < self.npus):
                raise ValueError(f"a message from NPU {src[i]} to {dst[i]} of {self.npus} NPUs")
        for i in range(len(src)):
            key = key_of(src[i], dst[i], plane[i])
            place = self._place(key)
            if self.keys[place] == FREE:
                self.keys[place] = key
                self.numbers[place] = self.count
                self.count += 1
                numbers[i] = self.count - 1
                fresh.append(i)
                self._make_room()
            else:
                numbers[i] = self.numbers[place]
        return found, np.array(fresh, np.int64)

    def ends(self):
        """int64[3, count]: source, destination and plane of each number."""
        keys = np.asarray(self.keys)
        taken = keys != FREE
        found = np.empty(self.count, np.int64)
        found[np.asarray(self.numbers)[taken]] = keys[taken]
        low = (1 << BITS) - 1
        return np.stack([(found >> BITS) & low, found & low, (found >> 2 * BITS) - 1])

    def __getnewargs__(self):
        return (self.npus,)

    def __getstate__(self):
        return self.count, self.mask, np.asarray(self.keys), np.asarray(self.numbers)

    def __setstate__(self, state):
        self.count, self.mask, self.keys, self.numbers = state
