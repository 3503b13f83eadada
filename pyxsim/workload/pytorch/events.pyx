"""Of each complete event only what is used is kept, in arrays: names and lanes become numbers. All else is checked and
skipped, so that the memory does not depend on the size of the file. Times in the file are in microseconds."""

import json
import math
from enum import IntEnum

import numpy as np

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport rint
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.byte_keys cimport ByteKeys
from pyxsim.json_text cimport (
    Span,
    Text,
    next_field,
    refuse,
    same,
    skip_blanks,
    skip_colon,
    skip_string,
    skip_value,
    take_value,
)

from pyxsim.errors import InputError

MOST_NS = 1 << 62
TRACE = "a Chrome trace of torch.profiler"
NOT_TOLD = INT64_MIN
cdef enum:
    OPERATOR = 1
    RUNTIME = 2
    KERNEL = 3
    COPY = 4
    GLOO = 5
    ANNOTATION = 6  # of which only those of gloo are kept
cdef enum:
    OF_C10D = 1  # bits of a name
    OF_GLOO = 2
    OF_NCCL = 4
cdef enum Where:
    ROOT
    KEY
    AFTER_VALUE
    FIRST_EVENT
    AFTER_EVENT
    DONE
cdef enum:
    NEAR = 12  # bytes of an unfinished number, word or escape
cdef dict KINDS = {
    "cpu_op": OPERATOR,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "gpu_memset": COPY,
    "user_annotation": ANNOTATION,
}
cdef dict STARTS = {"c10d::": OF_C10D, "gloo:": OF_GLOO, "nccl": OF_NCCL}
cdef double POWERS[19]
cdef int _power
for _power in range(19):
    POWERS[_power] = 10.0 ** _power

Kind = IntEnum("Kind", {"OPERATOR": OPERATOR, "RUNTIME": RUNTIME, "KERNEL": KERNEL, "COPY": COPY, "GLOO": GLOO})

cdef struct Event:
    Span ph, cat, name, pid, tid, ts, dur, args
    Span correlation, device, stream


class NotJson(ValueError):
    """A text that is not JSON. `at`: the byte of the file at which that shows."""

    def __init__(self, problem, at):
        super().__init__(problem)
        self.at = at


cdef inline Span literal(const char *text) noexcept:
    cdef Span span
    span.begin = <const uint8_t *> text
    span.end = span.begin
    while span.end[0]:
        span.end += 1
    return span


cdef inline bytes raw(Span span):
    return PyBytes_FromStringAndSize(<const char *> span.begin, span.end - span.begin)


@cython.final
cdef class Words:
    """Values as JSON writes them, by number: equal ones as Python prints them have one number."""

    cdef list texts
    cdef dict numbers
    cdef ByteKeys keys

    def __cinit__(self):
        self.texts, self.numbers, self.keys = [], {}, ByteKeys()

    cdef int32_t number(self, Span span) except -1:
        """The number of a value."""
        cdef int64_t number = self.keys.find(span.begin, span.end - span.begin)
        if number < 0:
            text = raw(span)
            value = json.loads(text)
            value = value if isinstance(value, str) else str(value)
            number = self.numbers.setdefault(value, len(self.texts))
            if number == len(self.texts):
                self.texts.append(value)
            self.keys.add(text, number)
        return <int32_t> number


