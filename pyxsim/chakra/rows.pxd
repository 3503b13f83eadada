from libc.stdint cimport int64_t, uint8_t, uint64_t

from pyxsim.byte_keys cimport ByteKeys
from pyxsim.chakra.codec cimport Span

cdef enum:
    METADATA = 1
    KINDS = 16  # types of nodes, and more
    MOST_USED = 64


cdef class Rows:
    cdef readonly list firsts, names
    cdef dict number_of, class_of  # of texts, and of nodes that were given as such
    cdef ByteKeys name_keys, class_keys  # of what is read
    cdef bint alone[KINDS]
    cdef bytes used  # names of attributes, one after the other
    cdef uint8_t used_sizes[MOST_USED]
    cdef int used_count
    cdef uint64_t *ids
    cdef int64_t *classes
    cdef int64_t *name
    cdef int64_t *start
    cdef uint64_t *before
    cdef uint64_t *own  # what the node that is read waits for: `controls` first
    cdef int64_t room_ids, room_classes, room_name, room_start, room_before, room_own
    cdef int64_t count, edges, controls, waits
    cdef readonly int64_t message, begin  # that is read: its number in the file, and the byte at which it begins
    cdef int64_t taken
    cdef uint8_t *key  # of the class of the node that is read
    cdef int64_t key_size, room_key
    cdef bint pending  # whether the key has no class yet

    cdef bint uses(self, bytes name)
    cdef bint is_used(self, const uint8_t *name, Py_ssize_t size) noexcept
    cdef int extend(self, const void *data, Py_ssize_t size) except -1
    cdef int64_t class_of_key(self, uint64_t kind, uint64_t duration, bint informs) except -2
    cdef int keep_key(self, int64_t found) except -1
    cdef int take_node(self, Span span) except -1
    cdef node(self, Span span)
    cdef bint attribute(self, Span span) except -1
    cdef int wait(self, uint64_t number, bint controls) except -1
    cdef int close(self, uint64_t ident, int64_t name, int64_t found) except -1
