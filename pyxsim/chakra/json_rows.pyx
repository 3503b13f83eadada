"""Whatever is not recognized at once is left to the reader in Python, which knows all forms and tells what is wrong. So
this one needs no messages, and refuses too much rather than too little.

What has an effect becomes a part of the key of a class as it stands in the text: it is checked with the first node of
the class."""

import json

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from pyxsim.byte_keys cimport ByteKeys
from pyxsim.chakra.rows cimport Rows
from pyxsim.json_text cimport (
    Span,
    Text,
    digit,
    next_field,
    same,
    skip_blanks,
    skip_colon,
    skip_string,
    take_value,
)

from pyxsim.chakra.messages import MAX_ATTRIBUTES, WHOLE

cdef enum:
    LONGEST_NUMBER = 30  # characters: a fraction of so many is below the largest number of 32 bits
    LONGEST_KEY = 4096  # bytes: keys stay in the memory, also the blanks in them
cdef enum Field:
    ID
    NAME
    TYPE
    CONTROLS
    DATA
    UNUSED_NUMBER
    DURATION
    INPUTS
    OUTPUTS
    ATTRIBUTES
    UNUSED_NUMBERS
    EFFECT  # and above: fields of nodes that have an effect
cdef enum Value:
    BOOL
    STRING
    DOUBLE
    FLOAT
    WHOLE_32
    WHOLE_32_SIGNED
    WHOLE_64
    WHOLE_64_SIGNED

cdef dict FIELDS = {
    "id": ID,
    "name": NAME,
    "type": TYPE,
    "ctrl_deps": CONTROLS,
    "data_deps": DATA,
    "start_time_micros": UNUSED_NUMBER,
    "duration_micros": DURATION,
    "inputs": INPUTS,
    "outputs": OUTPUTS,
    "attr": ATTRIBUTES,
    "ignored": UNUSED_NUMBERS,
    "unknown": -1,
}
cdef dict VALUES = {
    "bool_val": BOOL,
    "string_val": STRING,
    "double_val": DOUBLE,
    "float_val": FLOAT,
    **{f"{name}_val": WHOLE_32 + 2 * (bits == 64) + signed for name, (bits, signed) in WHOLE.items()},
}
cdef const char *NO_NAME = b'""'


cdef inline bint is_text(const Text *text, Span value) noexcept nogil:
    """Whether the value that was just skipped is a string of Unicode: half of a pair of surrogates is none."""
    cdef const uint8_t *at = value.begin
    if at[0] != c'"':
        return False
    if text.escaped:
        while at < value.end:
            if at[0] == c'\\' and at[1] == c'u' and (at[2] == c'd' or at[2] == c'D'):
                return False
            at += 1
    return True


cdef inline bint is_whole(Span value, int digits, bint signed) noexcept nogil:
    """Whether a value is a whole number of so many digits at most, as a number or as a string."""
    cdef const uint8_t *at = value.begin
    cdef const uint8_t *end = value.end
    if at[0] == c'"':
        at += 1
        end -= 1
    if signed and at[0] == c'-':
        at += 1
    if not 0 < end - at <= digits:
        return False
    while at < end:
        if not digit(at[0]):
            return False
        at += 1
    return True


cdef inline bint take_whole(Span value, uint64_t *number) noexcept nogil:
    """The number that a value is, if it is surely one of 64 bits."""
    cdef const uint8_t *at = value.begin
    if not is_whole(value, 19, False):
        return False
    at += at[0] == c'"'
    number[0] = 0
    while digit(at[0]):
        number[0] = 10 * number[0] + (at[0] - c'0')
        at += 1
    return True


cdef inline bint is_fraction(Span value, bint exponent) noexcept nogil:
    """Whether a value is a number that is finite, or with an exponent, not NaN."""
    cdef const uint8_t *at = value.begin
    if value.end - at > LONGEST_NUMBER:
        return False
    while at < value.end:
        if not (digit(at[0]) or at[0] == c'-' or at[0] == c'.'):
            if not exponent or at[0] != c'e' and at[0] != c'E' and at[0] != c'+':
                return False
        at += 1
    return True


cdef inline bint take_key(Text *text, Span *key) noexcept nogil:
    """Skip a key without escapes, and what stands between it and its value."""
    key.begin = text.at
    if text.at[0] != c'"' or not skip_string(text) or text.escaped:
        return False
    key.end = text.at
    return skip_colon(text)


