"""Messages as fluids: at every moment each has its fair share of the links that it runs over (max-min fairness).

Messages of one way are alike, so a way has one rate, which each of its messages gets, and a count of the bytes that it
has given to a message that was there from its beginning. A message is done when that count has grown by its bytes.

Rates change only when a message starts or ends. All that starts and ends in one moment is looked at together; then the
rates are found anew (`filling`) of those ways that share a link, directly or over others, with one that changed.

A moment is a whole cycle and a part of one in floating point. What has always had the rate that it has alone takes the
time of the rule, which is exact; of all else the cycle may be wrong where the time is nearly a whole number: one that
comes as near as `NEAR` counts as whole, and moments as near as that are one.
"""

from libc.math cimport floor
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free

import numpy as np

from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.fluid.filling cimport Filling, Link, Use, room_for
from pyxsim.network.delay.rule cimport Rule
from pyxsim.raw cimport arrays, loaded, saved

cdef enum:
    NOBODY = -1

cdef int64_t NEVER = (<int64_t> 1 << 62) + 1
cdef double LONGEST = <double> (<int64_t> 1 << 60)
cdef double NEAR = 2.0 ** -16
cdef double FULL = 1 - 2.0 ** -30  # a lane with so much of its bandwidth in use has no room

cdef struct Moment:
    int64_t cycle
    double part  # of a cycle, from 0 up to 1


cdef struct Message:
    double goal      # bytes that its way must have given
    int64_t number
    int64_t nbytes
    int64_t child    # of the messages of a way, a pairing heap: the first below it,
    int64_t sibling  # and the next below the one above it; in a lane, who comes behind it; in the pool, the next free
    int64_t way


cdef struct Way:
    double latency       # cycles, from the last byte's start to its arrival
    int64_t lane         # that its messages leave by, NOBODY: they do not wait for others
    double rate          # bytes per cycle of each of its messages
    double given         # bytes that a message has got up to `since`
    Moment since
    Moment due           # when the first of its messages ends
    int64_t front        # the message that ends first
    int64_t began        # the cycle in which the first of those that are here came
    double early         # bytes that the way had given when its messages came, summed up
    int64_t carried      # flits of the messages that are done,
    int64_t carrying     # and of those that are here
    int64_t place        # in the heap of ways
    bint exact           # the rule knows its top,
    bint alone           # and it has had that since it began
    bint touched


cdef inline bint earlier(Moment a, Moment b) noexcept nogil:
    return a.cycle < b.cycle or (a.cycle == b.cycle and a.part < b.part)


cdef inline Moment later(Moment from_, double cycles) noexcept nogil:
    """The moment so many cycles on; one beyond all others if they are too many to be counted."""
    cdef Moment found
    cdef double sum = from_.part + max(cycles, 0), whole = floor(sum)
    if not whole <= LONGEST:
        found.cycle, found.part = NEVER, 0
        return found
    found.cycle, found.part = from_.cycle + <int64_t> whole, sum - whole
    return found


cdef inline double between(Moment a, Moment b) noexcept nogil:
    """Cycles from a to b."""
    return <double> (b.cycle - a.cycle) + (b.part - a.part)


cdef inline int64_t up(Moment moment) noexcept nogil:
    """The first whole cycle that is not before it."""
    return moment.cycle + (1 if moment.part > 0 else 0)


