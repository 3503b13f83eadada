"""Numbers by keys that are bytes in the memory of C: few different ones, asked for very often.

A key that was asked for lately is found in a slot, without an object of Python.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.string cimport memcmp, memcpy, memset

cdef uint64_t MIX = 0xFF51AFD7ED558CCDULL  # an odd number that spreads bits (MurmurHash3)


cdef inline uint64_t hash_of(const uint8_t *key, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t *end = key + size
    cdef uint64_t found = <uint64_t> size * MIX, word
    cdef uint32_t first, last
    while end - key > 8:
        memcpy(&word, key, 8)
        found = (found ^ word) * MIX
        found ^= found >> 32
        key += 8
    # The rest by parts of a fixed size, which may overlap: the processor waits for a word that is made byte by byte.
    if size >= 8:
        memcpy(&word, end - 8, 8)
    elif size >= 4:
        memcpy(&first, key, 4)
        memcpy(&last, end - 4, 4)
        word = <uint64_t> first << 32 | last
    else:
        word = <uint64_t> key[0] << 16 | <uint64_t> key[size >> 1] << 8 | end[-1] if size else 0
    found = (found ^ word) * MIX
    return found ^ (found >> 32)


@cython.final
cdef class ByteKeys:
    def __cinit__(self):
        self.numbers = {}
        memset(self.slots, 0, sizeof(self.slots))

    cdef int64_t find(self, const uint8_t *key, Py_ssize_t size) except -2:
        """Return the number of a key; -1 for an unknown one."""
        cdef uint64_t hash = hash_of(key, size)
        cdef Slot *slot = &self.slots[hash % SLOTS]
        if slot.key and slot.hash == hash and slot.size == size and memcmp(slot.key, key, size) == 0:
            return slot.number
        found = self.numbers.get(PyBytes_FromStringAndSize(<const char *> key, size))
        if found is None:
            return -1
        kept, number = found
        slot.hash, slot.key, slot.size, slot.number = hash, <const uint8_t *> PyBytes_AS_STRING(kept), size, number
        return number

    cdef int add(self, bytes key, int64_t number) except -1:
        """Set the number of a key."""
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(key)
        cdef uint64_t hash = hash_of(text, PyBytes_GET_SIZE(key))
        self.slots[hash % SLOTS].key = NULL
        self.numbers[key] = key, number
        return 0

    cdef int clear(self) except -1:
        """Forget all keys."""
        memset(self.slots, 0, sizeof(self.slots))
        self.numbers.clear()
        return 0
