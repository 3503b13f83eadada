"""Numbers of the pairs (source, destination, plane) of messages, in order of first use.

A hash table with open addressing, as most networks use few of all their pairs.
"""

from libc.stdint cimport int64_t, uint64_t

import numpy as np

# 20 bits for each NPU, the rest for the plane, which counts from -1.
cdef int64_t BITS = 20
cdef int64_t FREE = -1


cdef inline int64_t key_of(int64_t src, int64_t dst, int64_t plane) noexcept nogil:
    return (((plane + 1) << BITS) | src) << BITS | dst


cdef class Pairs:
    """The pairs in use of a network with `npus` NPUs."""

    def __cinit__(self, int64_t npus):
        self.npus = npus
        self.count = 0
        self.mask = 63
        self.keys = np.full(64, FREE)
        self.numbers = np.zeros(64, np.int64)

    cdef int64_t _slot(self, int64_t key) noexcept nogil:
        """The slot of a key, or the free slot for it."""
        cdef uint64_t hashed = <uint64_t> key * <uint64_t> 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
        cdef int64_t slot = <int64_t> (hashed >> 20) & self.mask
        while self.keys[slot] != key and self.keys[slot] != FREE:
            slot = (slot + 1) & self.mask
        return slot

    cdef void _reserve(self):
        """Double the table when half of its slots are taken."""
        cdef int64_t[::1] keys = self.keys
        cdef int64_t[::1] numbers = self.numbers
        cdef int64_t i, slot
        if 2 * self.count <= self.mask:
            return
        self.mask = 2 * self.mask + 1
        self.keys = np.full(self.mask + 1, FREE)
        self.numbers = np.zeros(self.mask + 1, np.int64)
        for i in range(len(keys)):
            if keys[i] != FREE:
                slot = self._slot(keys[i])
                self.keys[slot] = keys[i]
                self.numbers[slot] = numbers[i]

    def number(self, const int64_t[::1] src, const int64_t[::1] dst, const int64_t[::1] plane):
        """Return int64[K], the number of each pair, and int64[F], the indices of pairs that are new, in order."""
        pair_numbers = np.empty(len(src), np.int64)
        cdef int64_t[::1] numbers = pair_numbers
        cdef int64_t i, key, slot
        fresh = []
        for i in range(len(src)):
            if src[i] == dst[i]:
                raise ValueError(f"a message of NPU {src[i]} to itself")
            if not (0 <= src[i] < self.npus and 0 <= dst[i] < self.npus):
                raise ValueError(f"a message from NPU {src[i]} to {dst[i]} of {self.npus} NPUs")
        for i in range(len(src)):
            key = key_of(src[i], dst[i], plane[i])
            slot = self._slot(key)
            if self.keys[slot] == FREE:
                self.keys[slot] = key
                self.numbers[slot] = self.count
                self.count += 1
                numbers[i] = self.count - 1
                fresh.append(i)
                self._reserve()
            else:
                numbers[i] = self.numbers[slot]
        return pair_numbers, np.array(fresh, np.int64)

    def ends(self):
        """Return int64[3, count]: source, destination and plane of each number."""
        keys = np.asarray(self.keys)
        taken = keys != FREE
        key_of_number = np.empty(self.count, np.int64)
        key_of_number[np.asarray(self.numbers)[taken]] = keys[taken]
        low = (1 << BITS) - 1
        return np.stack([(key_of_number >> BITS) & low, key_of_number & low, (key_of_number >> 2 * BITS) - 1])

    def __getnewargs__(self):
        return (self.npus,)

    def __getstate__(self):
        return self.count, self.mask, np.asarray(self.keys), np.asarray(self.numbers)

    def __setstate__(self, state):
        self.count, self.mask, self.keys, self.numbers = state
