"""Messages as fluids: at every moment each has its max-min fair share of the links of its path.

All messages of a path have the same rate, so a path has one rate and one count of the bytes that each message has sent
since the path became busy. A message ends when that count has grown by its bytes.

Rates change only when a message starts or ends. All starts and ends of one moment are processed together; then
`Filling` recomputes the rates that change.

A moment is a whole cycle and a fraction in floating point. A message that always had the rate that it has alone takes
the exact time of the rule. Any other arrival may be off by a cycle where its time is nearly a whole number: a time
within `NEAR` of a whole cycle counts as whole, and moments within `NEAR` of each other are one.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free

import numpy as np

from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.fluid.filling cimport Filling, Link, Use, room_for
from pyxsim.network.fluid.moment cimport Moment, between, earlier, later, never, up
from pyxsim.network.delay.rule cimport Rule
from pyxsim.raw cimport arrays, loaded, saved

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef enum:
    NONE = -1
    AHEAD = 8  # paths between a prefetch and its use

cdef int64_t FILLINGS = 16
cdef int64_t NEVER = never()
cdef double NEAR = 2.0 ** -16
cdef double FULL = 1 - 2.0 ** -30  # a lane is full from this fraction of its bandwidth on

cdef struct Message:
    double goal      # value of `given` of its path at which it ends
    int64_t number
    int64_t nbytes
    int64_t child    # in the pairing heap of its path: its first child,
    int64_t sibling  # and its next sibling; in the queue of a lane: the next message; in the pool: the next free one
    int64_t path


cdef struct Path:
    double rate          # bytes per cycle of each of its messages
    double given         # bytes that each message has sent since the path became busy, as of `since`
    Moment since
    int64_t lane         # injection lane of its messages; NONE: they do not wait for others
    bint touched
    bint alone           # whether its messages have had the rate of a message that is alone since `began`
    bint moved           # in a filling: whether its due moment may have changed
    bint exact           # whether the rule is exact for a message that is alone
    Moment due           # when the first of its messages ends
    int64_t front        # the message that ends first
    int64_t position     # in the heap of paths
    double latency       # cycles, from the departure of the last byte to its arrival
    int64_t began        # the cycle in which the path became busy
    double early         # sum of `given` at the start of each of its messages
    int64_t carried      # flits of the messages that have ended
    int64_t carrying     # flits of its present messages


cdef class Fluid:
    """Messages on links with capacities in bytes per cycle.

    A path may have a lane, one of its links (numbers below `lanes`). Messages of a lane start in the order of
    sending: each when the lane has bandwidth left and its path has no other message. So as few messages as possible
    fill a lane, and without contention they follow one another.

    Parameters
    ----------
    rule
        Time of a message that is alone, per path.
    capacities
        Bytes per cycle of each link.
    flit
        Bytes of a flit, for statistics.
    lanes
        Number of links that may be lanes.
    """

    cdef readonly Rule rule
    cdef readonly Filling filling
    cdef readonly int64_t sent, delivered, bytes_delivered, paths
    cdef readonly int64_t fillings  # number of times that rates were recomputed
    cdef int64_t flit
    cdef Moment moment
    cdef Events starts, arrivals  # by cycle; events between two cycles are in the heap of paths
    cdef Message *message
    cdef int64_t message_capacity, unused
    cdef Path *path
    cdef int64_t *heap      # paths by their due moments
    cdef int64_t *touched   # paths on which messages have started or ended in this moment
    cdef int64_t *moved     # in a filling: paths whose due moment may have changed
    cdef int64_t heap_count, touched_count, ready_count, path_capacity
    cdef int64_t[::1] leaving, front, back  # per lane: number of messages that leave by it; queue of waiting messages
    cdef double[::1] used                   # per lane: bytes per cycle in use
    cdef int64_t[::1] noted_in, ready       # per lane: the last filling that examined it; the ready lanes
    cdef list arrived

    def __cinit__(self):
        self.message, self.path, self.heap, self.touched, self.moved = NULL, NULL, NULL, NULL, NULL

    def __init__(self, Rule rule, capacities, int64_t flit, int64_t lanes=0):
        self.rule = rule
        self.filling = Filling(capacities)
        self.flit = flit
        self.starts, self.arrivals = Events(), Events()
        self.sent = self.delivered = self.bytes_delivered = self.paths = self.fillings = 0
        self.heap_count = self.touched_count = self.ready_count = self.path_capacity = self.message_capacity = 0
        self.unused = NONE
        self.front, self.back = np.full((2, lanes), NONE, np.int64)
        self.leaving, self.noted_in, self.ready = np.zeros((3, lanes), np.int64)
        self.used = np.zeros(lanes)
        self.moment.cycle, self.moment.part = 0, 0
        self.arrived = []

    def __dealloc__(self):
        free(self.message)
        free(self.path)
        free(self.heap)
        free(self.touched)
        free(self.moved)

    def extend(self, lengths, links, shares, latencies, exact, lanes=None):
        """Add paths, numbered as in the rule.

        Parameters
        ----------
        lengths
            Number of links of each path.
        links, shares
            Links of all paths in order, and their shares of the bytes.
        latencies
            Cycles.
        exact
            Whether the rule is exact for a message that is alone.
        lanes
            Lane of each path; -1: none.
        """
        cdef const double[::1] latency = np.ascontiguousarray(latencies, np.float64)
        cdef const uint8_t[::1] known = np.ascontiguousarray(exact, np.uint8)
        cdef const int64_t[::1] lane = np.full(len(latency), NONE) if lanes is None else lanes
        cdef int64_t i, capacity = self.paths + len(latency)
        cdef Path *path
        if not len(lengths) == len(latency) == len(known) == len(lane):
            raise ValueError("lengths, latencies or lanes are missing")
        if len(lane) and not -1 <= np.min(lane) <= np.max(lane) < min(len(self.leaving), self.filling.links):
            raise ValueError("an unknown lane")
        self.filling.extend(lengths, links, shares)
        if capacity > self.path_capacity:
            capacity *= 2
            self.path = <Path*> room_for(self.path, capacity, sizeof(Path))
            self.heap = <int64_t*> room_for(self.heap, capacity, sizeof(int64_t))
            self.touched = <int64_t*> room_for(self.touched, capacity, sizeof(int64_t))
            self.moved = <int64_t*> room_for(self.moved, capacity, sizeof(int64_t))
            self.path_capacity = capacity
        for i in range(len(latency)):
            path = &self.path[self.paths]
            path.latency, path.lane = latency[i], lane[i]
            path.since = self.moment
            path.rate = path.given = path.early = 0
            path.carried = path.carrying = 0
            path.front = path.position = NONE
            path.exact, path.touched, path.moved, path.alone = known[i], False, False, False
            self.paths += 1

    # -- state --

    @property
    def now(self):
        """The first cycle in which messages can be sent."""
        return up(self.moment)

    @property
    def next_cycle(self):
        """The cycle of the next event; NEVER without one."""
        return up(self.moment if self.touched_count else self._earliest())

    cdef Moment _earliest(self) noexcept nogil:
        cdef Moment next
        next.cycle, next.part = NEVER, 0
        if self.heap_count:
            next = self.path[self.heap[0]].due
        if self.starts.heap.count and self.starts.heap.items[0].at <= next.cycle:
            next.cycle, next.part = self.starts.heap.items[0].at, 0
        if self.arrivals.heap.count and self.arrivals.heap.items[0].at <= next.cycle:
            next.cycle, next.part = self.arrivals.heap.items[0].at, 0
        return next

    @property
    def busy(self):
        """Whether a message is being sent."""
        return self.heap_count > 0 or self.touched_count > 0

    @property
    def flits(self):
        """int64[paths]: flits that each path has carried so far."""
        return self.flits_at(self.now)

    def flits_at(self, int64_t cycle):
        """Return int64[paths]: flits that each path has carried by `cycle`, before which there is no event."""
        result = np.empty(self.paths, np.int64)
        cdef int64_t[::1] flits = result
        cdef int64_t i
        cdef double sum
        cdef Path *path
        cdef Moment then
        then.cycle, then.part = cycle, 0
        for i in range(self.paths):
            path = &self.path[i]
            flits[i] = path.carried
            if self.filling.use[i].messages:
                sum = <double> self.filling.use[i].messages * (path.given + path.rate * between(path.since, then))
                sum -= path.early
                flits[i] += max(0, min(path.carrying, <int64_t> (sum / <double> self.flit)))
        return result

    def rates(self):
        """Return float64[paths]: current bytes per cycle of each message of a path; 0 without a message."""
        self._fill()
        return np.array([self.path[i].rate if self.filling.use[i].messages else 0.0 for i in range(self.paths)])

    def messages(self):
        """Return int64[paths]: current number of messages of each path."""
        return np.array([self.filling.use[i].messages for i in range(self.paths)], np.int64)

    # -- messages --

    def send(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at):
        """Send messages over these paths in cycle `at`; return the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        if at < up(self.moment):
            raise ValueError(f"a message of cycle {at} in cycle {self.now}")
        for i in range(len(paths)):
            if not 0 <= paths[i] < self.paths:
                raise IndexError(f"unknown path {paths[i]}")
            if nbytes[i] < 1:
                raise ValueError(f"a message of {nbytes[i]} bytes")
            if self.rule.flight(paths[i], nbytes[i]) < 0:
                raise OverflowError(f"a message of {nbytes[i]} bytes takes more cycles than can be counted")
            index = self._new_message()
            message = &self.message[index]
            message.number, message.nbytes, message.path = self.sent, nbytes[i], paths[i]
            message.child = message.sibling = NONE
            self.sent += 1
            if at == self.moment.cycle:
                self._hand_over(index)
            else:
                self.starts.push(at, self.sent, index)
        return first

    cdef int64_t _new_message(self) except -1:
        cdef int64_t index, capacity = 2 * self.message_capacity + 64
        if self.unused == NONE:
            self.message = <Message*> room_for(self.message, capacity, sizeof(Message))
            for index in range(self.message_capacity, capacity):
                self.message[index].sibling = index + 1 if index + 1 < capacity else NONE
            self.unused, self.message_capacity = self.message_capacity, capacity
        index = self.unused
        self.unused = self.message[index].sibling
        return index

    cdef int64_t _meld(self, int64_t a, int64_t b) noexcept nogil:
        """Merge two pairing heaps: the root with the lower goal, then the lower number, is the new root."""
        cdef Message *x
        cdef Message *y
        if a == NONE:
            return b
        if b == NONE:
            return a
        x, y = &self.message[a], &self.message[b]
        if y.goal < x.goal or (y.goal == x.goal and y.number < x.number):
            a, b, x, y = b, a, y, x
        y.sibling = x.child
        x.child = b
        return a

    cdef int64_t _without_root(self, int64_t root) noexcept nogil:
        """The heap without its root: its children merged in pairs, then from the last to the first."""
        cdef int64_t node = self.message[root].child, first, second, pairs = NONE, merged = NONE
        while node != NONE:
            first, second = node, self.message[node].sibling
            node = self.message[second].sibling if second != NONE else NONE
            self.message[first].sibling = NONE
            if second != NONE:
                self.message[second].sibling = NONE
            first = self._meld(first, second)
            self.message[first].sibling = pairs
            pairs = first
        while pairs != NONE:
            node = self.message[pairs].sibling
            self.message[pairs].sibling = NONE
            merged = self._meld(merged, pairs)
            pairs = node
        return merged

    # -- events --

    cdef void _touch(self, int64_t number) noexcept nogil:
        """Mark a path on which a message starts or ends: bring its count up to date and remove it from the heap."""
        cdef Path *path = &self.path[number]
        path.given += path.rate * between(path.since, self.moment)
        path.since = self.moment
        if not path.touched:
            path.touched = True
            self._remove(number)
            self.touched[self.touched_count] = number
            self.touched_count += 1

    cdef void _hand_over(self, int64_t index) noexcept nogil:
        """Start a message, or queue it for its lane."""
        cdef int64_t path = self.message[index].path
        cdef int64_t lane = self.path[path].lane
        if lane == NONE or not self.leaving[lane]:
            self._start(index)
            return
        if self.front[lane] == NONE:
            self.front[lane] = self.back[lane] = index
        else:
            self.message[self.back[lane]].sibling = index
            self.back[lane] = index
        if self.front[lane] == index and self._has_room(lane):
            self._touch(path)

    cdef bint _has_room(self, int64_t lane) noexcept nogil:
        """Whether the first message in the queue of a lane may start."""
        cdef int64_t index = self.front[lane]
        cdef Link *link = &self.filling.link[lane]
        if index == NONE or self.filling.use[self.message[index].path].messages:
            return False
        if not self.leaving[lane]:
            return True
        return self.used[lane] < link.capacity * FULL and link.left > link.capacity * (1 - FULL)

    cdef void _next(self, int64_t lane) noexcept nogil:
        """Start the first message in the queue of a lane."""
        cdef int64_t index = self.front[lane]
        self.front[lane] = self.message[index].sibling
        self.message[index].sibling = NONE
        self._start(index)

    cdef void _start(self, int64_t index) noexcept nogil:
        cdef Message *message = &self.message[index]
        cdef Path *path = &self.path[message.path]
        cdef Use *use = &self.filling.use[message.path]
        cdef int64_t flits = (message.nbytes + self.flit - 1) // self.flit
        self._touch(message.path)
        if not use.messages:
            path.given = path.early = path.rate = 0
            path.alone, path.began = path.exact and self.moment.part == 0, self.moment.cycle
            self.filling.join(message.path)
        message.goal = path.given + <double> message.nbytes
        path.front = self._meld(path.front, index)
        use.messages += 1
        path.early += path.given
        path.carrying += flits
        if path.lane != NONE:
            self.leaving[path.lane] += 1

    cdef int64_t _arrival(self, int64_t number, Message *message, Moment done) noexcept nogil:
        """The cycle in which a message arrives whose last byte leaves at `done`."""
        cdef Path *path = &self.path[number]
        if path.alone:
            return path.began + self.rule.flight(number, message.nbytes)
        return later(done, path.latency + NEAR).cycle

    cdef inline Moment _done(self, Path *path, Message *message) noexcept nogil:
        """When the last byte of a message leaves at the present rate."""
        return later(path.since, (message.goal - path.given) / path.rate)

    cdef int _end(self, int64_t number) except -1:
        """End the messages of a path that are complete now."""
        cdef Path *path = &self.path[number]
        cdef Use *use = &self.filling.use[number]
        cdef Message *message
        cdef Moment done, near = later(self.moment, NEAR)
        cdef int64_t index = NONE, arrival, flits
        while use.messages:
            done = self._done(path, &self.message[path.front])
            arrival = self._arrival(number, &self.message[path.front], done)
            # The first is due; so are those that end or arrive in this moment.
            if index != NONE and earlier(near, done) and (arrival > self.moment.cycle or self.moment.part > 0):
                break
            index = path.front
            message = &self.message[index]
            self.arrivals.push(max(arrival, up(self.moment)), message.number, message.nbytes)
            flits = (message.nbytes + self.flit - 1) // self.flit
            path.carried += flits
            path.carrying -= flits
            path.early -= message.goal - <double> message.nbytes
            use.messages -= 1
            path.front = self._without_root(index)
            message.sibling, self.unused = self.unused, index
        self._touch(number)
        if not use.messages:
            self.filling.leave(number)
            if path.lane != NONE:
                self.leaving[path.lane] -= 1
                self.used[path.lane] = self.used[path.lane] - path.rate if self.leaving[path.lane] else 0
                if not self.leaving[path.lane] and self.front[path.lane] != NONE:
                    self._next(path.lane)
        return 0

    # -- rates --

    cdef void _fill(self) noexcept nogil:
        """Recompute the rates that the events of this moment affect; then start messages of lanes that are ready."""
        cdef int64_t i, number, moved_count = 0
        cdef Path *path
        cdef Use *use
        while self.touched_count:
            self.fillings += 1
            self.filling.fill(self.touched, self.touched_count)
            for i in range(self.filling.affected_count):
                if i + AHEAD < self.filling.affected_count:
                    __builtin_prefetch(&self.path[self.filling.affected[i + AHEAD]].rate)
                number = self.filling.affected[i]
                path, use = &self.path[number], &self.filling.use[number]
                if path.touched or use.level != path.rate:
                    path.given += path.rate * between(path.since, self.moment)
                    path.since = self.moment
                    if path.lane != NONE:
                        self.used[path.lane] += use.level - path.rate
                    path.rate = use.level
                    path.alone = path.alone and path.rate == use.top
                    if not path.moved:
                        path.moved = True
                        self.moved[moved_count] = number
                        moved_count += 1
            for i in range(self.filling.affected_count):
                self._note_ready(self.filling.affected[i])
            for i in range(self.touched_count):
                self.path[self.touched[i]].touched = False
                self._note_ready(self.touched[i])
            self.touched_count = 0
            for i in range(self.ready_count):
                self._next(self.ready[i])
            self.ready_count = 0
        for i in range(moved_count):
            self.path[self.moved[i]].moved = False
            self.path[self.moved[i]].due = self._due(self.moved[i])
            self._put(self.moved[i])

    cdef void _note_ready(self, int64_t number) noexcept nogil:
        """Note the lanes among the links of a path whose next message may start, once in each filling."""
        cdef Use *use = &self.filling.use[number]
        cdef const int64_t[::1] front = self.front
        cdef int64_t i, link, lanes = len(front)
        for i in range(use.first, use.last):
            link = self.filling.steps[i].link
            if link < lanes and front[link] != NONE and self.noted_in[link] != self.fillings:
                self.noted_in[link] = self.fillings
                if self._has_room(link):
                    self.ready[self.ready_count] = link
                    self.ready_count += 1

    # -- the heap of paths --

    cdef Moment _due(self, int64_t number) noexcept nogil:
        """When the first message of a path ends: at its arrival, if that is earlier than the end."""
        cdef Path *path = &self.path[number]
        cdef Message *message = &self.message[path.front]
        cdef Moment done = self._done(path, message), arrival
        arrival.cycle, arrival.part = self._arrival(number, message, done), 0
        return arrival if earlier(arrival, done) and not earlier(arrival, self.moment) else done

    cdef inline bint _first(self, int64_t a, int64_t b) noexcept nogil:
        return earlier(self.path[a].due, self.path[b].due)

    cdef void _put(self, int64_t number) noexcept nogil:
        """Insert a path into the heap, or move it to its new position."""
        cdef int64_t position = self.path[number].position, above
        if position == NONE:
            position = self.heap_count
            self.heap_count += 1
        while position:
            above = (position - 1) >> 1
            if not self._first(number, self.heap[above]):
                break
            self.heap[position] = self.heap[above]
            self.path[self.heap[position]].position = position
            position = above
        self._sink(position, number)

    cdef void _remove(self, int64_t number) noexcept nogil:
        cdef int64_t position = self.path[number].position, last
        if position == NONE:
            return
        self.path[number].position = NONE
        self.heap_count -= 1
        last = self.heap[self.heap_count]
        if last != number:
            self.path[last].position = position
            self._put(last)

    cdef void _sink(self, int64_t position, int64_t number) noexcept nogil:
        cdef int64_t below = 2 * position + 1
        while below < self.heap_count:
            if below + 1 < self.heap_count and self._first(self.heap[below + 1], self.heap[below]):
                below += 1
            if not self._first(self.heap[below], number):
                break
            self.heap[position] = self.heap[below]
            self.path[self.heap[position]].position = position
            position = below
            below = 2 * position + 1
        self.heap[position] = number
        self.path[number].position = position

    def advance(self, int64_t until, int64_t slack):
        """Return (messages, cycles): the next arrivals up to cycle `until`, and those up to `slack` cycles later.

        After FILLINGS computations of all rates without an arrival it returns none, so that the caller hears signals;
        `next_cycle` is at most `until` then.
        """
        cdef int64_t stop = until, cycle, last = self.fillings + FILLINGS
        cdef Entry event
        cdef Moment next
        while True:
            next = self._earliest()
            if self.touched_count and earlier(self.moment, next):
                # The present moment is complete, unless the caller sends messages in it when it gets the arrivals.
                if self.arrived and self.moment.cycle >= stop:
                    break
                self._fill()
                if self.fillings > last and not self.arrived:
                    break
                continue
            if up(next) > stop:
                break
            if earlier(self.moment, next):
                self.moment = next
            cycle = self.moment.cycle
            while self.heap_count and not earlier(later(self.moment, NEAR), self.path[self.heap[0]].due):
                self._end(self.heap[0])
            if self.moment.part > 0:
                continue
            while self.starts.heap.count and self.starts.heap.items[0].at <= cycle:
                event = self.starts.pop()
                self._hand_over(event.item)
            while self.arrivals.heap.count and self.arrivals.heap.items[0].at <= cycle:
                event = self.arrivals.pop()
                self.arrived.append((cycle, event.number))
                self.bytes_delivered += event.item
                self.delivered += 1
                if stop == until:
                    stop = min(until, cycle + slack)
        if self.heap_count and self.path[self.heap[0]].due.cycle >= NEVER:
            raise OverflowError("messages take more cycles than can be counted")
        rows = np.array(sorted(self.arrived), np.int64).reshape(-1, 2)
        self.arrived.clear()
        return np.ascontiguousarray(rows[:, 1]), np.ascontiguousarray(rows[:, 0])

    def wait(self, int64_t cycle):
        """Advance time to `cycle`; there is no event before it."""
        if cycle > self.moment.cycle:
            self.moment.cycle, self.moment.part = cycle, 0

    # -- checkpoints --

    def __getstate__(self):
        lanes = arrays([self.leaving, self.front, self.back, self.used, self.noted_in, self.ready])
        return {
            "parts": (self.rule, self.filling, self.starts, self.arrivals, self.arrived),
            "numbers": (self.sent, self.delivered, self.bytes_delivered, self.paths, self.fillings, self.flit,
                        self.unused, self.heap_count, self.touched_count, self.ready_count),
            "moment": (self.moment.cycle, self.moment.part),
            "lanes": lanes,
            "message": saved(self.message, self.message_capacity, sizeof(Message)),
            "path": saved(self.path, self.paths, sizeof(Path)),
            "heap": saved(self.heap, self.paths, sizeof(int64_t)),
            "touched": saved(self.touched, self.paths, sizeof(int64_t)),
        }

    def __setstate__(self, state):
        self.rule, self.filling, self.starts, self.arrivals, self.arrived = state["parts"]
        (self.sent, self.delivered, self.bytes_delivered, self.paths, self.fillings, self.flit, self.unused,
         self.heap_count, self.touched_count, self.ready_count) = state["numbers"]
        self.moment.cycle, self.moment.part = state["moment"]
        self.leaving, self.front, self.back, self.used, self.noted_in, self.ready = state["lanes"]
        self.message, self.path = <Message*> loaded(state["message"]), <Path*> loaded(state["path"])
        self.heap, self.touched = <int64_t*> loaded(state["heap"]), <int64_t*> loaded(state["touched"])
        self.moved = <int64_t*> room_for(NULL, self.paths, sizeof(int64_t))
        self.path_capacity, self.message_capacity = self.paths, len(state["message"]) // <int64_t> sizeof(Message)