@cython.final
cdef class Events:
    cdef Text text
    cdef const uint8_t *begin
    cdef readonly bint listed
    cdef readonly object head
    cdef readonly dict args
    cdef str file
    cdef Where state
    cdef int64_t place, used  # of events; bytes before `begin`
    cdef Words words, labels
    cdef list kinds, starts  # of words: its kind; of labels: how it starts
    cdef dict lanes
    cdef int64_t count
    cdef object arrays
    cdef bytes held  # a key without its escapes
    cdef int64_t[::1] start, stop, correlation
    cdef int32_t[::1] name, lane
    cdef uint8_t[::1] kind
    cdef int64_t first, second  # the last lane
    cdef int32_t last_lane
    cdef bint last_device

    def __init__(self, file):
        self.file, self.state, self.words, self.labels = file, ROOT, Words(), Words()
        self.kinds, self.starts, self.head = [], [], None
        self.clear()

    @property
    def names(self):
        return self.labels.texts

    def columns(self):
        return tuple(array[:self.count] for array in self.arrays)

    def feed(self, bytes text, bint last):
        cdef const uint8_t *good
        self.begin = self.text.at = <const uint8_t *> PyBytes_AS_STRING(text)
        self.text.end = self.begin + PyBytes_GET_SIZE(text)
        while True:
            skip_blanks(&self.text)
            good = self.text.at
            if self.state == DONE and good == self.text.end:
                break
            if not self.step():
                if last or self.text.end - self.text.wrong > NEAR:
                    raise NotJson(self.text.problem.decode(), self.used + (self.text.wrong - self.begin))
                break
        used = good - self.begin
        self.used += used
        return used

    cdef clear(self):
        self.listed, self.args, self.lanes, self.place, self.count = False, {}, {}, 0, 0
        self.last_lane, self.last_device = -1, False
        self.arrays = None
        self.grow(64)

    cdef grow(self, int64_t room):
        types = (np.int64, np.int64, np.int64, np.int32, np.int32, np.uint8)
        arrays = [np.empty(room, kind) for kind in types]
        for new, old in zip(arrays, self.arrays or ()):
            new[:self.count] = old[:self.count]
        self.arrays = arrays
        self.start, self.stop, self.correlation, self.name, self.lane, self.kind = arrays

    # -- the root -----------------------------------------------------------------------------------------------------

    cdef bint step(self) except -1:
        """Take the next part: what begins an object or list or separates its parts, a key with its value, an event.
        False if it is not JSON, or not all there."""
        cdef uint8_t byte = self.text.at[0]
        if self.state == FIRST_EVENT or self.state == AFTER_EVENT:
            if byte == c']':
                self.text.at += 1
                self.state = AFTER_VALUE
                return True
            if self.state == AFTER_EVENT:
                if byte != c',':
                    return refuse(&self.text, b"Expecting ',' delimiter", self.text.at)
                self.text.at += 1
                skip_blanks(&self.text)
            if not self.event():
                return False
            self.place += 1
            self.state = AFTER_EVENT
        elif self.state == ROOT:
            if byte != c'{':
                if byte == c'[' or skip_value(&self.text):
                    raise InputError("has no list traceEvents", file=self.file, allowed=TRACE)
                return False
            self.text.at += 1
            skip_blanks(&self.text)
            if self.text.at[0] == c'}':
                self.text.at += 1
                self.state = DONE
            else:
                self.state = KEY
        elif self.state == KEY:
            return self.entry()
        elif self.state == AFTER_VALUE:
            if byte != c',' and byte != c'}':
                return refuse(&self.text, b"Expecting ',' delimiter", self.text.at)
            self.text.at += 1
            self.state = KEY if byte == c',' else DONE
        else:
            return refuse(&self.text, b"Extra data", self.text.at)
        return True

    cdef bint entry(self) except -1:
        """Take a key of the root and its value, of `traceEvents` only the bracket."""
        cdef Span name, value
        if not self.field(&name):
            return False
        events, informs = same(name, b'"traceEvents"', 13), same(name, b'"distributedInfo"', 17)
        if events and self.text.at[0] == c'[':
            self.clear()  # of two lists, the last one counts
            self.listed = True
            self.text.at += 1
            self.state = FIRST_EVENT
            return True
        if not take_value(&self.text, &value):
            return False
        if events:
            self.clear()
        if informs:
            self.head = self.loaded(value)
        self.state = AFTER_VALUE
        return True

    cdef bint field(self, Span *name) except -1:
        """Skip a key and what stands between it and its value; return the key, without escapes, in quotes."""
        name.begin = self.text.at
        if self.text.at[0] != c'"':
            return refuse(&self.text, b"Expecting property name enclosed in double quotes", self.text.at)
        if not skip_string(&self.text):
            return False
        name.end = self.text.at
        if self.text.escaped:
            self.held = b'"%s"' % self.loaded(name[0]).encode("utf-8", "surrogatepass")
            name.begin = <const uint8_t *> PyBytes_AS_STRING(self.held)
            name.end = name.begin + PyBytes_GET_SIZE(self.held)
        return skip_colon(&self.text)

    cdef loaded(self, Span span):
        """The value of a part. Raises InputError."""
        try:
            return json.loads(raw(span))
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not JSON: {error}", file=self.file, allowed=TRACE) from None

    # -- events -------------------------------------------------------------------------------------------------------

    cdef bint event(self) except -1:
        """Take an event, or a value that is none."""
        cdef Event event
        cdef Span name, value
        cdef bint first = True, ends = False
        if self.text.at[0] != c'{':
            return take_value(&self.text, &value)
        event.ph = event.args = literal(b"")
        event.cat = event.name = literal(b'""')
        event.pid = event.tid = event.correlation = event.device = event.stream = literal(b"null")
        event.ts = event.dur = literal(b"0")
        self.text.at += 1
        while True:
            if not next_field(&self.text, first, &ends):
                return False
            if ends:
                break
            first = False
            if not self.field(&name):
                return False
            if same(name, b'"args"', 6):
                if not self.arguments(&event):
                    return False
                continue
            if not take_value(&self.text, &value):
                return False
            if same(name, b'"ph"', 4):
                event.ph = value
            elif same(name, b'"ts"', 4):
                event.ts = value
            elif same(name, b'"dur"', 5):
                event.dur = value
            elif same(name, b'"cat"', 5):
                event.cat = value
            elif same(name, b'"pid"', 5):
                event.pid = value
            elif same(name, b'"tid"', 5):
                event.tid = value
            elif same(name, b'"name"', 6):
                event.name = value
        if same(event.ph, b'"X"', 3) or (event.ph.end - event.ph.begin > 3 and self.loaded(event.ph) == "X"):
            self.add(&event)
        return True

    cdef bint arguments(self, Event *event) except -1:
        """Take the arguments of an event."""
        cdef Span name, value
        cdef bint first = True, ends = False
        event.correlation = event.device = event.stream = literal(b"null")
        event.args = literal(b"")
        if self.text.at[0] != c'{':
            return take_value(&self.text, &value)
        event.args.begin = self.text.at
        self.text.at += 1
        while True:
            if not next_field(&self.text, first, &ends):
                return False
            if ends:
                event.args.end = self.text.at
                return True
            first = False
            if not self.field(&name) or not take_value(&self.text, &value):
                return False
            if same(name, b'"correlation"', 13):
                event.correlation = value
            elif same(name, b'"device"', 8):
                event.device = value
            elif same(name, b'"stream"', 8):
                event.stream = value

    cdef int add(self, Event *event) except -1:
        """Keep an event if it is of use."""
        cdef int64_t start = self.nanoseconds(event.ts, "ts"), took = self.nanoseconds(event.dur, "dur")
        cdef int32_t category = self.words.number(event.cat), label
        cdef int kind, how
        while category >= len(self.kinds):
            self.kinds.append(KINDS.get(self.words.texts[len(self.kinds)], 0))
        kind = <int> self.kinds[category]
        if kind == 0:
            return 0
        label = self.labels.number(event.name)
        while label >= len(self.starts):
            text = self.labels.texts[len(self.starts)]
            self.starts.append(sum(bit for start, bit in STARTS.items() if text.startswith(start)))
        how = <int> self.starts[label]
        if kind == ANNOTATION:
            if how != OF_GLOO:
                return 0
            kind = GLOO
        if self.count == self.start.shape[0]:
            self.grow(2 * self.count)
        if kind == GLOO or (kind == KERNEL and how == OF_NCCL) or (kind == OPERATOR and how == OF_C10D):
            self.args[self.count] = raw(event.args)
        self.start[self.count], self.name[self.count] = start, label
        self.stop[self.count] = start + min(took, INT64_MAX - start)
        self.correlation[self.count], self.kind[self.count] = self.whole_number(event.correlation), kind
        if kind == KERNEL or kind == COPY:
            self.lane[self.count] = self.lane_of(True, self.whole_number(event.device), self.whole_number(event.stream))
        else:
            self.lane[self.count] = self.lane_of(False, self.words.number(event.pid), self.words.number(event.tid))
        self.count += 1
        return 0

    cdef int32_t lane_of(self, bint device, int64_t first, int64_t second) except -1:
        """The number of a stream, or of a thread."""
        if device:
            first, second = (0 if number == NOT_TOLD else number for number in (first, second))
        if self.last_lane >= 0 and device == self.last_device and first == self.first and second == self.second:
            return self.last_lane
        self.last_lane = self.lanes.setdefault((device, first, second), len(self.lanes))
        self.last_device, self.first, self.second = device, first, second
        return self.last_lane

    cdef int64_t whole_number(self, Span span) except? -1:
        """A whole number; NOT_TOLD for all else. Those beyond 64 bits become numbers of their own, below all others."""
        cdef const uint8_t *at = span.begin
        cdef int64_t value = 0
        cdef bint negative = at[0] == c'-'
        at += negative
        if span.end - at > 18 or at == span.end:
            return self.long_number(span)
        while at < span.end:
            if not c'0' <= at[0] <= c'9':
                return NOT_TOLD
            value = 10 * value + (at[0] - c'0')
            at += 1
        return -value if negative else value

    cdef int64_t long_number(self, Span span) except? -1:
        value = self.loaded(span)
        if type(value) is not int:
            return NOT_TOLD
        if -2**62 < value < 2**62:
            return value
        return -2**62 - 1 - self.words.number(span)

    cdef int64_t nanoseconds(self, Span span, key) except -1:
        """Microseconds as nanoseconds. Raises InputError."""
        cdef const uint8_t *at = span.begin
        cdef const uint8_t *point = NULL
        cdef uint64_t digits = 0
        cdef double found
        if 0 < span.end - at <= 19:
            while at < span.end:
                if c'0' <= at[0] <= c'9':
                    digits = 10 * digits + (at[0] - c'0')
                elif at[0] == c'.' and point == NULL:
                    point = at
                else:
                    break
                at += 1
            # Below 2^53, both are exact, so that their quotient is the nearest number, as that of Python.
            if at == span.end and digits < 1 << 53:
                found = rint(digits / POWERS[0 if point == NULL else span.end - point - 1] * 1000.0)
                if found < 1 << 61:
                    return <int64_t> found
        micros = self.loaded(span)
        good = isinstance(micros, (int, float)) and not isinstance(micros, bool)
        good = good and (isinstance(micros, int) or math.isfinite(micros))
        if not good or not 0 <= micros * 1000 <= MOST_NS:
            place = f"traceEvents[{self.place}].{key}"
            raise InputError(f"is {micros!r:.40}", file=self.file, key=place, allowed="microseconds, from 0")
        return round(float(micros) * 1000)