cdef class Fluid:
    """Messages on links of some bytes per cycle each. `rule`: what ways take alone; `flit`: bytes, for statistics.

    A way may have a lane, one of its links (numbers below `lanes`). Messages of one lane start in the order of
    sending, each when those before it, and what else passes there, leave room on it, and nobody is on its way. So a
    lane is full, if it can be, by as few messages as can be; where nothing holds them up they follow one another.
    """

    cdef readonly Rule rule
    cdef readonly Filling filling
    cdef readonly int64_t sent, delivered, bytes_delivered, ways
    cdef readonly int64_t fillings  # how often rates were found anew
    cdef int64_t flit
    cdef Moment moment
    cdef Events starts, arrivals  # by cycle; what happens between two cycles is in the heap of ways
    cdef Message *message
    cdef int64_t room, unused
    cdef Way *way
    cdef int64_t *heap      # ways by their due moments
    cdef int64_t *touched   # ways on which messages have started or ended in this moment
    cdef int64_t in_heap, in_touched, in_asked, way_room
    cdef int64_t[::1] leaving, front, back  # of each lane: how many messages leave by it, and those that wait,
    cdef double[::1] used                   # bytes per cycle that leave by it,
    cdef int64_t[::1] noted, asked          # the last filling that found room; and lanes that have it now
    cdef list told

    def __cinit__(self):
        self.message, self.way, self.heap, self.touched = NULL, NULL, NULL, NULL

    def __init__(self, Rule rule, capacities, int64_t flit, int64_t lanes=0):
        self.rule = rule
        self.filling = Filling(capacities)
        self.flit = flit
        self.starts, self.arrivals = Events(), Events()
        self.sent = self.delivered = self.bytes_delivered = self.ways = self.fillings = 0
        self.in_heap = self.in_touched = self.in_asked = self.way_room = self.room = 0
        self.unused = NOBODY
        self.front, self.back = np.full((2, lanes), NOBODY, np.int64)
        self.leaving, self.noted, self.asked = np.zeros((3, lanes), np.int64)
        self.used = np.zeros(lanes)
        self.moment.cycle, self.moment.part = 0, 0
        self.told = []

    def __dealloc__(self):
        free(self.message)
        free(self.way)
        free(self.heap)
        free(self.touched)

    def extend(self, lengths, links, shares, latencies, exact, lanes=None):
        """More ways, those that the rule knows: how many links each has, the links and the shares that go over them,
        one way behind the other, latencies in cycles, whether the rule knows the bandwidth, and the lanes (-1: none).
        """
        cdef const double[::1] latency = np.ascontiguousarray(latencies, np.float64)
        cdef const uint8_t[::1] known = np.ascontiguousarray(exact, np.uint8)
        cdef const int64_t[::1] lane = np.full(len(latency), NOBODY) if lanes is None else lanes
        cdef int64_t i, room = self.ways + len(latency)
        cdef Way *way
        if not len(lengths) == len(latency) == len(known) == len(lane):
            raise ValueError("lengths, latencies or lanes are missing")
        if len(lane) and not -1 <= np.min(lane) <= np.max(lane) < min(len(self.leaving), self.filling.links):
            raise ValueError("a lane that is not there")
        self.filling.extend(lengths, links, shares)
        if room > self.way_room:
            room *= 2
            self.way = <Way*> room_for(self.way, room, sizeof(Way))
            self.heap = <int64_t*> room_for(self.heap, room, sizeof(int64_t))
            self.touched = <int64_t*> room_for(self.touched, room, sizeof(int64_t))
            self.way_room = room
        for i in range(len(latency)):
            way = &self.way[self.ways]
            way.latency, way.lane = latency[i], lane[i]
            way.since = self.moment
            way.rate = way.given = way.early = 0
            way.carried = way.carrying = 0
            way.front = way.place = NOBODY
            way.exact, way.touched, way.alone = known[i], False, False
            self.ways += 1

    # -- what there is to see --

    @property
    def now(self):
        """The cycle from which on messages can be sent."""
        return up(self.moment)

    @property
    def next_cycle(self):
        """The cycle up to which time must pass for something to happen; one that never comes if nothing does."""
        return up(self.moment if self.in_touched else self._earliest())

    cdef Moment _earliest(self) noexcept nogil:
        cdef Moment next
        next.cycle, next.part = NEVER, 0
        if self.in_heap:
            next = self.way[self.heap[0]].due
        if self.starts.heap.count and self.starts.heap.items[0].at <= next.cycle:
            next.cycle, next.part = self.starts.heap.items[0].at, 0
        if self.arrivals.heap.count and self.arrivals.heap.items[0].at <= next.cycle:
            next.cycle, next.part = self.arrivals.heap.items[0].at, 0
        return next

    @property
    def busy(self):
        """Whether bytes are on their way."""
        return self.in_heap > 0 or self.in_touched > 0

    @property
    def flits(self):
        """int64[ways]: what each way has carried up to now."""
        return self.flits_at(self.now)

    def flits_at(self, int64_t cycle):
        """int64[ways]: what each will have carried in a cycle up to which nothing happens."""
        found = np.empty(self.ways, np.int64)
        cdef int64_t[::1] flits = found
        cdef int64_t i
        cdef double sum
        cdef Way *way
        cdef Moment then
        then.cycle, then.part = cycle, 0
        for i in range(self.ways):
            way = &self.way[i]
            flits[i] = way.carried
            if self.filling.use[i].messages:
                sum = <double> self.filling.use[i].messages * (way.given + way.rate * between(way.since, then))
                sum -= way.early
                flits[i] += max(0, min(way.carrying, <int64_t> (sum / <double> self.flit)))
        return found

    def rates(self):
        """float64[ways]: bytes per cycle of each message of each way now; 0 where there is none."""
        self._fill()
        return np.array([self.way[i].rate if self.filling.use[i].messages else 0.0 for i in range(self.ways)])

    def messages(self):
        """int64[ways]: how many messages share each way now."""
        return np.array([self.filling.use[i].messages for i in range(self.ways)], np.int64)

    # -- messages --

    def send(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at):
        """Messages of `nbytes` over these ways in cycle `at`; returns the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        if at < up(self.moment):
            raise ValueError(f"a message of cycle {at} in cycle {self.now}")
        for i in range(len(ways)):
            if not 0 <= ways[i] < self.ways:
                raise IndexError(f"no way {ways[i]}")
            if nbytes[i] < 1:
                raise ValueError(f"a message of {nbytes[i]} bytes")
            if self.rule.flight(ways[i], nbytes[i]) < 0:
                raise OverflowError(f"a message of {nbytes[i]} bytes takes more cycles than can be counted")
            index = self._new_message()
            message = &self.message[index]
            message.number, message.nbytes, message.way = self.sent, nbytes[i], ways[i]
            message.child = message.sibling = NOBODY
            self.sent += 1
            if at == self.moment.cycle:
                self._hand_over(index)
            else:
                self.starts.push(at, self.sent, index)
        return first

    cdef int64_t _new_message(self) except -1:
        cdef int64_t index, room = 2 * self.room + 64
        if self.unused == NOBODY:
            self.message = <Message*> room_for(self.message, room, sizeof(Message))
            for index in range(self.room, room):
                self.message[index].sibling = index + 1 if index + 1 < room else NOBODY
            self.unused, self.room = self.room, room
        index = self.unused
        self.unused = self.message[index].sibling
        return index

    cdef int64_t _meld(self, int64_t a, int64_t b) noexcept nogil:
        """Two pairing heaps become one: the root with the lower goal, of equals the lower number, is that of both."""
        cdef Message *x
        cdef Message *y
        if a == NOBODY:
            return b
        if b == NOBODY:
            return a
        x, y = &self.message[a], &self.message[b]
        if y.goal < x.goal or (y.goal == x.goal and y.number < x.number):
            a, b, x, y = b, a, y, x
        y.sibling = x.child
        x.child = b
        return a

    cdef int64_t _behind(self, int64_t root) noexcept nogil:
        """The heap without its root: what is below it, melded two by two, then from the last to the first."""
        cdef int64_t here = self.message[root].child, first, second, pairs = NOBODY, found = NOBODY
        while here != NOBODY:
            first, second = here, self.message[here].sibling
            here = self.message[second].sibling if second != NOBODY else NOBODY
            self.message[first].sibling = NOBODY
            if second != NOBODY:
                self.message[second].sibling = NOBODY
            first = self._meld(first, second)
            self.message[first].sibling = pairs
            pairs = first
        while pairs != NOBODY:
            here = self.message[pairs].sibling
            self.message[pairs].sibling = NOBODY
            found = self._meld(found, pairs)
            pairs = here
        return found

    # -- what happens --

    cdef void _touch(self, int64_t number) noexcept nogil:
        """Something starts or ends on a way now: its rate counts up to here, and when it ends is not known."""
        cdef Way *way = &self.way[number]
        way.given += way.rate * between(way.since, self.moment)
        way.since = self.moment
        if not way.touched:
            way.touched = True
            self._remove(number)
            self.touched[self.in_touched] = number
            self.in_touched += 1

    cdef void _hand_over(self, int64_t index) noexcept nogil:
        """A message starts, or waits for its lane."""
        cdef int64_t way = self.message[index].way
        cdef int64_t lane = self.way[way].lane
        if lane == NOBODY or not self.leaving[lane]:
            self._start(index)
            return
        if self.front[lane] == NOBODY:
            self.front[lane] = self.back[lane] = index
        else:
            self.message[self.back[lane]].sibling = index
            self.back[lane] = index
        if self.front[lane] == index and self._has_room(lane):
            self._touch(way)

    cdef bint _has_room(self, int64_t lane) noexcept nogil:
        """Whether the message that waits first for a lane may start."""
        cdef int64_t index = self.front[lane]
        cdef Link *link = &self.filling.link[lane]
        if index == NOBODY or self.filling.use[self.message[index].way].messages:
            return False
        if not self.leaving[lane]:
            return True
        return self.used[lane] < link.capacity * FULL and link.left > link.capacity * (1 - FULL)

    cdef void _next(self, int64_t lane) noexcept nogil:
        """The message that waits first starts."""
        cdef int64_t index = self.front[lane]
        self.front[lane] = self.message[index].sibling
        self.message[index].sibling = NOBODY
        self._start(index)

    cdef void _start(self, int64_t index) noexcept nogil:
        cdef Message *message = &self.message[index]
        cdef Way *way = &self.way[message.way]
        cdef Use *use = &self.filling.use[message.way]
        cdef int64_t flits = (message.nbytes + self.flit - 1) // self.flit
        self._touch(message.way)
        if not use.messages:
            way.given = way.early = way.rate = 0
            way.alone, way.began = way.exact and self.moment.part == 0, self.moment.cycle
            self.filling.join(message.way)
        message.goal = way.given + <double> message.nbytes
        way.front = self._meld(way.front, index)
        use.messages += 1
        way.early += way.given
        way.carrying += flits
        if way.lane != NOBODY:
            self.leaving[way.lane] += 1

    cdef int64_t _arrival(self, int64_t number, Message *message, Moment done) noexcept nogil:
        """When a message arrives whose last byte leaves at a moment."""
        cdef Way *way = &self.way[number]
        if way.alone:
            return way.began + self.rule.flight(number, message.nbytes)
        return later(done, way.latency + NEAR).cycle

    cdef inline Moment _done(self, Way *way, Message *message) noexcept nogil:
        """When the last byte of a message leaves, if rates stay as they are."""
        return later(way.since, (message.goal - way.given) / way.rate)

    cdef int _end(self, int64_t number) except -1:
        """The messages of a way that are done by now leave it."""
        cdef Way *way = &self.way[number]
        cdef Use *use = &self.filling.use[number]
        cdef Message *message
        cdef Moment done, near = later(self.moment, NEAR)
        cdef int64_t index = NOBODY, arrival, flits
        while use.messages:
            done = self._done(way, &self.message[way.front])
            arrival = self._arrival(number, &self.message[way.front], done)
            # The first is due; with it go those that are done, or arrive, in this moment.
            if index != NOBODY and earlier(near, done) and (arrival > self.moment.cycle or self.moment.part > 0):
                break
            index = way.front
            message = &self.message[index]
            self.arrivals.push(max(arrival, up(self.moment)), message.number, message.nbytes)
            flits = (message.nbytes + self.flit - 1) // self.flit
            way.carried += flits
            way.carrying -= flits
            way.early -= message.goal - <double> message.nbytes
            use.messages -= 1
            way.front = self._behind(index)
            message.sibling, self.unused = self.unused, index
        self._touch(number)
        if not use.messages:
            self.filling.leave(number)
            if way.lane != NOBODY:
                self.leaving[way.lane] -= 1
                self.used[way.lane] = self.used[way.lane] - way.rate if self.leaving[way.lane] else 0
                if not self.leaving[way.lane] and self.front[way.lane] != NOBODY:
                    self._next(way.lane)
        return 0

    # -- rates --

    cdef void _fill(self) noexcept nogil:
        """Rates of all ways that what happened in this moment may concern; who finds room on its lane then starts."""
        cdef int64_t i, number
        cdef Way *way
        cdef Use *use
        while self.in_touched:
            self.fillings += 1
            self.filling.fill(self.touched, self.in_touched)
            for i in range(self.filling.in_found):
                number = self.filling.found[i]
                way, use = &self.way[number], &self.filling.use[number]
                if way.touched or use.level != way.rate:
                    way.given += way.rate * between(way.since, self.moment)
                    way.since = self.moment
                    if way.lane != NOBODY:
                        self.used[way.lane] += use.level - way.rate
                    way.rate = use.level
                    way.alone = way.alone and way.rate == use.top
                    way.due = self._due(number)
                    self._put(number)
                self._ask(way.lane)
            for i in range(self.in_touched):
                self.way[self.touched[i]].touched = False
                self._ask(self.way[self.touched[i]].lane)
            self.in_touched = 0
            for i in range(self.in_asked):
                self._next(self.asked[i])
            self.in_asked = 0

    cdef void _ask(self, int64_t lane) noexcept nogil:
        """Notes a lane whose next message has room, once in each filling."""
        if lane != NOBODY and self.noted[lane] != self.fillings and self._has_room(lane):
            self.noted[lane] = self.fillings
            self.asked[self.in_asked] = lane
            self.in_asked += 1

    # -- the heap of ways --

    cdef Moment _due(self, int64_t number) noexcept nogil:
        """When something ends on a way: a message that would be told of before its end ends when it is told of."""
        cdef Way *way = &self.way[number]
        cdef Message *message = &self.message[way.front]
        cdef Moment done = self._done(way, message), told
        told.cycle, told.part = self._arrival(number, message, done), 0
        return told if earlier(told, done) and not earlier(told, self.moment) else done

    cdef inline bint _first(self, int64_t a, int64_t b) noexcept nogil:
        return earlier(self.way[a].due, self.way[b].due)

    cdef void _put(self, int64_t number) noexcept nogil:
        """Into the heap, or to its new place there."""
        cdef int64_t place = self.way[number].place, above
        if place == NOBODY:
            place = self.in_heap
            self.in_heap += 1
        while place:
            above = (place - 1) >> 1
            if not self._first(number, self.heap[above]):
                break
            self.heap[place] = self.heap[above]
            self.way[self.heap[place]].place = place
            place = above
        self._sink(place, number)

    cdef void _remove(self, int64_t number) noexcept nogil:
        cdef int64_t place = self.way[number].place, last
        if place == NOBODY:
            return
        self.way[number].place = NOBODY
        self.in_heap -= 1
        last = self.heap[self.in_heap]
        if last != number:
            self.way[last].place = place
            self._put(last)

    cdef void _sink(self, int64_t place, int64_t number) noexcept nogil:
        cdef int64_t below = 2 * place + 1
        while below < self.in_heap:
            if below + 1 < self.in_heap and self._first(self.heap[below + 1], self.heap[below]):
                below += 1
            if not self._first(self.heap[below], number):
                break
            self.heap[place] = self.heap[below]
            self.way[self.heap[place]].place = place
            place = below
            below = 2 * place + 1
        self.heap[place] = number
        self.way[number].place = place

    def advance(self, int64_t until, int64_t slack):
        """(messages, cycles) of the next arrivals up to cycle `until`, and of those up to `slack` cycles later."""
        cdef int64_t stop = until, cycle
        cdef Entry event
        cdef Moment next
        while True:
            next = self._earliest()
            if self.in_touched and earlier(self.moment, next):
                # The present is complete, unless the caller adds to it when told what arrived.
                if self.told and self.moment.cycle >= stop:
                    break
                self._fill()
                continue
            if up(next) > stop:
                break
            if earlier(self.moment, next):
                self.moment = next
            cycle = self.moment.cycle
            while self.in_heap and not earlier(later(self.moment, NEAR), self.way[self.heap[0]].due):
                self._end(self.heap[0])
            if self.moment.part > 0:
                continue
            while self.starts.heap.count and self.starts.heap.items[0].at <= cycle:
                event = self.starts.pop()
                self._hand_over(event.item)
            while self.arrivals.heap.count and self.arrivals.heap.items[0].at <= cycle:
                event = self.arrivals.pop()
                self.told.append((cycle, event.number))
                self.bytes_delivered += event.item
                self.delivered += 1
                if stop == until:
                    stop = min(until, cycle + slack)
        if self.in_heap and self.way[self.heap[0]].due.cycle >= NEVER:
            raise OverflowError("messages take more cycles than can be counted")
        told = np.array(sorted(self.told), np.int64).reshape(-1, 2)
        self.told.clear()
        return np.ascontiguousarray(told[:, 1]), np.ascontiguousarray(told[:, 0])

    def wait(self, int64_t cycle):
        """Let time pass in which nothing happens."""
        if cycle > self.moment.cycle:
            self.moment.cycle, self.moment.part = cycle, 0

    # -- checkpoints --

    def __getstate__(self):
        lanes = arrays([self.leaving, self.front, self.back, self.used, self.noted, self.asked])
        return {
            "parts": (self.rule, self.filling, self.starts, self.arrivals, self.told),
            "numbers": (self.sent, self.delivered, self.bytes_delivered, self.ways, self.fillings, self.flit,
                        self.unused, self.in_heap, self.in_touched, self.in_asked),
            "moment": (self.moment.cycle, self.moment.part),
            "lanes": lanes,
            "message": saved(self.message, self.room, sizeof(Message)),
            "way": saved(self.way, self.ways, sizeof(Way)),
            "heap": saved(self.heap, self.ways, sizeof(int64_t)),
            "touched": saved(self.touched, self.ways, sizeof(int64_t)),
        }

    def __setstate__(self, state):
        self.rule, self.filling, self.starts, self.arrivals, self.told = state["parts"]
        (self.sent, self.delivered, self.bytes_delivered, self.ways, self.fillings, self.flit, self.unused,
         self.in_heap, self.in_touched, self.in_asked) = state["numbers"]
        self.moment.cycle, self.moment.part = state["moment"]
        self.leaving, self.front, self.back, self.used, self.noted, self.asked = state["lanes"]
        self.message, self.way = <Message*> loaded(state["message"]), <Way*> loaded(state["way"])
        self.heap, self.touched = <int64_t*> loaded(state["heap"]), <int64_t*> loaded(state["touched"])
        self.way_room, self.room = self.ways, len(state["message"]) // <int64_t> sizeof(Message)
