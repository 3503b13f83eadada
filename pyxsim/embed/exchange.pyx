"""The loop between another simulator and a backend. See exchange.pyi.

Requests come from the inbox (c/inbox.h) in batches, leave for the network one batch per cycle, and their functions are
called one batch per cycle: Python and its lock are entered once per batch, never per message.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from cpython.buffer cimport (
    PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.pycapsule cimport PyCapsule_New

import numpy as np

from pyxsim.embed.matching cimport (
    Key, Matching, Place, begin_matching, end_matching, leave_if_empty, place_of,
)
from pyxsim.errors import InputError
from pyxsim.heap cimport Entry, Heap, grown, pop, push, resized


cdef extern from "pyxsim/embed/c/inbox.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_lock(pthread_mutex_t* lock)
    int pthread_mutex_unlock(pthread_mutex_t* lock)

    const char* PYXSIM_INBOX
    const int64_t PYXSIM_AT_ONCE, PYXSIM_MOST, PYXSIM_NO_RECEPTION
    const int PYXSIM_SEND, PYXSIM_SUBMIT, PYXSIM_RECV, PYXSIM_SCHEDULE
    const int PYXSIM_PAST, PYXSIM_FAR, PYXSIM_CLOSED, PYXSIM_MEMORY
    ctypedef void (*pyxsim_function)(void* argument) noexcept

    ctypedef struct Request "pyxsim_request":
        int64_t at, src, dst, size, tag, kind
        pyxsim_function call
        void* argument

    ctypedef struct Inbox "pyxsim_inbox":
        pthread_mutex_t lock
        Request* items
        int64_t count, capacity, messages, now, npus
        int32_t advancing, stopping, closed

    Inbox* pyxsim_inbox_new(int64_t npus)
    void pyxsim_inbox_free(Inbox* inbox)
    int64_t pyxsim_inbox_put(Inbox* inbox, const Request* requests, int64_t count, int64_t* wrong)
    void pyxsim_refusal_text(
        const Inbox* inbox, const Request* request, int64_t refusal, char* problem, char* allowed
    )


cdef enum Event:
    START   # the sender begins with a message
    ACTION  # a scheduled function
    LEAVE   # the message leaves for the network
    TAKEN   # its receiver has taken it in

cdef int64_t TOGETHER = <int64_t> 1 << 60  # cycles: whoever gets no call cannot answer an arrival

cdef struct Slot:  # a request that is not done
    Request request
    int64_t number     # of a message
    int64_t ready      # cycle in which the receiver can take it in; then the cycle in which it has
    int64_t following  # reception of the same key, or free slot; -1: none

cdef struct Call:
    pyxsim_function call
    void* argument

cdef struct Numbers:
    int64_t* items
    int64_t count, capacity


cdef inline int append(Numbers* numbers, int64_t value) except -1 nogil:
    numbers.items = <int64_t*> grown(numbers.items, &numbers.capacity, numbers.count + 1, sizeof(int64_t))
    numbers.items[numbers.count] = value
    numbers.count += 1
    return 0


cdef class Exchange:
    cdef object network, simulate, send_many  # and two functions of it
    cdef Inbox* inbox
    cdef Request* taken         # requests on their way out of the inbox
    cdef int64_t taken_capacity
    cdef Slot* slots
    cdef int64_t slot_count, slot_capacity, unused
    cdef Heap events            # START and ACTION
    cdef Heap delayed           # LEAVE and TAKEN; behind the events of their cycle
    cdef int64_t order          # of the entries of both
    cdef Numbers due            # slots: messages taken in in the cycle of their arrival
    cdef Numbers leaving        # slots: messages of this cycle
    cdef Numbers flights        # slots by number in the network, from `base` on; -1: arrived
    cdef int64_t base, landed   # `landed`: entries of flights at its beginning that have arrived
    cdef Numbers arrivals       # pairs (number, cycle) of submitted messages
    cdef Matching matching
    cdef Call* calls            # functions to call, from `called` on
    cdef int64_t call_count, call_capacity, called
    cdef int64_t awaited        # functions of messages and receptions that have not been called
    cdef readonly int64_t receiving  # receptions that wait for their message
    cdef readonly int64_t arrived    # messages
    cdef list functions, free_functions  # of Python, and free numbers among them
    cdef object failure
    cdef int64_t[::1] endpoint, skew
    cdef int64_t[::1] shape, planes
    cdef int64_t lookahead      # nobody answers an arrival sooner
    cdef bint goes_on           # the network has work after the last arrival, such as credits
    cdef int64_t now

    def __init__(self, network, endpoint, skew, shape, planes):
        self.inbox = pyxsim_inbox_new(network.npus)
        if self.inbox == NULL:
            raise MemoryError
        begin_matching(&self.matching)
        self.network, self.unused = network, -1
        self.simulate, self.send_many = network.advance, network.send_many
        self.endpoint, self.skew = np.array(endpoint, np.int64), np.array(skew, np.int64)
        self.shape, self.planes = np.array(shape, np.int64), np.array(planes, np.int64)
        self.lookahead = min(endpoint)
        self.goes_on = network.capabilities.packets or network.capabilities.pauses
        self.functions, self.free_functions = [None], []
        self.now = network.now
        self.inbox.now = self.now

    def __dealloc__(self):
        pyxsim_inbox_free(self.inbox)
        end_matching(&self.matching)
        free(self.taken)
        free(self.slots)
        free(self.events.items)
        free(self.delayed.items)
        free(self.due.items)
        free(self.leaving.items)
        free(self.flights.items)
        free(self.arrivals.items)
        free(self.calls)

    # -- requests --

    @property
    def now(self):
        return self.now

    @property
    def sent(self):
        return self.inbox.messages

    def capsule(self):
        return PyCapsule_New(self.inbox, PYXSIM_INBOX, NULL)

    def close(self):
        self.inbox.closed = 1

    def stop(self):
        self.inbox.stopping = 1

    def send(self, int64_t src, int64_t dst, int64_t size, tag, callback, int64_t at):
        return self._put(PYXSIM_SEND, src, dst, size, PYXSIM_NO_RECEPTION if tag is None else tag, callback, at)

    def recv(self, int64_t src, int64_t dst, int64_t size, int64_t tag, callback):
        self._put(PYXSIM_RECV, src, dst, size, tag, callback, PYXSIM_AT_ONCE)

    def schedule(self, int64_t at, callback):
        self._put(PYXSIM_SCHEDULE, 0, 0, 1, 0, callback, at)

    def submit(self, const int64_t[::1] src, const int64_t[::1] dst, const int64_t[::1] size, int64_t at):
        cdef int64_t count = src.shape[0], i
        cdef Request* requests = <Request*> resized(NULL, count, sizeof(Request))
        try:
            for i in range(count):
                requests[i].kind, requests[i].at, requests[i].call = PYXSIM_SUBMIT, at, NULL
                requests[i].src, requests[i].dst, requests[i].size = src[i], dst[i], size[i]
                requests[i].tag, requests[i].argument = PYXSIM_NO_RECEPTION, NULL
            return self._put_all(requests, count)
        finally:
            free(requests)

    def _put(self, int kind, int64_t src, int64_t dst, int64_t size, int64_t tag, callback, int64_t at):
        cdef Request request
        cdef int64_t function = 0
        if callback is not None:
            if self.free_functions:
                function = self.free_functions.pop()
                self.functions[function] = callback
            else:
                function = len(self.functions)
                self.functions.append(callback)
        request.kind, request.src, request.dst = kind, src, dst
        request.size, request.tag, request.at = size, tag, at
        request.call, request.argument = NULL, <void*> function
        try:
            return self._put_all(&request, 1)
        except BaseException:
            if function:
                self._function(function)
            raise

    cdef int64_t _put_all(self, const Request* requests, int64_t count) except -1:
        cdef int64_t wrong = 0, answer = pyxsim_inbox_put(self.inbox, requests, count, &wrong)
        if answer < 0:
            self._refuse(answer, &requests[wrong])
        return answer

    cdef int _refuse(self, int64_t refusal, const Request* request) except -1:
        cdef char problem[128]
        cdef char allowed[128]
        if refusal == PYXSIM_MEMORY:
            raise MemoryError
        pyxsim_refusal_text(self.inbox, request, refusal, problem, allowed)
        raise InputError(problem.decode(), allowed=allowed.decode() or None)

    cdef object _function(self, int64_t number):
        """Take a function of Python out of the list."""
        function = self.functions[number]
        self.functions[number] = None
        self.free_functions.append(number)
        return function

    cdef int64_t _slot(self) except -1:
        cdef int64_t slot = self.unused
        if slot >= 0:
            self.unused = self.slots[slot].following
            return slot
        self.slots = <Slot*> grown(self.slots, &self.slot_capacity, self.slot_count + 1, sizeof(Slot))
        self.slot_count += 1
        return self.slot_count - 1

    cdef void _release(self, int64_t slot) noexcept:
        self.slots[slot].following = self.unused
        self.unused = slot

    cdef bint _take_requests(self) except -1:
        """Begin with everything in the inbox. Returns whether there was anything."""
        cdef Inbox* inbox = self.inbox
        cdef int64_t count, first, i, slot, capacity
        cdef Request* items
        cdef Request* request
        pthread_mutex_lock(&inbox.lock)
        count = inbox.count
        inbox.now = self.now
        if count:
            items, capacity = inbox.items, inbox.capacity
            inbox.items, inbox.capacity, inbox.count = self.taken, self.taken_capacity, 0
            self.taken, self.taken_capacity = items, capacity
            first = inbox.messages
        pthread_mutex_unlock(&inbox.lock)
        if not count:
            return False
        for i in range(count - 1, -1, -1):
            if self.taken[i].kind <= PYXSIM_SUBMIT:
                first -= 1
        for i in range(count):
            request = &self.taken[i]
            request.at = max(request.at, self.now)  # from another thread, which saw an earlier cycle
            slot = self._slot()
            self.slots[slot].request = request[0]
            if request.kind == PYXSIM_RECV:
                self._receive(slot)
            elif request.kind == PYXSIM_SCHEDULE:
                self._push(&self.events, request.at, slot, ACTION)
            else:
                self.slots[slot].number = first
                first += 1
                self.slots[slot].ready = request.at + self.skew[request.dst]
                self.awaited += is_awaited(request)
                if request.at + self.skew[request.src] > self.now:
                    self._push(&self.events, request.at + self.skew[request.src], slot, START)
                else:  # behind all events of this cycle
                    self._happens(slot, START)
        return True

    cdef int _push(self, Heap* heap, int64_t at, int64_t slot, int32_t event) except -1:
        cdef Entry entry
        entry.at, entry.number, entry.item, entry.kind, entry.place = at, self.order, slot, event, 0
        self.order += 1
        return push(heap, entry)

    # -- messages --

    cdef int _happens(self, int64_t slot, int32_t event) except -1:
        cdef Slot* this = &self.slots[slot]
        cdef Key key
        if event == START:
            if self.endpoint[this.request.src]:
                return self._push(&self.delayed, self.now + self.endpoint[this.request.src], slot, LEAVE)
            event = LEAVE
        if event == LEAVE:
            return append(&self.leaving, slot)
        if event == ACTION:
            self._call(&this.request)
        else:
            self.arrived += 1
            if this.request.kind == PYXSIM_SUBMIT:
                append(&self.arrivals, this.number)
                append(&self.arrivals, this.ready)
            self.awaited -= is_awaited(&this.request)
            self._call(&this.request)
            if this.request.kind == PYXSIM_SEND and this.request.tag != PYXSIM_NO_RECEPTION:
                key = key_of(&this.request)
                self._matched(&key)
        self._release(slot)
        return 0

    cdef int _matched(self, const Key* key) except -1:
        """Give a message that has arrived to the first reception that waits for it."""
        cdef int64_t place = place_of(&self.matching, key)
        cdef Place* this = &self.matching.places[place]
        cdef int64_t slot = this.first
        if slot < 0:
            this.arrived += 1
            return 0
        this.first = self.slots[slot].following
        leave_if_empty(&self.matching, place)
        self.receiving -= 1
        self.awaited -= is_awaited(&self.slots[slot].request)
        self._call(&self.slots[slot].request)
        self._release(slot)
        return 0

    cdef int _receive(self, int64_t slot) except -1:
        """Give a reception the first message that waits for it."""
        cdef Request* request = &self.slots[slot].request
        cdef Key key = key_of(request)
        cdef int64_t place = place_of(&self.matching, &key)
        cdef Place* this = &self.matching.places[place]
        if this.arrived:
            this.arrived -= 1
            leave_if_empty(&self.matching, place)
            self._call(request)
            self._release(slot)
            return 0
        self.receiving += 1
        self.awaited += is_awaited(request)
        self.slots[slot].following = -1
        if this.first < 0:
            this.first = slot
        else:
            self.slots[this.last].following = slot
        this.last = slot
        return 0

    cdef int _call(self, const Request* request) except -1:
        """Put the function of a request behind those to call."""
        if not is_awaited(request):
            return 0
        self.calls = <Call*> grown(self.calls, &self.call_capacity, self.call_count + 1, sizeof(Call))
        self.calls[self.call_count].call = request.call
        self.calls[self.call_count].argument = request.argument
        self.call_count += 1
        return 0

    cdef int _call_all(self) except -1:
        """Call the functions of this cycle; if one of Python fails, the next call of `advance` continues behind it."""
        cdef int64_t number
        while self.called < self.call_count:
            if self.calls[self.called].call == NULL:
                number = <int64_t> self.calls[self.called].argument
                self.called += 1
                self._function(number)()
                continue
            with nogil:
                while self.called < self.call_count and self.calls[self.called].call != NULL:
                    self.called += 1
                    self.calls[self.called - 1].call(self.calls[self.called - 1].argument)
        self.called = self.call_count = 0
        return 0

    # -- time --

    def advance(self, until):
        cdef int64_t limit = -1 if until is None else until
        self._begin(limit)
        try:
            self._advance(limit)
        finally:
            self.inbox.advancing = 0
        return self.now

    cdef int _begin(self, int64_t limit) except -1:
        cdef bint busy, closed
        cdef Request request
        pthread_mutex_lock(&self.inbox.lock)
        busy, closed = self.inbox.advancing, self.inbox.closed
        if not busy and not closed:
            self.inbox.advancing, self.inbox.stopping = 1, 0
        pthread_mutex_unlock(&self.inbox.lock)
        request.at = limit
        if closed:
            self._refuse(PYXSIM_CLOSED, &request)
        if busy:
            raise InputError("the simulator is already advancing", allowed="one call at a time, none from a callback")
        if self.failure is not None or 0 <= limit < self.now or limit > PYXSIM_MOST:
            self.inbox.advancing = 0
            if self.failure is not None:
                raise self.failure
            self._refuse(PYXSIM_FAR if limit > self.now else PYXSIM_PAST, &request)
        return 0

    cdef int _advance(self, int64_t limit) except -1:
        cdef int64_t upto, slack
        cdef bint sent
        self._process_cycle()
        while not self.inbox.stopping:
            upto = self._next_event(limit)
            if upto < 0 and self.arrived == self.inbox.messages:
                break
            slack = self.lookahead if self.awaited or (upto < 0 and self.goes_on) else TOGETHER
            try:
                messages, cycles = self.simulate(None if upto < 0 else upto, slack=slack)
            except BaseException as error:
                self.failure = error
                raise
            if len(messages):
                self.now = self.network.now
                self._land(messages, cycles)
            else:
                self.now = self.network.now if upto < 0 else upto
            sent = self._process_cycle()
            if not len(messages) and upto == limit and not sent and self._next_event(limit) == limit:
                break
        return 0

    cdef int64_t _next_event(self, int64_t limit) noexcept:
        """The cycle of the next event up to `limit`, else `limit`; -1: none."""
        cdef int64_t cycle = limit
        if self.events.count and (cycle < 0 or self.events.items[0].at < cycle):
            cycle = self.events.items[0].at
        if self.delayed.count and (cycle < 0 or self.delayed.items[0].at < cycle):
            cycle = self.delayed.items[0].at
        return cycle

    cdef bint _process_cycle(self) except -1:
        """Do everything that is due in this cycle. Returns whether messages were sent in it."""
        cdef Entry entry
        cdef int64_t i
        while True:
            self._take_requests()
            while self.events.count and self.events.items[0].at <= self.now:
                entry = pop(&self.events)
                self._happens(entry.item, entry.kind)
            while self.delayed.count and self.delayed.items[0].at <= self.now:
                entry = pop(&self.delayed)
                self._happens(entry.item, entry.kind)
            i = 0
            while i < self.due.count:
                self._happens(self.due.items[i], TAKEN)
                i += 1
            self.due.count = 0
            if self.called == self.call_count and not self.inbox.count:
                break
            self._call_all()
        return self._send() > 0

    cdef int64_t _send(self) except -1:
        """Send the messages of this cycle. Returns how many there are."""
        cdef int64_t count = self.leaving.count, i, first
        cdef const Request* request
        cdef Py_buffer columns
        cdef int64_t* column
        if not count:
            return 0
        table = np.empty((4, count), np.int64)
        PyObject_GetBuffer(table, &columns, PyBUF_WRITABLE)
        column = <int64_t*> columns.buf
        for i in range(count):
            request = &self.slots[self.leaving.items[i]].request
            column[i], column[count + i], column[2 * count + i] = request.src, request.dst, request.size
            column[3 * count + i] = self._plane(request.src, request.dst)
        PyBuffer_Release(&columns)
        src, dst, size, plane = table
        try:
            first = self.send_many(src, dst, size, plane, self.now)
        except BaseException as error:
            self.failure = error
            raise
        while self.base + self.flights.count < first:
            append(&self.flights, -1)  # the backend numbers packets of its own, too
        for i in range(count):
            append(&self.flights, self.leaving.items[i])
        self.leaving.count = 0
        return count

    cdef int64_t _plane(self, int64_t src, int64_t dst) noexcept:
        """The plane of the first dimension in which two NPUs differ."""
        cdef int64_t dim, size
        for dim in range(self.shape.shape[0] if self.planes.shape[0] > 1 else 0):
            size = self.shape[dim]
            if src % size != dst % size:
                return self.planes[dim]
            src //= size
            dst //= size
        return self.planes[0]

    cdef int _land(self, messages, cycles) except -1:
        """Let receivers take in messages that have arrived."""
        cdef Py_buffer numbers, times
        cdef int64_t i, slot, at, number, cycle
        PyObject_GetBuffer(messages, &numbers, PyBUF_STRIDES)
        PyObject_GetBuffer(cycles, &times, PyBUF_STRIDES)
        for i in range(numbers.shape[0]):
            number = (<int64_t*> (<char*> numbers.buf + i * numbers.strides[0]))[0] - self.base
            cycle = (<int64_t*> (<char*> times.buf + i * times.strides[0]))[0]
            slot = self.flights.items[number]
            self.flights.items[number] = -1
            at = max(self.slots[slot].ready, cycle)
            at += self.endpoint[self.slots[slot].request.dst]
            self.slots[slot].ready = at
            if at > cycle:
                self._push(&self.delayed, at, slot, TAKEN)
            else:
                append(&self.due, slot)
        PyBuffer_Release(&numbers)
        PyBuffer_Release(&times)
        while self.landed < self.flights.count and self.flights.items[self.landed] < 0:
            self.landed += 1
        if 2 * self.landed > self.flights.count:
            self.flights.count -= self.landed
            memmove(self.flights.items, &self.flights.items[self.landed], self.flights.count * sizeof(int64_t))
            self.base += self.landed
            self.landed = 0
        return 0

    # -- what has happened --

    def arrivals_left(self):
        return self.arrivals.count // 2

    def take_arrivals(self, int64_t[:, ::1] into):
        cdef int64_t count = 2 * min(self.arrivals.count // 2, into.shape[0])
        if count:
            memmove(&into[0, 0], self.arrivals.items, count * sizeof(int64_t))
            self.arrivals.count -= count
            memmove(self.arrivals.items, &self.arrivals.items[count], self.arrivals.count * sizeof(int64_t))
        return count // 2

    def waiting(self, int64_t most):
        """(source, destination, bytes, tag) of receptions that wait for a message, at most `most` of them."""
        cdef int64_t i
        cdef Key key
        found = []
        for i in range(self.matching.bucket_count):
            place = self.matching.buckets[i]
            while place >= 0 and len(found) < most:
                if self.matching.places[place].first >= 0:
                    key = self.matching.places[place].key
                    found.append((key.src, key.dst, key.size, key.tag))
                place = self.matching.places[place].following
        return sorted(found)


cdef inline bint is_awaited(const Request* request) noexcept nogil:
    """Whether somebody gets a call."""
    return request.call != NULL or request.argument != NULL


cdef inline Key key_of(const Request* request) noexcept nogil:
    cdef Key key
    key.size, key.tag, key.src, key.dst = request.size, request.tag, request.src, request.dst
    return key