cdef inline bint open_list(Text *text, bint *ends) noexcept nogil:
    """Skip the bracket of a list. `ends`: whether the list is empty, and was skipped."""
    if text.at[0] != c'[':
        return False
    text.at += 1
    skip_blanks(text)
    ends[0] = text.at[0] == c']'
    text.at += ends[0]
    return True


cdef inline bint after_entry(Text *text, bint *ends) noexcept nogil:
    """Skip what stands behind an entry of a list. `ends`: whether it was the last one."""
    skip_blanks(text)
    ends[0] = text.at[0] == c']'
    if not ends[0] and text.at[0] != c',':
        return False
    text.at += 1
    skip_blanks(text)
    return True


@cython.final
cdef class JsonRows:
    cdef Rows rows
    cdef ByteKeys fields, values, types  # by what stands in the text, in quotes
    cdef readonly int64_t taken
    cdef Text text
    cdef str last  # the text of the last call, and where that ended
    cdef Py_ssize_t chars, used

    def __cinit__(self, Rows rows, fields, values, types):
        self.rows, self.fields, self.values, self.types = rows, ByteKeys(), ByteKeys(), ByteKeys()
        others = [name for name in dict.fromkeys(fields.values()) if name not in FIELDS]
        for name, field in fields.items():
            self.fields.add(b'"%s"' % name.encode(), FIELDS[field] if field in FIELDS else EFFECT + others.index(field))
        for name, value in values.items():
            self.values.add(b'"%s"' % name.encode(), VALUES.get(value, -1))
        for name, kind in types.items():
            self.types.add(b'"%s"' % name.encode(), kind)

    def take(self, str text, Py_ssize_t at, bint listed):
        cdef Py_ssize_t size
        cdef const uint8_t *begin = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &size)
        cdef bint ascii = size == len(text)
        if self.last is not text:
            self.last, self.chars, self.used = text, 0, 0
        # Characters are counted from where the last call ended: from the begin, many calls would take too long.
        cdef const uint8_t *good = begin + at if ascii else begin + self.used
        if not ascii:
            while self.chars < at:
                good += 1
                self.chars += (good[0] & 0xC0) != 0x80
        self.text.at, self.text.end = good, begin + size
        while self.node(listed):
            self.taken += 1
            if not ascii:
                while good < self.text.at:
                    good += 1
                    self.chars += (good[0] & 0xC0) != 0x80
            good = self.text.at
        self.used = good - begin
        return self.used if ascii else self.chars

    cdef bint node(self, bint listed) except -1:
        """Take a node. False if it is left."""
        cdef Rows rows = self.rows
        cdef Text *text = &self.text
        cdef Span key, value, name
        cdef uint64_t ident = 0, kind = 0, duration = 0, seen = 0, number = 0
        cdef int64_t field, found, known
        cdef bint first = True, ends = False, escaped = False
        name.begin = <const uint8_t *> NO_NAME
        name.end = name.begin + 2
        rows.controls = rows.waits = rows.key_size = 0
        rows.pending = False
        skip_blanks(text)
        if text.at[0] != c'{':
            return False
        text.at += 1
        while True:
            if not next_field(text, first, &ends):
                return False
            if ends:
                break
            first = False
            if not take_key(text, &key):
                return False
            field = self.fields.find(key.begin, key.end - key.begin)
            if field < 0 or seen >> field & 1:
                return False
            seen |= <uint64_t> 1 << field
            if field == ATTRIBUTES:
                if not self.attributes():
                    return False
                continue
            if field == INPUTS or field == OUTPUTS:
                if not self.info():
                    return False
                continue
            if field == CONTROLS or field == DATA or field == UNUSED_NUMBERS:
                if not self.numbers(<Field> field):
                    return False
                continue
            if not take_value(text, &value):
                return False
            if field == NAME:
                name, escaped = value, text.escaped
                if not is_text(text, value):
                    return False
            elif field == TYPE and value.begin[0] == c'"':
                found = self.types.find(value.begin, value.end - value.begin)
                if found < 0:
                    return False
                kind = <uint64_t> found
            elif field >= EFFECT:
                rows.extend(key.begin, value.end - key.begin)
            elif not take_whole(value, &number):
                return False
            elif field == ID:
                ident = number
            elif field == TYPE:
                kind = number
            elif field == DURATION:
                duration = number
        if listed:
            skip_blanks(text)
            if text.at[0] != c',':
                return False
            text.at += 1
        if rows.key_size > LONGEST_KEY or name.end - name.begin > LONGEST_KEY:
            return False
        found = rows.class_of_key(kind, duration, seen >> INPUTS & 1)
        if found < 0:
            return False
        known = rows.name_keys.find(name.begin, name.end - name.begin)
        if known < 0:
            raw = PyBytes_FromStringAndSize(<const char *> name.begin, name.end - name.begin)
            label = json.loads(raw) if escaped else raw[1:len(raw) - 1].decode()
            known = rows.number_of.setdefault(label, len(rows.names))
            if known == len(rows.names):
                rows.names.append(label)
            rows.name_keys.add(raw, known)
        rows.close(ident, known, found)
        return True

    cdef bint numbers(self, Field field) except -1:
        """Take a list of numbers of nodes."""
        cdef Span value
        cdef uint64_t number = 0
        cdef bint ends = False
        if field == CONTROLS and self.rows.waits:
            return False  # they stand first in a row: each would move what is there
        if not open_list(&self.text, &ends):
            return False
        while not ends:
            if not take_value(&self.text, &value) or not take_whole(value, &number):
                return False
            if field != UNUSED_NUMBERS:
                self.rows.wait(number, field == CONTROLS)
            if not after_entry(&self.text, &ends):
                return False
        return True

    cdef bint info(self) except -1:
        """Skip inputs or outputs: up to three strings."""
        cdef Span key, value
        cdef int seen = 0, bit
        cdef bint ends = False
        if self.text.at[0] != c'{':
            return False
        self.text.at += 1
        while True:
            if not next_field(&self.text, seen == 0, &ends):
                return False
            if ends:
                return True
            if not take_key(&self.text, &key) or not take_value(&self.text, &value) or not is_text(&self.text, value):
                return False
            bit = same(key, b'"values"', 8) + 2 * same(key, b'"shapes"', 8) + 4 * same(key, b'"types"', 7)
            if not bit or seen & bit:
                return False
            seen |= bit

    cdef bint attributes(self) except -1:
        """Take the attributes of a node."""
        cdef int64_t many = 0, most = MAX_ATTRIBUTES
        cdef bint ends = False
        if not open_list(&self.text, &ends):
            return False
        while not ends:
            many += 1
            if many > most or not self.attribute() or not after_entry(&self.text, &ends):
                return False
        return True

    cdef bint attribute(self) except -1:
        """Take an attribute; one that is used becomes a part of the key."""
        cdef const uint8_t *begin = self.text.at
        cdef Span key, value, name
        cdef int names = 0, others = 0
        cdef bint good = True, ends = False
        name.begin = <const uint8_t *> NO_NAME
        name.end = name.begin + 2
        if begin[0] != c'{':
            return False
        self.text.at += 1
        while True:
            if not next_field(&self.text, names + others == 0, &ends):
                return False
            if ends:
                break
            # `escaped` must refer to the string of the value, not to the key.
            if not take_key(&self.text, &key) or not take_value(&self.text, &value):
                return False
            if same(key, b'"name"', 6):
                if value.begin[0] != c'"' or self.text.escaped:
                    return False
                name = value
                names += 1
            else:
                good = self.is_value(self.values.find(key.begin, key.end - key.begin), value)
                others += 1
        if self.rows.is_used(name.begin + 1, name.end - name.begin - 2):
            self.rows.extend(begin, self.text.at - begin)
            return True
        return good and names <= 1 and others <= 1

    cdef bint is_value(self, int64_t kind, Span value) noexcept:
        """Whether a value is surely one of this kind."""
        if kind == BOOL:
            return same(value, b"true", 4) or same(value, b"false", 5)
        if kind == STRING:
            return is_text(&self.text, value)
        if kind == DOUBLE or kind == FLOAT:
            return is_fraction(value, kind == DOUBLE)
        if kind == WHOLE_32 or kind == WHOLE_32_SIGNED:
            return is_whole(value, 9, kind == WHOLE_32_SIGNED)
        return kind >= WHOLE_64 and is_whole(value, 18, kind == WHOLE_64_SIGNED)
