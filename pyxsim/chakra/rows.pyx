"""Messages of the wire format are skipped field by field; a Node is made of the first one of a class only, and of one
that is unusual: of its texts, or of the types of its attributes."""

import numpy as np

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from pyxsim.byte_keys cimport ByteKeys
from pyxsim.chakra.codec cimport FIXED32, FIXED64, LENGTH, VARINT, Field, Span, take, take_varint
from pyxsim.heap cimport grown

from pyxsim.chakra.codec import WireError, node_from
from pyxsim.chakra.messages import MAX_ATTRIBUTES
from pyxsim.chakra.stream import MAX_MESSAGE

cdef enum:
    MOST_KEYS = 1 << 16  # classes that are distinguished at a time


cdef inline bint is_ascii(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word, tops = 0x8080808080808080
    while size >= 8:
        memcpy(&word, at, 8)
        if word & tops:
            return False
        at += 8
        size -= 8
    while size:
        if at[0] & 0x80:
            return False
        at += 1
        size -= 1
    return True


@cython.final
cdef class Rows:
    def __cinit__(self, used, alone):
        self.firsts, self.names, self.number_of, self.class_of = [], [], {}, {}
        self.name_keys, self.class_keys = ByteKeys(), ByteKeys()
        self.used = "".join(used).encode()
        for name in used:
            self.used_sizes[self.used_count] = len(name)
            self.used_count += 1
        for kind in range(KINDS):
            self.alone[kind] = kind in alone
        self.start = <int64_t *> grown(self.start, &self.room_start, 1, sizeof(int64_t))
        self.start[0] = 0
        self.message = 1  # the metadata is the first one

    def __dealloc__(self):
        free(self.ids)
        free(self.classes)
        free(self.name)
        free(self.start)
        free(self.before)
        free(self.own)
        free(self.key)

    def columns(self):
        cdef int64_t size = sizeof(int64_t)

        def array(address, count, kind):
            if not count:
                return np.zeros(0, kind)
            return np.frombuffer(PyBytes_FromStringAndSize(<const char *> <size_t> address, count * size), kind)

        return (
            array(<size_t> self.ids, self.count, np.uint64),
            array(<size_t> self.classes, self.count, np.int64),
            array(<size_t> self.name, self.count, np.int64),
            array(<size_t> self.start, self.count + 1, np.int64),
            array(<size_t> self.before, self.edges, np.uint64),
        )

    def add(self, node):
        key = (node.type, node.duration_micros, tuple(
            [(each.name, each.type, repr(each.value)) for each in node.attr if self.uses(each.name.encode())]
        ))
        found = self.class_of.get(key)
        alone = node.type < KINDS and self.alone[node.type] or node.type == METADATA and node.inputs is not None
        if found is None or alone:
            found = len(self.firsts)
            self.firsts.append(node)
            if not alone:
                if len(self.class_of) == MOST_KEYS:
                    self.class_of.clear()
                self.class_of[key] = found
        if self.pending:
            self.keep_key(found)
        self.controls = self.waits = 0
        for number in node.ctrl_deps:
            self.wait(number, True)
        for number in node.data_deps:
            self.wait(number, False)
        known = self.number_of.setdefault(node.name, len(self.names))
        if known == len(self.names):
            self.names.append(node.name)
        self.close(node.id, known, found)

    cdef bint uses(self, bytes name):
        return self.is_used(<const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))

    cdef bint is_used(self, const uint8_t *name, Py_ssize_t size) noexcept:
        """Whether an attribute is used."""
        cdef const uint8_t *other = <const uint8_t *> PyBytes_AS_STRING(self.used)
        cdef int k
        for k in range(self.used_count):
            if size == self.used_sizes[k] and memcmp(name, other, size) == 0:
                return True
            other += self.used_sizes[k]
        return False

    cdef int extend(self, const void *data, Py_ssize_t size) except -1:
        """Add bytes to the key."""
        self.key = <uint8_t *> grown(self.key, &self.room_key, self.key_size + size, 1)
        memcpy(self.key + self.key_size, data, size)
        self.key_size += size
        return 0

    cdef int64_t class_of_key(self, uint64_t kind, uint64_t duration, bint informs) except -2:
        """Complete the key and return its class; -1 if a Node is to be made. `pending`: whether it becomes a class."""
        self.extend(&kind, 8)
        self.extend(&duration, 8)
        self.pending = False
        if kind < KINDS and self.alone[kind] or kind == METADATA and informs:
            return -1
        cdef int64_t found = self.class_keys.find(self.key, self.key_size)
        self.pending = found < 0
        return found

    cdef int keep_key(self, int64_t found) except -1:
        """Make the key that is pending one of a class."""
        self.pending = False
        if len(self.class_keys.numbers) == MOST_KEYS:
            self.class_keys.clear()
        self.class_keys.add(PyBytes_FromStringAndSize(<const char *> self.key, self.key_size), found)
        return 0

    def feed(self, bytes data, bint last):
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef Span span
        cdef Py_ssize_t begin, head, size = PyBytes_GET_SIZE(data)
        cdef uint64_t length
        span.data, span.at = text, 0
        while span.at < size:
            begin = span.at
            span.end = min(begin + 10, size)
            while span.at < span.end and text[span.at] >= 0x80:
                span.at += 1
            if span.at == size and not last:
                span.at = begin
                break
            try:
                span.at = begin
                length = take_varint(&span)
                head = span.at - begin
                if length > <uint64_t> MAX_MESSAGE:
                    raise WireError(f"has {length} bytes, more than the limit of {MAX_MESSAGE}", 0)
                if length > <uint64_t> (size - span.at):
                    if not last:
                        span.at = begin
                        break
                    raise WireError(f"has {length} bytes, but {size - span.at} are left", 0)
                span.end = span.at + <Py_ssize_t> length
                try:
                    self.take_node(span)
                except WireError as error:
                    raise WireError(str(error), head + error.at) from error
            except WireError:
                self.begin = self.taken + begin
                raise
            span.at = span.end
            self.message += 1
        self.taken += span.at
        return span.at

    cdef int take_node(self, Span span) except -1:
        """Take a node."""
        cdef Span whole = span
        cdef Field field
        cdef Span inner
        cdef uint64_t ident = 0, kind = 0, duration = 0
        cdef bint plain = True, informs = False
        cdef int64_t attributes = 0
        cdef const uint8_t *name = span.data
        cdef Py_ssize_t size = 0
        self.controls = self.waits = 0
        self.key_size = 0
        try:
            while plain and take(&span, &field):
                if field.number == 10 and field.wire == LENGTH:
                    attributes += 1
                    inner.data, inner.at, inner.end = span.data, field.start, field.end
                    plain = attributes <= MAX_ATTRIBUTES and self.attribute(inner)
                elif (field.number == 4 or field.number == 5) and field.wire == LENGTH:
                    inner.data, inner.at, inner.end = span.data, field.start, field.end
                    while inner.at < inner.end:
                        self.wait(take_varint(&inner), field.number == 4)
                elif (field.number == 4 or field.number == 5) and field.wire == VARINT:
                    self.wait(field.bits, field.number == 4)
                elif field.number == 2 and field.wire == LENGTH:
                    name, size = span.data + field.start, field.end - field.start
                    plain = is_ascii(name, size)
                elif field.number == 1 and field.wire == VARINT:
                    ident = field.bits
                elif field.number == 3 and field.wire == VARINT:
                    kind = field.bits
                elif field.number == 7 and field.wire == VARINT:
                    duration = field.bits
                elif field.number == 6 and field.wire == VARINT:
                    pass
                elif (field.number == 8 or field.number == 9) and field.wire == LENGTH:
                    informs = True
                    inner.data, inner.at, inner.end = span.data, field.start, field.end
                    while plain and take(&inner, &field):
                        plain = field.number > 3 or (
                            field.wire == LENGTH and is_ascii(span.data + field.start, field.end - field.start)
                        )
                else:
                    plain = field.number > 10
        except WireError:
            plain = False
        if not plain:
            # Its fault is reported as that of a node; without a fault, it counts as one.
            self.add(self.node(whole))
            return 0
        cdef int64_t found = self.class_of_key(kind, duration, informs), known = 0
        if found < 0:
            found = len(self.firsts)
            self.firsts.append(self.node(whole))
            if self.pending:
                self.keep_key(found)
        known = self.name_keys.find(name, size)
        if known < 0:
            raw = PyBytes_FromStringAndSize(<const char *> name, size)
            text = raw.decode("ascii")
            known = self.number_of.setdefault(text, len(self.names))
            if known == len(self.names):
                self.names.append(text)
            self.name_keys.add(raw, known)
        self.close(ident, known, found)
        return 0

    cdef node(self, Span span):
        return node_from(PyBytes_FromStringAndSize(<const char *> span.data + span.at, span.end - span.at))

    cdef bint attribute(self, Span span) except -1:
        """Take an attribute; return whether it is a usual one. One that is used becomes a part of the key."""
        cdef Span whole = span
        cdef Field field
        cdef bint used = False, plain = True
        cdef int wire, place
        cdef int64_t size
        while plain and take(&span, &field):
            if field.number == 1:
                plain = field.wire == LENGTH and is_ascii(span.data + field.start, field.end - field.start)
                used = plain and self.is_used(span.data + field.start, field.end - field.start)
            elif field.number == 2:
                plain = field.wire == LENGTH and is_ascii(span.data + field.start, field.end - field.start)
            elif field.number <= 32:
                # Types in the order of Chakra, a value and a list of each: double, float, 6 numbers of varints, ...
                place = <int> (field.number - 3) >> 1
                if (field.number - 3) & 1:
                    plain = used  # of a list, which is checked when it becomes a part of a class
                    continue
                if place == 0 or place == 9 or place == 11:
                    wire = FIXED64
                elif place == 1 or place == 8 or place == 10:
                    wire = FIXED32
                elif place >= 13:
                    wire = LENGTH
                else:
                    wire = VARINT
                plain = field.wire == wire
                if place == 13 and plain:
                    plain = is_ascii(span.data + field.start, field.end - field.start)
        if plain and used:
            size = whole.end - whole.at
            self.extend(&size, sizeof(size))
            self.extend(whole.data + whole.at, size)
        return plain

    cdef int wait(self, uint64_t number, bint controls) except -1:
        """The node that is read waits for another one."""
        self.own = <uint64_t *> grown(self.own, &self.room_own, self.waits + 1, sizeof(uint64_t))
        cdef int64_t k
        if controls:
            for k in range(self.waits, self.controls, -1):
                self.own[k] = self.own[k - 1]
            self.own[self.controls] = number
            self.controls += 1
        else:
            self.own[self.waits] = number
        self.waits += 1
        return 0

    cdef int close(self, uint64_t ident, int64_t name, int64_t found) except -1:
        """End the node that is read."""
        cdef int64_t k, m
        self.ids = <uint64_t *> grown(self.ids, &self.room_ids, self.count + 1, 8)
        self.classes = <int64_t *> grown(self.classes, &self.room_classes, self.count + 1, 8)
        self.name = <int64_t *> grown(self.name, &self.room_name, self.count + 1, 8)
        self.start = <int64_t *> grown(self.start, &self.room_start, self.count + 2, 8)
        self.before = <uint64_t *> grown(self.before, &self.room_before, self.edges + self.waits, 8)
        if self.waits <= 8:
            for k in range(self.waits):
                for m in range(k):
                    if self.own[m] == self.own[k]:
                        break
                else:
                    self.before[self.edges] = self.own[k]
                    self.edges += 1
        else:
            for number in dict.fromkeys([self.own[k] for k in range(self.waits)]):
                self.before[self.edges] = number
                self.edges += 1
        self.ids[self.count], self.classes[self.count], self.name[self.count] = ident, found, name
        self.count += 1
        self.start[self.count] = self.edges
        return 0
