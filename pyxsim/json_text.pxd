"""JSON as bytes, checked and skipped without making objects of it: for files of many objects with few fields of use.

Accepts what Python's `json` accepts, and names faults as it does. A zero byte follows the bytes, as it follows those of
a `bytes` object: it ends every loop, since none is part of JSON. Functions return False where the text is at fault.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

cdef extern from "pyxsim/json_text.h" nogil:
    const uint8_t *pyxsim_skip_plain(const uint8_t *at, const uint8_t *end)
    const uint8_t *pyxsim_skip_blanks(const uint8_t *at, const uint8_t *end)

cdef enum:
    DEEPEST = 500  # objects and lists inside each other

cdef struct Text:
    const uint8_t *at  # what stands next
    const uint8_t *end
    const uint8_t *wrong  # where the fault is
    const char *problem  # the fault
    bint escaped  # whether the last string had an escape

cdef struct Span:
    const uint8_t *begin
    const uint8_t *end


cdef inline bint refuse(Text *text, const char *problem, const uint8_t *wrong) noexcept nogil:
    text.problem, text.wrong = problem, wrong
    return False


cdef inline bint same(Span span, const char *text, Py_ssize_t size) noexcept nogil:
    """Whether a part is this text."""
    return span.end - span.begin == size and memcmp(span.begin, text, size) == 0


cdef inline void skip_blanks(Text *text) noexcept nogil:
    text.at = pyxsim_skip_blanks(text.at, text.end)


cdef inline bint digit(uint8_t byte) noexcept nogil:
    return c'0' <= byte <= c'9'


cdef inline bint is_hex(uint8_t byte) noexcept nogil:
    return digit(byte) or c'a' <= byte <= c'f' or c'A' <= byte <= c'F'


cdef inline bint skip_string(Text *text) noexcept nogil:
    """Skip a string, which is next."""
    cdef const uint8_t *at = text.at + 1
    cdef int k
    text.escaped = False
    while True:
        at = pyxsim_skip_plain(at, text.end)
        if at[0] == c'"':
            text.at = at + 1
            return True
        if at[0] != c'\\':
            return refuse(text, b"Unterminated string" if at == text.end else b"Invalid control character at", at)
        text.escaped = True
        at += 1
        if at[0] == c'u':
            for k in range(1, 5):
                if not is_hex(at[k]):
                    return refuse(text, b"Invalid \\uXXXX escape", at)
            at += 5
        elif at[0] != 0 and at[0] in b'"\\/bfnrt':
            at += 1
        else:
            return refuse(text, b"Invalid \\escape", at - 1)


cdef inline bint skip_scalar(Text *text) noexcept nogil:
    """Skip a number or a word, which is next."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *first = at
    cdef Py_ssize_t left = text.end - at
    if at[0] == c'-':
        at += 1
    if digit(at[0]):
        if at[0] == c'0':
            at += 1
        else:
            while digit(at[0]):
                at += 1
        if at[0] == c'.' and digit(at[1]):
            at += 1
            while digit(at[0]):
                at += 1
        if at[0] == c'e' or at[0] == c'E':
            first = at + 1
            if first[0] == c'+' or first[0] == c'-':
                first += 1
            if digit(first[0]):
                at = first
                while digit(at[0]):
                    at += 1
        text.at = at
    elif left >= 4 and (memcmp(first, b"true", 4) == 0 or memcmp(first, b"null", 4) == 0):
        text.at = first + 4
    elif left >= 5 and memcmp(first, b"false", 5) == 0:
        text.at = first + 5
    elif left >= 3 and memcmp(first, b"NaN", 3) == 0:
        text.at = first + 3
    elif text.end - at >= 8 and memcmp(at, b"Infinity", 8) == 0:
        text.at = at + 8
    else:
        return refuse(text, b"Expecting value", first)
    return True


cdef inline bint skip_colon(Text *text) noexcept nogil:
    """Skip what stands between a key and its value."""
    skip_blanks(text)
    if text.at[0] != c':':
        return refuse(text, b"Expecting ':' delimiter", text.at)
    text.at += 1
    skip_blanks(text)
    return True


cdef inline bint skip_key(Text *text) noexcept nogil:
    """Skip a key and what stands between it and its value."""
    if text.at[0] != c'"':
        return refuse(text, b"Expecting property name enclosed in double quotes", text.at)
    return skip_string(text) and skip_colon(text)


cdef inline bint skip_containers(Text *text) noexcept nogil:
    """Skip an object or a list, with all that is in it."""
    cdef uint8_t ends[DEEPEST]
    cdef int depth = 0
    cdef uint8_t byte
    cdef bint fresh
    while True:
        byte = text.at[0]
        fresh = byte == c'{' or byte == c'['
        if fresh:
            if depth == DEEPEST:
                return refuse(text, b"nested too deeply", text.at)
            ends[depth] = byte + 2  # of an opening bracket, the closing one
            depth += 1
            text.at += 1
        elif byte == c'"':
            if not skip_string(text):
                return False
        elif not skip_scalar(text):
            return False
        # After a value, or at the begin of what holds values.
        while True:
            skip_blanks(text)
            if text.at[0] == ends[depth - 1]:
                text.at += 1
                depth -= 1
                if depth == 0:
                    return True
                fresh = False
                continue
            if not fresh:
                if text.at[0] != c',':
                    return refuse(text, b"Expecting ',' delimiter", text.at)
                text.at += 1
                skip_blanks(text)
            if ends[depth - 1] == c'}' and not skip_key(text):
                return False
            break


cdef inline bint skip_value(Text *text) noexcept nogil:
    """Skip a value, which is next."""
    cdef uint8_t byte = text.at[0]
    if byte == c'"':
        return skip_string(text)
    if byte == c'{' or byte == c'[':
        return skip_containers(text)
    return skip_scalar(text)


cdef inline bint take_value(Text *text, Span *value) noexcept nogil:
    """Skip a value and return where it is. At the end of the bytes, a number may continue in the next ones."""
    value.begin = text.at
    if not skip_value(text):
        return False
    value.end = text.at
    return text.at < text.end or refuse(text, b"Expecting ',' delimiter", text.at)


cdef inline bint next_field(Text *text, bint first, bint *ends) noexcept nogil:
    """Skip what stands before a key of an object. `ends`: whether the object ends here."""
    skip_blanks(text)
    ends[0] = text.at[0] == c'}'
    if ends[0]:
        text.at += 1
    elif not first:
        if text.at[0] != c',':
            return refuse(text, b"Expecting ',' delimiter", text.at)
        text.at += 1
        skip_blanks(text)
    return True
