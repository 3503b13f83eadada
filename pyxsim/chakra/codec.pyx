"""The wire format of protocol buffers: the messages of a trace from bytes and to bytes.

A field is a varint that says its number and how it is written, then its value: another varint, 8 bytes, 4 bytes, or a
length and so many bytes (https://protobuf.dev/programming-guides/encoding). A varint has 7 bits in each byte, the
lowest first; the top bit says that more follow. It is compiled because a trace may have millions of nodes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from pyxsim.chakra.messages import ATTRIBUTE_TYPES, MAX_ATTRIBUTES, Attribute, IOInfo, Metadata, Node, NodeType

# The types of values in the order in which Chakra counts them in an attribute.
cdef enum Kind:
    DOUBLE, FLOAT, INT32, INT64, UINT32, UINT64, SINT32, SINT64
    FIX32, FIX64, SFIX32, SFIX64, BOOL, STRING, BYTES, KINDS

cdef uint64_t FIRST_VALUE = 3  # an attribute's double_val; then double_list 4, float_val 5, ... bytes_list 32
cdef uint64_t LAST_FIELD = (1 << 29) - 1  # the format has no greater number of a field
cdef tuple TYPE_NAMES = tuple(ATTRIBUTE_TYPES)
cdef dict FIELD_OF = {name: FIRST_VALUE + place for place, name in enumerate(TYPE_NAMES)}
cdef dict NODE_TYPES = {int(each): each for each in NodeType}


class WireError(ValueError):
    """Bytes that are no message. `at`: where, counted from the start of the message."""

    def __init__(self, problem, at):
        super().__init__(problem)
        self.at = at


# Reading

cdef int wire_of(int kind) noexcept:
    if kind == DOUBLE or kind == FIX64 or kind == SFIX64:
        return FIXED64
    if kind == FLOAT or kind == FIX32 or kind == SFIX32:
        return FIXED32
    return LENGTH if kind == STRING or kind == BYTES else VARINT


cdef uint64_t take_varint(Span *span) except? 0xBAD:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while span.at < span.end:
        byte = span.data[span.at]
        span.at += 1
        value |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 63:
            raise WireError("has a number of more than 10 bytes", span.at)
    raise WireError("ends in the middle of a number", span.at)


cdef uint64_t take_fixed(Span *span, int size) except? 0xBAD:
    cdef uint64_t value = 0
    cdef int k
    if size > span.end - span.at:
        raise WireError(f"has {span.end - span.at} bytes where {size} belong together", span.at)
    for k in range(size):
        value |= <uint64_t> span.data[span.at + k] << (8 * k)
    span.at += size
    return value


cdef bint take(Span *span, Field *field) except -1:
    """The next field; False at the end."""
    cdef uint64_t key, length
    if span.at >= span.end:
        return False
    field.begin = span.at
    key = take_varint(span)
    field.number = key >> 3
    field.wire = key & 7
    if field.number == 0 or field.number > LAST_FIELD:
        raise WireError(f"has a field of number {field.number}", field.begin)
    if field.wire == VARINT:
        field.bits = take_varint(span)
    elif field.wire == FIXED64:
        field.bits = take_fixed(span, 8)
    elif field.wire == FIXED32:
        field.bits = take_fixed(span, 4)
    elif field.wire == LENGTH:
        length = take_varint(span)
        if length > <uint64_t> (span.end - span.at):
            raise WireError(f"has a field of {length} bytes, and {span.end - span.at} are left", field.begin)
        field.start = span.at
        span.at += <Py_ssize_t> length
        field.end = span.at
    else:
        raise WireError(f"has a field of wire type {field.wire}", field.begin)
    return True


cdef int need(Field *field, int wire) except -1:
    if field.wire != wire:
        raise WireError(f"has field {field.number} in wire type {field.wire} instead of {wire}", field.begin)
    return 0


cdef uint64_t number_of(Field *field) except? 0xBAD:
    need(field, VARINT)
    return field.bits


cdef str text_of(Span *span, Field *field):
    need(field, LENGTH)
    try:
        return PyUnicode_DecodeUTF8(<const char *> span.data + field.start, field.end - field.start, NULL)
    except UnicodeDecodeError:
        raise WireError("has a text that is not UTF-8", field.start) from None


cdef bytes raw_of(Span *span, Field *field):
    return PyBytes_FromStringAndSize(<const char *> span.data + field.begin, span.at - field.begin)


cdef Span inside(Span *span, Field *field) except *:
    """What is in a field that is a message."""
    cdef Span inner
    need(field, LENGTH)
    inner.data, inner.at, inner.end = span.data, field.start, field.end
    return inner


cdef object as_value(int kind, uint64_t bits):
    """The value whose bits these are."""
    cdef double wide
    cdef float narrow
    cdef uint32_t half = <uint32_t> bits
    if kind == DOUBLE:
        memcpy(&wide, &bits, 8)
        return wide
    if kind == FLOAT:
        memcpy(&narrow, &half, 4)
        return narrow
    if kind == INT32 or kind == SFIX32:
        return <int32_t> half
    if kind == INT64 or kind == SFIX64:
        return <int64_t> bits
    if kind == UINT32 or kind == FIX32:
        return half
    if kind == UINT64 or kind == FIX64:
        return bits
    if kind == SINT32:
        return <int32_t> (half >> 1 ^ -(half & 1))
    if kind == SINT64:
        return <int64_t> (bits >> 1 ^ -(bits & 1))
    return bits != 0


cdef object one(Span *span, Field *field, int kind):
    """The value of a field that has one."""
    need(field, wire_of(kind))
    if kind == STRING:
        return text_of(span, field)
    if kind == BYTES:
        return PyBytes_FromStringAndSize(<const char *> span.data + field.start, field.end - field.start)
    return as_value(kind, field.bits)


cdef int add(list values, Span *span, Field *field, int kind) except -1:
    """Add what a repeated field holds: one value, or numbers that are packed one behind the other."""
    cdef int wire = wire_of(kind)
    cdef Span packed
    if field.wire == wire:
        values.append(one(span, field, kind))
        return 0
    packed = inside(span, field)
    while packed.at < packed.end:
        if wire == VARINT:
            values.append(as_value(kind, take_varint(&packed)))
        else:
            values.append(as_value(kind, take_fixed(&packed, 8 if wire == FIXED64 else 4)))
    return 0


cdef object read_attribute(Span span):
    cdef Field field
    cdef Span inner
    cdef str name = "", kind = "", doc_string = ""
    cdef bytes unknown = b""
    cdef object value = None
    cdef int place
    cdef list values
    while take(&span, &field):
        if field.number == 1:
            name = text_of(&span, &field)
        elif field.number == 2:
            doc_string = text_of(&span, &field)
        elif field.number < FIRST_VALUE + 2 * <int> KINDS:
            place = <int> (field.number - FIRST_VALUE)
            kind = <str> TYPE_NAMES[place]
            if place & 1:
                values = []
                inner = inside(&span, &field)
                while take(&inner, &field):
                    if field.number == 1:
                        add(values, &inner, &field, place >> 1)
                value = values
            else:
                value = one(&span, &field, place >> 1)
        else:
            unknown += raw_of(&span, &field)
    return Attribute(name, kind, value, doc_string, unknown)


cdef int add_attribute(list attributes, Span *span, Field *field) except -1:
    if len(attributes) >= MAX_ATTRIBUTES:
        raise WireError(f"has more than {MAX_ATTRIBUTES} attributes", field.begin)
    attributes.append(read_attribute(inside(span, field)))
    return 0


cdef object read_io(Span span):
    cdef Field field
    cdef list texts = ["", "", ""]
    cdef bytes unknown = b""
    while take(&span, &field):
        if field.number <= 3:
            texts[<int> field.number - 1] = text_of(&span, &field)
        else:
            unknown += raw_of(&span, &field)
    return IOInfo(texts[0], texts[1], texts[2], unknown)


def metadata_from(bytes data):
    """The metadata that these bytes are. Raises WireError."""
    cdef Span span
    cdef Field field
    cdef str version = ""
    cdef list attributes = []
    cdef bytes unknown = b""
    span.data, span.at, span.end = <const uint8_t *> PyBytes_AS_STRING(data), 0, PyBytes_GET_SIZE(data)
    while take(&span, &field):
        if field.number == 1:
            version = text_of(&span, &field)
        elif field.number == 2:
            add_attribute(attributes, &span, &field)
        else:
            unknown += raw_of(&span, &field)
    return Metadata(version, attributes, unknown)


def node_from(bytes data):
    """The node that these bytes are. Raises WireError."""
    cdef Span span
    cdef Field field
    cdef uint64_t ident = 0, kind = 0, start = 0, duration = 0
    cdef str name = ""
    cdef list ctrl_deps = [], data_deps = [], attributes = []
    cdef object inputs = None, outputs = None
    cdef bytes unknown = b""
    span.data, span.at, span.end = <const uint8_t *> PyBytes_AS_STRING(data), 0, PyBytes_GET_SIZE(data)
    while take(&span, &field):
        if field.number == 1:
            ident = number_of(&field)
        elif field.number == 2:
            name = text_of(&span, &field)
        elif field.number == 3:
            kind = number_of(&field)
        elif field.number == 4:
            add(ctrl_deps, &span, &field, UINT64)
        elif field.number == 5:
            add(data_deps, &span, &field, UINT64)
        elif field.number == 6:
            start = number_of(&field)
        elif field.number == 7:
            duration = number_of(&field)
        elif field.number == 8:
            inputs = read_io(inside(&span, &field))
        elif field.number == 9:
            outputs = read_io(inside(&span, &field))
        elif field.number == 10:
            add_attribute(attributes, &span, &field)
        else:
            unknown += raw_of(&span, &field)
    return Node(
        ident, name, NODE_TYPES.get(kind, kind), ctrl_deps, data_deps, start, duration, inputs, outputs, attributes,
        unknown,
    )


# Writing

cdef class Output:
    """Bytes that grow."""

    cdef uint8_t *data
    cdef Py_ssize_t size, capacity

    def __dealloc__(self):
        free(self.data)

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t capacity
        cdef void *moved
        if self.size + more > self.capacity:
            capacity = 2 * (self.size + more) + 64
            moved = realloc(self.data, capacity)
            if moved is NULL:
                raise MemoryError
            self.data, self.capacity = <uint8_t *> moved, capacity
        return 0

    cdef int varint(self, uint64_t value) except -1:
        self.reserve(10)
        while value >= 0x80:
            self.data[self.size] = <uint8_t> (value & 0x7F | 0x80)
            self.size += 1
            value >>= 7
        self.data[self.size] = <uint8_t> value
        self.size += 1
        return 0

    cdef int fixed(self, uint64_t value, int size) except -1:
        cdef int k
        self.reserve(size)
        for k in range(size):
            self.data[self.size + k] = <uint8_t> (value >> (8 * k))
        self.size += size
        return 0

    cdef int raw(self, bytes data) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        self.reserve(size)
        memcpy(self.data + self.size, PyBytes_AS_STRING(data), size)
        self.size += size
        return 0

    cdef int key(self, uint64_t number, int wire) except -1:
        return self.varint(number << 3 | <uint64_t> wire)

    cdef int text(self, uint64_t number, bytes data) except -1:
        self.key(number, LENGTH)
        self.varint(<uint64_t> PyBytes_GET_SIZE(data))
        return self.raw(data)

    cdef Py_ssize_t open(self, uint64_t number) except -1:
        """Begin a message; its length is put in front of it when it is closed."""
        self.key(number, LENGTH)
        return self.size

    cdef int close(self, Py_ssize_t begin) except -1:
        cdef Py_ssize_t size = self.size - begin, head
        self.varint(<uint64_t> size)
        head = self.size - begin - size
        cdef uint8_t length[10]
        memcpy(length, self.data + begin + size, head)
        memmove(self.data + begin + head, self.data + begin, size)
        memcpy(self.data + begin, length, head)
        return 0

    cdef int number(self, int kind, object value) except -1:
        """A number as its type is written. Raises OverflowError, TypeError."""
        cdef double wide
        cdef float narrow
        cdef uint64_t bits
        cdef uint32_t half
        cdef int32_t small
        cdef int64_t large
        if kind == DOUBLE:
            wide = value
            memcpy(&bits, &wide, 8)
            return self.fixed(bits, 8)
        if kind == FLOAT:
            narrow = value
            memcpy(&half, &narrow, 4)
            return self.fixed(half, 4)
        if kind == BOOL:
            return self.varint(1 if value else 0)
        if kind == UINT32 or kind == FIX32:
            half = value
            return self.fixed(half, 4) if kind == FIX32 else self.varint(half)
        if kind == UINT64 or kind == FIX64:
            bits = value
            return self.fixed(bits, 8) if kind == FIX64 else self.varint(bits)
        if kind == INT32 or kind == SINT32 or kind == SFIX32:
            small = value
            if kind == SFIX32:
                return self.fixed(<uint32_t> small, 4)
            if kind == SINT32:
                return self.varint(<uint32_t> small << 1 ^ <uint32_t> (small >> 31))
            return self.varint(<uint64_t> <int64_t> small)
        large = value
        if kind == SFIX64:
            return self.fixed(<uint64_t> large, 8)
        if kind == SINT64:
            return self.varint(<uint64_t> large << 1 ^ <uint64_t> (large >> 63))
        return self.varint(<uint64_t> large)

    cdef int one(self, uint64_t number, int kind, object value) except -1:
        """A field with one value."""
        if kind == STRING:
            return self.text(number, (<str?> value).encode("utf-8"))
        if kind == BYTES:
            return self.text(number, <bytes?> value)
        self.key(number, wire_of(kind))
        return self.number(kind, value)

    cdef int many(self, uint64_t number, int kind, list values) except -1:
        """A repeated field: numbers packed one behind the other, texts a field each."""
        cdef Py_ssize_t begin
        if kind == STRING or kind == BYTES:
            for value in values:
                self.one(number, kind, value)
        elif values:
            begin = self.open(number)
            for value in values:
                self.number(kind, value)
            self.close(begin)
        return 0

    cdef int given(self, uint64_t number, int kind, object value) except -1:
        """A field that is left out where it has the value that is meant anyway: 0, or no text."""
        return self.one(number, kind, value) if value else 0

    cdef int attributes(self, uint64_t number, list attributes) except -1:
        cdef Py_ssize_t begin
        for each in attributes:
            begin = self.open(number)
            try:
                self.attribute(each)
            except (KeyError, OverflowError, TypeError, UnicodeEncodeError) as error:
                raise ValueError(f"attribute {each.name!r} of type {each.type!r} is {each.value!r}") from error
            self.close(begin)
        return 0

    cdef int attribute(self, each) except -1:
        cdef Py_ssize_t begin
        cdef uint64_t field
        cdef int place
        self.given(1, STRING, each.name)
        self.given(2, STRING, each.doc_string)
        if each.type:
            field = FIELD_OF[each.type]
            place = <int> (field - FIRST_VALUE)
            # A value of an attribute is written even if it is 0: that one of the fields is there is what counts.
            if place & 1:
                begin = self.open(field)
                self.many(1, place >> 1, each.value)
                self.close(begin)
            else:
                self.one(field, place >> 1, each.value)
        return self.raw(each.unknown)

    cdef int io(self, uint64_t number, info) except -1:
        cdef Py_ssize_t begin
        if info is not None:
            begin = self.open(number)
            self.given(1, STRING, info.values)
            self.given(2, STRING, info.shapes)
            self.given(3, STRING, info.types)
            self.raw(info.unknown)
            self.close(begin)
        return 0

    cdef bytes done(self):
        return PyBytes_FromStringAndSize(<const char *> self.data, self.size)


def metadata_bytes(metadata):
    """Metadata as bytes. Raises ValueError for a value that its type cannot hold."""
    cdef Output out = Output()
    out.given(1, STRING, metadata.version)
    out.attributes(2, metadata.attr)
    out.raw(metadata.unknown)
    return out.done()


def node_bytes(node):
    """A node as bytes. Raises ValueError for a value that its type cannot hold."""
    cdef Output out = Output()
    try:
        out.given(1, UINT64, node.id)
        out.given(2, STRING, node.name)
        out.given(3, UINT64, node.type)
        out.many(4, UINT64, node.ctrl_deps)
        out.many(5, UINT64, node.data_deps)
        out.given(6, UINT64, node.start_time_micros)
        out.given(7, UINT64, node.duration_micros)
        out.io(8, node.inputs)
        out.io(9, node.outputs)
        out.attributes(10, node.attr)
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        raise ValueError(f"node {node.id} ({node.name!r}) cannot be written: {error}") from error
    except ValueError as error:
        raise ValueError(f"node {node.id} ({node.name!r}): {error}") from error
    out.raw(node.unknown)
    return out.done()


def as_varint(uint64_t value):
    """A whole number as varint."""
    cdef Output out = Output()
    out.varint(value)
    return out.done()


def varint_of(bytes data):
    """The number that these bytes are. Raises WireError."""
    cdef Span span
    span.data, span.at, span.end = <const uint8_t *> PyBytes_AS_STRING(data), 0, PyBytes_GET_SIZE(data)
    return take_varint(&span)
